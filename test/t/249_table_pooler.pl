# Copyright (c) 2026, lockredis contributors

# Sessions behind a pooler: 130_pooler against the table.
# Proves G10, G25.

use LockRedis::Test;

same_tests_in_table('130_pooler');
