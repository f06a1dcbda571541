/*-------------------------------------------------------------------------
 *
 * renewals.c
 *	  The watchdog's own requests: renewals, and giving back what was left.
 *
 * For each store one connection, one batch at a time: what is due there is
 * collected from the lock table, sent pipelined, and the replies are applied if
 * the holds still have the owners they had.  While a batch is under way leases
 * that end are still seen on time.  The stores know nothing of each other here.
 *
 * An orphan whose create may still be on its way is released again and again
 * until a release has run after the last moment at which the create may run,
 * both on the store's own clock: TIME goes out before the releases, so a
 * release in the same batch has run later than that.
 *
 * A lock that is held in the other store and belongs into this one is created
 * here with the same owner, and then set: a set that succeeds says that it is
 * here, whether this create, an earlier one whose reply was not read, or what
 * it had left here did that.
 *
 * Here is also decided whether a store is up, and it is logged once each way.
 * That it refuses what is asked for one lock is no sign of that (see
 * refused.c).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/renewals.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "instance.h"
#include "locktable/losses.h"
#include "locktable/watch.h"
#include "settings.h"
#include "stats.h"
#include "store/node.h"
#include "store/stores.h"
#include "watchdog/fallback.h"
#include "watchdog/watchdog.h"

/* One that takes hardly longer than a round trip. */
#define SMALL_BATCH			100

/* An orphan is released again after this. */
#define ORPHAN_REPEAT		(100 * LR_US_PER_MS)

/* A store that is away is asked again after 0.1 to 1 s. */
#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			LR_US_PER_S

/* A store that has nothing to do is asked whether it is there. */
#define PROBE_INTERVAL		(5 * LR_US_PER_S)

/* What a store says of itself may change: its role, its settings. */
#define FACTS_INTERVAL		(5 * LR_US_PER_S)

/* While a batch is under way, ends of leases are looked for so often. */
#define LOOK_INTERVAL		(50 * LR_US_PER_MS)

typedef struct Renewals
{
	StoreId		id;
	const StoreRoutine *store;
	StoreHandle *handle;

	/* The batch. */
	bool		under_way;
	int			nheaders;
	int			nitems;
	int			nops;
	DueItem    *items;
	int		   *first_op;		/* of each item */
	StoreOp    *ops;
	int64		next_look;

	/* Is the store there? */
	NodeState	state;
	int64		retry_delay;
	int64		next_try;		/* not before, while the store is away */
	int64		next_probe;
	int64		next_facts;
	uint32		connection_epoch;

	/* What was refused for the first time, of this batch. */
	int			nrefused;
	DueItem	   *first_refused;
} Renewals;

static Renewals renewals[STORE_COUNT];
static char warned_policy[32] = "";
static bool warned_replica = false;

static void
use_workplace(Renewals *r, const Workplace *w)
{
	r->handle = w->handle;
	r->items = w->items;
	r->ops = w->ops;
}

static void
start_one(StoreId id)
{
	Renewals   *r = &renewals[id];
	Workplace	w;

	r->id = id;
	r->store = lr_store(id);
	workplace_make(id, &w);
	use_workplace(r, &w);
	r->first_op = MemoryContextAlloc(TopMemoryContext, sizeof(int) * BATCH_MAX);
	r->state = NODE_CONNECTING;
	r->retry_delay = RETRY_MIN;
	node_set_state(r->store->node, NODE_CONNECTING);
}

void
renewals_start(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			start_one(i);
}

/* ----------
 * Is the store there?
 * ----------
 */

/*
 * warn_of_eviction --- a store that may throw locks away
 */
static void
warn_of_eviction(const NodeStatus *status)
{
	if (strcmp(status->maxmemory_policy, warned_policy) == 0)
		return;
	strlcpy(warned_policy, status->maxmemory_policy, sizeof(warned_policy));
	if (warned_policy[0] == '\0' || strcmp(warned_policy, "noeviction") == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("the lock store at %s can evict locks", status->address),
			 errdetail("Its maxmemory-policy is \"%s\".", warned_policy),
			 errhint("Set it to \"noeviction\".")));
}

/*
 * warn_of_role --- a store that does not take locks
 */
static void
warn_of_role(const NodeStatus *status)
{
	if ((status->role == ROLE_REPLICA) == warned_replica)
		return;
	warned_replica = status->role == ROLE_REPLICA;
	if (warned_replica)
		ereport(WARNING,
				(errcode(ERRCODE_WARNING),
				 errmsg("the lock store at %s is a replica", status->address),
				 errdetail("It takes no locks."),
				 errhint("Let \"%s\" name the master.", "lockredis.url")));
}

