/*-------------------------------------------------------------------------
 *
 * table_conditions.c
 *	  Waits for conditions of locks, in the memory of the table worker.
 *
 * All waits are of this server, and there is one worker, so a list is enough.  As in Redis each
 * wait counts until a certain time, and a notification stays with its wait until the session
 * has acted on it, or passes to the next wait.  A session whose wait the worker does not know,
 * since it was restarted or had no memory, counts as notified when it asks, and checks its
 * condition.
 *
 * All of this is done after the transaction of the operation has been committed.  A transaction
 * that fails is run again: otherwise a notification could be given twice, or stay with a
 * session whose operation was refused.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_conditions.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "store/table/table_int.h"

typedef struct ConditionWait
{
	dlist_node	node;			/* in the order of arrival */
	uint64		owner;
	uint8		id[STORE_ID_LEN];
	bool		notified;
	int64		ends;			/* counts until then; lr_now() time */
	int			name_len;
	char		name[LR_NAME_MAX];
} ConditionWait;

static dlist_head waits = DLIST_STATIC_INIT(waits);

static ConditionWait *
wait_find(uint64 owner)
{
	dlist_iter	it;

	dlist_foreach(it, &waits)
	{
		ConditionWait *w = dlist_container(ConditionWait, node, it.cur);

		if (w->owner == owner)
			return w;
	}
	return NULL;
}

static void
wait_forget(ConditionWait *w)
{
	dlist_delete(&w->node);
	pfree(w);
}

static bool
wait_is_for(const ConditionWait *w, const StoreOp *op)
{
	return w->name_len == op->name_len && memcmp(w->name, op->name, op->name_len) == 0 &&
		memcmp(w->id, op->id, STORE_ID_LEN) == 0;
}

/*
 * wait_lengthen --- the wait counts for so many milliseconds from now, or for longer already
 */
static void
wait_lengthen(ConditionWait *w, int64 ms)
{
	int64		ends = lr_now() + ms * LR_US_PER_MS;

	w->ends = Max(w->ends, ends);
}

/*
 * wait_pass_on --- forget the waits that no longer count, and notify the first others: so many, and
 * one for each that was notified and is forgotten; returns how many
 */
static int
wait_pass_on(const StoreOp *op, int64 n)
{
	dlist_mutable_iter it;
	int64		now = lr_now();
	int			n_notified = 0;

	dlist_foreach_modify(it, &waits)
	{
		ConditionWait *w = dlist_container(ConditionWait, node, it.cur);

		if (w->ends > now || !wait_is_for(w, op))
			continue;
		n += w->notified;
		wait_forget(w);
	}
	dlist_foreach_modify(it, &waits)
	{
		ConditionWait *w = dlist_container(ConditionWait, node, it.cur);

		if (n_notified == n || w->notified || !wait_is_for(w, op))
			continue;
		w->notified = true;
		n_notified++;
	}
	return n_notified;
}

/*
 * condition_queue --- begin to wait: the session's lock has been released
 */
static void
condition_queue(StoreOp *op, ConditionWait *w)
{
	entry_busy(op, op->lease_ms);
	if (w == NULL)
	{
		w = MemoryContextAllocExtended(TopMemoryContext, sizeof(ConditionWait),
									   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);
		if (w == NULL)
			return;				/* it counts as notified when it asks again */
		w->owner = op->owner;
		memcpy(w->id, op->id, STORE_ID_LEN);
		w->name_len = op->name_len;
		memcpy(w->name, op->name, op->name_len);
		dlist_push_tail(&waits, &w->node);
	}
	wait_lengthen(w, op->lease_ms);
}

/*
 * condition_ask --- has the wait been notified?
 *
 * A wait that is not in the list counts as notified.  With no time to wait, a wait that has not
 * been notified ends.
 */
static void
condition_ask(StoreOp *op, ConditionWait *w)
{
	if (w == NULL)
		return;
	wait_lengthen(w, op->lease_ms);
	if (w->notified)
		return;
	entry_busy(op, op->lease_ms);
	if (op->args.wait_ms == 0)
		wait_forget(w);
}

static void
condition_renew(StoreOp *op, ConditionWait *w)
{
	if (w != NULL && w->notified)
		wait_lengthen(w, op->lease_ms);
	else
		op->outcome = STORE_GONE;
}

static void
condition_release(StoreOp *op, ConditionWait *w)
{
	bool		pass = w != NULL && w->notified && !op->args.acted;

	if (w == NULL)
		op->outcome = STORE_GONE;
	else
		wait_forget(w);
	(void) wait_pass_on(op, pass ? 1 : 0);
}

void
condition_committed(StoreOp *op)
{
	if (op->lock_kind != KIND_CONDITION || op->outcome != STORE_OK)
		return;
	if (op->kind != STORE_RELEASE)
		(void) wait_pass_on(op, 0);
	switch (op->kind)
	{
		case STORE_CREATE:
			if (op->args.gives_back != 0)
				condition_queue(op, wait_find(op->owner));
			else
				condition_ask(op, wait_find(op->owner));
			break;
		case STORE_RELEASE:
			condition_release(op, wait_find(op->owner));
			break;
		case STORE_RENEW:
			condition_renew(op, wait_find(op->owner));
			break;
		case STORE_NOTIFY:
			op->answer.count = wait_pass_on(op, op->amount);
			break;
		default:
			break;
	}
}
