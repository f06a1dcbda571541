return 'free/create'
