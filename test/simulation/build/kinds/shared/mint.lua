return 'shared/mint'
