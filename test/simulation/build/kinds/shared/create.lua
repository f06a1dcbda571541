return 'shared/create'