/*
 * look_at_facts --- the store has said something of itself
 */
static void
look_at_facts(Renewals *r)
{
	NodeStatus	status;

	r->next_facts = lr_now() + FACTS_INTERVAL;
	(void) node_get_status(r->store->node, &status);
	warn_of_eviction(&status);
	warn_of_role(&status);
}

static int64
probe_interval(const Renewals *r)
{
	return Min(PROBE_INTERVAL, fallback_probe_interval(r->id));
}

static void
store_is_up(Renewals *r)
{
	NodeStatus	status;
	bool		was_down = r->state != NODE_UP;

	r->state = NODE_UP;
	r->retry_delay = RETRY_MIN;
	r->next_try = 0;
	r->next_probe = lr_now() + probe_interval(r);
	node_set_silent(r->store->node, false);
	fallback_answered(r->id, lr_now());
	if (!was_down)
		return;

	node_set_state(r->store->node, NODE_UP);
	(void) node_get_status(r->store->node, &status);
	ereport(LOG,
			(errmsg("lockredis: the lock store at %s is up", status.address)));
}

static void
store_is_down(Renewals *r)
{
	const StoreError *error = r->store->error(r->handle);

	r->next_try = lr_now() + Min(r->retry_delay, probe_interval(r));
	r->retry_delay = Min(r->retry_delay * 2, RETRY_MAX);
	fallback_failed(r->id);
	node_set_error(r->store->node, error->detail);
	if (r->state == NODE_DOWN)
		return;
	if (r->state == NODE_CONNECTING && error->address[0] != '\0')
		node_set_address(r->store->node, error->address);

	r->state = NODE_DOWN;
	node_set_state(r->store->node, NODE_DOWN);
	ereport(LOG,
			(errmsg("lockredis: the lock store is down"),
			 errdetail_internal("%s%s%s", error->address,
								error->address[0] ? ": " : "", error->detail)));
}

/* The node has said something, be it a refusal. */
static bool
was_answered(StoreOutcome outcome)
{
	return outcome != STORE_PENDING && outcome != STORE_DOWN &&
		outcome != STORE_UNKNOWN;
}

/* What only adds to what is there: a store that is full refuses it. */
static bool
is_of_move(const StoreOp *op)
{
	return op->kind == STORE_CREATE || op->kind == STORE_SET;
}

/*
 * is_usable --- does this reply leave the store one of locks?
 *
 * One that is loading answers TIME and refuses the rest: it is down.  That it
 * denies us the right to one key says nothing about others.
 */
static bool
is_usable(const StoreOp *op)
{
	if (is_of_move(op) || op->kind == STORE_FACTS || op->own_fault)
		return true;
	return op->outcome != STORE_REFUSED && op->outcome != STORE_DENIED;
}

/*
 * judge_facts --- has the store said something of itself?
 *
 * It does so when a connection is made, and when asked.  Who may not ask does
 * not ask again on this connection.
 */
static void
judge_facts(Renewals *r, bool new_connection)
{
	const StoreOp *last = &r->ops[r->nops - 1];

	if (!lr_store_can(r->id, STORE_HAS_FACTS))
		return;
	if (new_connection || (last->kind == STORE_FACTS && last->outcome == STORE_OK))
		look_at_facts(r);
	else if (last->kind == STORE_FACTS)
		r->next_facts = LR_NEVER;
}

/*
 * judge_store --- what the replies of a batch say about the store
 */
static void
judge_store(Renewals *r)
{
	bool		was_up = r->state == NODE_UP;
	bool		answered = true;
	bool		usable = r->ops[0].outcome == STORE_OK;
	uint32		epoch;
	int64		until;
	StoreInterest interest[STORE_MAX_INTERESTS];

	for (int i = 0; i < r->nops; i++)
	{
		const StoreOp *op = &r->ops[i];

		answered = answered && was_answered(op->outcome);
		usable = usable && is_usable(op) &&
			(i >= r->nheaders || op->outcome == STORE_OK);
	}
	if (answered)
		node_set_silent(r->store->node, false);
	if (r->nitems <= SMALL_BATCH && r->ops[0].outcome == STORE_OK)
		node_set_round_trip(r->store->node, lr_now() - r->ops[0].sent_at);
	if (!answered || !usable)
	{
		store_is_down(r);
		return;
	}
	store_is_up(r);

	/* Over a new connection it may be another one, or one without our data. */
	(void) r->store->interests(r->handle, interest, &until, &epoch);
	if (!was_up || epoch != r->connection_epoch)
		lt_renew_all_now(r->id);
	judge_facts(r, epoch != r->connection_epoch);
	r->connection_epoch = epoch;
}

