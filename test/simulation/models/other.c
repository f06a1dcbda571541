/*-------------------------------------------------------------------------
 *
 * other.c
 *	  Stands for resolver.c, as no host name is to be resolved, and replicated.c, as
 *	  nothing is replicated.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/other.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "../../../src/sql/arguments.h"
#include "../../../src/watchdog/watchdog.h"

/* ----------
 * resolver.c
 * ----------
 */

void
resolver_step(void)
{
}

void
resolver_interests(StoreInterests *in)
{
}

void
resolver_restart(NodeId node, bool moved)
{
}

void
resolver_stop(void)
{
}

/* ----------
 * replicated.c
 * ----------
 */

bool
replicated_is_trigger(Oid function)
{
	return false;
}
