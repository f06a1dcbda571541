# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture in fallback mode, and in table mode, where the table worker
# is stopped, terminated and killed.  In fallback mode Redis is stopped, killed, out of reach,
# comes and goes, for moments and for up to two leases, while the table worker and the
# watchdog are stopped and terminated, beside the faults of sessions and servers of
# 300_torture.  On one server no key has two holders, no lock is lost, and calls end.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G1, G25, G26.

use LockRedis::Test;
use LockRedis::Topic::Torture;

torture('-topology', 'fallback', '-small', '-kind', 'lock,fair', '-rounds', '2',
	'-length', '6s');
torture('-topology', 'table', '-small', '-kind', 'lock', '-rounds', '3', '-length', '4s');
done_testing();
