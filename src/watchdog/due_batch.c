/*-------------------------------------------------------------------------
 *
 * due_batch.c
 *	  What is due in a store, as one batch of operations; what the replies say about the
 *	  locks in it; and the releases at the place that lockredis.url named before.
 *
 * An orphan whose create may still be on its way is released repeatedly, until a
 * release has run after the last moment at which the create may run, both by the
 * store's own clock: TIME is sent before the releases, so a release in the same
 * batch runs later than the time that it returns.
 *
 * A lock that is held in the other store and has to move to this one is created
 * here with the same owner, and then set.  If the set succeeds, the lock is here: by
 * this create, by an earlier one whose reply was not read, or since it was here
 * before.
 *
 * Each reply is passed to the lock table, which ignores it if the hold does not have
 * the owner any more that it had when it was collected.
 *
 * When lockredis.url changes, the watchdog looks for each lock at the new place.  A
 * lock that is there (it is the same Redis under another name) is held as before.
 * Any other lock is lost, but its owner stays at the old place until the time to
 * live ends, as nobody releases it.  So what was lost or left behind is released
 * there, over the watchdog's former connection, as long as that lives and is needed,
 * and at most for a lease.  Each release is tried once: it is a courtesy to clients
 * that still use the old place.  So is a count that may have run there: it is repeated at
 * no other place.
 *
 * The replies to a batch that was under way are read, as the connection would be
 * useless otherwise, but do not count: they are from the old place, and everything
 * is requested again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/due_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/* TIME and PROBE; CREATE and SET of a move; FACTS */
#define MAX_HEADERS			2
#define MAX_ITEM_OPS		2
#define MAX_OPS				(MAX_HEADERS + MAX_ITEM_OPS * DUE_BATCH_MAX + 1)

/*
 * due_batch_make --- make an empty batch for a store, which lives as long as the process
 */
void
due_batch_make(DueBatch *b, StoreId store, const char *role)
{
	memset(b, 0, sizeof(DueBatch));
	b->id = store;
	b->store = lr_store(store);
	b->handle = b->store->open(role);
	b->items = MemoryContextAllocHuge(TopMemoryContext,
									  sizeof(DueItem) * DUE_BATCH_MAX);
	b->ops = MemoryContextAllocHuge(TopMemoryContext, sizeof(StoreOp) * MAX_OPS);
	b->first_op = MemoryContextAlloc(TopMemoryContext,
									 sizeof(int) * DUE_BATCH_MAX);
}

/*
 * add_item_op --- add an operation on the lock of an item
 *
 * A lock that moves keeps how long its key has to stay locked.  It is created as the
 * kind that it is once held, not as the kind by which it was acquired, which may use a
 * queue.
 */
static void
add_item_op(DueBatch *b, StoreOpKind kind, const DueItem *item)
{
	StoreOp    *op = &b->ops[b->nops++];

	*op = item->op;
	op->kind = kind;
	op->name = item->name;
	if (kind == STORE_RELEASE)
		op->args.wanted = item->nodes;
	if (due_op_adds(op))
		op->lease_ms = Max(op->lease_ms, op->keep_ms);
	if (kind == STORE_CREATE)
	{
		op->lock_kind = lr_kind(op->lock_kind)->held_as;
		op->min_replicas = 0;
	}
}

/*
 * add_item --- add the operations of one item
 */
static void
add_item(DueBatch *b, int i)
{
	const DueItem *item = &b->items[i];

	b->first_op[i] = b->nops;
	switch (item->action)
	{
		case DUE_RENEW:
			add_item_op(b, STORE_RENEW, item);
			break;
		case DUE_MOVE:
			add_item_op(b, STORE_CREATE, item);
			add_item_op(b, STORE_SET, item);
			break;
		case DUE_GIVE_BACK:
			add_item_op(b, STORE_RELEASE, item);
			break;
		case DUE_COUNT:
			add_item_op(b, STORE_TALLY, item);
			break;
		case DUE_DROP:
		case DUE_NOTHING:
			break;
	}
}

/* Add an operation that concerns no lock. */
static void
add_header_op(DueBatch *b, StoreOpKind kind)
{
	StoreOp    *op = &b->ops[b->nops++];

	memset(op, 0, sizeof(StoreOp));
	op->kind = kind;
	op->store = b->id;
}

/*
 * add_items --- add the operations of all items, by action and kind
 *
 * Only adjacent operations can share a command.  The items come in no order, since
 * holds of all kinds get whichever slots are free.
 */
