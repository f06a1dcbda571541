# Copyright (c) 2026, lockredis contributors

# What is taken away by force: 068_forced against the table.
# Proves G6, G25.

use LockRedis::Test;

same_tests_in_table('068_forced');
