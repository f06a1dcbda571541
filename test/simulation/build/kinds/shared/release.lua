return 'shared/release'
