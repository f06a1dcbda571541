# Copyright (c) 2026, lockredis contributors

# A statement that took permits of a semaphore and fails, in a table: what
# 491_counts_statement says of Redis.
# Proves G43.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('491_counts_statement');
