# Copyright (c) 2026, lockredis contributors

# Who may write the table of tokens, and where it is: 115_fence_table against
# the table.
# Proves G17, G25, G33.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('115_fence_table');
