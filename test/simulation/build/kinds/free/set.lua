return 'free/set'
