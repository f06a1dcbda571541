return 'free/mint'
