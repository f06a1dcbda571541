/*-------------------------------------------------------------------------
 *
 * answers.c
 *	  The lock table: the stores' answers to the watchdog.
 *
 * An answer counts only if the hold still has the same owner (lt_lock_owned).  For a
 * hold that is held, the answer counts only if it has not moved since the request.
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
#include "settings.h"
#include "stats.h"

/* ----------
 * Renewals and releases
 * ----------
 */

/*
 * answer_lacks_replicas --- has the hold come to require more replicas than the request
 * did, and would the answer raise its deadline?
 *
 * Then the request is repeated.  An answer that does not raise the deadline counts.
 */
static bool
answer_lacks_replicas(const DueItem *item, int64 deadline)
{
	return item->op.min_replicas < lt_min_replicas(&lt_holds[item->op.hold]) &&
		deadline > lt_deadline(item->op.hold);
}

/*
 * answer_note_renewal --- the store in which the lock is held has confirmed it
 *
 * If no scope wants the lease renewed, the request asked for no more than is left of the
 * lease (due_fill_item), and the deadline stays.
 */
static bool
answer_note_renewal(LrIndex hold, uint64 moves, int64 deadline, int64 watch_ms)
{
	LrHold	   *h = &lt_holds[hold];

	lt_note_answer(h, moves);
	if (!lt_raise_locked(hold, lt_renew_lease_ms(h) > 0 ? deadline : 0))
	{
		lt_lose_locked(hold, LOST_EXPIRED, NULL);
		return false;
	}
	if (lt_renew_lease_ms(h) > 0)
		h->renewal.n++;
	lt_watch_from(h, lr_now(), watch_ms);
	lt_set_due_in_own(hold);
	return true;
}

/*
 * answer_set_due_again --- make the hold due in that store at "at"
 */
static void
answer_set_due_again(LrIndex hold, StoreId store, int64 at)
{
	const LrHold *h = &lt_holds[hold];

	if (h->state == HOLD_HELD)
		lt_set_due(hold, store,
				   h->claim.store == store ? lr_earlier(at, lt_deadline(hold)) : at);
	else if (lt_is_left(h) && (h->traces & STORE_BIT(store)) != 0)
		lt_set_due(hold, store, at);
}

/*
 * answer_accepted --- the store has accepted a request for the hold, which shares requests
 * with others again
 */
static void
answer_accepted(LrHold *h)
{
	h->renewal.refusals = 0;
	h->renewal.alone = false;
}

/*
 * lt_renewed --- a renewal was answered
 *
 * If the lock is being handed over, the renewal counts for the next session, which
 * sets the due time when it runs.
 */
bool
lt_renewed(const DueItem *item, int64 deadline, int64 watch_ms)
{
	LrIndex		hold = item->op.hold;
	LrHold	   *h = &lt_holds[hold];
	bool		same;
	bool		longer;
	bool		counts = false;

	if (!lt_lock_owned(hold, item->op.owner))
		return false;
	same = lt_moves(h) == item->op.moves;
	longer = same && (h->state == HOLD_HANDED || lt_renew_lease_ms(h) > 0);
	answer_accepted(h);

	/*
	 * The renewal also went to those of several masters that did not have the lock: that is
	 * tried once.  If one has come back since the item was collected, look_at is another.
	 */
	if (same && lt_is_had(h) && h->as.held.look_at == item->look_at &&
		item->look_at != LR_NEVER)
		h->as.held.look_at = 0;
	if (longer && answer_lacks_replicas(item, deadline))
		answer_set_due_again(hold, h->claim.store, lr_now());
	else if (same && h->state == HOLD_HANDED)
	{
		lt_note_answer(h, item->op.moves);
		counts = lt_raise_locked(hold, deadline);
	}
	else if (same && h->state == HOLD_HELD)
		counts = answer_note_renewal(hold, item->op.moves, deadline, watch_ms);
	else if (h->state == HOLD_LOST)
		lt_lost_is_there(hold);
	lt_unlock();
	return counts;
}

/*
 * lt_retry_at --- the request for a collected hold has failed
 */
void
lt_retry_at(LrIndex hold, uint64 owner, StoreId store, int64 at)
{
	if (!lt_lock_owned(hold, owner))
		return;
	answer_set_due_again(hold, store, at);
	lt_unlock();
}