static void
add_items(DueBatch *b)
{
	KindSet		kinds[DUE_DROP + 1] = {0};

	for (int i = 0; i < b->nitems; i++)
		kindset_add(&kinds[b->items[i].action], b->items[i].op.lock_kind);
	for (int action = 0; action <= DUE_DROP; action++)
		for (KindId kind = 0; kindset_next(kinds[action], &kind); kind++)
			for (int i = 0; i < b->nitems; i++)
				if (b->items[i].action == action && b->items[i].op.lock_kind == kind)
					add_item(b, i);
}

/*
 * needs_proof --- must the batch show whether the store refuses one lock or all?
 *
 * A release that is refused once need not: it is left for later, alone.
 */
static bool
needs_proof(const DueBatch *b)
{
	for (int i = 0; i < b->nitems; i++)
		if (b->items[i].action != DUE_GIVE_BACK || b->items[i].op.args.alone)
			return true;
	return false;
}

void
due_batch_fill(DueBatch *b, bool probe, bool facts)
{
	b->nops = 0;
	add_header_op(b, STORE_TIME);
	if (probe || needs_proof(b))
		add_header_op(b, STORE_PROBE);
	b->nheaders = b->nops;
	add_items(b);
	if (facts)
		add_header_op(b, STORE_FACTS);
}

/*
 * log_dropped --- log a count that will not be made, or that may have been made
 */
static void
log_dropped(const DueItem *item, const char *why)
{
	char	   *shown = lr_name_to_show(item->name, item->op.name_len);

	ereport(LOG,
			(errmsg("lockredis: gave up counting %lld for the %s \"%s\"",
					(long long) item->op.amount, lr_kind(item->op.lock_kind)->name, shown),
			 errdetail_internal("%s", why)));
	pfree(shown);
}

/* ----------
 * The place that lockredis.url named before
 * ----------
 */

/* Interval of checks whether anything is left at the old place. */
#define OLD_PLACE_INTERVAL	(500 * LR_US_PER_MS)

typedef struct Farewell
{
	DueBatch	batch;			/* its store is NULL: lockredis.url has never changed */
	bool		active;
	bool		under_way;
	int			nsent;			/* items that are under way; the rest is for the next
								 * batch */
	int64		until;
	int64		next_look;		/* next check whether anything is left */
} Farewell;

static Farewell farewell;

/*
 * farewell_drop --- an item was not released, or counted, at the old place, as far as we know
 *
 * Only the time to live ends a lock there; a count is nowhere else.
 */
static void
farewell_drop(const DueItem *item)
{
	if (item->action == DUE_DROP)
		log_dropped(item, "It may have been counted where \"lockredis.url\" pointed before.");
}

/*
 * farewell_end --- see watchdog.h
 */
void
farewell_end(void)
{
	DueBatch   *b = &farewell.batch;

	if (!farewell.active)
		return;
	b->store->disconnect(b->handle);
	for (int i = 0; i < b->nitems; i++)
		farewell_drop(&b->items[i]);
	b->nitems = farewell.nsent = 0;
	farewell.active = farewell.under_way = false;
}

/*
 * farewell_answered --- the batch has ended
 */
static void
farewell_answered(void)
{
	DueBatch   *b = &farewell.batch;

	for (int i = 0; i < farewell.nsent; i++)
		if (b->items[i].action != DUE_NOTHING && b->ops[i].outcome != STORE_OK)
			farewell_drop(&b->items[i]);
	b->nitems -= farewell.nsent;
	memmove(b->items, &b->items[farewell.nsent], sizeof(DueItem) * b->nitems);
	farewell.nsent = 0;
	farewell.under_way = false;
}

/*
 * farewell_begin --- see watchdog.h
 *
 * What was still to be released at an even earlier place is dropped.  The operations of a
 * batch that is under way still read the names in its items, so these stay until it ends.
 */
void
farewell_begin(DueBatch *b, bool under_way)
{
	DueBatch	old = *b;

	if (farewell.batch.store == NULL)
		due_batch_make(&farewell.batch, b->id, ROLE_JUDGE);
	farewell_end();
	*b = farewell.batch;
	farewell.batch = old;
	farewell.nsent = farewell.batch.nitems = under_way ? old.nitems : 0;
	for (int i = 0; i < farewell.nsent; i++)
		farewell.batch.items[i].action = DUE_NOTHING;
	old.store->stay(old.handle);
	farewell.active = true;
	farewell.under_way = under_way;
	farewell.until = lr_now() + lr_lease * LR_US_PER_MS;
	farewell.next_look = lr_now() + OLD_PLACE_INTERVAL;
}

