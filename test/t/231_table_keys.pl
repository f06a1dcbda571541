# Copyright (c) 2026, lockredis contributors

# Keys and encodings: 013_keys against the table.
# Proves G23, G25.

use LockRedis::Test;

same_tests_in_table('013_keys');
