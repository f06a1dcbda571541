# Copyright (c) 2026, lockredis contributors

# A statement that took something and fails, in a table: what 482_statement_fails says of Redis.
# Proves G5, G43.

use LockRedis::Test;

same_tests_in_table('482_statement_fails');
