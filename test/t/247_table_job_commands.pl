# Copyright (c) 2026, lockredis contributors

# The commands of redis_with_lock: 124_job_commands against the table.
# Proves G24, G25.

use LockRedis::Test;

same_tests_in_table('124_job_commands');
