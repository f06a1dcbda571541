# Copyright (c) 2026, lockredis contributors

# What a late holder may do to the data: 111_fence_race against the table.
# Proves G16, G25.

use LockRedis::Test;

same_tests_in_table('111_fence_race');
