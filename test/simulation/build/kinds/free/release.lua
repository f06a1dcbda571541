return 'free/release'
