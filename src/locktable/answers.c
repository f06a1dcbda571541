/*-------------------------------------------------------------------------
 *
 * answers.c
 *	  The lock table: what the stores answered the watchdog.
 *
 * Each answer counts only if the hold still is that owner's (lt_lock_owned), and
 * says something of a held one only if that has not been moved since the question.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/answers.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "locktable/watch.h"
#include "stats.h"
#include "store/stores.h"

/* ----------
 * Renewals, and what was given back
 * ----------
 */

/*
 * answer_raise_deadline --- a store has the lock until then; partition lock held
 *
 * Not after the present deadline: others may have gone on by then.  Returns
 * false if it had passed.
 */
static bool
answer_raise_deadline(LrIndex hold, int64 deadline)
{
	int64		current = lt_deadline(hold);

	if (current <= lr_now())
		return false;
	if (deadline > current)
		pg_atomic_write_u64(&lt_leases[hold].deadline, deadline);
	return true;
}

/*
 * answer_lacks_replicas --- the lock has come to want more replicas since it was asked
 * about, and would be longer than those have confirmed
 *
 * So it is asked about again.  What lengthens nothing counts as it is.
 */
static bool
answer_lacks_replicas(const DueItem *item, int64 deadline)
{
	return item->min_replicas < lt_min_replicas(&lt_holds[item->hold]) &&
		deadline > lt_deadline(item->hold);
}

/*
 * answer_note_repair --- those of several masters that were found not to have it get it
 *
 * Once; but one that has come back since it was asked about is asked again.
 */
static void
answer_note_repair(const DueItem *item)
{
	LrHold	   *h = &lt_holds[item->hold];

	if (h->repair_at == item->repair_at && h->repair_at != LR_NEVER)
		h->repair_at = 0;
}

/*
 * answer_note_renewal --- of a lock that is held where it was asked for
 *
 * A given lease is not renewed, but asked about when lockredis.url has changed or
 * another node is the master.
 */
static bool
answer_note_renewal(LrIndex hold, uint64 moves, int64 deadline, int64 watch_ms,
					WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];

	lt_note_answer(h, moves);
	if (!answer_raise_deadline(hold, lt_renew_lease_ms(h) > 0 ? deadline : 0))
	{
		lt_lose_locked(hold, h->store, LOST_EXPIRED, NULL, wakes);
		return false;
	}
	if (lt_renew_lease_ms(h) > 0)
		h->renewals++;
	lt_watch_from(h, lr_now(), watch_ms);
	lt_set_due_in_own(hold, lt_deadline(hold), wakes);
	return true;
}

/*
 * answer_set_due_again --- what was due is to be tried again then
 */
static void
answer_set_due_again(LrIndex hold, StoreId store, int64 at, WakeList *wakes)
{
	const LrHold *h = &lt_holds[hold];

	if (h->state == HOLD_HELD)
		lt_set_due(hold, store,
				   h->store == store ? lr_earlier(at, lt_deadline(hold)) : at, wakes);
	else if ((h->state == HOLD_ORPHAN || h->state == HOLD_LOST) &&
			 (h->traces & STORE_BIT(store)) != 0)
		lt_set_due(hold, store, at, wakes);
}

/*
 * lt_renewed --- a renewal was answered
 *
 * Of a lock that is handed over it counts for the next session, which sets the due
 * time when it runs.
 */
bool
lt_renewed(const DueItem *item, int64 deadline, int64 watch_ms)
{
	LrIndex		hold = item->hold;
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_owned(hold, item->owner);
	WakeList	wakes = WAKE_NOBODY;
	bool		same = lock != NULL && lt_moves(h) == item->moves;
	bool		longer = same &&
		(h->state == HOLD_HANDED || lt_renew_lease_ms(h) > 0);
	bool		counts = false;

	if (same)
		answer_note_repair(item);
	if (longer && answer_lacks_replicas(item, deadline))
		answer_set_due_again(hold, h->store, lr_now(), &wakes);
	else if (same && h->state == HOLD_HANDED)
	{
		lt_note_answer(h, item->moves);
		counts = answer_raise_deadline(hold, deadline);
	}
	else if (same && h->state == HOLD_HELD)
		counts = answer_note_renewal(hold, item->moves, deadline, watch_ms, &wakes);
	if (lock != NULL)
		lt_unlock(lock, &wakes);
	return counts;
}

/*
 * lt_retry_at --- what was collected did not come through
 */
