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

/* Delay until items that had to wait for such a connection, or lacked replicas, are tried again. */
#define CONFIRM_RETRY		(100 * LR_US_PER_MS)

/* Interval for connections beyond those that can be watched. */
#define UNWATCHED_POLL		(10 * LR_US_PER_MS)

#define NOT_PARTED			(-1)

typedef struct Renewals
{
	DueBatch	batch;
	bool		under_way;
	int64		began;			/* start of the batch */
	int64		next_look;		/* next check for ended leases meanwhile */
	StoreHealth health;			/* unless replicas have to confirm */

	/* For one node of a store with several, or for what replicas have to confirm */
	int			replicas;		/* how many; 0: none */
	int			part;			/* node of a store with several; NOT_PARTED */
	bool		complained;		/* we have logged that replicas do not confirm */
	struct Renewals *next;
} Renewals;

static Renewals renewals[STORE_COUNT];

/*
 * An entry for each number of replicas that had to confirm ever; and if a store is several
 * nodes, one for each node, independent of the others, so that a node that hangs does not prevent
 * renewals at the rest.  What is due is collected for all of them at once, by the store's
 * own entry.
 */
static Renewals *lanes = NULL;

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
	if (!r->batch.store->connected(r->batch.handle))
		r->health.next_probe = lr_earlier(r->health.next_probe,
										  r->health.up_at + HEALTH_RETRY_MIN);
}

/*
 * renewals_complain --- log once that replicas do not confirm, and once that they do
 * again
 */
