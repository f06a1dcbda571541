/*-------------------------------------------------------------------------
 *
 * handover.c
 *	  The lock table: a lock passes from one session of this server to the next.
 *
 * A release with a local waiter need not go to the store: the hold itself,
 * with its owner number and its lease, passes to the head of the queue.  To
 * everybody else the lock is held by the same owner all the time.  The hold
 * keeps its slot, so a renewal that is under way counts for the next holder.
 *
 *	 HELD --release--> HANDED --the new session runs--> HELD
 *						 |
 *						 +--it gave up, was stopped, or the lease ended-->
 *						 |	  HANDED to the next, or ORPHAN
 *						 +--found gone in the store--> (free)
 *
 * The session that is handed a lock does not know before it runs, and may be
 * canceled or out of time just then, so until it accepts it keeps the hold
 * that it waited with: whatever happens, it can go back to the queue.
 *
 * Others must get their turn: after lockredis.max_handoffs in a row the lock
 * is really released, and if somebody elsewhere waits for it the next head here
 * holds back for a moment.
 *
 * All of this is done under the partition lock of the key.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/handover.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "lease.h"
#include "locktable/locktable_int.h"
#include "locktable/wait.h"
#include "store/node.h"
#include "settings.h"
#include "store/silence.h"
#include "store/stores.h"

/*
 * How long the head holds back.  A client elsewhere is told by a message and
 * has to ask then: it needs a round trip after the message, and time to run.
 */
#define PAUSE_MIN			(5 * LR_US_PER_MS)
#define PAUSE_ROUND_TRIPS	2
#define PAUSE_MAX			(500 * LR_US_PER_MS)

/* After one in which nobody came there is none for so many times its length. */
#define VAIN_REST			20

/*
 * renewed_lease_ms --- the lease of a hold all of whose scopes are renewed, or 0
 */
static int64
renewed_lease_ms(const LrHold *h)
{
	int64		lease_ms = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		if (h->scope[i].count == 0)
			continue;
		if (!h->scope[i].renewed)
			return 0;
		lease_ms = Max(lease_ms, h->scope[i].lease_ms);
	}
	return lease_ms;
}

/*
 * enough_left --- more of the lease than the commit guard wants
 */
static bool
enough_left(int64 lease_ms, int64 left)
{
	return left > lr_commit_margin(lease_ms * LR_US_PER_MS);
}

/*
 * may_pass --- can this lock serve the next session as it is?
 *
 * What the store knows of it, a count of one and a renewed lease, must be what
 * the next one wants.
 */
static bool
may_pass(int64 lease_ms, int64 left, const LrWait *w)
{
	return w->terms.renewed && w->terms.lease_ms == lease_ms &&
		w->terms.keep_until == 0 && !w->trying && enough_left(lease_ms, left);
}

/*
 * hand_to_head --- the hold goes to the first of the queue
 */
static void
hand_to_head(LrIndex hold, int64 lease_ms, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];
	LrIndex		session = key->queue_head;
	LrWait	   *w = lt_wait_of(session);

	lt_queue_remove(key, session);
	key->nhanded++;
	key->handoffs++;
	w->state = WAIT_HANDED;
	w->handed = hold;
	w->woken_at = lr_now();
	w->looks_at = 0;
	/* Until it runs somebody has to look whether it does. */
	lt_fall_asleep(w, w->woken_at, wakes);

	lt_free_rows(lt_hold_rows(h) - 1);
	memset(h->scope, 0, sizeof(h->scope));
	h->state = HOLD_HANDED;
	h->session = session;
	h->handed_lease_ms = lease_ms;
	h->committing = false;
	h->fence = 0;
	h->renewals = 0;
	wakes->session = session;
}

/*
 * has_had_its_turns --- is it time to let others try?
 *
 * Not while Redis is away: nobody could give the lock back, or get it again for
 * the rest of a lease.
 */
static bool
has_had_its_turns(const LrHold *h, const LrKey *key)
{
	if (key->handoffs < lr_max_handoffs)
		return false;
	return lr_store_can(h->store, STORE_SERVER_ONLY) ? silence_hold_off(h->hash) == 0 :
		!silence_is_noticed();
}

/*
 * lt_hand_over --- pass a lock on that its session has done with
 *
 * False: it has to be released in the store.
 */
bool
lt_hand_over(LrIndex hold, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];
	int64		now;
	int64		left;
	int64		lease_ms;

	if (key->queue_head == LR_NONE || has_had_its_turns(h, key) ||
		!lr_watchdog_running())
		return false;
	now = lr_now();
	left = lt_deadline(hold) - now;
	lease_ms = h->state == HOLD_HANDED ? h->handed_lease_ms : renewed_lease_ms(h);
	if (h->scope[SCOPE_SESSION].count > 1 || h->count_unsure ||
		h->keep_until > now || lt_is_at_any_old_place(h) ||
		!may_pass(lease_ms, left, lt_wait_of(key->queue_head)))
		return false;
	hand_to_head(hold, lease_ms, wakes);
	return true;
}

/*
 * pass_on --- a handed lock does not stay with the session it was handed to
 */
static void
pass_on(LrIndex hold, WakeList *wakes)
{
	if (lt_hand_over(hold, wakes))
		return;
	lt_make_orphan(hold, wakes);
}

/*
 * back_to_queue --- the session waits on, as the first or after the first
 */
static void
back_to_queue(LrIndex session, bool first)
{
	LrWait	   *w = lt_wait_of(session);
	LrKey	   *key = &lt_keys[w->key];

	Assert(w->state == WAIT_HANDED);
	w->state = WAIT_QUEUED;
	w->handed = LR_NONE;
	w->woken_at = 0;
	key->nhanded--;
	lt_queue_insert(key, session, first ? LR_NONE : key->queue_head);
}

