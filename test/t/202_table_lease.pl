# Copyright (c) 2026, lockredis contributors

# Leases and losses: 011_lease against the table.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('011_lease');
