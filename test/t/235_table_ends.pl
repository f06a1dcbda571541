# Copyright (c) 2026, lockredis contributors

# Ends of sessions and of the server: 022_ends against the table.
# Proves G4, G25.

use LockRedis::Test;

same_tests_in_table('022_ends');
