/*-------------------------------------------------------------------------
 *
 * due.c
 *	  The lock table: what the watchdog has to do for holds that are due.
 *
 * In fallback mode a hold has a due time for each of the two stores, so that a store
 * that does not answer delays nothing in the other one.  A hold that is due in the store
 * that its lock is not in is moved there if new locks are taken there.  Else its owner
 * may still be in that store from before a move.  In a store that excludes this server
 * only it is released; in one that others see it stays until its lease ends, since that
 * store is away, and the lock is useful there if the store comes back.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/due.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"

/* A release is as urgent as the renewal of a lease that ends within that time. */
#define GIVE_BACK_WITHIN	(10 * LR_US_PER_S)

/*
 * due_is_to_look --- is it time to ask for what is left of it?
 */
static bool
due_is_to_look(const LrHold *h)
{
	return h->as.held.look_at != 0 && h->as.held.look_at <= lr_now();
}

/*
 * due_decide_here --- what to do for a lock that is held in this store
 *
 * It is renewed; or the store is asked whether it still has the lock, because
 * lockredis.url has changed, others may have shortened the lease, or some of several
 * masters may not have it.
 */
static DueAction
due_decide_here(LrIndex hold, bool connected, int64 again)
{
	LrHold	   *h = &lt_holds[hold];
	int64		deadline = lt_deadline(hold);
	bool		asked = lt_renew_lease_ms(h) > 0 || lt_is_to_be_asked(h) || due_is_to_look(h);

	if (!asked)
		lt_set_due(hold, h->claim.store, lt_due_of_held(h, deadline));
	else if (connected)
		lt_set_due(hold, h->claim.store, deadline);
	else
		lt_set_due(hold, h->claim.store, Min(again, deadline));
	return asked && connected ? DUE_RENEW : DUE_NOTHING;
}

/*
 * due_decide_elsewhere --- what to do for a lock that is held in the other store
 *
 * Before a move is sent, it is noted that this store may have the lock, so that the lock
 * is released here whatever becomes of the hold, of the reply and of this process.
 */
static DueAction
due_decide_elsewhere(LrIndex hold, StoreId store, bool connected, int64 again)
{
	LrHold	   *h = &lt_holds[hold];

	if (!lt_is_wanted_in(h, store) && !lt_is_left_in(h, store))
		return DUE_NOTHING;
	lt_set_due(hold, store, again);
	if (!connected)
		return DUE_NOTHING;
	if (!lt_is_wanted_in(h, store))
		return DUE_GIVE_BACK;
	lt_trace_of_move(h, store);
	return DUE_MOVE;
}

/*
 * due_decide --- what is to be done for a hold that is due; partition lock held
 *
 * The next due time is set first: the end of the lease, so that its expiry is noticed
 * in time whatever becomes of the renewal; or "again".  A lock that was handed to a session
 * which has not seen it yet is renewed, too: that session sets the due times when it runs,
 * but does not know that the hold was made due at once before.
 */
static DueAction
due_decide(LrIndex hold, StoreId store, int64 now, bool connected, int64 again)
{
	LrHold	   *h = &lt_holds[hold];

	if (h->state == HOLD_HELD && lt_deadline(hold) <= now)
		lt_lose_locked(hold, LOST_EXPIRED, NULL);

	if (h->state == HOLD_HELD && h->claim.store != store)
		return due_decide_elsewhere(hold, store, connected, again);
	if (h->state == HOLD_HELD ||
		(h->state == HOLD_HANDED && h->claim.store == store && lt_deadline(hold) > now))
		return due_decide_here(hold, connected, again);
	if (lt_is_left(h) && (h->traces & STORE_BIT(store)) != 0)
	{
		lt_set_due(hold, store, again);
		if (!connected)
			return DUE_NOTHING;
		if (h->given.owed)
			return lt_decide_owed(hold, store, now) ? DUE_COUNT : DUE_DROP;
		if (h->state == HOLD_ORPHAN)
			h->as.sent.repeated = true;
		return DUE_GIVE_BACK;
	}

	/* It is being handed over or released, and that sets the next due time, if any. */
	return DUE_NOTHING;
}

/*
 * due_is_due --- is it due, or is its renewal nearly due?
 *
 * Only a renewal at its regular time is sent early.  One that was postponed would be
 * collected and postponed again and again, and what is less urgent would never be sent.
 * A look at a lease that others may shorten is not early either, as "early" may be more
 * than the time between two looks; nor one because some masters may not have the lock.
 * Without the partition lock the answer is a guess.
 */
static bool
due_is_due(LrIndex hold, StoreId store, int64 due, int64 now)
{
	LrHold	   *h = &lt_holds[hold];
	int64		early = 0;

	if (due <= now)
		return true;
	if (due - LR_EARLY_MAX > now)
		return false;
	if (h->state == HOLD_HELD && h->claim.store == store && h->renewal.refusals == 0 &&
		due == lt_due_of_held(h, lt_deadline(hold)) && due != h->as.held.look_at)
		early = lr_early_renewal(lt_renew_lease_ms(h) * LR_US_PER_MS);
	return due - early <= now;
}

/*
 * due_fill_item --- copy what the request needs; partition lock held
 *
 * A move asks for all that the hold has: the lease that was asked for, or what is left
 * of one that is longer, and the time for which the key has to stay locked.
 */
