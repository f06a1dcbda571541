/*-------------------------------------------------------------------------
 *
 * renewals.c
 *	  The watchdog's own requests: renewals, and releases of what was left.
 *
 * Each store has one connection, and one batch at a time: what is due there is collected
 * from the lock table, sent pipelined (due_batch.c), and the replies are applied (health.c,
 * due_batch.c) to holds that still have the same owner.  A store of several nodes has a
 * connection and a batch for each of them.  While a batch is under way, leases that end are
 * still noticed in time; what else is due for it is put off.  No store delays another one.
 *
 * Replicas may be away for hours, and each request for their confirmation delays the
 * requests behind it on its connection by lockredis.replica_timeout.  Locks that need no
 * confirmation, or need fewer replicas than are there, must not lose their leases by that.
 * So each number of replicas that locks ask for has a connection and a batch of its own,
 * made for the first such lock; and if the store is several nodes, each of these has them.
 * Whether the store is up is judged by the other connections only.
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
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/* Interval of checks for ended leases while a batch is under way. */
#define EXPIRY_INTERVAL		(50 * LR_US_PER_MS)

/*
 * Delay until items that a busy node cannot take are tried again.  The longer the node
 * hangs, the longer the delay: otherwise the items would come back before others have
 * had their turn.
 */
#define LANE_RETRY			(50 * LR_US_PER_MS)
#define LANE_RETRY_MAX		(500 * LR_US_PER_MS)

/*
 * Delay until items are tried again that had to wait for such a connection, lacked replicas, or
 * belong to no known node.
 */
#define CONFIRM_RETRY		(100 * LR_US_PER_MS)

/* One connection, and the batch over it. */
typedef struct Lane
{
	DueBatch	batch;
	bool		under_way;
	int64		began;			/* start of the batch */
	int64		next_look;		/* next check for ended leases while a batch is under
								 * way, else 0; only that of a store's own is used */
	StoreHealth health;			/* unless replicas have to confirm */
	int			replicas;		/* how many have to confirm; 0: none */
	int			part;			/* node of a store with several; STORE_NO_PART */
	bool		ended;			/* the store has no such node now */
	bool		complained;		/* we have logged that replicas do not confirm */
	struct Lane *next;
} Lane;

/*
 * The lanes of each store begin with its own: if the store is one node, that is the lane of this
 * node.  What is due is collected for all of them at once, by the store's own lane.  There is
 * another one for each number of replicas that had to confirm ever; and if a store is several
 * nodes, one for each node, independent of the others, so that a node that hangs does not prevent
 * renewals at the rest.  If each of them has all locks (independent masters), these lanes only
 * probe, and the store's own one renews.
 */
static Lane renewals[STORE_COUNT];

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
		renewals[i].part = STORE_NO_PART;
		due_batch_make(&renewals[i].batch, i, ROLE_JUDGE, STORE_NO_PART);
		health_start(&renewals[i].health, i, lr_store(i)->node);
	}
}

/* ----------
 * A batch
 * ----------
 */

static void
lane_end_batch(Lane *lane)
{
	lane->batch.nitems = 0;
	lane->under_way = false;
	lane->next_look = 0;
}

/*
 * renewals_complain --- log once that replicas do not confirm, and once that they do
 * again
 */
static void
renewals_complain(Lane *r)
{
	const DueBatch *b = &r->batch;
	const StoreError *error = b->store->error(b->handle);
	int			missing = 0;
	int			good = 0;

	for (int i = b->nheaders; i < b->nops; i++)
	{
		missing += b->ops[i].outcome == STORE_UNCONFIRMED;
		good += b->ops[i].outcome == STORE_OK;
	}
	if (missing > 0)
		node_set_error(r->part == STORE_NO_PART ? b->store->node : NODE_MASTER + r->part,
					   "", error->detail);
	if (missing > 0 && !r->complained)
	{
		r->complained = true;
		ereport(LOG,
				(errmsg("lockredis: leases are not renewed for want of replicas"),
				 errdetail_internal("%s", error->detail),
				 error->hint ? errhint("%s", _(error->hint)) : 0));
	}
	else if (missing == 0 && good > 0 && r->complained)
	{
		r->complained = false;
		ereport(LOG,
				(errmsg("lockredis: replicas confirm renewals again")));
	}
}

/*
 * renewals_step_batch --- read and write what is possible; apply a complete batch
 */
static void
renewals_step_batch(Lane *r)
{
	if (!r->batch.store->step(r->batch.handle, STORE_NOWAIT))
		return;
	if (r->replicas > 0)
		renewals_complain(r);
	else
		health_judge(&r->health, &r->batch);
	replies_apply(&r->batch, r->replicas > 0 ? lr_now() + CONFIRM_RETRY :
				  health_retry_at(&r->health));
	lane_end_batch(r);
}