/*
 * lt_given_back --- nothing of that owner remains in the store, and the watchdog has
 * dealt with the place where lockredis.url pointed before
 *
 * If the lock is held in the other store, it may have to move here by now.
 */
void
lt_given_back(LrIndex hold, uint64 owner, StoreId store)
{
	LrHold	   *h = &lt_holds[hold];

	if (!lt_lock_owned(hold, owner))
		return;
	lt_set_not_after(h, store, 0);
	lt_note_place(h, store);
	lt_forget_trace(h, store);
	if (h->state == HOLD_HELD)
		lt_set_due_of_held(hold);
	else if (h->state == HOLD_ORPHAN && h->traces == 0)
		lt_free_and_nudge(hold);
	else if (h->state == HOLD_LOST && h->traces == 0)
	{
		lt_nothing_due(hold);
		lt_nudge_after(lt_key_of(hold), h->kind);
	}
	lt_unlock();
}

/*
 * lt_limit_orphan --- a create of an orphan cannot run later than "not_after"
 *
 * The session may have gone by a wrong clock of the store: if that clock was ahead and
 * has been set back, the orphan must not stay until the clock gets there again.  The
 * time that was noted before is ignored if it may be by the clock of another node
 * (NOT_AFTER_UNKNOWN).  From now on the orphan goes by the node that was asked.
 */
void
lt_limit_orphan(const DueItem *item, StoreId store, int64 not_after)
{
	LrHold	   *h = &lt_holds[item->op.hold];

	if (!lt_lock_owned(item->op.hold, item->op.owner))
		return;
	if (item->not_after != NOT_AFTER_UNKNOWN)
		not_after = Min(h->not_after, not_after);
	lt_set_not_after(h, store, not_after);
	if (store == h->claim.store && lr_store_can(store, STORE_HAS_PLACE))
		h->claim.topology = (uint32) item->op.moves;
	lt_unlock();
}

void
lt_still_left(const DueItem *item, StoreId store, uint32 nodes, int64 at)
{
	if (!lt_lock_owned(item->op.hold, item->op.owner))
		return;
	lt_holds[item->op.hold].nodes = nodes;
	answer_set_due_again(item->op.hold, store, at);
	lt_unlock();
}

/* ----------
 * A lock moves to another store
 * ----------
 */

/*
 * answer_lock_moving --- note until when the create of a move may run in that store,
 * whatever has become of the hold
 *
 * The partition is locked then.  False: the owner is gone, or has no trace in the store any
 * more.
 */
static bool
answer_lock_moving(const DueItem *item, StoreId store, int64 not_after)
{
	LrHold	   *h = &lt_holds[item->op.hold];

	if (!lt_lock_owned(item->op.hold, item->op.owner))
		return false;
	if ((h->traces & STORE_BIT(store)) == 0)
	{
		lt_unlock();
		return false;
	}
	lt_set_not_after(h, store, not_after);
	if (lt_is_left(h))
		lt_set_due(item->op.hold, store, lr_now());
	return true;
}

/*
 * answer_may_move --- is the lock still held in the same store?
 */
static bool
answer_may_move(const DueItem *item)
{
	const LrHold *h = &lt_holds[item->op.hold];

	return lt_is_had(h) && lt_moves(h) == item->op.moves;
}

/*
 * answer_move_hold --- from now on the lock is in this store; partition lock held
 *
 * While the request was under way, the old store may have granted a longer lease than
 * the new one did: for a re-entry, or for renewals while the reply was late.  Then the
 * lock stays where it is, and the move is repeated with its present lease.  Likewise if
 * the lock requires more replicas by now.  The deadline of a lease that is not renewed
 * stays as it is.
 */
static void
answer_move_hold(const DueItem *item, StoreId store, int64 deadline)
{
	LrIndex		hold = item->op.hold;
	LrHold	   *h = &lt_holds[hold];
	bool		renewed = lt_renew_lease_ms(h) > 0 || h->state == HOLD_HANDED;

	if (deadline < lt_deadline(hold) || answer_lacks_replicas(item, deadline))
	{
		answer_set_due_again(hold, store, lr_now());
		return;
	}
	if (!lt_raise_locked(hold, renewed ? deadline : 0))
	{
		if (h->state == HOLD_HELD)
			lt_lose_locked(hold, LOST_EXPIRED, NULL);
		return;
	}
	h->claim.store = store;
	h->claim.moves++;
	h->as.held.here_from = lt_here_since(store, lr_now());
	h->as.held.reserve.left = 0;
	lr_count(STAT_MOVES);
	if (h->state == HOLD_HELD)
		lt_set_due_of_held(hold);
}

