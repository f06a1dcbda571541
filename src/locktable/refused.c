/*-------------------------------------------------------------------------
 *
 * refused.c
 *	  The lock table: requests that the store refuses for one lock.
 *
 * The right to a key may be missing, or the memory for what a release has to leave
 * behind.  The store itself works, so a refused request must neither hold up others
 * nor be repeated ten times a second.  The watchdog tries again after a growing
 * time, and sends a request of its own for the lock if it spoils those of others.
 * A held lock runs to its deadline meanwhile.  An orphan, or what a loss has left, is
 * given up once it must have expired in the store, or it would take a row of the
 * table for ever.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/refused.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "locktable/watch.h"
#include "settings.h"

/* The first pause, and how many times the next refusals double it. */
#define AGAIN_FIRST			LR_US_PER_S
#define AGAIN_DOUBLED		5

/* The shortest pause for a held lock that is close to its end. */
#define AGAIN_MIN			(100 * LR_US_PER_MS)

/* Round up to this, so that requests are repeated together. */
#define AGAIN_STEP			(100 * LR_US_PER_MS)

/*
 * refused_longest_lease_ms --- the longest lease that the store may have been asked for
 */
static int64
refused_longest_lease_ms(const LrHold *h)
{
	int64		lease_ms = Max(h->handed_lease_ms, h->asked_lease_ms);

	if (h->state == HOLD_WAITING)
		lease_ms = lt_sessions[h->session].wait.terms.lease_ms;
	for (int i = 0; i < SCOPE_COUNT; i++)
		if (h->scope[i].count > 0)
			lease_ms = Max(lease_ms, h->scope[i].lease_ms);
	return lease_ms;
}

/*
 * lt_note_end --- a hold is no longer renewed: note when it will have expired in the
 * stores
 *
 * A renewal may have run just now.  A create that was not answered may still run for
 * the time of a call; a release has to wait for that by the store's clock, too
 * (not_after).
 */
void
lt_note_end(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	int64		runs_until = lr_now();

	if (h->ends_at != 0)
		return;
	for (int s = 0; s < STORE_COUNT; s++)
		if (h->not_after[s] != 0)
			runs_until = lr_now() + lr_call_budget();
	h->ends_at = runs_until + refused_longest_lease_ms(h) * LR_US_PER_MS;
	if (h->state == HOLD_WAITING)
		h->ends_at = Max(h->ends_at, lt_sessions[h->session].wait.terms.keep_until);
	else
		h->ends_at = lr_later(h->ends_at, lr_later(lt_deadline(hold), h->keep_until));
}

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
 * The end of a lost hold is noted only here: its session may not have seen the loss, so
 * its scopes are still there.  A read lock that a session holds beside a write lock
 * extends both in the store.
 */
static void
refused_left(LrIndex hold, int64 now, Refusal *result)
{
	LrHold	   *h = &lt_holds[hold];

	lt_note_end(hold);
	for (LrIndex i = lt_keys[h->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lr_kind(h->kind)->beside & KIND_BIT(lt_holds[i].kind))
			h->ends_at = lr_later(h->ends_at, lt_deadline(i));
	result->over = h->ends_at <= now;
	if (!result->over)
		result->again = Min(result->again, h->ends_at);
}

/*
 * lt_refused --- see watch.h
 */
Refusal
lt_refused(const DueItem *item, bool alone)
{
	LrHold	   *h = &lt_holds[item->hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	int64		now = lr_now();
	Refusal		result = {.again = now + AGAIN_FIRST};

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == item->owner)
	{
		result.first = h->refusals == 0;
		result.again = now + refused_pause(h->refusals++);
		h->alone = h->alone || alone;
		if (h->state == HOLD_HELD)
			refused_held(item->hold, now, &result);
		else if (h->state == HOLD_ORPHAN || h->state == HOLD_LOST)
			refused_left(item->hold, now, &result);
	}
	LWLockRelease(lock);
	result.again += AGAIN_STEP - result.again % AGAIN_STEP;
	return result;
}

/*
 * lt_not_refused --- the store has accepted a request for this hold, which shares requests
 * with others again
 */
void
lt_not_refused(const DueItem *item)
{
	LrHold	   *h = &lt_holds[item->hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == item->owner)
	{
		h->refusals = 0;
		h->alone = false;
	}
	LWLockRelease(lock);
}
