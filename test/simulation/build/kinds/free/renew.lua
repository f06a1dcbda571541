return 'free/renew'
