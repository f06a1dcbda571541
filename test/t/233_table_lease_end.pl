# Copyright (c) 2026, lockredis contributors

# The end of a lease: 014_lease_end against the table.
# Proves G6, G7, G21, G25.

use LockRedis::Test;

same_tests_in_table('014_lease_end');
