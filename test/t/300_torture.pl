# Copyright (c) 2026, lockredis contributors

# A bounded part of script/torture: a short self-test of its checkers, then
# rounds of random faults on real servers.  It checks that
#
#   - each negative control (a client that ignores the lock, a guard that is off,
#     a release that wakes nobody, a doctored history, ...) is found by the check
#     that is there for it, and right histories are accepted;
#   - under faults shorter than the lease at most one client has a key, calls end,
#     waiters are woken, nothing is left behind;
#   - under faults longer than the lease, a Redis that forgets and clocks that
#     jump, no update of a table is lost that fencing tokens guard.
#
# The schedule is random; its seed is printed, and TORTURE_SEED repeats it.
#
# Proves G1, G5, G12, G16, G18, G21.

use LockRedis::Test;
use LockRedis::Topic::Torture;

# Exclusion, fencing, hot key, orphans
torture('-kind', 'lock', '-small', '-rounds', '4', '-length', '6s');
done_testing();