/*
 * farewell_give_back --- release this at the old place; false if there is no room at present
 */
static bool
farewell_give_back(const DueItem *item)
{
	if (!farewell.active)
	{
		farewell_drop(item);
		return true;
	}
	if (farewell.batch.nitems == DUE_BATCH_MAX)
		return false;
	farewell.batch.items[farewell.batch.nitems++] = *item;
	return true;
}

/*
 * farewell_send --- send the releases
 */
static void
farewell_send(void)
{
	DueBatch   *b = &farewell.batch;

	b->nops = 0;
	for (int i = 0; i < b->nitems; i++)
		add_item_op(b, b->items[i].action == DUE_DROP ? STORE_TALLY : STORE_RELEASE,
					&b->items[i]);
	farewell.nsent = b->nitems;
	farewell.under_way = true;
	b->store->start(b->handle, b->ops, b->nops, lr_now() + lr_call_budget());
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
	if (!farewell.batch.store->connected(farewell.batch.handle) || now >= farewell.until)
		return true;
	if (farewell.batch.nitems > 0 || now < farewell.next_look)
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
	DueBatch   *b = &farewell.batch;

	if (!farewell.active)
		return;
	if (!farewell.under_way && b->nitems > 0 && lr_now() < farewell.until)
		farewell_send();
	if (b->store->step(b->handle, STORE_NOWAIT) && farewell.under_way)
		farewell_answered();
	if (farewell_is_over())
		farewell_end();
}

void
farewell_interests(StoreInterests *in)
{
	if (farewell.batch.store == NULL)
		return;
	farewell.batch.store->interests(farewell.batch.handle, in);
	if (farewell.active && !farewell.under_way)
		store_wait_until(in, farewell.batch.nitems > 0 ? 0 :
						 Min(farewell.next_look, farewell.until));
}

/* ----------
 * Replies
 * ----------
 */

/* Delay until an orphan is released again. */
#define ORPHAN_REPEAT		(100 * LR_US_PER_MS)

/* Likewise for what most nodes have released, at the others. */
#define LEFT_REPEAT			LR_US_PER_S

typedef struct Replies
{
	const DueBatch *batch;
	StoreId		store;
	int64		retry_at;		/* when to retry what the store did not do */

	/* Items that were refused for the first time. */
	int			nrefused;
	const DueItem *first_refused;
} Replies;

/* ----------
 * Refusals
 * ----------
 */

static bool
is_refused(const StoreOp *op)
{
	return op->answer.own_fault &&
		(op->outcome == STORE_REFUSED || op->outcome == STORE_DENIED);
}

/*
 * note_refusal --- the store refuses this item, though it does others
 */
static Refusal
note_refusal(Replies *r, const DueItem *item, const StoreOp *op)
{
	Refusal		refusal = lt_refused(item, op->args.alone);

	if (refusal.first && r->nrefused++ == 0)
		r->first_refused = item;
	return refusal;
}

/*
 * tell_of_refusals --- log new refusals of a batch, in one message
 */
static void
tell_of_refusals(const Replies *r)
{
	const DueBatch *b = r->batch;
	const StoreError *error = b->store->error(b->handle);
	const DueItem *item = r->first_refused;
	char	   *shown;

	if (r->nrefused == 0)
		return;
	node_set_error(b->store->node, "", error->detail);
	shown = lr_name_to_show(item->name, item->op.name_len);
	ereport(LOG,
			(item->action == DUE_RENEW ?
			 errmsg("lockredis: the lock store refuses to renew the lock \"%s\"", shown) :
			 item->action == DUE_GIVE_BACK ?
			 errmsg("lockredis: the lock store refuses to release the lock \"%s\"", shown) :
			 item->action == DUE_COUNT ?
			 errmsg("lockredis: the lock store refuses to count for \"%s\"", shown) :
			 errmsg("lockredis: the lock store refuses to take over the lock \"%s\"", shown),
			 r->nrefused == 1 ? errdetail_internal("%s", error->detail) :
			 errdetail_plural("%s  It refuses the same for %d other lock.",
							  "%s  It refuses the same for %d other locks.",
							  r->nrefused - 1, error->detail, r->nrefused - 1),
			 error->hint ? errhint("%s", _(error->hint)) : 0));
	pfree(shown);
}

