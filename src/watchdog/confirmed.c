/*-------------------------------------------------------------------------
 *
 * confirmed.c
 *	  The watchdog's renewals that replicas have to confirm.
 *
 * Replicas may be away for hours, and each question to them holds up what comes
 * behind it on its connection for lockredis.replica_timeout.  Locks that no replica
 * has to confirm must not lose their leases by that, so those that want it have a
 * connection of their own, which is made when there is the first of them.
 *
 * Whether the store is there is judged by the other connection.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/confirmed.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/node.h"
#include "store/stores.h"
#include "watchdog/confirmed.h"
#include "watchdog/replies.h"

/* What did not get its turn, or its replicas, is tried again after this. */
#define CONFIRM_RETRY		(100 * LR_US_PER_MS)

typedef struct Confirmed
{
	DueBatch	batch;			/* store NULL: never used */
	bool		under_way;
	bool		complained;		/* said that replicas do not confirm */
} Confirmed;

static Confirmed confirmed;

/* ----------
 * What is to be confirmed
 * ----------
 */

static void
confirmed_take_item(DueBatch *from, const DueItem *item)
{
	DueBatch   *b = &confirmed.batch;

	if (b->store == NULL)
		due_batch_make(b, from->id, ROLE_CONFIRM);
	if (confirmed.under_way)
		lt_retry_at(item->hold, item->owner, from->id, lr_now() + CONFIRM_RETRY);
	else
		b->at.items[b->nitems++] = *item;
}

/*
 * confirmed_take --- see confirmed.h
 *
 * What stays keeps its order.
 */
void
confirmed_take(DueBatch *b)
{
	int			n = 0;

	for (int i = 0; i < b->nitems; i++)
	{
		const DueItem *item = &b->at.items[i];
		bool		wanted = item->min_replicas > 0 &&
			(item->action == DUE_RENEW || item->action == DUE_MOVE);

		if (wanted)
			confirmed_take_item(b, item);
		else
		{
			if (n < i)
				b->at.items[n] = *item;
			n++;
		}
	}
	b->nitems = n;
}

/* ----------
 * A batch
 * ----------
 */

/*
 * confirmed_complain --- say once that replicas do not confirm, and that they do
 */
static void
confirmed_complain(void)
{
	const DueBatch *b = &confirmed.batch;
	const StoreError *error = b->store->error(b->at.handle);
	int			missing = 0;
	int			good = 0;

	for (int i = b->nheaders; i < b->nops; i++)
	{
		missing += b->at.ops[i].outcome == STORE_UNCONFIRMED;
		good += b->at.ops[i].outcome == STORE_OK;
	}
	if (missing > 0)
		node_set_error(b->store->node, error->detail);
	if (missing > 0 && !confirmed.complained)
	{
		confirmed.complained = true;
		ereport(LOG,
				(errmsg("lockredis: leases are not renewed for want of replicas"),
				 errdetail_internal("%s", error->detail),
				 error->hint ? errhint("%s", _(error->hint)) : 0));
	}
	else if (missing == 0 && good > 0 && confirmed.complained)
	{
		confirmed.complained = false;
		ereport(LOG,
				(errmsg("lockredis: replicas confirm renewals again")));
	}
}

static void
confirmed_step_batch(void)
{
	DueBatch   *b = &confirmed.batch;

	if (!b->store->step(b->at.handle, STORE_NOWAIT))
		return;
	confirmed_complain();
	replies_apply(b, lr_now() + CONFIRM_RETRY);
	b->nitems = 0;
	confirmed.under_way = false;
}

static void
confirmed_start_batch(void)
{
	DueBatch   *b = &confirmed.batch;

	due_batch_fill(b, due_batch_needs_proof(b), false);
	confirmed.under_way = true;
	b->store->start(b->at.handle, b->at.ops, b->nops, lr_now() + lr_call_budget());
	confirmed_step_batch();
}

/*
 * confirmed_step --- its part of a round of the watchdog, after the others'
 */
void
confirmed_step(void)
{
	DueBatch   *b = &confirmed.batch;

	if (b->store == NULL)
		return;
	if (confirmed.under_way)
		confirmed_step_batch();
	else if (b->nitems > 0)
		confirmed_start_batch();
	else if (b->store->connected(b->at.handle))
		(void) b->store->step(b->at.handle, STORE_NOWAIT);
}

int
confirmed_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	const DueBatch *b = &confirmed.batch;

	*until = LR_NEVER;
	*epoch = 0;
	return b->store == NULL ? 0 :
		b->store->interests(b->at.handle, out, until, epoch);
}

/*
 * confirmed_reconnect --- see confirmed.h
 *
 * Replies to what is under way count for nothing: they would be of the old place.
 */
void
confirmed_reconnect(StoreId store)
{
	DueBatch   *b = &confirmed.batch;

	if (b->store == NULL || b->id != store)
		return;
	b->store->disconnect(b->at.handle);
	b->nitems = 0;
	confirmed.under_way = false;
}