static void
due_fill_item(LrIndex hold, StoreId store, int64 now, int64 not_after, DueItem *item)
{
	const LrHold *h = &lt_holds[hold];
	const LrKey *key = &lt_keys[h->key];
	StoreOp    *op = &item->op;

	item->not_after = not_after;
	item->at_old_place = lt_is_at_old_place(h, store);
	item->nodes = item->action == DUE_RENEW || h->state == HOLD_ORPHAN ? h->nodes : 0;
	item->ends_at = h->lasts;
	item->look_at = item->action == DUE_RENEW ? h->as.held.look_at : 0;
	memset(op, 0, sizeof(StoreOp));
	op->lock_kind = h->kind;
	op->store = store;
	op->moves = lt_moves(h);
	op->hold = hold;
	op->is_held = lt_is_held;
	op->owner = h->claim.owner;
	memcpy(op->id, h->given.id, STORE_ID_LEN);
	op->amount = h->given.amount;
	op->args.alone = h->renewal.alone;
	op->lease_ms = lt_renew_lease_ms(h);
	if (item->action == DUE_RENEW || item->action == DUE_MOVE)
		op->min_replicas = lt_min_replicas(h);
	if (item->action == DUE_RENEW)
		op->lease_ms = lr_later(op->lease_ms, lt_promised_ms(hold));
	if (item->action == DUE_RENEW && op->lease_ms == 0)
	{
		/*
		 * The question must not lengthen the lease, so it asks for a millisecond.  Where
		 * others may have shortened the lease, or some masters may not have the lock, it
		 * asks for what is left.
		 */
		op->lease_ms = due_is_to_look(h) ?
			lr_later((lt_deadline(hold) - now) / LR_US_PER_MS, 0) : 1;
		op->min_replicas = 0;
	}

	/* A lock that is held keeps the key locked with its last release only. */
	if (h->keep_until > now && item->action != DUE_RENEW &&
		(item->action == DUE_MOVE || h->state != HOLD_HELD))
		op->keep_ms = lr_ms_up(h->keep_until - now);
	if (item->action == DUE_MOVE)
		op->lease_ms = lr_later(op->lease_ms, lr_lease_to_keep(lt_deadline(hold) - now));
	op->name_len = key->name_len;
	memcpy(item->name, key->name, key->name_len);
}

/*
 * due_collect_one --- look at a hold that seemed due; false if there was nothing
 */
static bool
due_collect_one(LrIndex hold, StoreId store, int64 now, bool connected, int64 again,
				DueItem *item)
{
	item->action = DUE_NOTHING;
	if (!lt_lock_slot(hold))
		return false;
	if (due_is_due(hold, store, lt_read_due(hold, store), now))
	{
		int64		not_after = lt_pending_create(&lt_holds[hold], store);

		lt_take_due(hold, store);
		item->action = due_decide(hold, store, now, connected, again);
		due_fill_item(hold, store, now, not_after, item);
	}
	lt_unlock();
	return item->action != DUE_NOTHING;
}

/* A hold that seems due, and how urgent it is. */
typedef struct DueFound
{
	LrIndex		hold;
	int64		ends;			/* those that end first are sent first */
} DueFound;

/*
 * due_ends --- when the lease ends for which a hold is due
 *
 * Releases become more urgent with time, or they would never be sent where there are too
 * many renewals.  This decides only about the order, so the state is read without the
 * partition lock.
 */
static int64
due_ends(LrIndex hold, int64 due)
{
	return lt_is_had(&lt_holds[hold]) ? lt_deadline(hold) : due + GIVE_BACK_WITHIN;
}

static int
due_compare(const void *a, const void *b)
{
	int64		ends_a = ((const DueFound *) a)->ends;
	int64		ends_b = ((const DueFound *) b)->ends;

	return (ends_a > ends_b) - (ends_a < ends_b);
}

/*
 * due_keep_urgent --- keep the most urgent of those found, at most max; returns how many
 */
static int
due_keep_urgent(DueFound *found, int n, int max)
{
	if (n <= max)
		return n;
	qsort(found, n, sizeof(DueFound), due_compare);
	return max;
}

/*
 * due_find --- find the most urgent of what is due, or nearly due, at most max; returns how
 * many
 *
 * There is room for twice as many: so each sort decides about as many as are kept.
 */
static int
due_find(StoreId store, int64 now, DueFound *found, int max)
{
	int			nfound = 0;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		int64		due = lt_read_due(i, store);

		if (!due_is_due(i, store, due, now))
			continue;
		if (nfound == 2 * max)
			nfound = due_keep_urgent(found, nfound, max);
		found[nfound++] = (DueFound) {i, due_ends(i, due)};
	}
	return due_keep_urgent(found, nfound, max);
}

static void
due_postpone(StoreId store, int64 now, int64 again)
{
	DueItem		ignored;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (lt_read_due(i, store) <= now)
			(void) due_collect_one(i, store, now, false, again, &ignored);
}

/*
 * lt_collect_due --- see watch.h
 *
 * If something is due, what is nearly due goes along with it.  What a batch cannot take
 * stays due, for the next one.  Mostly nothing is due: then nothing is allocated.
 */
int
lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
			   DueItem *items, int max)
{
	DueFound   *found;
	int			nfound;
	int			n = 0;

	if (lt_next_due(store) > now)
		return 0;
	if (!connected)
	{
		due_postpone(store, now, again);
		return 0;
	}
	found = palloc(sizeof(DueFound) * 2 * max);
	nfound = due_find(store, now, found, max);
	for (int i = 0; i < nfound; i++)
		if (due_collect_one(found[i].hold, store, now, true, again, &items[n]))
			n++;
	pfree(found);
	return n;
}

int64
lt_renewal_lag(StoreId store)
{
	int64		lag = 0;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		const LrHold *h = &lt_holds[i];

		if (!lt_lock_slot(i))
			continue;
		if (h->state == HOLD_HELD && h->claim.store == store && lt_renew_lease_ms(h) > 0)
			lag = lr_later(lag, lr_now() - lt_due_of_held(h, lt_deadline(i)));
		lt_unlock();
	}
	return lag;
}
