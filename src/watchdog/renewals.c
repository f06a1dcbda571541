/*-------------------------------------------------------------------------
 *
 * renewals.c
 *	  The watchdog's own requests: renewals, and releases of what was left.
 *
 * Each store has one connection, and more for what replicas have to confirm
 * (confirmed.c), and one batch at a time: what is due there is collected from the lock
 * table, sent pipelined (due_batch.c), and the replies are applied (health.c, replies.c)
 * to holds that still have the same owner.  A store of several nodes has a connection
 * and a batch for each of them.  While a batch is under way, leases that end are still
 * noticed in time.  No store delays another one.
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
#include "watchdog/watchdog_int.h"

/* Interval of checks for ended leases while a batch is under way. */
#define EXPIRY_INTERVAL		(50 * LR_US_PER_MS)

/*
 * Delay until items that a busy node cannot take are tried again.  The longer the node
 * hangs, the longer the delay: otherwise the items would come back before others have
 * had their turn.
 */
#define LANE_RETRY			(50 * LR_US_PER_MS)
#define LANE_RETRY_MAX		(500 * LR_US_PER_MS)

typedef struct Renewals
{
	DueBatch	batch;
	bool		under_way;
	int64		began;			/* start of the batch */
	int64		next_look;		/* next check for ended leases meanwhile */
	StoreHealth health;
} Renewals;

static Renewals renewals[STORE_COUNT];

/*
 * If a store is several nodes: one for each node, independent of the others, so that a
 * node that hangs does not prevent renewals at the rest.  What is due is collected for
 * all of them at once, by the store's own entry.  NULL: never needed.
 */
static Renewals *lanes[NODE_MASTERS];

/*
 * renewals_start --- make a connection and a batch for each store of this mode
 */
