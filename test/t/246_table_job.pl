# Copyright (c) 2026, lockredis contributors

# redis_with_lock: 120_job against the table.
# Proves G24, G25.

use LockRedis::Test;

same_tests_in_table('120_job');
