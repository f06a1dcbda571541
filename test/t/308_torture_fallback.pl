# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture in fallback mode: Redis is stopped, killed, out of reach,
# comes and goes, for moments and for up to two leases, while the table worker and the
# watchdog are stopped and terminated, beside the faults of sessions and servers of
# 300_torture.  On one server no key has two holders, no lock is lost, and calls end.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G26.

use strict;
use warnings FATAL => 'all';

use LockRedis::Test;
use LockRedis::Topic::Torture;

torture('-topology', 'fallback', '-small', '-kind', 'lock,fair', '-rounds', '2',
	'-length', '6s');
done_testing();
