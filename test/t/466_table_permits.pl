# Copyright (c) 2026, lockredis contributors

# Permits in the table.
# Proves G25.

use LockRedis::Test;

same_tests_in_table('465_permits');
