/*-------------------------------------------------------------------------
 *
 * confirmed.c
 *	  The watchdog's renewals that replicas have to confirm.
 *
 * Replicas may be away for hours, and each request for their confirmation delays the
 * requests behind it on its connection by lockredis.replica_timeout.  Locks that need
 * no confirmation, or need fewer replicas than are there, must not lose their leases by
 * that.  So each number of replicas that locks ask for has a connection and a batch of
 * its own, made for the first such lock; and if the store is several nodes, each of
 * these has them (see renewals.c).
 *
 * Whether the store is up is judged by the main connection only (health.c).
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
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog_int.h"

/* Delay until items that had to wait, or lacked replicas, are tried again. */
#define CONFIRM_RETRY		(100 * LR_US_PER_MS)

/* Interval for connections beyond those that can be watched. */
#define UNWATCHED_POLL		(10 * LR_US_PER_MS)

typedef struct Confirmed
{
	int			replicas;
	int			part;			/* node of a store with several; NOT_PARTED */
	DueBatch	batch;
	bool		under_way;
	bool		complained;		/* we have logged that replicas do not confirm */
	struct Confirmed *next;
} Confirmed;

#define NOT_PARTED			(-1)

/* The list of all that were ever needed. */
static Confirmed *confirmed = NULL;

/* ----------
 * Items that replicas have to confirm
 * ----------
 */

/*
 * confirmed_put_off --- the connection is busy: try the item later
 *
 * Nothing was sent for it, so a move keeps its not_after.
 */
static void
confirmed_put_off(StoreId store, const DueItem *item)
{
	int64		at = lr_now() + CONFIRM_RETRY;

	if (item->action == DUE_MOVE)
		lt_not_moved(item, store, at, item->not_after);
	else
		lt_retry_at(item->hold, item->owner, store, at);
}

/*
 * confirmed_find --- find or make the one for so many replicas of that node
 */
static Confirmed *
confirmed_find(StoreId id, int replicas, int part)
{
	Confirmed  *c = confirmed;

	while (c != NULL && (c->replicas != replicas || c->part != part))
		c = c->next;
	if (c != NULL)
		return c;
	c = MemoryContextAllocZero(TopMemoryContext, sizeof(Confirmed));
	c->replicas = replicas;
	c->part = part;
	due_batch_make(&c->batch, id, ROLE_CONFIRM);
	if (part != NOT_PARTED)
		c->batch.store->aim(c->batch.at.handle, part);
	c->next = confirmed;
	confirmed = c;
	return c;
}

static void
confirmed_take_item(DueBatch *from, const DueItem *item)
{
	bool		parted = from->store->parted != NULL && from->store->parted();
	int			part = parted ? from->store->part_of(item->name, item->name_len) : NOT_PARTED;
	Confirmed  *c = NULL;

	if (!parted || part >= 0)
		c = confirmed_find(from->id, item->min_replicas, part);
	if (c == NULL || c->under_way)
		confirmed_put_off(from->id, item);
	else
		c->batch.at.items[c->batch.nitems++] = *item;
}

/* The remaining items keep their order. */
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
 * confirmed_complain --- log once that replicas do not confirm, and once that they do
 * again
 */
static void
confirmed_complain(Confirmed *c)
{
	const DueBatch *b = &c->batch;
	const StoreError *error = b->store->error(b->at.handle);
	int			missing = 0;
	int			good = 0;

	for (int i = b->nheaders; i < b->nops; i++)
	{
		missing += b->at.ops[i].outcome == STORE_UNCONFIRMED;
		good += b->at.ops[i].outcome == STORE_OK;
	}
	if (missing > 0)
		node_set_error(c->part == NOT_PARTED ? b->store->node : NODE_MASTER + c->part,
					   error->detail);
	if (missing > 0 && !c->complained)
	{
		c->complained = true;
		ereport(LOG,
				(errmsg("lockredis: leases are not renewed for want of replicas"),
				 errdetail_internal("%s", error->detail),
				 error->hint ? errhint("%s", _(error->hint)) : 0));
	}
	else if (missing == 0 && good > 0 && c->complained)
	{
		c->complained = false;
		ereport(LOG,
				(errmsg("lockredis: replicas confirm renewals again")));
	}
}

static void
confirmed_step_batch(Confirmed *c)
{
	DueBatch   *b = &c->batch;

	if (!b->store->step(b->at.handle, STORE_NOWAIT))
		return;
	confirmed_complain(c);
	replies_apply(b, lr_now() + CONFIRM_RETRY);
	b->nitems = 0;
	c->under_way = false;
}

static void
confirmed_start_batch(Confirmed *c)
{
	DueBatch   *b = &c->batch;

	due_batch_fill(b, due_batch_needs_proof(b), false);
	c->under_way = true;
	b->store->start(b->at.handle, b->at.ops, b->nops, lr_now() + lr_call_budget());
	confirmed_step_batch(c);
}

/*
 * confirmed_end --- nothing that was requested here is answered any more
 *
 * The caller has made it due elsewhere.
 */
static void
confirmed_end(Confirmed *c)
{
	c->batch.store->disconnect(c->batch.at.handle);
	c->batch.nitems = 0;
	c->under_way = false;
}

static void
confirmed_step_one(Confirmed *c)
{
	DueBatch   *b = &c->batch;

	if (c->part != NOT_PARTED && !b->store->has_part(c->part))
		confirmed_end(c);
	else if (c->under_way)
		confirmed_step_batch(c);
	else if (b->nitems > 0)
		confirmed_start_batch(c);
	else
		(void) b->store->step(b->at.handle, STORE_NOWAIT);
}

/*
 * confirmed_step --- the part of these connections in a round of the watchdog
 */
void
confirmed_step(void)
{
	for (Confirmed *c = confirmed; c != NULL; c = c->next)
		confirmed_step_one(c);
}

/*
 * confirmed_interests --- see renewals_interests
 */
void
confirmed_interests(StoreInterests *in)
{
	int			most = in->n + CONFIRMED_MAX_INTERESTS - STORE_MAX_INTERESTS;

	for (const Confirmed *c = confirmed; c != NULL; c = c->next)
	{
		if (in->n <= most)
			c->batch.store->interests(c->batch.at.handle, in);
		else
			store_wait_until(in, lr_now() + UNWATCHED_POLL);
	}
}

/* Replies to a batch under way do not count: they would be from the old place. */
void
confirmed_reconnect(StoreId store)
{
	for (Confirmed *c = confirmed; c != NULL; c = c->next)
		if (c->batch.id == store)
			confirmed_end(c);
}