/* ----------
 * A batch
 * ----------
 */

/*
 * retry_time --- when to try again what the store did not do
 */
static int64
retry_time(const Renewals *r)
{
	return Max(r->next_try, lr_now() + RETRY_MIN);
}

static bool
is_refused(const StoreOp *op)
{
	return op->own_fault &&
		(op->outcome == STORE_REFUSED || op->outcome == STORE_DENIED);
}

/*
 * note_refusal --- the store does other things, but not this
 */
static Refusal
note_refusal(Renewals *r, DueItem *item, const StoreOp *op)
{
	Refusal		refusal = lt_refused(item, op->alone);

	if (refusal.first && r->nrefused++ == 0)
		r->first_refused = item;
	return refusal;
}

/*
 * tell_of_refusals --- once for each lock, in one message for those of a batch
 */
static void
tell_of_refusals(Renewals *r)
{
	const StoreError *error = r->store->error(r->handle);
	const DueItem *item = r->first_refused;
	char	   *shown;

	if (r->nrefused == 0)
		return;
	node_set_error(r->store->node, error->detail);
	shown = lr_name_to_show(item->name, item->name_len);
	ereport(LOG,
			(item->action == DUE_RENEW ?
			 errmsg("lockredis: the lock store refuses to renew the lock \"%s\"", shown) :
			 item->action == DUE_GIVE_BACK ?
			 errmsg("lockredis: the lock store refuses to release the lock \"%s\"", shown) :
			 errmsg("lockredis: the lock store refuses to take over the lock \"%s\"", shown),
			 r->nrefused == 1 ? errdetail_internal("%s", error->detail) :
			 errdetail_plural("%s  So it does for %d other lock.",
							  "%s  So it does for %d other locks.",
							  r->nrefused - 1, error->detail, r->nrefused - 1),
			 error->hint ? errhint("%s", _(error->hint)) : 0));
	pfree(shown);
	r->nrefused = 0;
}

static void
apply_renewal(Renewals *r, DueItem *item, const StoreOp *op)
{
	if (is_refused(op))
	{
		lt_retry_at(item->hold, item->owner, r->id,
					note_refusal(r, item, op).again);
		return;
	}
	switch (op->outcome)
	{
		case STORE_OK:
			if (item->refused)
				lt_not_refused(item);
			lt_renewed(item->hold, item->owner, item->moves,
					   op->sent_at + item->lease_ms * LR_US_PER_MS);
			lr_count(STAT_RENEWALS);
			break;
		case STORE_GONE:
			lt_lose(item->hold, item->owner, r->id, item->moves,
					op->holder[0] != '\0' ? LOST_TAKEN : LOST_DELETED,
					op->holder);
			break;
		case STORE_WRONG_TYPE:
			lt_lose(item->hold, item->owner, r->id, item->moves, LOST_TAKEN,
					op->type_name);
			break;
		default:
			lt_retry_at(item->hold, item->owner, r->id, retry_time(r));
	}
}

/*
 * apply_give_back --- it is given back when a release has run after the last
 * create, or is refused and what there is has run out
 */
static void
apply_give_back(Renewals *r, DueItem *item, const StoreOp *op)
{
	const StoreOp *time = &r->ops[0];
	bool		ran = op->outcome == STORE_OK || op->outcome == STORE_GONE ||
		op->outcome == STORE_WRONG_TYPE;
	Refusal		refusal = {.over = true,.again = lr_now() + ORPHAN_REPEAT};

	if (is_refused(op))
		refusal = note_refusal(r, item, op);
	else if (!ran)
	{
		lt_retry_at(item->hold, item->owner, r->id, retry_time(r));
		return;
	}

	if (refusal.over &&
		(item->not_after == 0 ||
		 (time->outcome == STORE_OK && time->store_ms > item->not_after)))
	{
		if (!item->at_old_place || farewell_give_back(item))
			lt_given_back(item->hold, item->owner, r->id);
		else
			lt_retry_at(item->hold, item->owner, r->id, lr_now() + ORPHAN_REPEAT);
		return;
	}
	if (item->not_after != 0 && time->outcome == STORE_OK)
		lt_limit_orphan(item->hold, item->owner, r->id,
						time->store_ms + lr_call_budget() / LR_US_PER_MS);
	lt_retry_at(item->hold, item->owner, r->id, refusal.again);
}

/*
 * pending_create --- until when a create of this move, or one before it whose
 * reply was not read either, may still run
 */
