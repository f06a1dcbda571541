# Copyright (c) 2026, lockredis contributors

# A statement that took a permit by its id and fails, in a table: what 560_permit_statement
# says of Redis.
# Proves G5.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('560_permit_statement');