void
lt_retry_at(LrIndex hold, uint64 owner, StoreId store, int64 at)
{
	LWLock	   *lock = lt_lock_owned(hold, owner);
	WakeList	wakes = WAKE_NOBODY;

	if (lock == NULL)
		return;
	answer_set_due_again(hold, store, at, &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * lt_given_back --- nothing of that owner remains in the store, and the place
 * where that was before has been seen to
 *
 * A lock that is held, in the other one, may be wanted here again.
 */
void
lt_given_back(LrIndex hold, uint64 owner, StoreId store)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_owned(hold, owner);
	WakeList	wakes = WAKE_NOBODY;

	if (lock == NULL)
		return;
	h->not_after[store] = 0;
	lt_note_place(h, store);
	lt_forget_trace(h, store);
	if (h->state == HOLD_HELD)
		lt_set_due_of_held(hold, &wakes);
	else if (h->state == HOLD_ORPHAN && h->traces == 0)
		lt_free_and_nudge(hold, &wakes);
	else if (h->state == HOLD_LOST && h->traces == 0)
	{
		lt_nothing_due(hold);
		lt_nudge_after(lt_key_of(hold), h->kind, &wakes);
	}
	lt_unlock(lock, &wakes);
}

/*
 * lt_limit_orphan --- a create of it cannot run later than "not_after"
 *
 * What its session thought of the store's clock may be wrong: a clock that
 * was ahead and has been set back must not keep the orphan until it gets
 * there again.  From now on it goes by the clock of the node that was asked; if it was by
 * another one's, that says nothing.
 */
void
lt_limit_orphan(const DueItem *item, StoreId store, int64 not_after)
{
	LrHold	   *h = &lt_holds[item->hold];
	LWLock	   *lock = lt_lock_owned(item->hold, item->owner);

	if (lock == NULL)
		return;
	if (item->not_after != NOT_AFTER_UNKNOWN)
		not_after = Min(h->not_after[store], not_after);
	h->not_after[store] = not_after;
	if (store == h->store && lr_store_can(store, STORE_HAS_PLACE))
		h->topology = (uint32) item->moves;
	LWLockRelease(lock);
}

void
lt_still_left(const DueItem *item, StoreId store, uint32 nodes, int64 at)
{
	LWLock	   *lock = lt_lock_owned(item->hold, item->owner);
	WakeList	wakes = WAKE_NOBODY;

	if (lock == NULL)
		return;
	lt_holds[item->hold].nodes = nodes;
	answer_set_due_again(item->hold, store, at, &wakes);
	lt_unlock(lock, &wakes);
}

/* ----------
 * A lock goes to another store
 * ----------
 */

/*
 * answer_lock_moving --- whatever became of the hold: what may be in that store
 *
 * The lock of its partition; NULL: there is no such hold any more.
 */
static LWLock *
answer_lock_moving(const DueItem *item, StoreId store, int64 not_after,
				   WakeList *wakes)
{
	LrHold	   *h = &lt_holds[item->hold];
	LWLock	   *lock = lt_lock_owned(item->hold, item->owner);

	if (lock == NULL)
		return NULL;
	if ((h->traces & STORE_BIT(store)) == 0)
	{
		LWLockRelease(lock);
		return NULL;
	}
	h->not_after[store] = not_after;
	if (h->state == HOLD_ORPHAN || h->state == HOLD_LOST)
		lt_set_due(item->hold, store, lr_now(), wakes);
	return lock;
}

/*
 * answer_may_move --- is it still held, where it was then?
 */
static bool
answer_may_move(const DueItem *item)
{
	const LrHold *h = &lt_holds[item->hold];

	return (h->state == HOLD_HELD || h->state == HOLD_HANDED) &&
		lt_moves(h) == item->moves;
}

/*
 * answer_move_hold --- the word of this store counts from now on; partition lock held
 *
 * While the request was under way the old store may have granted more than the
 * new one did: by a re-entry, or renewals while the reply was late.  The new
 * store would not keep that promise, so the lock stays where it is, and is
 * moved once more with what it has now.  Likewise if it wants more replicas by now.
 * A lease that was given ends when it ends.
 */
static void
answer_move_hold(const DueItem *item, StoreId store, int64 deadline, WakeList *wakes)
{
	LrIndex		hold = item->hold;
	LrHold	   *h = &lt_holds[hold];
	bool		renewed = lt_renew_lease_ms(h) > 0 || h->state == HOLD_HANDED;

	if (deadline < lt_deadline(hold) || answer_lacks_replicas(item, deadline))
	{
		answer_set_due_again(hold, store, lr_now(), wakes);
		return;
	}
	if (!answer_raise_deadline(hold, renewed ? deadline : 0))
	{
		if (h->state == HOLD_HELD)
			lt_lose_locked(hold, h->store, LOST_EXPIRED, NULL, wakes);
		return;
	}
	h->store = store;
	h->moves++;
	h->here_from = lt_here_since(store, lr_now());
	lr_count(STAT_MOVES);
	if (h->state == HOLD_HELD)
		lt_set_due_of_held(hold, wakes);
}

/*
 * lt_moved --- the store has the lock too
 *
 * What the old store has stays, for the watchdog to give back.  A hold whose
 * deadline has passed was lost before, and what came of this is given back.
 */
void
lt_moved(const DueItem *item, StoreId store, int64 deadline, int64 not_after)
{
	WakeList	wakes = WAKE_NOBODY;
	LWLock	   *lock = answer_lock_moving(item, store, not_after, &wakes);

	if (lock == NULL)
		return;
	if (answer_may_move(item))
		answer_move_hold(item, store, deadline, &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * lt_not_moved --- not yet, or it is not known
 */
void
lt_not_moved(const DueItem *item, StoreId store, int64 at, int64 not_after)
{
	WakeList	wakes = WAKE_NOBODY;
	LWLock	   *lock = answer_lock_moving(item, store, not_after, &wakes);

	if (lock == NULL)
		return;
	answer_set_due_again(item->hold, store, at, &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * lt_lose_by_move --- somebody else has the key there
 */
void
lt_lose_by_move(const DueItem *item, StoreId store, const char *taken_by,
				int64 not_after)
{
	WakeList	wakes = WAKE_NOBODY;
	LWLock	   *lock = answer_lock_moving(item, store, not_after, &wakes);

	if (lock == NULL)
		return;
	if (answer_may_move(item))
	{
		if (lt_holds[item->hold].state == HOLD_HELD)
			lt_lose_locked(item->hold, store, LOST_TAKEN, taken_by, &wakes);
		else
			lt_lose_handed(item->hold, store, &wakes);
	}
	lt_unlock(lock, &wakes);
}