static int64
pending_create(const Renewals *r, const DueItem *item, const StoreOp *create)
{
	const StoreOp *time = &r->ops[0];
	int64		not_after = item->not_after;

	if (not_after != 0 && time->outcome == STORE_OK)
		not_after = time->store_ms > not_after ? 0 :
			Min(not_after, time->store_ms + lr_call_budget() / LR_US_PER_MS);
	if (create->outcome == STORE_UNKNOWN)
		not_after = Max(not_after, create->not_after);
	return not_after;
}

/*
 * is_taken --- has somebody else the key, for whom ours must give way?
 *
 * A store that excludes others decides then.  In one that excludes only us it is
 * a program that knows nothing of the other store: the lock stays where it is,
 * for as long as that goes well.  And what an earlier owner of this server has
 * left is given back soon.
 */
static bool
is_taken(const Renewals *r, const StoreOp *set)
{
	if (lr_store_can(r->id, STORE_SERVER_ONLY))
		return false;
	if (set->outcome == STORE_WRONG_TYPE)
		return true;
	return set->outcome == STORE_GONE && set->holder[0] != '\0' &&
		strncmp(set->holder, lr_instance_uuid(), LR_UUID_LEN) != 0;
}

static void
apply_move(Renewals *r, DueItem *item, const StoreOp *create)
{
	const StoreOp *set = create + 1;
	int64		not_after = pending_create(r, item, create);

	if (set->outcome == STORE_OK)
	{
		if (item->refused)
			lt_not_refused(item);
		lt_moved(item, r->id, set->sent_at + item->lease_ms * LR_US_PER_MS,
				 not_after);
	}
	else if (is_taken(r, set))
		lt_lose_by_move(item, r->id,
						set->outcome == STORE_GONE ? set->holder : set->type_name,
						not_after);
	else if (is_refused(set) || is_refused(create))
		lt_not_moved(item, r->id, note_refusal(r, item, set).again, not_after);
	else
		lt_not_moved(item, r->id, retry_time(r), not_after);
}

static void
apply_batch(Renewals *r)
{
	judge_store(r);
	for (int i = 0; i < r->nitems; i++)
	{
		DueItem    *item = &r->items[i];
		const StoreOp *op = &r->ops[r->first_op[i]];

		switch (item->action)
		{
			case DUE_RENEW:
				apply_renewal(r, item, op);
				break;
			case DUE_GIVE_BACK:
				apply_give_back(r, item, op);
				break;
			case DUE_MOVE:
				apply_move(r, item, op);
				break;
			case DUE_NOTHING:
				break;
		}
	}
	tell_of_refusals(r);
	r->nitems = 0;
	r->under_way = false;
	r->next_look = 0;
}

static StoreOp *
add_op(Renewals *r, StoreOpKind kind)
{
	StoreOp    *op = &r->ops[r->nops++];

	memset(op, 0, sizeof(StoreOp));
	op->kind = kind;
	op->store = r->id;
	return op;
}

static void
add_item_op(Renewals *r, const DueItem *item, StoreOpKind kind)
{
	StoreOp    *op = add_op(r, kind);

	op->lock_kind = item->kind;
	op->name = item->name;
	op->name_len = item->name_len;
	op->owner = item->owner;
	op->count = item->count;
	op->lease_ms = item->lease_ms;
	op->keep_ms = item->keep_ms;
	op->alone = item->alone;
	if (is_of_move(op))
		op->lease_ms = Max(item->lease_ms, item->keep_ms);
}

static void
add_item(Renewals *r, int i)
{
	const DueItem *item = &r->items[i];

	r->first_op[i] = r->nops;
	switch (item->action)
	{
		case DUE_RENEW:
			add_item_op(r, item, STORE_RENEW);
			break;
		case DUE_MOVE:
			add_item_op(r, item, STORE_CREATE);
			add_item_op(r, item, STORE_SET);
			break;
		default:
			add_item_op(r, item, STORE_RELEASE);
	}
}

/*
 * wants_proof --- is it unknown whether the store would do our operations?
 *
 * It may be loading when a new connection is made.  And where one lock may be
 * refused, that must be told from that all are.
 */
static bool
wants_proof(const Renewals *r)
{
	if (r->state != NODE_UP || !r->store->connected(r->handle))
		return true;
	for (int i = 0; i < r->nitems; i++)
		if (r->items[i].alone || r->items[i].action == DUE_MOVE)
			return true;
	return false;
}

static bool
wants_facts(const Renewals *r)
{
	return lr_store_can(r->id, STORE_HAS_FACTS) && r->state == NODE_UP &&
		r->store->connected(r->handle) && lr_now() >= r->next_facts;
}

/*
 * start_batch --- send what was collected
 */