/* ----------
 * Renewals
 * ----------
 */

/*
 * apply_renewal --- the lock was renewed, is lost, or is tried again
 */
static void
apply_renewal(Replies *r, const DueItem *item, const StoreOp *op)
{
	if (is_refused(op))
	{
		lt_retry_at(item->op.hold, item->op.owner, r->store,
					note_refusal(r, item, op).again);
		return;
	}
	switch (op->outcome)
	{
		case STORE_OK:
			if (lt_renewed(item, lr_lease_deadline(op->sent.at, item->op.lease_ms), op->answer.ttl_ms))
				lr_count(STAT_RENEWALS);
			if ((op->sent.nodes & ~item->nodes) != 0)
				lt_note_nodes(item->op.hold, op);
			break;
		case STORE_GONE:
		case STORE_WRONG_TYPE:
			lt_lose(item->op.hold, op);
			break;
		default:
			lt_retry_at(item->op.hold, item->op.owner, r->store, r->retry_at);
	}
}

/* ----------
 * Releases
 * ----------
 */

/* The store's clock (ms) after which no request sent until now can run. */
static int64
end_of_calls(const StoreOp *time)
{
	return time->answer.store_ms + lr_call_budget() / LR_US_PER_MS;
}

/*
 * apply_left --- most nodes have released the lock, some had not
 *
 * At those it expires in the end, whether they come back or not; the same goes for
 * nodes that lockredis.url does not name any more.
 */
static void
apply_left(Replies *r, const DueItem *item, const StoreOp *op, bool ran)
{
	int64		now = lr_now();
	uint32		nodes = ran ? item->nodes & op->sent.nodes : item->nodes;

	if (nodes == 0 || now >= item->ends_at || item->at_old_place)
		lt_given_back(item->op.hold, item->op.owner, r->store);
	else
		lt_still_left(item, r->store, nodes,
					  lr_earlier(Max(now + LEFT_REPEAT, r->retry_at), item->ends_at));
}

/*
 * apply_give_back --- an orphan was released, or is tried again
 *
 * It is gone when a release has run after the last possible create, or when a release
 * is refused and the lease is over.
 */
static void
apply_give_back(Replies *r, const DueItem *item, const StoreOp *op)
{
	const StoreOp *time = &r->batch->ops[0];
	bool		ran = op->outcome == STORE_OK || op->outcome == STORE_GONE ||
		op->outcome == STORE_WRONG_TYPE;
	Refusal		refusal = {.over = true,.again = lr_now() + ORPHAN_REPEAT};

	if (item->nodes != 0)
	{
		apply_left(r, item, op, ran);
		return;
	}
	if (is_refused(op))
		refusal = note_refusal(r, item, op);
	else if (!ran)
	{
		lt_retry_at(item->op.hold, item->op.owner, r->store, r->retry_at);
		return;
	}

	if (refusal.over &&
		(item->not_after == 0 ||
		 (time->outcome == STORE_OK && time->answer.store_ms > item->not_after)))
	{
		if (!item->at_old_place || farewell_give_back(item))
			lt_given_back(item->op.hold, item->op.owner, r->store);
		else
			lt_retry_at(item->op.hold, item->op.owner, r->store, lr_now() + ORPHAN_REPEAT);
		return;
	}
	if (item->not_after != 0 && time->outcome == STORE_OK)
		lt_limit_orphan(item, r->store, end_of_calls(time));
	lt_retry_at(item->op.hold, item->op.owner, r->store, refusal.again);
}

/* ----------
 * Counts
 * ----------
 */

/*
 * apply_count --- it was counted, cannot be, or is tried again
 *
 * While no request may have run, a later one cannot count twice.  If the answered request
 * was the only one that may run, nobody needs its ticket any more.
 */
