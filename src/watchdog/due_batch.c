/*-------------------------------------------------------------------------
 *
 * due_batch.c
 *	  What is due in a store, as one batch of operations; and the releases at the place
 *	  that lockredis.url named before.
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
due_batch_make(DueBatch *b, StoreId store, const char *role, int part)
{
	memset(b, 0, sizeof(DueBatch));
	b->id = store;
	b->store = lr_store(store);
	b->handle = b->store->open(role, part);
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
		due_batch_make(&farewell.batch, b->id, ROLE_JUDGE, STORE_NO_PART);
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
 * farewell_has_room --- can one more be released at the old place, or nothing at all?
 */
static bool
farewell_has_room(void)
{
	return !farewell.active || farewell.batch.nitems < DUE_BATCH_MAX;
}

/*
 * farewell_give_back --- release this at the old place, or count it there
 */
static void
farewell_give_back(const DueItem *item)
{
	if (farewell.active)
		farewell.batch.items[farewell.batch.nitems++] = *item;
	else
		farewell_drop(item);
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

/*
 * tell_of_refusals --- log new refusals of a batch, in one message
 */
static void
tell_of_refusals(const DueBatch *b, const DueItem *item, int n)
{
	const StoreError *error = b->store->error(b->handle);
	char	   *shown;

	if (n == 0)
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
			 n == 1 ? errdetail_internal("%s", error->detail) :
			 errdetail_plural("%s  It refuses the same for %d other lock.",
							  "%s  It refuses the same for %d other locks.",
							  n - 1, error->detail, n - 1),
			 error->hint ? errhint("%s", _(error->hint)) : 0));
	pfree(shown);
}

/*
 * replies_apply --- see watchdog.h
 */
void
replies_apply(const DueBatch *b, int64 retry_at)
{
	const DueItem *first_refused = NULL;
	int			nrefused = 0;

	for (int i = 0; i < b->nitems; i++)
	{
		const DueItem *item = &b->items[i];
		const StoreOp *op = &b->ops[b->first_op[i]];
		DueResult	result = lt_answered(item, op, &b->ops[0], retry_at, farewell_has_room());

		if (result.is_farewell)
			farewell_give_back(item);
		if (result.dropped != NULL)
			log_dropped(item, result.dropped);
		if (result.forget)
			b->store->forget(b->handle, op);
		if (result.refused && nrefused++ == 0)
			first_refused = item;
	}
	tell_of_refusals(b, first_refused, nrefused);
}

/*
 * due_put_off --- see watchdog.h
 */
void
due_put_off(const DueItem *item, int64 at)
{
	static const StoreOp not_sent[MAX_ITEM_OPS] = {
		{.outcome = STORE_DOWN}, {.outcome = STORE_DOWN}
	};

	if (item->action != DUE_DROP)
		(void) lt_answered(item, not_sent, not_sent, at, false);
}
