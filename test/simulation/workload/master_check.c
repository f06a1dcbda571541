/*-------------------------------------------------------------------------
 *
 * master_check.c
 *	  What is believed of the master, and what must not be taken from a former one.
 *
 * Called in place of the functions of the product (--wrap), in the process that
 * calls them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/master_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/wait.h"
#include "../../../src/store/topology.h"

#include "../kernel/sentinels.h"

extern uint32 __real_topology_change(const RedisHost *at, int64 config_epoch);
extern uint32 __wrap_topology_change(const RedisHost *at, int64 config_epoch);

/* Before: whoever sees the epoch finds which node it is. */
uint32
__wrap_topology_change(const RedisHost *at, int64 config_epoch)
{
	sentinels_note_epoch(topology_epoch() + 1, at->port);
	return __real_topology_change(at, config_epoch);
}

extern GrantResult __real_lt_grant(LrIndex hold, StoreId store, uint64 owner,
								   uint32 topology, int64 deadline,
								   const LockTerms *terms, int64 fence);
extern GrantResult __wrap_lt_grant(LrIndex hold, StoreId store, uint64 owner,
								   uint32 topology, int64 deadline,
								   const LockTerms *terms, int64 fence);

GrantResult
__wrap_lt_grant(LrIndex hold, StoreId store, uint64 owner, uint32 topology,
				int64 deadline, const LockTerms *terms, int64 fence)
{
	uint32		before = topology_epoch();
	GrantResult result = __real_lt_grant(hold, store, owner, topology, deadline, terms,
										 fence);

	if (result == GRANTED && topology != 0 && topology != before)
		sim_fail("former master", "a lock is had that it has granted");
	return result;
}

extern GrantResult __real_lt_grant_unqueued(const LrName *name, StoreId store, uint64 owner,
											uint32 topology, int64 deadline,
											const LockTerms *terms, LrIndex *hold);
extern GrantResult __wrap_lt_grant_unqueued(const LrName *name, StoreId store, uint64 owner,
											uint32 topology, int64 deadline,
											const LockTerms *terms, LrIndex *hold);

GrantResult
__wrap_lt_grant_unqueued(const LrName *name, StoreId store, uint64 owner, uint32 topology,
						 int64 deadline, const LockTerms *terms, LrIndex *hold)
{
	uint32		before = topology_epoch();
	GrantResult result = __real_lt_grant_unqueued(name, store, owner, topology, deadline,
												  terms, hold);

	if (result == GRANTED && topology != 0 && topology != before)
		sim_fail("former master", "a lock is had that it has granted with others");
	return result;
}
