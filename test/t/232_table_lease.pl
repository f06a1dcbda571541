# Copyright (c) 2026, lockredis contributors

# Leases and their end: 011_lease against the table.
# Proves G2, G3, G6, G21, G25.

use LockRedis::Test;

same_tests_in_table('011_lease');
