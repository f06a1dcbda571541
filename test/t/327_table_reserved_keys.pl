# Copyright (c) 2026, lockredis contributors

# Keys that no function takes: 326_reserved_keys against the table.

use LockRedis::Test;

same_tests_in_table('326_reserved_keys');
