return 'shared/renew'
