return 'shared/inspect'
