/*-------------------------------------------------------------------------
 *
 * refused.c
 *	  The lock table: what the store refuses to do for one lock.
 *
 * The right to a key may be missing, or memory for what a release has to leave
 * behind.  The store is there all the same, so what is refused must not hold
 * up others, nor be asked for ten times a second: it is tried again after a
 * growing time, in a request of its own where it was found to spoil those of
 * others.  A lock that is held runs to its deadline meanwhile.  What belongs to
 * nobody is given up when it has run out in the store by itself, or it would
 * take a row of the table for ever.
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

/* The first pause, which each refusal doubles, so many times. */
#define AGAIN_FIRST			LR_US_PER_S
#define AGAIN_DOUBLED		5

/* So often a held lock is tried even close to its end. */
#define AGAIN_MIN			(100 * LR_US_PER_MS)

/* What is tried again in the same tenth of a second is tried together. */
#define AGAIN_STEP			(100 * LR_US_PER_MS)

/*
 * refused_longest_lease_ms --- that anybody may have asked the store for
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
 * lt_note_end --- nobody renews it any more: when will it have run out in the
 * stores?
 *
 * A renewal may just have run.  A create that was not answered may still do so
 * for the time of a call; the caller waits for the end of that by the store's
 * clock too.
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
 * refused_held --- it must be tried a few times more before its end, whoever
 * mends the cause
 */
static void
refused_held(LrIndex hold, int64 now, Refusal *result)
{
	int64		left = lt_deadline(hold) - now;

	result->again = Min(result->again, now + Max(left / 4, AGAIN_MIN));
}

/*
 * refused_left --- of a lost one the session may not know yet, so its scopes are
 * still there
 *
 * A read lock that its session has beside a write lock lengthens both in the store.
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
 * lt_not_refused --- the store has accepted this hold, so it shares requests
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
