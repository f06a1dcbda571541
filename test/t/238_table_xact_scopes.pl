# Copyright (c) 2026, lockredis contributors

# Transaction-level locks and what is beside them: 102_xact_scopes against the
# table.
# Proves G2, G8, G25.

use LockRedis::Test;

same_tests_in_table('102_xact_scopes');
