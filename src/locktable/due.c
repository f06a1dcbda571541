/*-------------------------------------------------------------------------
 *
 * due.c
 *	  The lock table: what the watchdog has to do for holds that are due.
 *
 * In fallback mode each of the two stores has due times of its own, so that one
 * that is away holds up nothing in the other.  What is due in the store that a lock
 * is not in: to move it there, if new locks go there; or else to take away what it
 * has left there, if that store excludes this server only.  What it has left where
 * others see it stays until it runs out: that store is away, and if it comes back it
 * is good to have.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/due.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/pg_bitutils.h"

#include "lease.h"
#include "locktable/check.h"
#include "locktable/locktable_int.h"
#include "locktable/rows.h"
#include "locktable/watch.h"

/* What has no lease to lose comes after renewals that have less time left. */
#define GIVE_BACK_WITHIN	(10 * LR_US_PER_S)

/* See due_urgency(). */
#define URGENCY_CLASSES		256

/*
 * due_is_to_repair --- some of several masters may not have it
 */
static bool
due_is_to_repair(const LrHold *h)
{
	return h->repair_at != 0 && h->repair_at <= lr_now();
}

/*
 * due_decide_here --- of a lock that is held in this store
 *
 * It is renewed, or asked about because lockredis.url has changed, or because others
 * may have shortened its lease, or some of several masters do not have it.
 */
static DueAction
due_decide_here(LrIndex hold, bool connected, int64 again, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	int64		deadline = lt_deadline(hold);
	bool		asked = lt_renew_lease_ms(h) > 0 || lt_is_to_be_asked(h) ||
		h->watch_at != 0 || due_is_to_repair(h);

	if (!asked)
		lt_set_due(hold, h->store, lt_due_of_held(h, deadline), wakes);
	else if (connected)
		lt_set_due(hold, h->store, deadline, wakes);
	else
		lt_set_due(hold, h->store, Min(again, deadline), wakes);
	return asked && connected ? DUE_RENEW : DUE_NOTHING;
}

/*
 * due_decide_elsewhere --- of a lock that is held in the other store
 *
 * That something of it may be here is noted before it is sent, so that it is
 * given back whatever becomes of the hold, of the reply and of this process.
 */
static DueAction
due_decide_elsewhere(LrIndex hold, StoreId store, bool connected, int64 again,
					 WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];

	if (!lt_is_wanted_in(h, store) && !lt_is_left_in(h, store))
	{
		lt_set_never_due(hold, store);
		return DUE_NOTHING;
	}
	lt_set_due(hold, store, again, wakes);
	if (!connected)
		return DUE_NOTHING;
	if (!lt_is_wanted_in(h, store))
		return DUE_GIVE_BACK;
	lt_trace_of_move(h, store);
	return DUE_MOVE;
}

/*
 * due_is_handed_here --- on its way to its next session, which sets the due times
 * when it runs, but does not know of a look that was forced before
 */
static bool
due_is_handed_here(LrIndex hold, StoreId store, int64 now)
{
	return lt_holds[hold].state == HOLD_HANDED && lt_holds[hold].store == store &&
		lt_deadline(hold) > now;
}

/*
 * due_decide --- what is to be done for a hold that is due; partition lock held
 *
 * Its next due time is set first: the end of its lease, so that an expiry is
 * seen on time whatever becomes of the renewal, or "again".
 */
static DueAction
due_decide(LrIndex hold, StoreId store, int64 now, bool connected, int64 again,
		   WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];

	if (h->state == HOLD_HELD && lt_deadline(hold) <= now)
		lt_lose_locked(hold, h->store, LOST_EXPIRED, NULL, wakes);

	if (h->state == HOLD_HELD)
		return h->store == store ? due_decide_here(hold, connected, again, wakes) :
			due_decide_elsewhere(hold, store, connected, again, wakes);
	if (due_is_handed_here(hold, store, now))
		return due_decide_here(hold, connected, again, wakes);
	if ((h->state == HOLD_ORPHAN || h->state == HOLD_LOST) &&
		(h->traces & STORE_BIT(store)) != 0)
	{
		lt_set_due(hold, store, again, wakes);
		if (!connected)
			return DUE_NOTHING;
		h->repeated = true;
		if (!h->counts)
			return DUE_GIVE_BACK;
		return lt_decide_owed(hold, store, now) ? DUE_COUNT : DUE_DROP;
	}

	/* It is passing on or being released: that sets the next due time, if any. */
	lt_set_never_due(hold, store);
	return DUE_NOTHING;
}

/*
 * due_is_due --- or, of a renewal, nearly so?
 *
 * Only when that is due at its ordinary time: one that was put off would be collected,
 * and put off, again and again, and what is less urgent would not get its turn.  Nor
 * when it is looked at because others may shorten its lease: what is early for that is
 * more than the time between two looks may be; or because some masters do not have it.
 * Without the partition lock it is a guess.
 */
