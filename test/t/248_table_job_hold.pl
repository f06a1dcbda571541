# Copyright (c) 2026, lockredis contributors

# The lock of redis_with_lock: 125_job_hold against the table.
# Proves G24, G25.

use LockRedis::Test;

same_tests_in_table('125_job_hold');