static void
renewals_complain(Renewals *r)
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
		node_set_error(r->part == NOT_PARTED ? b->store->node : NODE_MASTER + r->part,
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
renewals_step_batch(Renewals *r)
{
	if (!r->batch.store->step(r->batch.handle, STORE_NOWAIT))
		return;
	if (r->replicas > 0)
		renewals_complain(r);
	else
	{
		health_judge(&r->health, &r->batch);
		renewals_note_ended(r);
	}
	replies_apply(&r->batch, r->replicas > 0 ? lr_now() + CONFIRM_RETRY :
				  health_retry_at(&r->health));
	renewals_end_batch(r);
}

/*
 * renewals_start_batch --- send what was collected
 */
static void
renewals_start_batch(Renewals *r)
{
	DueBatch   *b = &r->batch;

	r->under_way = true;
	if (r->replicas > 0)
		due_batch_fill(b, due_batch_needs_proof(b), false);
	else
	{
		due_batch_fill(b, health_wants_proof(&r->health, b),
					   health_wants_facts(&r->health, b));
		r->began = lr_now();
		r->next_look = lr_now() + EXPIRY_INTERVAL;
	}
	b->store->start(b->handle, b->ops, b->nops, lr_now() + lr_call_budget());
	if (r->replicas == 0)
		fallback_asked(b->id, lr_now());
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
 * would wake us for ever.  A node that ends each connection once it has answered is not
 * asked without a pause.
 */
static void
renewals_check_connection(Renewals *r)
{
	DueBatch   *b = &r->batch;
	bool		was_connected = b->store->connected(b->handle);

	(void) b->store->step(b->handle, STORE_NOWAIT);
	if (was_connected)
		renewals_note_ended(r);
}

/*
 * renewals_expire --- notice leases that end while nothing can be sent
 */
static void
renewals_expire(Renewals *r, int64 now)
{
	if (now < r->next_look)
		return;
	(void) lt_collect_due(r->batch.id, now, false,
						  Max(r->health.next_try, now + EXPIRY_INTERVAL), NULL, 0);
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
 * lane_find --- find or make the entry for so many replicas of that node
 */
static Renewals *
lane_find(StoreId id, int replicas, int part)
{
	Renewals  **last = &lanes;
	Renewals   *lane;

	for (; (lane = *last) != NULL; last = &lane->next)
		if (lane->replicas == replicas && lane->part == part)
			return lane;
	lane = MemoryContextAllocZero(TopMemoryContext, sizeof(Renewals));
	lane->replicas = replicas;
	lane->part = part;
	if (replicas == 0)
		health_start(&lane->health, id, NODE_MASTER + part);
	due_batch_make(&lane->batch, id, replicas > 0 ? ROLE_CONFIRM : ROLE_JUDGE);
	if (part != NOT_PARTED)
		lane->batch.store->aim(lane->batch.handle, part);
	*last = lane;
	return lane;
}

/*
 * renewals_end --- nothing that was requested here is answered any more
 *
 * The caller has made it due elsewhere.
 */
static void
renewals_end(Renewals *r)
{
	r->batch.store->disconnect(r->batch.handle);
	renewals_end_batch(r);
	if (r->replicas == 0)
		health_forget(&r->health);
}

/*
 * put_off --- the item cannot be asked for now: try it later
 *
 * Nothing was sent for it, so a move keeps its not_after, and what is to be counted was
 * surely not counted.
 */
static void
put_off(StoreId id, const DueItem *item, int64 at)
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
 * take_item --- pass an item that is due to the batch in which it is sent
 *
 * In a store of one node, which is not "parted", the batch of the store's own entry keeps the
 * items that replicas need not confirm, in their order.
 */
static void
take_item(Renewals *r, const DueItem *item, int64 now, bool parted)
{
	const StoreRoutine *store = r->batch.store;
	StoreId		id = r->batch.id;
	bool		confirm = lr_store_can(id, STORE_HAS_REPLICAS) && item->min_replicas > 0 &&
		(item->action == DUE_RENEW || item->action == DUE_MOVE);
	int			part = parted ? store->part_of(item->name, item->name_len) : NOT_PARTED;
	Renewals   *lane = r;

	if (parted && (part < 0 || !store->has_part(part)))
		lane = NULL;
	else if (confirm || parted)
		lane = lane_find(id, confirm ? item->min_replicas : 0, part);

	if (lane != NULL && !lane->under_way && now >= lane->health.next_try)
		lane->batch.items[lane->batch.nitems++] = *item;
	else if (confirm)
		put_off(id, item, now + CONFIRM_RETRY);
	else if (lane == NULL)
		put_off(id, item, now + LANE_RETRY);
	else if (lane->under_way)
		put_off(id, item, now + Min(Max(LANE_RETRY, now - lane->began), LANE_RETRY_MAX));
	else
		put_off(id, item, lane->health.next_try);
}

/*
 * collect --- collect what is due in the store, and distribute it
 */
static void
collect(Renewals *r, int64 now, bool parted)
{
	int			n = lt_collect_due(r->batch.id, now, true, now + HEALTH_RETRY_MAX,
								   r->batch.items, DUE_BATCH_MAX);

	r->batch.nitems = 0;
	for (int i = 0; i < n; i++)
		take_item(r, &r->batch.items[i], now, parted);
}

/* ----------
 * Items that replicas have to confirm
 * ----------
 */

static void
confirmed_step(Renewals *c)
{
	DueBatch   *b = &c->batch;

	if (c->part != NOT_PARTED && !b->store->has_part(c->part))
		renewals_end(c);
	else if (c->under_way)
		renewals_step_batch(c);
	else if (b->nitems > 0)
		renewals_start_batch(c);
	else
		(void) b->store->step(b->handle, STORE_NOWAIT);
}

static void
confirmed_interests(StoreInterests *in)
{
	int			most = in->n + CONFIRMED_MAX_INTERESTS - STORE_MAX_INTERESTS;

	for (const Renewals *c = lanes; c != NULL; c = c->next)
	{
		if (c->replicas == 0)
			continue;
		if (in->n <= most)
			c->batch.store->interests(c->batch.handle, in);
		else
			store_wait_until(in, lr_now() + UNWATCHED_POLL);
	}
}

/*
 * lane_judges --- is it the entry of a node that the store has now?
 */
static bool
lane_judges(const Renewals *lane)
{
	return lane->replicas == 0 && lane->batch.store->has_part(lane->part);
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

	for (const Renewals *lane = lanes; lane != NULL; lane = lane->next)
	{
		if (!lane_judges(lane))
			continue;
		up = up || lane->health.state == NODE_UP;
		down = down || lane->health.state != NODE_UP;
	}
	state = up && !down ? NODE_UP : NODE_DOWN;
	if (state == r->health.state)
		return;
	r->health.state = state;
	node_set_state(r->health.node, state);
}

/*
 * renewals_step_one --- go on with a batch, or with an idle connection
 */
static void
renewals_step_one(Renewals *r)
{
	if (r->under_way)
		renewals_step_batch(r);
	else
		renewals_check_connection(r);
}

static void
renewals_start_if_due(Renewals *r, int64 now)
{
	if (r->batch.nitems > 0 || health_wants_probe(&r->health, now))
		renewals_start_batch(r);
}

/*
 * lanes_set_up --- have an entry for each node of the store, and end those of other nodes
 */
static void
lanes_set_up(StoreId id)
{
	for (Renewals *lane = lanes; lane != NULL; lane = lane->next)
		if (lane->replicas == 0 && lane->health.next_probe != LR_NEVER && !lane_judges(lane))
		{
			renewals_end(lane);
			lane->health.next_probe = LR_NEVER;
		}
	for (int i = 0; i < NODE_MASTERS; i++)
		if (lr_store(id)->has_part(i))
		{
			Renewals   *lane = lane_find(id, 0, i);

			if (lane->health.next_probe == LR_NEVER)
				health_start(&lane->health, id, NODE_MASTER + i);
		}
}

/*
 * renewals_step_parted --- the part of a store of several nodes in a round of the
 * watchdog
 */
static void
renewals_step_parted(Renewals *r)
{
	int64		now = lr_now();
	bool		any = false;

	lanes_set_up(r->batch.id);
	for (Renewals *lane = lanes; lane != NULL; lane = lane->next)
		if (lane_judges(lane))
		{
			renewals_step_one(lane);
			any = any || (!lane->under_way && now >= lane->health.next_try);
		}
	if (any)
		collect(r, now, true);
	else
		(void) lt_collect_due(r->batch.id, now, false, now + LANE_RETRY, NULL, 0);
	for (Renewals *lane = lanes; lane != NULL; lane = lane->next)
		if (lane_judges(lane) && !lane->under_way && now >= lane->health.next_try)
			renewals_start_if_due(lane, now);
	lanes_judge(r);
}

/*
 * renewals_step_store --- one store's part of a round of the watchdog
 */
static void
renewals_step_store(Renewals *r)
{
	int64		now = lr_now();

	renewals_step_one(r);
	if (r->under_way || now < r->health.next_try)
	{
		renewals_expire(r, now);
		return;
	}
	collect(r, now, false);
	renewals_start_if_due(r, now);
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
	for (Renewals *lane = lanes; lane != NULL; lane = lane->next)
		if (lane->replicas > 0)
			confirmed_step(lane);
	farewell_step();
}

/* Replies to a batch under way do not count: they would be from the old place. */
void
renewals_reconnect(StoreId store, bool place_changed)
{
	Renewals   *r = &renewals[store];
	DueBatch   *b = &r->batch;

	if (place_changed && b->store->connected(b->handle))
		farewell_begin(b, r->under_way);
	renewals_end(r);
	for (Renewals *lane = lanes; lane != NULL; lane = lane->next)
		if (lane->batch.id == store)
			renewals_end(lane);
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

static void
renewals_store_interests(Renewals *r, StoreInterests *in)
{
	r->batch.store->interests(r->batch.handle, in);
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
	for (Renewals *lane = lanes; lane != NULL; lane = lane->next)
	{
		int64		until = in->until;

		if (lane->replicas > 0)
			continue;
		lane->batch.store->interests(lane->batch.handle, in);
		if (!lane_judges(lane))
			in->until = until;
		else if (!lane->under_way)
			store_wait_until(in, health_next(&lane->health));
	}
}

/*
 * renewals_interests --- see watchdog.h; it includes the old place
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
	for (const Renewals *lane = lanes; lane != NULL; lane = lane->next)
		if (lane->replicas == 0 && lane->health.node == node)
			return health_serves(&lane->health, &lane->batch);
	return false;
}
