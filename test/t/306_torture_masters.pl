# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture with five independent masters: that two have a lock
# where masters have forgotten it and have not been started again, and a round each of
# reentrant locks, with RedissonRedLock, and of token locks, with redsync, in which nothing
# may be found: masters that are stopped, killed, out of memory and cut off, few of them for
# as long as they like, and most for less than a lease, beside the faults of sessions and
# servers of 300_torture.
#
# TORTURE_SEED makes another schedule.
#
# Proves G1, G5, G18, G47.

use Cwd qw(abs_path);
use File::Basename qw(dirname);
use LockRedis::Test;
use LockRedis::TokenClient;
use LockRedis::Topic::Torture;

LockRedis::TokenClient->need;
torture('-topology', 'masters', '-kind', 'lock,token', '-small', '-rounds', '2', '-length', '4s',
	'-seed', '306', '-redsync',
	abs_path(dirname(__FILE__) . '/../interop/tokens') . '/target/redsync');
done_testing();
