# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture with other kinds of lock than the reentrant one, a
# round of each under faults that are shorter than the lease: sessions of two servers and
# threads of Redisson on the same keys.  What the checkers must find is tried by
# 300_torture, with their negative controls.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G1, G5, G18, G21.

use LockRedis::Test;
use LockRedis::Topic::Torture;

torture('-kind', 'read-write,fair,multi,token,permit,condition,semaphore,latch',
	'-rounds', '8', '-length', '3s');
done_testing();
