return 'free/force'
