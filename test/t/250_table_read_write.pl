# Copyright (c) 2026, lockredis contributors

# Read-write locks by one server: 090_read_write against the table.
# Proves G1, G25.

use LockRedis::Test;

same_tests_in_table('090_read_write');
