# Copyright (c) 2026, lockredis contributors

# Who may write the table of tokens, and where it is: 115_fence_table against
# the table.
# Proves G17, G25, G33.

use LockRedis::Test;

same_tests_in_table('115_fence_table');
