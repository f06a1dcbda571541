/*-------------------------------------------------------------------------
 *
 * other.c
 *	  Stands for resolver.c: no host name is to be resolved.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/other.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

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
