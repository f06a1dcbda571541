/*-------------------------------------------------------------------------
 *
 * replica_check.c
 *	  Answers for which too few replicas were asked, or that none has confirmed.
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
#include "../../../src/names.h"

#include "../kernel/redis_nodes.h"
#include "../kernel/shards.h"

/* Redis counts in milliseconds, of which it drops the rest. */
#define CLOCK_GRAIN		(2 * SIM_MS)

/* Has the replica, which had to confirm it, the lock for as long? */
static void
check_replica(const char *name, int len, uint64 owner, int64 deadline)
{
	char		key[LR_NAME_MAX + 1];
	char		text[LR_OWNER_MAX];
	int64		until;

	snprintf(key, sizeof(key), "%.*s", len, name);
	lr_owner_text(owner, text);
	/* What moves is not at the replica of the node to come before it is renewed there. */
	if (sim_config.cluster && shards_has_changed(key))
		return;
	until = redis_replica_until(key, text);
	if (deadline > sim_now() && until + CLOCK_GRAIN < deadline &&
		!redis_was_robbed(text) && !redis_was_released(text))
		sim_fail("unconfirmed", "%s of %s is said to be confirmed for %.3f ms; the replica has it for %.3f ms",
				 key, text, (deadline - sim_now()) / 1000.0,
				 until == 0 ? 0.0 : (until - sim_now()) / 1000.0);
}

/*
 * An answer; after that it is known what became of it.  What has no
 * owner is not judged.
 */
void
replica_check_answer(const StoreOp *op, StoreOutcome outcome)
{
	if (op->store == STORE_REDIS && !lr_kind(op->lock_kind)->ownerless && outcome == STORE_OK && op->min_replicas > 0 &&
		op->lease_ms > 0 && (op->kind == STORE_CREATE || op->kind == STORE_RENEW ||
							 op->kind == STORE_SET))
		check_replica(op->name, op->name_len, op->owner,
					  server_time(op->sent.at + op->lease_ms * SIM_MS));
}

void
replica_look_before(const DueItem *item, Before *before)
{
	const LrHold *h = &lt_holds[item->op.hold];

	before->owner = h->claim.owner;
	before->deadline = lt_deadline(item->op.hold);
	before->wanted = lt_min_replicas(h);
	memcpy(before->scope, h->scope, sizeof(before->scope));
}

/*
 * What a session asks for and takes back again, while its answer waits for the lock of
 * the partition, was never had: only an answer that found the lock as it was is judged.
 */
void
replica_look_after(const DueItem *item, const Before *before, int64 deadline)
{
	const LrHold *h = &lt_holds[item->op.hold];

	if (h->claim.owner != item->op.owner || before->owner != item->op.owner ||
		lt_deadline(item->op.hold) != deadline ||
		deadline <= before->deadline ||
		memcmp(before->scope, h->scope, sizeof(before->scope)) != 0)
		return;
	if (item->op.min_replicas < before->wanted)
		sim_fail("unconfirmed", "%.*s is held for longer, and %d of %d replicas were asked",
				 item->op.name_len, item->name, item->op.min_replicas, before->wanted);
	if (before->wanted > 0 && h->claim.store == STORE_REDIS && h->state == HOLD_HELD)
		check_replica(item->name, item->op.name_len, item->op.owner, server_time(deadline));
}