/*
 * renewals_start_batch --- send what was collected
 */
static void
renewals_start_batch(Lane *r)
{
	DueBatch   *b = &r->batch;

	r->under_way = true;
	if (r->replicas > 0)
		due_batch_fill(b, false, false);
	else
	{
		due_batch_fill(b, health_wants_proof(&r->health, b),
					   health_wants_facts(&r->health, b));
		r->began = lr_now();
		r->next_look = r->began + EXPIRY_INTERVAL;
	}
	b->store->start(b->handle, b->ops, b->nops, lr_now() + lr_call_budget());
	if (r->replicas == 0)
		fallback_asked(b->id, lr_now());
	renewals_step_batch(r);
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
 * lane_find --- find or make the lane for so many replicas of that node
 */
static Lane *
lane_find(StoreId id, int replicas, int part)
{
	Lane	   *lane = &renewals[id];

	while (lane->replicas != replicas || lane->part != part)
	{
		if (lane->next == NULL)
		{
			lane->next = MemoryContextAllocZero(TopMemoryContext, sizeof(Lane));
			lane = lane->next;
			lane->replicas = replicas;
			lane->part = part;
			if (replicas == 0)
				health_start(&lane->health, id, NODE_MASTER + part);
			due_batch_make(&lane->batch, id, replicas > 0 ? ROLE_CONFIRM :
						   is_parted(id) ? ROLE_JUDGE : ROLE_PROBE, part);
			return lane;
		}
		lane = lane->next;
	}
	return lane;
}

/*
 * lane_end --- nothing that was requested here is answered any more
 *
 * The caller has made it due elsewhere.
 */
static void
lane_end(Lane *lane)
{
	lane->batch.store->disconnect(lane->batch.handle);
	lane_end_batch(lane);
	if (lane->replicas == 0)
		health_forget(&lane->health);
}

/*
 * lane_is_there --- does the store have this node now?
 */
static bool
lane_is_there(const Lane *lane)
{
	if (lane->part == STORE_NO_PART)
		return !is_parted(lane->batch.id);
	return lane->batch.store->has_part(lane->part);
}

/*
 * lane_free_at --- when may a batch be sent here?
 */
static int64
lane_free_at(const Lane *lane, int64 now)
{
	return lane->under_way ? now + EXPIRY_INTERVAL : lane->health.next_try;
}

/*
 * take_item --- pass an item that is due to the batch in which it is sent
 *
 * In a store of one node, which is not "parted", the batch of the store's own lane keeps the
 * items that replicas need not confirm, in their order.
 */
static void
take_item(Lane *r, const DueItem *item, int64 now, bool parted)
{
	const StoreRoutine *store = r->batch.store;
	StoreId		id = r->batch.id;
	bool		confirm = lr_store_can(id, STORE_HAS_REPLICAS) && item->op.min_replicas > 0 &&
		(item->action == DUE_RENEW || item->action == DUE_MOVE);
	int			part = parted ? store->part_of(item->name, item->op.name_len) : STORE_NO_PART;
	Lane	   *lane = r;

	if (parted && part == STORE_NO_PART)
		lane = NULL;
	else if (confirm || parted)
		lane = lane_find(id, confirm ? item->op.min_replicas : 0, part);

	if (lane != NULL && lane_free_at(lane, now) <= now)
		lane->batch.items[lane->batch.nitems++] = *item;
	else if (confirm || lane == NULL)
		due_put_off(item, now + CONFIRM_RETRY);
	else if (lane->under_way)
		due_put_off(item, now + Min(Max(LANE_RETRY, now - lane->began), LANE_RETRY_MAX));
	else
		due_put_off(item, lane->health.next_try);
}

/*
 * collect --- collect what is due in the store, and distribute it
 */
static void
collect(Lane *r, int64 now)
{
	bool		parted = is_parted(r->batch.id);
	int			n = lt_collect_due(r->batch.id, now, true, now + HEALTH_RETRY_MAX,
								   r->batch.items, DUE_BATCH_MAX);

	r->batch.nitems = 0;
	for (int i = 0; i < n; i++)
		take_item(r, &r->batch.items[i], now, parted);
}

/*
 * lanes_judge --- the store is up if all of its nodes are
 */
static void
lanes_judge(Lane *r)
{
	int			there = 0;
	int			up = 0;

	for (const Lane *lane = r->next; lane != NULL; lane = lane->next)
	{
		there += !lane->ended && lane->replicas == 0;
		up += !lane->ended && lane->replicas == 0 && lane->health.state == NODE_UP;
	}
	node_set_state(r->health.node, up > 0 && up == there ? NODE_UP : NODE_DOWN);
}

/*
 * lane_step --- go on with a batch, or see whether the idle connection has ended
 *
 * That includes connections to other nodes than the handle is aimed at: an ended one
 * would wake us for ever.  The next probe follows at once if the connection has ended, also
 * right after the last reply of a batch: the node may be down.  A node that ends each
 * connection once it has answered is not asked without a pause.
 */
static void
lane_step(Lane *lane)
{
	DueBatch   *b = &lane->batch;
	bool		was_connected = b->store->connected(b->handle);

	if (lane->under_way)
		renewals_step_batch(lane);
	else
		(void) b->store->step(b->handle, STORE_NOWAIT);
	if (was_connected && !b->store->connected(b->handle))
		lane->health.next_probe = lr_earlier(lane->health.next_probe,
											 lane->health.up_at + HEALTH_RETRY_MIN);
}

static bool
lane_wants_batch(const Lane *lane, int64 now)
{
	return lane->batch.nitems > 0 ||
		(lane->replicas == 0 && health_wants_probe(&lane->health, now));
}

/*
 * lanes_set_up --- have a lane for each node of the store, and end those of other nodes
 */
static void
lanes_set_up(StoreId id)
{
	for (int i = 0; i < NODE_MASTERS && lr_store(id)->has_part != NULL; i++)
		if (lr_store(id)->has_part(i))
			(void) lane_find(id, 0, i);
	for (Lane *lane = &renewals[id]; lane != NULL; lane = lane->next)
	{
		bool		ended = !lane_is_there(lane);

		if (ended && !lane->ended && lane->part != STORE_NO_PART)
			lane_end(lane);
		if (!ended && lane->ended && lane->replicas == 0)
			health_start(&lane->health, id, lane->health.node);
		lane->ended = ended;
	}
}

/*
 * renewals_step_store --- one store's part of a round of the watchdog
 *
 * Leases that end while nothing can be sent to any node are noticed now and then.
 */
static void
renewals_step_store(Lane *r)
{
	int64		now = lr_now();
	int64		free_at = now + HEALTH_RETRY_MAX;
	bool		parted = is_parted(r->batch.id);

	lanes_set_up(r->batch.id);
	for (Lane *lane = r; lane != NULL; lane = lane->next)
	{
		if (lane->ended)
			continue;
		lane_step(lane);
		if (lane->replicas == 0 && (lane == r || parted))
			free_at = lr_earlier(free_at, lane_free_at(lane, now));
	}
	if (free_at <= now)
		collect(r, now);
	else if (now >= r->next_look)
	{
		(void) lt_collect_due(r->batch.id, now, false, Max(free_at, now + EXPIRY_INTERVAL), NULL, 0);
		if (r->under_way)
			r->next_look = now + EXPIRY_INTERVAL;
	}
	for (Lane *lane = r; lane != NULL; lane = lane->next)
		if (!lane->ended && lane_free_at(lane, now) <= now && lane_wants_batch(lane, now))
			renewals_start_batch(lane);
	if (parted)
		lanes_judge(r);
}

/*
 * renewals_step --- go on with each store, with confirmations, and with the
 * former place
 */
void
renewals_step(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			renewals_step_store(&renewals[i]);
	farewell_step();
	health_tell_masters();
}

/* Replies to a batch under way do not count: they would be from the old place. */
void
renewals_reconnect(StoreId store, bool place_changed)
{
	Lane	   *r = &renewals[store];
	DueBatch   *b = &r->batch;

	if (place_changed && b->store->connected(b->handle))
		farewell_begin(b, r->under_way);
	for (Lane *lane = r; lane != NULL; lane = lane->next)
		lane_end(lane);
}

bool
renewals_is_connected(StoreId store)
{
	const DueBatch *b = &renewals[store].batch;

	return b->store->connected(b->handle);
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

/*
 * renewals_store_interests --- the sockets of all nodes of a store
 *
 * If there are several, each step checks for ended leases, whichever have a batch under way.
 */
static void
renewals_store_interests(const Lane *r, StoreInterests *in)
{
	for (const Lane *lane = r; lane != NULL; lane = lane->next)
	{
		if (lane->ended)
			continue;
		lane->batch.store->interests(lane->batch.handle, in);
		if (!lane->under_way && lane->replicas == 0)
			store_wait_until(in, health_next(&lane->health));
	}
	store_wait_until(in, r->under_way ? r->next_look : lt_next_due(r->batch.id));
}

/*
 * renewals_interests --- see watchdog.h; it includes the old place
 */
void
renewals_interests(StoreInterests *in)
{
	farewell_interests(in);
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			renewals_store_interests(&renewals[i], in);
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
