/*-------------------------------------------------------------------------
 *
 * aside.c
 *	  The lock table: a lock that its session releases while it waits for a condition.
 *
 * Meanwhile its hold is LOST, for the reason LOST_WAITING.  So however the wait ends,
 * the session finds that it does not have the lock, without anybody's help.
 *
 *	 HELD --lt_begin_aside--> RELEASING --lt_end_aside--> LOST (LOST_WAITING)
 *								 |
 *								 +--lt_lose_aside: it was gone--> LOST
 *
 * A loss for that reason counts in nlost, but is neither logged nor signalled.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/aside.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable/hold.h"
#include "locktable/locktable_int.h"

bool
lt_begin_aside(LrIndex hold)
{
	LWLock	   *lock = lt_lock_hold(hold);
	WakeList	wakes = WAKE_NOBODY;
	bool		held;

	lt_lose_if_expired(hold, &wakes);
	held = lt_holds[hold].state == HOLD_HELD;
	if (held)
	{
		lt_holds[hold].state = HOLD_RELEASING;
		lt_nudge_placeless(lt_key_of(hold), &wakes);
	}
	lt_unlock(lock, &wakes);
	return held;
}

/*
 * lt_end_aside --- see hold.h
 *
 * The answer of a former master says nothing of what the present one has.  What a store
 * may still have is released by the watchdog.
 */
void
lt_end_aside(LrIndex hold, StoreId store, uint32 topology, bool answered)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_hold(hold);
	WakeList	wakes = WAKE_NOBODY;

	Assert(h->state == HOLD_RELEASING);
	lt_key_of(hold)->handoffs = 0;
	lt_note_stay(hold, h->here_from);
	if (answered && !lt_is_past(h->key, topology))
		lt_forget_trace(h, store);
	h->state = HOLD_LOST;
	h->lost_reason = LOST_WAITING;
	h->lost_at = GetCurrentTimestamp();
	h->taken_by[0] = '\0';
	if (h->traces != 0)
		lt_set_due_in_traces(hold, lr_now(), &wakes);
	else
		lt_nothing_due(hold);
	lt_nudge_after(lt_key_of(hold), h->kind, &wakes);
	pg_atomic_fetch_add_u32(&lt_sessions[LrMyProcNumber].nlost, 1);
	lt_unlock(lock, &wakes);
}

/*
 * lt_lose_aside --- the lock was gone before the store could release it
 */
void
lt_lose_aside(LrIndex hold, StoreId store, const char *taken_by)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_hold(hold);
	WakeList	wakes = WAKE_NOBODY;

	Assert(h->state == HOLD_RELEASING);
	h->state = HOLD_HELD;
	lt_lose_locked(hold, store, taken_by[0] != '\0' ? LOST_TAKEN : LOST_DELETED, taken_by,
				   &wakes);
	lt_unlock(lock, &wakes);
}
