# Copyright (c) 2026, lockredis contributors

# redis_await_lock: 127_await_lock against the table.
# Proves G24, G25.

use LockRedis::Test;

same_tests_in_table('127_await_lock');
