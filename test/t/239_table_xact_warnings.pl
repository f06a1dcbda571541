# Copyright (c) 2026, lockredis contributors

# session_locks, and the warnings: 105_xact_warnings against the table.
# Proves G9, G10, G25.

use LockRedis::Test;

same_tests_in_table('105_xact_warnings');
