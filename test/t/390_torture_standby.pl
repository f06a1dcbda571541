# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture with copies of a server.  A synchronous standby is
# promoted when its primary is killed, in table mode, while sessions of both ask for locks:
# the standby has none before that, and afterwards it has the fencing tokens, the keys that
# are to stay locked, the token locks and each commit that was acknowledged.  A base backup is restored
# beside the original, and both use one Redis: the copy is another instance, and nobody has
# what the other one has.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G1, G8, G17, G25.

use LockRedis::Test;
use LockRedis::Topic::Torture;

torture('-topology', 'standby-table', '-small', '-kind', 'lock', '-rounds', '1', '-length', '5s');
torture('-topology', 'copy', '-redisson', '', '-small', '-kind', 'lock', '-rounds', '1', '-length', '5s');
done_testing();
