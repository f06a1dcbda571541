# Copyright (c) 2026, lockredis contributors

# The commit guard: 140_guard against the table.
# Proves G12, G13, G25.

use LockRedis::Test;

same_tests_in_table('140_guard');