static void
apply_count(Replies *r, const DueItem *item, const StoreOp *op)
{
	bool		refused = is_refused(op);
	Refusal		refusal = {.again = r->retry_at};

	if (op->outcome == STORE_OK || op->outcome == STORE_WRONG_TYPE)
	{
		if (op->outcome == STORE_WRONG_TYPE)
			log_dropped(item, "The key holds something else.");
		else if (!op->sent.again && r->batch->store->forget != NULL && lt_was_sent_once(item))
			r->batch->store->forget(r->batch->handle, op);
		lt_given_back(item->op.hold, item->op.owner, r->store);
		return;
	}
	if (op->outcome == STORE_DOWN || op->outcome == STORE_BLOCKED ||
		(refused && !op->sent.again))
		lt_not_counted(item);
	if (refused)
		refusal = note_refusal(r, item, op);
	if (refused && refusal.over)
	{
		log_dropped(item, "The lock store refuses it.");
		lt_given_back(item->op.hold, item->op.owner, r->store);
	}
	else
		lt_retry_at(item->op.hold, item->op.owner, r->store, refusal.again);
}

/*
 * apply_drop --- give up a count that may have been made
 *
 * To repeat it could count twice: the store does not know the ticket any more, or it is
 * another store now; then the request goes to the old one.
 */
static void
apply_drop(Replies *r, const DueItem *item)
{
	if (!item->at_old_place)
		log_dropped(item, "It may have been counted: the lock store does not remember that any more.");
	else if (!farewell_give_back(item))
	{
		lt_retry_at(item->op.hold, item->op.owner, r->store, lr_now() + ORPHAN_REPEAT);
		return;
	}
	lt_given_back(item->op.hold, item->op.owner, r->store);
}

/* ----------
 * Moves
 * ----------
 */

/*
 * pending_create --- until when a create of this move may still run, by the store's
 * clock
 *
 * That includes earlier ones whose reply was not read either; 0 if none can.
 */
static int64
pending_create(const Replies *r, const DueItem *item, const StoreOp *create)
{
	const StoreOp *time = &r->batch->ops[0];
	int64		not_after = item->not_after;

	if (not_after != 0 && time->outcome == STORE_OK)
		not_after = time->answer.store_ms > not_after ? 0 :
			Min(not_after, end_of_calls(time));
	if (create->outcome == STORE_UNKNOWN)
		not_after = Max(not_after, create->sent.not_after);
	return not_after;
}

/*
 * is_taken --- does another client hold the key, so that our lock must give way?
 *
 * That is so only in a store that excludes clients elsewhere.  In one that excludes
 * only this server, it is a row that has outlived its server, or that somebody has
 * changed: our lock stays in the other store for as long as it can.  What an earlier
 * owner of this server has left is no reason either: it will soon be released.
 */
static bool
is_taken(const Replies *r, const StoreOp *set)
{
	if (lr_store_can(r->store, STORE_SERVER_ONLY))
		return false;
	if (set->outcome == STORE_WRONG_TYPE)
		return true;
	return set->outcome == STORE_GONE && set->answer.holder[0] != '\0' &&
		strncmp(set->answer.holder, lr_instance_uuid(), LR_UUID_LEN) != 0;
}

/*
 * apply_move --- the lock is here now, is taken by another client, or is tried again
 */
static void
apply_move(Replies *r, const DueItem *item, const StoreOp *create)
{
	const StoreOp *set = create + 1;
	int64		not_after = pending_create(r, item, create);

	if (set->outcome == STORE_OK)
		lt_moved(item, r->store, lr_lease_deadline(set->sent.at, item->op.lease_ms),
				 not_after);
	else if (is_taken(r, set))
		lt_lose_by_move(item, r->store,
						set->outcome == STORE_GONE ? set->answer.holder : set->answer.type_name,
						not_after);
	else if (is_refused(set) || is_refused(create))
		lt_not_moved(item, r->store, note_refusal(r, item, set).again, not_after);
	else
		lt_not_moved(item, r->store, r->retry_at, not_after);
}

/*
 * replies_apply --- see watchdog.h
 */
void
replies_apply(const DueBatch *b, int64 retry_at)
{
	Replies		r = {.batch = b,.store = b->id,.retry_at = retry_at};

	for (int i = 0; i < b->nitems; i++)
	{
		const DueItem *item = &b->items[i];
		const StoreOp *op = &b->ops[b->first_op[i]];

		switch (item->action)
		{
			case DUE_RENEW:
				apply_renewal(&r, item, op);
				break;
			case DUE_GIVE_BACK:
				apply_give_back(&r, item, op);
				break;
			case DUE_MOVE:
				apply_move(&r, item, op);
				break;
			case DUE_COUNT:
				apply_count(&r, item, op);
				break;
			case DUE_DROP:
				apply_drop(&r, item);
				break;
			case DUE_NOTHING:
				break;
		}
	}
	tell_of_refusals(&r);
}
