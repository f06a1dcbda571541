# Copyright (c) 2026, lockredis contributors

# Reentrancy, exclusion, owners, keys and encodings: 010_reentrant against the table.
# Proves G1, G2, G23, G25.

use LockRedis::Test;

same_tests_in_table('010_reentrant');
