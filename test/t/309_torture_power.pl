# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture with loss of power: of PostgreSQL and of Redis (appendfsync
# always), whose files are put back to what was synced, and with disks that are full for a
# while, PostgreSQL's for its WAL and that of Redis.  What was acknowledged is there
# afterwards: locks in Redis, fencing tokens, keys that are to stay locked, commits under
# the guard.  That unsynced writes are lost is seen first, by negative controls.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G16, G17, G25.

use LockRedis::Test;
use LockRedis::Topic::Torture;

torture('-redisson', '', '-power', '-small', '-kind', 'lock,token', '-rounds', '2', '-length', '4s');
torture('-topology', 'table', '-power', '-kind', 'lock,token', '-rounds', '2', '-length', '4s');
done_testing();
