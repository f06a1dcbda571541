# Copyright (c) 2026, lockredis contributors

# Deadlocks: 050_deadlock against the table.
# Proves G11, G25.

use LockRedis::Test;

same_tests_in_table('050_deadlock');