static bool
due_is_due(LrIndex hold, StoreId store, int64 now)
{
	LrHold	   *h = &lt_holds[hold];
	int64		due = lt_read_due(hold, store);
	int64		early = 0;

	if (due <= now)
		return true;
	if (due - LR_EARLY_MAX > now)
		return false;
	if (h->state == HOLD_HELD && h->store == store && h->refusals == 0 &&
		due == lt_due_of_held(h, lt_deadline(hold)) && due != h->watch_at &&
		due != h->repair_at)
		early = lr_early_renewal(lt_renew_lease_ms(h) * LR_US_PER_MS);
	return due - early <= now;
}

/*
 * due_fill_item --- what is to be done, and what it takes; partition lock held
 *
 * A move asks for all that the hold believes to have: a lease that was given,
 * what is left of one, and the time for which the key has to stay locked.
 */
static void
due_fill_item(LrIndex hold, StoreId store, int64 now, int64 not_after, DueItem *item)
{
	const LrHold *h = &lt_holds[hold];
	const LrKey *key = &lt_keys[h->key];

	item->hold = hold;
	item->kind = h->kind;
	item->owner = h->owner;
	memcpy(item->id, h->id, STORE_ID_LEN);
	item->amount = h->amount;
	item->moves = lt_moves(h);
	item->not_after = not_after;
	item->at_old_place = lt_is_at_old_place(h, store);
	item->nodes = item->action == DUE_RENEW || h->left ? h->nodes : 0;
	item->ends_at = h->left ? h->ends_at : 0;
	item->lease_ms = lt_renew_lease_ms(h);
	item->min_replicas = lt_min_replicas(h);
	item->repair_at = h->repair_at;
	if (item->action == DUE_RENEW)
		item->lease_ms = lr_later(item->lease_ms, lt_promised_ms(hold));
	if (item->action == DUE_RENEW && item->lease_ms == 0)
	{
		/*
		 * To ask changes nothing; at the very end it must not either.  What others may
		 * have shortened, or some do not have, is asked for up to its end.
		 */
		item->lease_ms = h->watch_at != 0 || due_is_to_repair(h) ?
			lr_later((lt_deadline(hold) - now) / LR_US_PER_MS, 0) : 1;
		item->min_replicas = 0;
	}
	item->keep_ms = h->keep_until > now ?
		lr_ms_up(h->keep_until - now) : 0;
	if (item->action == DUE_GIVE_BACK && h->state == HOLD_HELD)
		item->keep_ms = 0;		/* only its last release keeps the key locked */
	if (item->action == DUE_MOVE)
	{
		int64		left = lt_deadline(hold) - now;

		item->lease_ms = Max(item->lease_ms, lr_ms_up(left));
	}
	item->refused = h->refusals > 0;
	item->alone = h->alone;
	item->name_len = key->name_len;
	memcpy(item->name, key->name, key->name_len);
}

/*
 * due_collect_one --- look at a hold that seemed due; false if there was nothing
 */
static bool
due_collect_one(LrIndex hold, StoreId store, int64 now, bool connected, int64 again,
				DueItem *item)
{
	LrHold	   *h = &lt_holds[hold];
	uint64		owner = pg_atomic_read_u64(&lt_leases[hold].owner);
	uint32		hash = h->hash;
	LWLock	   *lock;
	WakeList	wakes = WAKE_NOBODY;

	item->action = DUE_NOTHING;
	if (owner == 0)
		return false;

	lock = lt_partition(hash);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner &&
		pg_atomic_read_u64(&lt_leases[hold].owner) == owner &&
		due_is_due(hold, store, now))
	{
		int64		not_after = lt_pending_create(h, store);

		lt_take_due(hold, store);
		item->action = due_decide(hold, store, now, connected, again, &wakes);
		due_fill_item(hold, store, now, not_after, item);
	}
	lt_check_change(lock);
	LWLockRelease(lock);

	/* The caller is the watchdog itself, and awake. */
	wakes.watchdog = false;
	lt_wake(&wakes);
	return item->action != DUE_NOTHING;
}

/*
 * due_urgency --- of what is due: how soon a lease ends without it; 0 is the first
 *
 * Four classes an octave, so that two of the same class differ by less than a
 * quarter of what is left.  What is given back grows urgent too, or it would
 * never go out where renewals alone are too many.  This only tells what comes
 * first, so a look at the state without the lock will do.
 */
static int
due_urgency(LrIndex hold, StoreId store, int64 now)
{
	HoldState	state = lt_holds[hold].state;
	int64		ends = state == HOLD_HELD || state == HOLD_HANDED ?
		lt_deadline(hold) :
		lt_read_due(hold, store) + GIVE_BACK_WITHIN;
	uint64		left = ends <= now ? 0 : (uint64) (ends - now);
	int			top;

	if (left < 4)
		return (int) left;
	top = pg_leftmost_one_pos64(left);
	return (top - 1) * 4 + (int) ((left >> (top - 2)) & 3);
}

