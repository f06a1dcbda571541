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

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/locktable/wait.h"
#include "../../../src/store/nodes.h"

#include "../kernel/sentinels.h"
#include "../kernel/shards.h"

extern uint32 __real_topology_change(const RedisHost *at, int64 config_epoch);
extern uint32 __wrap_topology_change(const RedisHost *at, int64 config_epoch);

/* Before: whoever sees the epoch finds which node it is. */
uint32
__wrap_topology_change(const RedisHost *at, int64 config_epoch)
{
	sentinels_note_epoch(topology_epoch() + 1, at->port);
	return __real_topology_change(at, config_epoch);
}

extern int	__real_cluster_put_node(const char *id, const RedisHost *at, const char *name,
									bool has_slots);
extern int	__wrap_cluster_put_node(const char *id, const RedisHost *at, const char *name,
									bool has_slots);

int
__wrap_cluster_put_node(const char *id, const RedisHost *at, const char *name, bool has_slots)
{
	int			row = __real_cluster_put_node(id, at, name, has_slots);

	if (row >= 0)
		shards_note_row(row, at->port);
	return row;
}

extern void __real_cluster_give_slot(int slot, int row);
extern void __wrap_cluster_give_slot(int slot, int row);

void
__wrap_cluster_give_slot(int slot, int row)
{
	__real_cluster_give_slot(slot, row);
	shards_note_slot(slot, row);
}

extern void __real_cluster_end_change(void);
extern void __wrap_cluster_end_change(void);

void
__wrap_cluster_end_change(void)
{
	__real_cluster_end_change();
	shards_note_all_given();
}

extern void __real_cluster_set_number(int slot, int64 number);
extern void __wrap_cluster_set_number(int slot, int64 number);

void
__wrap_cluster_set_number(int slot, int64 number)
{
	__real_cluster_set_number(slot, number);
	shards_note_number(slot, number);
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
	uint32		before = lt_epoch_of(lt_holds[hold].key);
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
	uint32		before = cluster_epoch_of(name->data, name->len);
	GrantResult result = __real_lt_grant_unqueued(name, store, owner, topology, deadline,
												  terms, hold);

	if (result == GRANTED && topology != 0 && topology != before)
		sim_fail("former master", "a lock is had that it has granted with others");
	return result;
}
