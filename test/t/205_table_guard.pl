# Copyright (c) 2026, lockredis contributors

# The commit guard: 102_guard against the table.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('102_guard');
