return 'shared/set'
