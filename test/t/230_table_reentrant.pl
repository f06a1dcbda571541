# Copyright (c) 2026, lockredis contributors

# Reentrancy, exclusion, owners: 010_reentrant against the table.
# Proves G1, G2, G25.

use LockRedis::Test;

same_tests_in_table('010_reentrant');
