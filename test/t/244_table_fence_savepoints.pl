# Copyright (c) 2026, lockredis contributors

# Fencing in savepoints: 114_fence_savepoints against the table.
# Proves G16, G17, G25.

use LockRedis::Test;

same_tests_in_table('114_fence_savepoints');
