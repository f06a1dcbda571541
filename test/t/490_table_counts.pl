# Copyright (c) 2026, lockredis contributors

# Semaphores and latches: 485_counts against the table.

use LockRedis::Test;

same_tests_in_table('485_counts');
