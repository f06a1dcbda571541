return 'free/inspect'
