# Copyright (c) 2026, lockredis contributors

# A statement that took a token lock and fails, in a table: what 482_token_statement
# says of Redis.
# Proves G5.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;

same_tests_in_table('482_token_statement');
