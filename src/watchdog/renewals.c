/*-------------------------------------------------------------------------
 *
 * renewals.c
 *	  The watchdog's own requests: renewals, and giving back what was left.
 *
 * For each store one connection, and more for what replicas have to confirm
 * (confirmed.c); one batch at a time: what is due there is
 * collected from the lock table, sent pipelined (due_batch.c), and the replies
 * are applied (health.c, replies.c) if the holds still have the owners they had.
 * While a batch is under way leases that end are still seen on time.  The stores
 * know nothing of each other here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/renewals.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/watch.h"
#include "settings.h"
#include "store/stores.h"
#include "watchdog/confirmed.h"
#include "watchdog/due_batch.h"
#include "watchdog/fallback.h"
#include "watchdog/farewell.h"
#include "watchdog/health.h"
#include "watchdog/renewals.h"
#include "watchdog/replies.h"

/* While a batch is under way, ends of leases are looked for so often. */
#define EXPIRY_INTERVAL		(50 * LR_US_PER_MS)

typedef struct Renewals
{
	DueBatch	batch;
	bool		under_way;
	int64		next_look;		/* at ends of leases, meanwhile */
	StoreHealth health;
} Renewals;

static Renewals renewals[STORE_COUNT];

void
renewals_start(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
	{
		if (!lr_has_store(i))
			continue;
		due_batch_make(&renewals[i].batch, i, ROLE_JUDGE);
		health_start(&renewals[i].health, i);
	}
}

/* ----------
 * A batch
 * ----------
 */

static void
renewals_end_batch(Renewals *r)
{
	r->batch.nitems = 0;
	r->under_way = false;
	r->next_look = 0;
}

/*
 * renewals_step_batch --- read and write what is possible; apply it when it is complete
 */
static void
renewals_step_batch(Renewals *r)
{
	if (!r->batch.store->step(r->batch.at.handle, STORE_NOWAIT))
		return;
	health_judge(&r->health, &r->batch);
	replies_apply(&r->batch, health_retry_at(&r->health));
	renewals_end_batch(r);
}

/*
 * renewals_start_batch --- send what was collected
 */
static void
renewals_start_batch(Renewals *r)
{
	DueBatch   *b = &r->batch;

	due_batch_fill(b, health_wants_proof(&r->health, b),
				   health_wants_facts(&r->health, b));
	r->under_way = true;
	r->next_look = lr_now() + EXPIRY_INTERVAL;
	fallback_asked(b->id, lr_now());
	b->store->start(b->at.handle, b->at.ops, b->nops, lr_now() + lr_call_budget());
	renewals_step_batch(r);
}

/* ----------
 * The loop
 * ----------
 */

/*
 * renewals_check_connection --- an idle connection that dies is noticed at once
 */
static void
renewals_check_connection(Renewals *r)
{
	DueBatch   *b = &r->batch;

	if (!b->store->connected(b->at.handle))
		return;
	(void) b->store->step(b->at.handle, STORE_NOWAIT);
	if (!b->store->connected(b->at.handle))
		r->health.next_probe = 0;
}

/*
 * renewals_expire --- nothing can be sent now, but leases end all the same
 */
static void
renewals_expire(Renewals *r, int64 now)
{
	bool		more;

	if (now < r->next_look)
		return;
	(void) lt_collect_due(r->batch.id, now, false,
						  Max(r->health.next_try, now + EXPIRY_INTERVAL),
						  NULL, 0, &more);
	if (r->under_way)
		r->next_look = now + EXPIRY_INTERVAL;
}

/*
 * renewals_step_store --- one store's part of a round of the watchdog
 */
static void
renewals_step_store(Renewals *r)
{
	int64		now = lr_now();
	bool		more;

	if (r->under_way)
		renewals_step_batch(r);
	else
		renewals_check_connection(r);

	if (r->under_way || now < r->health.next_try)
	{
		renewals_expire(r, now);
		return;
	}
	r->batch.nitems = lt_collect_due(r->batch.id, now, true,
									 now + HEALTH_RETRY_MAX, r->batch.at.items,
									 DUE_BATCH_MAX, &more);
	if (lr_store_can(r->batch.id, STORE_HAS_REPLICAS))
		confirmed_take(&r->batch);
	if (r->batch.nitems > 0 || health_wants_probe(&r->health, now))
		renewals_start_batch(r);
}

void
renewals_step(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			renewals_step_store(&renewals[i]);
	confirmed_step();
	farewell_step();
}

/*
 * renewals_reconnect --- see renewals.h
 *
 * Replies to what is under way count for nothing: they would be of the old place.
 */
void
renewals_reconnect(StoreId store, bool place_changed)
{
	Renewals   *r = &renewals[store];
	DueBatch   *b = &r->batch;

	if (place_changed && b->store->connected(b->at.handle))
		farewell_begin(store, r->under_way, &b->at);
	b->store->disconnect(b->at.handle);
	confirmed_reconnect(store);
	renewals_end_batch(r);
	health_forget(&r->health);
}

bool
renewals_is_connected(StoreId store)
{
	const DueBatch *b = &renewals[store].batch;

	return b->store->connected(b->at.handle);
}

void
renewals_retry_now(StoreId store)
{
	if (!renewals_is_connected(store))
		renewals[store].health.next_try = 0;
}

/* ----------
 * What the watchdog waits for
 * ----------
 */

static int
renewals_store_interests(Renewals *r, StoreInterest *out, int64 *until, uint32 *epoch)
{
	DueBatch   *b = &r->batch;
	int			n = b->store->interests(b->at.handle, out, until, epoch);

	if (r->under_way)
		*until = Min(*until, r->next_look);
	else
		*until = lr_earlier(*until, lr_earlier(health_next(&r->health), lt_next_due(b->id)));
	return n;
}

/*
 * renewals_interests --- of all stores, and of the old place
 *
 * An epoch only grows, so their sum changes if one does.
 */
int
renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	int64		its_until;
	uint32		its_epoch;
	int			n;

	n = farewell_interests(out, until, epoch);
	n += confirmed_interests(out + n, &its_until, &its_epoch);
	*until = Min(*until, its_until);
	*epoch += its_epoch;
	for (int i = 0; i < STORE_COUNT; i++)
	{
		if (!lr_has_store(i))
			continue;
		n += renewals_store_interests(&renewals[i], out + n, &its_until, &its_epoch);
		*until = Min(*until, its_until);
		*epoch += its_epoch;
	}
	return n;
}

uint32
renewals_idle(void)
{
	uint32		idle = 0;

	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && !renewals[i].under_way)
			idle |= STORE_BIT(i);
	return idle;
}

bool
renewals_serves(NodeId node)
{
	for (int i = 0; i < STORE_COUNT; i++)
	{
		const Renewals *r = &renewals[i];

		if (lr_has_store(i) && r->health.node == node)
			return health_serves(&r->health, &r->batch);
	}
	return false;
}