/* What goes into a batch. */
typedef struct DueChoice
{
	int64		horizon;		/* what is due later does not */
	int			last_class;		/* of urgency; what is less urgent does not */
	int			room;			/* for so many of that class */
} DueChoice;

/*
 * due_count_classes --- how many are due, of each class of urgency; returns the sum
 */
static int
due_count_classes(StoreId store, int64 now, int64 horizon, int *counts)
{
	int			n = 0;

	for (int b = 0, nblocks = lt_used_blocks(); b < nblocks; b++)
	{
		LrIndex		first = b * DUE_BLOCK;
		LrIndex		last = Min(first + DUE_BLOCK, lt_table->max_locks);

		if (lt_read_time(&lt_block_due[store][b]) > horizon)
			continue;
		for (LrIndex i = first; i < last; i++)
			if (pg_atomic_read_u64(&lt_leases[i].owner) != 0 && due_is_due(i, store, now))
			{
				counts[due_urgency(i, store, now)]++;
				n++;
			}
	}
	return n;
}

/*
 * due_choose --- all that is due; or the most urgent, if that is more than a batch can
 * take
 */
static void
due_choose(StoreId store, int64 now, bool connected, int max, DueChoice *choice)
{
	int			counts[URGENCY_CLASSES] = {0};
	int			class = 0;

	choice->horizon = now;
	choice->last_class = URGENCY_CLASSES;
	choice->room = 0;
	if (!connected || lt_next_due(store) > now)
		return;
	choice->horizon += LR_EARLY_MAX;
	if (due_count_classes(store, now, choice->horizon, counts) <= max)
		return;
	for (choice->room = max; class < URGENCY_CLASSES; class++)
	{
		if (counts[class] > choice->room)
			break;
		choice->room -= counts[class];
	}
	choice->last_class = class;
}

static bool
due_is_chosen(LrIndex hold, StoreId store, int64 now, DueChoice *choice)
{
	int			class;

	if (choice->last_class == URGENCY_CLASSES)
		return true;
	if (!due_is_due(hold, store, now))
		return false;
	class = due_urgency(hold, store, now);
	if (class == choice->last_class)
		return choice->room-- > 0;
	return class < choice->last_class;
}

int
lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
			   DueItem *items, int max, bool *more)
{
	int			n = 0;
	DueItem		ignored;
	DueChoice	choice;

	*more = false;
	due_choose(store, now, connected, max, &choice);
	for (int b = 0, nblocks = lt_used_blocks(); b < nblocks; b++)
	{
		int			first = b * DUE_BLOCK;
		int			last = Min(first + DUE_BLOCK, lt_table->max_locks);
		int64		bound = LR_NEVER;

		/* The rest is left for the next batch, as it is. */
		if (connected && n == max)
		{
			*more = *more || lt_next_due(store) <= now;
			break;
		}
		if (lt_read_time(&lt_block_due[store][b]) > choice.horizon)
			continue;
		pg_atomic_exchange_u64(&lt_block_due[store][b], (uint64) LR_NEVER);

		for (LrIndex i = first; i < last; i++)
		{
			int64		due = lt_read_due(i, store);

			/* Whoever gives it an owner sets its due time after that. */
			if (pg_atomic_read_u64(&lt_leases[i].owner) == 0)
				continue;
			if (due <= now && !connected)
				due_collect_one(i, store, now, false, again, &ignored);
			else if (due <= choice.horizon && n < max &&
					 due_is_chosen(i, store, now, &choice))
			{
				if (due_collect_one(i, store, now, true, again, &items[n]))
					n++;
				else if (pg_atomic_read_u64(&lt_leases[i].owner) != 0)
				{
					/* Read once: Min() would take a later value than it judged. */
					due = lt_read_due(i, store);
					bound = Min(bound, due);
				}
			}
			else
			{
				bound = Min(bound, due);
				*more = *more || due <= now;
			}
		}
		lt_lower_bound(&lt_block_due[store][b], bound);
	}
	return n;
}

int64
lt_renewal_lag(StoreId store)
{
	int64		lag = 0;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		LrHold	   *h = &lt_holds[i];
		uint32		hash = h->hash;
		LWLock	   *lock;

		if (pg_atomic_read_u64(&lt_leases[i].owner) == 0)
			continue;
		lock = lt_partition(hash);
		LWLockAcquire(lock, LW_SHARED);
		if (h->hash == hash && h->state == HOLD_HELD && h->store == store &&
			lt_renew_lease_ms(h) > 0)
			lag = lr_later(lag, lr_now() - lt_due_of_held(h, lt_deadline(i)));
		LWLockRelease(lock);
	}
	return lag;
}
