# Copyright (c) 2026, lockredis contributors

# Losses, and what is told of them: 020_loss against the table.
# Proves G6, G7, G25.

use LockRedis::Test;

same_tests_in_table('020_loss');