/*
 * lt_moved --- the store has the lock, too
 *
 * The trace of the lock in the old store stays, so that the watchdog releases it there.
 * If the deadline has passed, the lock is lost, and the watchdog releases what the move
 * has created.
 */
void
lt_moved(const DueItem *item, StoreId store, int64 deadline, int64 not_after)
{
	if (!answer_lock_moving(item, store, not_after))
		return;
	answer_accepted(&lt_holds[item->op.hold]);
	if (answer_may_move(item))
		answer_move_hold(item, store, deadline);
	lt_unlock();
}

/*
 * lt_not_moved --- the store does not have the lock yet, or has not answered
 */
void
lt_not_moved(const DueItem *item, StoreId store, int64 at, int64 not_after)
{
	if (!answer_lock_moving(item, store, not_after))
		return;
	answer_set_due_again(item->op.hold, store, at);
	lt_unlock();
}

/*
 * lt_lose_by_move --- in that store somebody else has the key
 */
void
lt_lose_by_move(const DueItem *item, StoreId store, const char *taken_by,
				int64 not_after)
{
	if (!answer_lock_moving(item, store, not_after))
		return;
	if (answer_may_move(item))
		lt_lose_locked(item->op.hold, LOST_TAKEN, taken_by);
	lt_unlock();
}

/* ----------
 * Requests that the store refuses for one lock
 *
 * The right to a key may be missing, or the memory for what a release has to leave
 * behind.  The store itself works, so a refused request must neither hold up others
 * nor be repeated ten times a second.  The watchdog tries again after a growing
 * time, and sends a request of its own for the lock if it spoils those of others.
 * A held lock runs to its deadline meanwhile.  An orphan, or what a loss has left, is
 * given up once it must have expired in the store, or it would take a row of the
 * table for ever.
 * ----------
 */

/* The first pause, and how many times the next refusals double it. */
#define AGAIN_FIRST			LR_US_PER_S
#define AGAIN_DOUBLED		5

/* The shortest pause for a held lock that is close to its end. */
#define AGAIN_MIN			(100 * LR_US_PER_MS)

/* Round up to this, so that requests are repeated together. */
#define AGAIN_STEP			(100 * LR_US_PER_MS)

static int64
refused_pause(int refusals)
{
	return AGAIN_FIRST << Min(refusals, AGAIN_DOUBLED);
}

/*
 * refused_held --- try a held lock a few times more before its end, as somebody may
 * remove the cause by then
 */
static void
refused_held(LrIndex hold, int64 now, Refusal *result)
{
	int64		left = lt_deadline(hold) - now;

	result->again = Min(result->again, now + Max(left / 4, AGAIN_MIN));
}

/*
 * refused_left --- give up an orphan, or what a loss has left, once it has expired
 *
 * A read lock that a session holds beside a write lock extends both in the store.
 */
static void
refused_left(LrIndex hold, int64 now, Refusal *result)
{
	LrHold	   *h = &lt_holds[hold];

	for (LrIndex i = lt_keys[h->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (kindset_has(lr_kind(lt_holds[i].kind)->beside, h->kind))
			h->lasts = lr_later(h->lasts, lt_deadline(i));
	result->over = h->lasts <= now;
	if (!result->over)
		result->again = Min(result->again, h->lasts);
}

/*
 * lt_refused --- see watch.h
 */
Refusal
lt_refused(const DueItem *item, bool alone)
{
	LrHold	   *h = &lt_holds[item->op.hold];
	int64		now = lr_now();
	Refusal		result = {.again = now + AGAIN_FIRST};

	if (lt_lock_owned(item->op.hold, item->op.owner))
	{
		result.first = h->renewal.refusals == 0;
		result.again = now + refused_pause(h->renewal.refusals);
		if (h->renewal.refusals <= AGAIN_DOUBLED)
			h->renewal.refusals++;
		h->renewal.alone = h->renewal.alone || alone;
		if (h->state == HOLD_HELD)
			refused_held(item->op.hold, now, &result);
		else if (lt_is_left(h))
			refused_left(item->op.hold, now, &result);
		lt_unlock();
	}
	result.again += AGAIN_STEP - result.again % AGAIN_STEP;
	return result;
}
