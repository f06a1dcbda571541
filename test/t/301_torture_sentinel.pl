# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture with Sentinels, over TLS: that a lock which is
# granted twice at a failover is found where lockredis.min_replicas is 0, one round in
# which it is the number of the replicas and nothing may be found, and one in which it is
# 0 and no update of a table is lost that fencing tokens guard, whoever may lose a lock:
# masters that are killed, also ahead of their replicas, frozen, cut off, and replaced by
# command, replicas and Sentinels that come and go, beside the faults of sessions
# and servers of 300_torture.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G1, G5, G16, G18.

use LockRedis::Test;
use LockRedis::Topic::Torture;

torture('-topology', 'sentinel', '-tls', '-small', '-kind', 'lock', '-rounds', '2', '-length', '15s');
done_testing();
