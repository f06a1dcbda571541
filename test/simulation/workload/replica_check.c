/*-------------------------------------------------------------------------
 *
 * replica_check.c
 *	  Answers to the watchdog for which too few replicas were asked.
 *
 * Called in place of the functions of the product (--wrap), in the process that calls
 * them.  What the lock wants is looked at before and after: it may change meanwhile,
 * but not there and back with the same scopes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/replica_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/locktable/watch.h"

/* A lock before an answer about it */
typedef struct Before
{
	uint64		owner;
	int64		deadline;
	ScopeHold	scope[SCOPE_COUNT];
	int			wanted;
} Before;

static void
look_before(const DueItem *item, Before *before)
{
	const LrHold *h = &lt_holds[item->hold];

	before->owner = h->owner;
	before->deadline = (int64) lt_leases[item->hold].deadline.value;
	before->wanted = lt_min_replicas(h);
	memcpy(before->scope, h->scope, sizeof(before->scope));
}

static void
look_after(const DueItem *item, const Before *before, int64 deadline)
{
	const LrHold *h = &lt_holds[item->hold];

	if (h->owner == item->owner && before->owner == item->owner &&
		item->min_replicas < before->wanted &&
		(int64) lt_leases[item->hold].deadline.value == deadline &&
		deadline > before->deadline &&
		memcmp(before->scope, h->scope, sizeof(before->scope)) == 0)
		sim_fail("unconfirmed", "%.*s is had for longer, and %d of %d replicas were asked",
				 item->name_len, item->name, item->min_replicas, before->wanted);
}

extern void __wrap_lt_renewed(const DueItem *item, int64 deadline, int64 watch_ms);
extern void __real_lt_renewed(const DueItem *item, int64 deadline, int64 watch_ms);

void
__wrap_lt_renewed(const DueItem *item, int64 deadline, int64 watch_ms)
{
	Before		before;

	look_before(item, &before);
	__real_lt_renewed(item, deadline, watch_ms);
	look_after(item, &before, deadline);
}

extern void __wrap_lt_moved(const DueItem *item, StoreId store, int64 deadline,
							int64 not_after);
extern void __real_lt_moved(const DueItem *item, StoreId store, int64 deadline,
							int64 not_after);

void
__wrap_lt_moved(const DueItem *item, StoreId store, int64 deadline, int64 not_after)
{
	Before		before;

	look_before(item, &before);
	__real_lt_moved(item, store, deadline, not_after);
	/* In a table nobody is asked. */
	if (lr_store_can(store, STORE_HAS_REPLICAS))
		look_after(item, &before, deadline);
}
