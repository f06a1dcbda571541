# Copyright (c) 2026, lockredis contributors

# Token locks in a table: what 475_token says of Redis.
# Proves G1, G25.

use LockRedis::Test;

same_tests_in_table('475_token');
