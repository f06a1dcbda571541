return 'shared/force'