/*
 * lt_accept --- the session that was handed a lock runs
 *
 * False: too little is left of its lease by now, and the session is the head
 * again.
 */
bool
lt_accept(LrIndex *hold, WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		handed = w->handed;
	LrHold	   *h = &lt_holds[handed];
	int64		deadline = lt_deadline(handed);

	Assert(h->state == HOLD_HANDED && h->session == LrMyProcNumber);
	if (!enough_left(h->handed_lease_ms, deadline - lr_now()))
	{
		back_to_queue(LrMyProcNumber, true);
		lt_make_orphan(handed, wakes);
		return false;
	}

	h->state = HOLD_HELD;
	lt_set_terms(h, &w->terms, GetCurrentTimestamp());
	lt_set_due_of_held(handed, wakes);
	lt_leave_queue(LrMyProcNumber);
	lt_free_hold(*hold);
	*hold = handed;
	return true;
}

/*
 * lt_refuse_handed --- the session that was handed a lock has given up
 */
void
lt_refuse_handed(WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		handed = w->handed;

	lt_leave_queue(LrMyProcNumber);
	pass_on(handed, wakes);
}

/*
 * lt_take_handed_back --- the session that was handed a lock does not run
 *
 * The next one gets it, or it is released; this session comes after that.
 */
void
lt_take_handed_back(LrIndex session, WakeList *wakes)
{
	LrIndex		handed = lt_wait_of(session)->handed;

	pass_on(handed, wakes);
	back_to_queue(session, false);
}

/*
 * forget_or_orphan --- it is gone from a store, but perhaps not from the other
 */
static void
forget_or_orphan(LrIndex hold, StoreId where, WakeList *wakes)
{
	lt_forget_trace(&lt_holds[hold], where);
	if (lt_holds[hold].traces != 0)
		lt_make_orphan(hold, wakes);
	else
		lt_free_hold(hold);
}

/*
 * lt_lose_handed --- a handed lock was found gone: nothing to pass on
 */
void
lt_lose_handed(LrIndex hold, StoreId where, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];

	back_to_queue(h->session, true);
	lt_nudge_head(key, wakes);
	forget_or_orphan(hold, where, wakes);
}

/*
 * lt_pass_on --- give up a lock that was accepted, but not yet told to anybody
 */
void
lt_pass_on(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_partition(h->hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->state == HOLD_HELD)
		pass_on(hold, &wakes);
	else if (h->state == HOLD_LOST)
		lt_drop_lost_locked(hold, &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * lt_wait_again --- a lock that was accepted is gone, and nobody was told of it
 *
 * So it is not a loss.  The hold becomes the one that the session waits with,
 * as the first; unless it has left something in the other store, for which it is
 * needed.  With no row left for another one that runs out by itself.
 */
void
lt_wait_again(LrIndex *hold, StoreId where)
{
	LrHold	   *h = &lt_holds[*hold];
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		key = h->key;
	uint32		hash = h->hash;
	KindId		kind = h->kind;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;
	bool		reserved = lt_reserve_row();

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->state == HOLD_LOST)
		pg_atomic_fetch_sub_u32(&lt_sessions[LrMyProcNumber].nlost, 1);
	lt_forget_trace(h, where);
	if (h->traces != 0 && reserved)
	{
		lt_make_orphan(*hold, &wakes);
		*hold = lt_alloc_hold();
		reserved = false;
	}
	else
		lt_unlink_hold(*hold);
	lt_init_waiting_hold(*hold, key, hash, kind);
	w->state = WAIT_QUEUED;
	w->hold = *hold;
	w->woken_at = lr_now();
	lt_queue_insert(&lt_keys[key], LrMyProcNumber, LR_NONE);
	LWLockRelease(lock);
	if (reserved)
		lt_free_rows(1);
	lt_wake(&wakes);
}

/*
 * lt_pause_after --- how long the next head holds back after a real release
 *
 * "receivers" is how many were told of it; one may be this server's watchdog.
 * The usual round trip, since the last one may include for how long the watchdog
 * was stopped.
 */
int64
lt_pause_after(StoreId store, int receivers)
{
	int64		round_trip = lr_usual_round_trip(store);

	if (receivers == 0)
		return 0;
	return Min(Max(PAUSE_MIN, PAUSE_ROUND_TRIPS * round_trip), PAUSE_MAX);
}

/*
 * lt_begin_pause --- somebody elsewhere may go first
 *
 * Who was told may only not have ended a subscription yet: where nobody came
 * in the last pause, there is none for a time that makes it cost little.
 */
void
lt_begin_pause(LrKey *key, int receivers, int64 pause)
{
	int64		now;

	key->handoffs = 0;
	if (receivers <= (key->subscription == SUB_CONFIRMED ? 1 : 0))
		return;
	now = lr_now();
	if (now < key->no_pause_until)
		return;
	key->paused_until = now + pause;
	key->no_pause_until = key->paused_until + pause * VAIN_REST;
}

/*
 * lt_end_pause --- the head may ask the store
 */
void
lt_end_pause(LrKey *key)
{
	key->after_pause = key->paused_until != 0;
	key->paused_until = 0;
}

/*
 * lt_judge_pause --- did the head get the lock after a pause?
 *
 * If not, somebody else came, and may come again.
 */
void
lt_judge_pause(LrKey *key, bool got_it)
{
	if (key->after_pause && !got_it)
		key->no_pause_until = 0;
	key->after_pause = false;
}
