# Copyright (c) 2026, lockredis contributors

# As 360_twins, with two threads of Redisson in between: its own scripts, run by itself.  In a
# table there are no clients of Redis, so that two further sessions stand in for them, which
# wait for nothing; what is compared is what the other sessions see of either.
#
# Proves G21, G25.

use LockRedis::Redisson;
use LockRedis::Test;
use LockRedis::Twins;

LockRedis::Redisson->need;

my $twins = LockRedis::Twins->new(foreign => 1);

$twins->finds_a_difference;
$twins->agree_on(1 .. 6);
done_testing();