void
renewals_start(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
	{
		if (!lr_has_store(i))
			continue;
		due_batch_make(&renewals[i].batch, i, ROLE_JUDGE);
		health_start(&renewals[i].health, i, lr_store(i)->node);
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
 * renewals_note_ended --- the connection may have ended behind the last reply of the batch
 *
 * Nothing else would notice that, and with Sentinels nobody may connect to the master
 * before the watchdog is connected again.  A node that ends each connection like that is
 * not asked all the time.
 */
static void
renewals_note_ended(Renewals *r)
{
	if (!r->batch.store->connected(r->batch.at.handle))
		r->health.next_probe = lr_earlier(r->health.next_probe, lr_now() + HEALTH_RETRY_MIN);
}

/*
 * renewals_step_batch --- read and write what is possible; apply a complete batch
 */
static void
renewals_step_batch(Renewals *r)
{
	if (!r->batch.store->step(r->batch.at.handle, STORE_NOWAIT))
		return;
	health_judge(&r->health, &r->batch);
	renewals_note_ended(r);
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
	r->began = lr_now();
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
 * renewals_check_connection --- notice at once that an idle connection has ended
 *
 * That includes connections to other nodes than the handle is aimed at: an ended one
 * would wake us for ever.
 */
static void
renewals_check_connection(Renewals *r)
{
	DueBatch   *b = &r->batch;
	bool		was_connected = b->store->connected(b->at.handle);

	(void) b->store->step(b->at.handle, STORE_NOWAIT);
	if (was_connected && !b->store->connected(b->at.handle))
		r->health.next_probe = 0;
}

/*
 * renewals_expire --- notice leases that end while nothing can be sent
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

/* ----------
 * Several nodes
 * ----------
 */

static bool
is_parted(StoreId id)
{
	return lr_store(id)->parted != NULL && lr_store(id)->parted();
}

/*
 * lane_make --- make the entry of a node
 */
static Renewals *
lane_make(StoreId id, int part)
{
	Renewals   *lane = MemoryContextAllocZero(TopMemoryContext, sizeof(Renewals));

	due_batch_make(&lane->batch, id, ROLE_JUDGE);
	lane->batch.store->aim(lane->batch.at.handle, part);
	health_start(&lane->health, id, NODE_MASTER + part);
	return lane;
}

/*
 * lane_end --- there is no such node any more
 *
 * Its requests will not be answered: everything there is due elsewhere.
 */
static void
lane_end(Renewals *lane)
{
	lane->batch.store->disconnect(lane->batch.at.handle);
	renewals_end_batch(lane);
	health_forget(&lane->health);
}

/*
 * lane_put_off --- the node cannot be asked now: try the item later
 *
 * Nothing was sent for it, so a move keeps its not_after, and what is to be counted was
 * surely not counted.
 */
static void
lane_put_off(StoreId id, const DueItem *item, int64 at)
{
	if (item->action == DUE_MOVE)
		lt_not_moved(item, id, at, item->not_after);
	else
	{
		if (item->action == DUE_COUNT)
			lt_not_counted(item);
		lt_retry_at(item->hold, item->owner, id, at);
	}
}

/*
 * lanes_take --- distribute what is due to the nodes
 */
static void
lanes_take(Renewals *r, int64 now)
{
	DueBatch   *b = &r->batch;

	for (int i = 0; i < b->nitems; i++)
	{
		const DueItem *item = &b->at.items[i];
		int			part = b->store->part_of(item->name, item->name_len);
		Renewals   *lane = part >= 0 ? lanes[part] : NULL;

		if (lane == NULL)
			lane_put_off(b->id, item, now + LANE_RETRY);
		else if (lane->under_way)
			lane_put_off(b->id, item,
						 now + Min(Max(LANE_RETRY, now - lane->began), LANE_RETRY_MAX));
		else if (now < lane->health.next_try)
			lane_put_off(b->id, item, lane->health.next_try);
		else
			lane->batch.at.items[lane->batch.nitems++] = *item;
	}
	b->nitems = 0;
}

/*
 * lanes_judge --- the store is up if all of its nodes are
 */
static void
lanes_judge(Renewals *r)
{
	bool		up = false;
	bool		down = false;
	NodeState	state;

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		if (lanes[i] == NULL || !r->batch.store->has_part(i))
			continue;
		up = up || lanes[i]->health.state == NODE_UP;
		down = down || lanes[i]->health.state != NODE_UP;
	}
	state = up && !down ? NODE_UP : NODE_DOWN;
	if (state == r->health.state)
		return;
	r->health.state = state;
	node_set_state(r->health.node, state);
}

/*
 * renewals_step_parted --- the part of a store of several nodes in a round of the
 * watchdog
 */
static void
renewals_step_parted(Renewals *r)
{
	StoreId		id = r->batch.id;
	int64		now = lr_now();
	bool		any = false;
	bool		more;

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		if (!r->batch.store->has_part(i))
		{
			if (lanes[i] != NULL && lanes[i]->health.next_probe != LR_NEVER)
			{
				lane_end(lanes[i]);
				lanes[i]->health.next_probe = LR_NEVER;
			}
			continue;
		}
		if (lanes[i] == NULL)
			lanes[i] = lane_make(id, i);
		else if (lanes[i]->health.next_probe == LR_NEVER)
			health_start(&lanes[i]->health, id, NODE_MASTER + i);
		if (lanes[i]->under_way)
			renewals_step_batch(lanes[i]);
		else
			renewals_check_connection(lanes[i]);
		any = any || (!lanes[i]->under_way && now >= lanes[i]->health.next_try);
	}
	r->batch.nitems = lt_collect_due(id, now, any, now + (any ? HEALTH_RETRY_MAX : LANE_RETRY),
									 any ? r->batch.at.items : NULL,
									 any ? DUE_BATCH_MAX : 0, &more);
	if (lr_store_can(id, STORE_HAS_REPLICAS))
		confirmed_take(&r->batch);
	lanes_take(r, now);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (lanes[i] != NULL && !lanes[i]->under_way && r->batch.store->has_part(i) &&
			now >= lanes[i]->health.next_try &&
			(lanes[i]->batch.nitems > 0 || health_wants_probe(&lanes[i]->health, now)))
			renewals_start_batch(lanes[i]);
	lanes_judge(r);
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

/*
 * renewals_step --- go on with each store, with confirmations, and with the
 * former place
 */
void
renewals_step(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
	{
		if (!lr_has_store(i))
			continue;
		if (is_parted(i))
			renewals_step_parted(&renewals[i]);
		else
			renewals_step_store(&renewals[i]);
	}
	confirmed_step();
	farewell_step();
}

/* Replies to a batch under way do not count: they would be from the old place. */
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
	for (int i = 0; i < NODE_MASTERS; i++)
		if (lanes[i] != NULL && lanes[i]->batch.id == store)
			lane_end(lanes[i]);
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

static void
renewals_store_interests(Renewals *r, StoreInterests *in)
{
	r->batch.store->interests(r->batch.at.handle, in);
	store_wait_until(in, r->under_way ? r->next_look :
					 lr_earlier(health_next(&r->health), lt_next_due(r->batch.id)));
}

/*
 * renewals_parted_interests --- the sockets of all nodes of a store
 *
 * Each step checks for ended leases, whichever nodes have a batch under way.
 */
static void
renewals_parted_interests(Renewals *r, StoreInterests *in)
{
	store_wait_until(in, lt_next_due(r->batch.id));
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		Renewals   *lane = lanes[i];
		int64		until = in->until;

		if (lane == NULL)
			continue;
		lane->batch.store->interests(lane->batch.at.handle, in);
		if (!r->batch.store->has_part(i))
			in->until = until;
		else if (!lane->under_way)
			store_wait_until(in, health_next(&lane->health));
	}
}

/*
 * renewals_interests --- see watchdog_int.h; it includes the old place
 */
void
renewals_interests(StoreInterests *in)
{
	farewell_interests(in);
	confirmed_interests(in);
	for (int i = 0; i < STORE_COUNT; i++)
	{
		if (!lr_has_store(i))
			continue;
		if (is_parted(i))
			renewals_parted_interests(&renewals[i], in);
		else
			renewals_store_interests(&renewals[i], in);
	}
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

		if (lr_has_store(i) && r->health.node == node && !is_parted(i))
			return health_serves(&r->health, &r->batch);
	}
	for (int i = 0; i < NODE_MASTERS; i++)
		if (lanes[i] != NULL && lanes[i]->health.node == node)
			return health_serves(&lanes[i]->health, &lanes[i]->batch);
	return false;
}
