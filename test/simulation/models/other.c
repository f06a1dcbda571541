/*-------------------------------------------------------------------------
 *
 * other.c
 *	  Stands for resolver.c and lock_waits.c: no host name is to be resolved, and
 *	  nobody waits for PostgreSQL's own locks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/other.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "../../../src/session/lock_waits.h"
#include "../../../src/watchdog/resolver.h"

/* ----------
 * resolver.c
 * ----------
 */

void
resolver_step(NodeServes serves)
{
}

int
resolver_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	*until = LR_NEVER;
	*epoch = 0;
	return 0;
}

void
resolver_restart(NodeId node)
{
}

void
resolver_stop(void)
{
}

/* ----------
 * lock_waits.c
 * ----------
 */

LockWaits *
lock_waits_create(LockEdgeFound found, LockIsReached is_reached, void *arg)
{
	return NULL;
}

void
lock_waits_follow(LockWaits *waits, LrIndex process)
{
}

int
lock_waits_looks(const LockWaits *waits)
{
	return 0;
}

Size
lock_waits_memory(const LockWaits *waits)
{
	return 0;
}

bool
lock_wait_between(LrIndex waiter, LrIndex blocker, LockWait *wait)
{
	return false;
}
