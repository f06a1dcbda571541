# Copyright (c) 2026, lockredis contributors

# Semaphores and latches: 485_counts against the table.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('485_counts');