static void
start_batch(Renewals *r)
{
	r->nops = 0;
	add_op(r, STORE_TIME);
	if (wants_proof(r))
		add_op(r, STORE_PROBE);
	r->nheaders = r->nops;
	for (int i = 0; i < r->nitems; i++)
		add_item(r, i);
	if (wants_facts(r))
		add_op(r, STORE_FACTS);
	r->under_way = true;
	r->next_look = lr_now() + LOOK_INTERVAL;
	fallback_asked(r->id, lr_now());
	r->store->start(r->handle, r->ops, r->nops, lr_now() + lr_call_budget());
}

/*
 * wants_probe --- nothing is due, but the store is to be asked
 */
static bool
wants_probe(const Renewals *r, int64 now)
{
	return r->state != NODE_UP || node_is_silent(r->store->node) || now >= r->next_probe;
}

/*
 * look_after_connection --- an idle connection that dies is noticed at once
 */
static void
look_after_connection(Renewals *r)
{
	if (!r->store->connected(r->handle))
		return;
	(void) r->store->step(r->handle, STORE_NOWAIT);
	if (!r->store->connected(r->handle))
		r->next_probe = 0;
}

static void
step_one(Renewals *r)
{
	int64		now = lr_now();
	bool		more;

	if (!r->under_way)
		look_after_connection(r);
	else if (r->store->step(r->handle, STORE_NOWAIT))
		apply_batch(r);

	if (r->under_way || now < r->next_try)
	{
		/* Nothing can be sent now, but leases end all the same. */
		if (now >= r->next_look)
			(void) lt_collect_due(r->id, now, false,
								  Max(r->next_try, now + LOOK_INTERVAL),
								  NULL, 0, &more);
		if (r->under_way)
			r->next_look = now + LOOK_INTERVAL;
		return;
	}
	r->nitems = lt_collect_due(r->id, now, true, now + RETRY_MAX, r->items,
							   BATCH_MAX, &more);
	if (r->nitems == 0 && !wants_probe(r, now))
		return;
	start_batch(r);
	if (r->store->step(r->handle, STORE_NOWAIT))
		apply_batch(r);
}

void
renewals_step(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i))
			step_one(&renewals[i]);
	farewell_step();
}

/*
 * renewals_reconnect --- lockredis.url or the password has changed
 *
 * Replies to what is under way count for nothing: they would be of the old place.
 * The caller makes everything due.
 */
void
renewals_reconnect(StoreId store, bool place_changed)
{
	Renewals   *r = &renewals[store];

	if (place_changed && r->store->connected(r->handle))
	{
		Workplace	w = {r->handle, r->items, r->ops};

		farewell_begin(r->id, r->under_way, &w);
		use_workplace(r, &w);
	}
	r->store->disconnect(r->handle);
	r->nitems = 0;
	r->nrefused = 0;
	r->under_way = false;
	r->next_look = 0;
	r->state = NODE_CONNECTING;
	node_forget(r->store->node);
	r->retry_delay = RETRY_MIN;
	r->next_try = 0;
}

static int
interests_of(Renewals *r, StoreInterest *out, int64 *until, uint32 *epoch)
{
	int			n = r->store->interests(r->handle, out, until, epoch);

	if (r->under_way)
		*until = Min(*until, r->next_look);
	else
	{
		bool		steady = r->state == NODE_UP && !node_is_silent(r->store->node);

		*until = Min(*until, steady ? r->next_probe : r->next_try);
		*until = Min(*until, lt_next_due(r->id));
	}
	return n;
}

/*
 * renewals_interests --- of both stores; "epoch" changes if that of one does
 */
int
renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	int			n;

	n = farewell_interests(out, until, epoch);
	for (int i = 0; i < STORE_COUNT; i++)
	{
		int64		its_until;
		uint32		its_epoch;

		if (!lr_has_store(i))
			continue;
		n += interests_of(&renewals[i], out + n, &its_until, &its_epoch);
		*until = Min(*until, its_until);
		*epoch += its_epoch;
	}
	return n;
}

/*
 * renewals_idle --- STORE_BITs of the stores where something could be sent
 */
uint32
renewals_idle(void)
{
	uint32		idle = 0;

	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && !renewals[i].under_way)
			idle |= STORE_BIT(i);
	return idle;
}

/*
 * renewals_serves --- is there a connection to this node that serves us?
 */
bool
renewals_serves(NodeId node)
{
	for (int i = 0; i < STORE_COUNT; i++)
	{
		const Renewals *r = &renewals[i];

		if (lr_has_store(i) && r->store->node == node)
			return r->state == NODE_UP && !node_is_silent(node) &&
				r->store->connected(r->handle);
	}
	return false;
}
