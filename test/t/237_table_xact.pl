# Copyright (c) 2026, lockredis contributors

# Locks that follow the transaction: 100_xact against the table.
# Proves G4, G25.

use LockRedis::Test;

same_tests_in_table('100_xact');
