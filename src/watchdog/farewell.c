/*-------------------------------------------------------------------------
 *
 * farewell.c
 *	  The watchdog's requests to the place that lockredis.url named before.
 *
 * When lockredis.url changes, the watchdog looks for each lock at the new place.  A
 * lock that is there (it is the same Redis under another name) is held as before.
 * Any other lock is lost, but its owner stays at the old place until the time to
 * live ends, as nobody releases it.  So what was lost or left behind is released
 * there, over the watchdog's former connection, as long as that lives and is needed,
 * and at most for a lease.  Each release is tried once: it is a courtesy to clients
 * that still use the old place.
 *
 * The replies to a batch that was under way are read, as the connection would be
 * useless otherwise, but do not count: they are from the old place, and everything
 * is requested again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/farewell.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "settings.h"
#include "store/stores.h"
#include "watchdog/watchdog_int.h"

/*
 * The most items that wait for the next batch (below DUE_BATCH_MAX); the lock table
 * keeps the rest.
 */
#define QUEUE_MAX			1000

/* Interval of checks whether anything is left at the old place. */
#define OLD_PLACE_INTERVAL	(500 * LR_US_PER_MS)

typedef struct Farewell
{
	const StoreRoutine *store;	/* NULL = lockredis.url has never changed */
	StoreId		id;
	Workplace	at;				/* kept for the next time */
	bool		active;
	bool		under_way;
	int64		until;
	int64		next_look;		/* next check whether anything is left */
	int			nqueued;
	DueItem    *queue;
} Farewell;

static Farewell farewell;

static void
farewell_end(void)
{
	farewell.store->disconnect(farewell.at.handle);
	farewell.active = false;
	farewell.under_way = false;
	farewell.nqueued = 0;
}

/* What was still to be released at an even earlier place is dropped. */
void
farewell_begin(StoreId store, bool under_way, Workplace *w)
{
	Workplace	old = *w;

	if (farewell.store == NULL)
	{
		farewell.queue = MemoryContextAlloc(TopMemoryContext,
											sizeof(DueItem) * QUEUE_MAX);
		workplace_make(store, ROLE_JUDGE, &farewell.at);
		farewell.store = lr_store(store);
		farewell.id = store;
	}
	farewell_end();
	*w = farewell.at;
	farewell.at = old;
	farewell.store->stay(old.handle);
	farewell.active = true;
	farewell.under_way = under_way;
	farewell.until = lr_now() + lr_lease * LR_US_PER_MS;
	farewell.next_look = lr_now() + OLD_PLACE_INTERVAL;
}

bool
farewell_give_back(const DueItem *item)
{
	if (!farewell.active)
		return true;
	if (farewell.nqueued == QUEUE_MAX)
		return false;
	farewell.queue[farewell.nqueued++] = *item;
	return true;
}

/*
 * farewell_send --- send the queued releases
 */
static void
farewell_send(void)
{
	Workplace  *at = &farewell.at;
	int			n = farewell.nqueued;

	memcpy(at->items, farewell.queue, sizeof(DueItem) * n);
	for (int i = 0; i < n; i++)
		due_batch_op(&at->ops[i], farewell.id,
					 at->items[i].action == DUE_DROP ? STORE_TALLY : STORE_RELEASE,
					 &at->items[i]);
	farewell.nqueued = 0;
	farewell.under_way = true;
	farewell.store->start(at->handle, at->ops, n, lr_now() + lr_call_budget());
}

/*
 * farewell_is_over --- is the connection gone, or no longer needed?
 */
static bool
farewell_is_over(void)
{
	int64		now = lr_now();

	if (farewell.under_way)
		return false;
	if (!farewell.store->connected(farewell.at.handle) || now >= farewell.until)
		return true;
	if (farewell.nqueued > 0 || now < farewell.next_look)
		return false;
	farewell.next_look = now + OLD_PLACE_INTERVAL;
	return !lt_has_old_place();
}

/*
 * farewell_step --- the old place's part of a round of the watchdog
 */
void
farewell_step(void)
{
	const StoreRoutine *store = farewell.store;

	if (!farewell.active)
		return;
	if (store->step(farewell.at.handle, STORE_NOWAIT))
		farewell.under_way = false;
	if (farewell_is_over())
		farewell_end();
	else if (!farewell.under_way && farewell.nqueued > 0)
	{
		farewell_send();
		(void) store->step(farewell.at.handle, STORE_NOWAIT);
	}
}

void
farewell_interests(StoreInterests *in)
{
	if (farewell.store == NULL)
		return;
	farewell.store->interests(farewell.at.handle, in);
	if (farewell.active && !farewell.under_way)
		store_wait_until(in, farewell.nqueued > 0 ? 0 :
						 Min(farewell.next_look, farewell.until));
}
