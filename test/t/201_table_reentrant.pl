# Copyright (c) 2026, lockredis contributors

# Reentrancy, exclusion, keys, owners: 010_reentrant against the table.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('010_reentrant');
