# Copyright (c) 2026, lockredis contributors

# Redis mode and table mode say the same: random operations of three sessions, of all kinds
# of lock, are done with a Redis and with a table, and each answer and all that can be seen
# after it is the same.  LockRedis::Twins says how; in what both differ on purpose stands in
# LockRedis::Twins::Differences.  361_twins_redisson has Redisson in between.
#
# The seeds are the same each time.  New ones, for that many minutes:
#
#   LOCKREDIS_TWINS_MINUTES=10 script/test --verbose 360_twins
#
# and with LOCKREDIS_TWINS_SEED=N from that one on.
#
# Proves G25.

use LockRedis::Test;
use LockRedis::Twins;

my $twins = LockRedis::Twins->new;

$twins->finds_a_difference;
$twins->agree_on(1 .. 10);
done_testing();
