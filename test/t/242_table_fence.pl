# Copyright (c) 2026, lockredis contributors

# Fencing tokens and the table of what was recorded: 110_fence against the
# table.
# Proves G16, G17, G25.

use LockRedis::Test;

same_tests_in_table('110_fence');
