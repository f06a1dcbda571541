# Copyright (c) 2026, lockredis contributors

# The settings of the commit guard: 141_guard_settings against the table.
# Proves G12, G14, G25.

use LockRedis::Test;

same_tests_in_table('141_guard_settings');
