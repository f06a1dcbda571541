/*-------------------------------------------------------------------------
 *
 * handover.c
 *	  The lock table: a lock passes from one session of this server to the next.
 *
 * If a session of this server waits, a release need not go to the store: the hold
 * itself, with its owner number and its lease, passes to the head of the queue.  To
 * everybody else the lock is held by the same owner all the time.  The hold keeps its
 * slot, so a renewal that is under way counts for the next holder.
 *
 *	 HELD --release--> HANDED --the new session runs--> HELD
 *						 |
 *						 +--it gives up, is stopped, or the lease ends-->
 *						 |	  HANDED to the next, or ORPHAN
 *						 +--found gone in the store--> (free), or ORPHAN
 *
 * The session that is handed a lock does not know that before it runs, and may be
 * canceled or out of time just then.  So until it accepts, it keeps the hold that it
 * waited with: whatever happens, it can go back to the queue.
 *
 * Others must get their turn.  After lockredis.max_handoffs in a row from a queue the
 * lock is really released, and if that notifies a client elsewhere, the next head here
 * holds back for a moment.  If sessions wait in the order of the store, only the first
 * of them can be handed the lock, if it came before all that wait elsewhere (places.c).
 * After the release the first one asks at once, unless others may wait for a plain lock.
 *
 * In that order, a session that asks the store may be handed the lock, too.  It takes it
 * when it has its answer, if that says that it came before all that wait elsewhere, and
 * passes it on if not:
 *
 *	 A releases: HANDED to B, which asks	B: nobody elsewhere waited: HELD
 *											B: somebody did: released
 *
 * What its request may leave in the store has another owner (LrWait.asked).
 *
 * A session that asks for a fenced lock while others wait behind it also takes tokens for
 * those to which the lock may be handed after it: the reserve of the hold.  So does one that
 * was handed a lock without a reserve.  It ends with the hold, with a move to another store
 * or master, and with any other token that the hold gets; that of a create also when the
 * store has given the key to another session here since it was asked.
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

#include "locktable/locktable_int.h"
#include "settings.h"

/* The largest reserve, so that the range of tokens lasts whatever max_handoffs is. */
#define RESERVE_MOST		1000

/*
 * handover_had_turns --- is it time to let others try?
 *
 * Not while Redis is away: it could not release the lock, nor might the table grant it
 * again for the rest of a lease.
 */
static bool
handover_had_turns(const LrHold *h, const LrKey *key)
{
	if (key->handoffs < lr_max_handoffs)
		return false;
	return lr_store_can(h->claim.store, STORE_SERVER_ONLY) ? silence_hold_off(key->hash) == 0 :
		!silence_is_noticed();
}

/*
 * handover_may_be_early --- may a session be handed the lock while it asks?
 *
 * Only if its answer can say that it came before all that wait elsewhere: its request
 * names this lock.  Or that is known already; but after max_handoffs it has a place then,
 * and the lock is not kept for it.  A call that does not wait is handed none.
 */
static bool
handover_may_be_early(const LrHold *h, const LrKey *key, const LrWait *w)
{
	return w->asked.trying && w->woken_at == 0 && w->asked.claim.owner != 0 &&
		(w->asked.named == h->claim.owner ||
		 (w->place.came_at <= key->clear_at && !handover_had_turns(h, key)));
}

/*
 * handover_next --- the session that may be handed the lock; LR_NONE: none
 *
 * In the order of the list: the first session that came before all that wait elsewhere.  One
 * that asks for the first time (it does not know yet who has the key) is passed, as its call
 * overlaps those of all others; so is one that was handed the lock before and has not run
 * since.  If there is none, the lock goes to the first of those that ask, whose answer will
 * say whether it came in time, but to none behind the first in line that does not ask.  If
 * one that was answered stands before that, the store has to grant the lock: it knows the
 * order.
 */
static LrIndex
handover_next(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	const LrKey *key = &lt_keys[h->key];
	LrIndex		early = LR_NONE;

	if (key->places.nordered == 0)
		return lr_kind(h->kind)->handed_over ? key->queue.list.head : LR_NONE;
	if (lr_max_handoffs == 0 || lr_kind(h->kind)->passing)
		return LR_NONE;
	for (LrIndex i = key->places.list.head; i != LR_NONE; i = lt_wait_of(i)->next)
	{
		const LrWait *w = lt_wait_of(i);
		bool		lined = w->place.standing == STANDING_LINED;
		bool		fresh = w->place.standing == STANDING_NEW;

		if (w->terms.kind != h->kind)
			continue;
		if (w->asked.trying ? fresh || (lined && w->blocker[0] == '\0') :
			fresh && w->woken_at != 0)
		{
			if (early == LR_NONE && handover_may_be_early(h, key, w))
				early = i;
		}
		else if (w->place.came_at <= key->clear_at)
			return i;
		else if (!fresh)
			return lined ? early : LR_NONE;
	}
	return early;
}

/*
 * handover_to --- pass the hold to a waiting session
 */
static void
handover_to(LrIndex session, LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];
	LrWait	   *w = lt_wait_of(session);
	LrStanding	standing = w->place.standing;

	w->early = w->asked.trying;
	if (w->state == WAIT_PLACED)
	{
		lt_place_remove(&key->places, session);
		if (w->early)
			w->place.standing = Min(standing, STANDING_ANSWERED);
	}
	else if (lt_queue_remove(&key->queue, session))
		lt_nudge_beside(&key->queue, lr_kind(h->kind)->excludes);
	key->handoffs++;
	w->state = WAIT_HANDED;
	w->handed = hold;
	w->woken_at = lr_now();
	w->looks_at = 0;
	/* Until the session runs, the watchdog has to see whether it does. */
	lt_fall_asleep(w, w->woken_at);

	lt_free_rows(lt_hold_rows(h) - 1);
	memset(h->scope, 0, sizeof(h->scope));
	h->state = HOLD_HANDED;
	h->session = session;
	h->renewal.committing = false;
	h->given.fenced = false;
	h->renewal.n = 0;
	lt_add_to_wake(session);
}

/*
 * handover_is_alone --- does no other hold of the key conflict with this one?
 *
 * A lock that the store has granted in its order is not kept from anybody by one that is
 * being released: see grant_conflicts().
 */
static bool
handover_is_alone(LrIndex hold, int64 now)
{
	KindId		kind = lt_holds[hold].kind;

	for (LrIndex i = lt_key_of(hold)->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		if (i == hold || (lr_kind(kind)->placed && lt_holds[i].state == HOLD_RELEASING))
			continue;
		if (lt_is_live(i, now) && lr_kinds_conflict(kind, lt_holds[i].kind))
			return false;
	}
	return true;
}

/*
 * lt_hand_over --- hand over a lock that its session no longer needs
 *
 * False: it has to be released in the store, as also if the head of the queue asks the
 * store just then.  In the order of the store: see handover_next.
 */
bool
lt_hand_over(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];
	LrIndex		next = handover_next(hold);
	int64		now;

	if (next == LR_NONE ||
		(lt_wait_of(next)->state == WAIT_QUEUED &&
		 (lt_wait_of(next)->asked.trying || handover_had_turns(h, key))) ||
		!lr_watchdog_running())
		return false;
	now = lr_now();
	if (!handover_is_alone(hold, now) || lt_is_at_any_old_place(h) ||
		lt_is_of_old_master(h, h->claim.store) || !lt_fits(hold, now, lt_wait_of(next)))
		return false;

	/*
	 * An announced session of the queue has to ask the store: its announcement would keep
	 * others from the lock until it is removed, and writers elsewhere may have been announced
	 * before it.  A place is left to the watchdog; if the session asks, when its answer has come.
	 */
	if (lt_wait_of(next)->asked.claim.owner != 0 && !lt_wait_of(next)->asked.trying &&
		(lt_wait_of(next)->state == WAIT_QUEUED || !lt_disown(next)))
		return false;
	handover_to(next, hold);
	return true;
}

/*
 * lt_nudge_behind --- a lock is about to be released in the store, after max_handoffs in a
 * row: the first that waits asks behind the release, or once more if it asks just now
 *
 * No message tells it while the channel of its place is not subscribed to.  Others who wait
 * for a plain lock would be too late each time.  So it is left out if the last release has
 * notified somebody elsewhere, or if sessions of this server queue.  One of ours that was
 * subscribed to its channel counts as elsewhere (lt_begin_pause): after that, the next one
 * may have to wait for its subscription, once.
 */
void
lt_nudge_behind(LrIndex hold)
{
	const LrKey *key = lt_key_of(hold);
	LrIndex		first = key->places.list.head;
	LrWait	   *w;

	if (key->handoffs == 0 || key->handoffs < lr_max_handoffs || key->notified_elsewhere ||
		key->queue.list.head != LR_NONE || key->places.nordered == 0)
		return;
	while (lr_kind(lt_wait_of(first)->terms.kind)->passing)
		first = lt_wait_of(first)->next;
	w = lt_wait_of(first);
	if (w->terms.kind != lt_holds[hold].kind || w->asked.claim.owner == 0 ||
		w->place.subscription == SUB_CONFIRMED)
		return;
	lt_nudge(first);
}

/*
 * handover_pass_on --- hand over, or leave to the watchdog, a lock that is not kept
 */
static void
handover_pass_on(LrIndex hold)
{
	if (!lt_hand_over(hold))
		lt_make_orphan(hold);
}

/*
 * handover_is_in_order --- did a session that was handed the lock while it asked come
 * before all that wait elsewhere?
 *
 * Its answer has been noted (lt_note_clear).  A store that keeps no order cannot be
 * asked, and waits for nobody elsewhere.
 */
static bool
handover_is_in_order(const LrKey *key, const LrWait *w)
{
	return !w->early || w->place.came_at <= key->clear_at ||
		!lt_is_placed_by(w->terms.kind, current_store());
}

/*
 * lt_accept --- the session that was handed a lock runs
 *
 * False: too little of its lease is left by now, or only a former master has confirmed
 * it.  Or it was handed the lock while it asked, and came after somebody elsewhere, or
 * cannot leave the place that it got to the watchdog.  The session is the head again, or
 * where it came.
 */
bool
lt_accept(LrIndex *hold)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		handed = w->handed;
	LrHold	   *h = &lt_holds[handed];
	int64		deadline = lt_deadline(handed);

	Assert(h->state == HOLD_HANDED && h->session == LrMyProcNumber);
	if (!lt_has_enough_left(w->terms.lease_ms, deadline - lr_now()) ||
		lt_is_of_old_master(h, h->claim.store))
	{
		lt_drop_handed(LrMyProcNumber);
		return false;
	}
	if (!handover_is_in_order(&lt_keys[h->key], w))
	{
		lt_wait_on(LrMyProcNumber, true);
		handover_pass_on(handed);
		return false;
	}
	if (w->asked.claim.owner != 0 && !lt_disown(LrMyProcNumber))
	{
		lt_drop_handed(LrMyProcNumber);
		return false;
	}

	h->state = HOLD_HELD;
	lt_set_terms(h, &w->terms, GetCurrentTimestamp());
	lt_set_due_of_held(handed);
	(void) lt_leave_queue(LrMyProcNumber);
	lt_free_hold(*hold);
	*hold = handed;
	return true;
}

/*
 * handover_tokens --- how many sessions may still be handed the lock, and need a token
 */
static int64
handover_tokens(int handoffs)
{
	return Max(Min(lr_max_handoffs, RESERVE_MOST) - handoffs, 0);
}

/*
 * lt_ask_for_reserve --- see locktable.h
 *
 * The master is noted before the request is sent: if another one is in use when the answer
 * comes, the reserve is not used, whichever of the two has issued it.  Nor is it used if the
 * store has given the lock to another session here meanwhile, whose token is higher:
 *
 *	 A asks: 5, in reserve 6-37; it is stopped
 *			its key is deleted	B, behind A, asks: 38; it gives the lock back
 *	 A reads its answer, and hands the lock, which it has lost, to C: not 6
 */
void
lt_ask_for_reserve(LrIndex hold, StoreOp *create)
{
	const LrWait *w = lt_wait_of(LrMyProcNumber);

	if (lr_store_can(create->store, STORE_HAS_PLACE))
		create->moves = lt_epoch_of(w->key);
	lt_lock(lt_key_of(hold)->hash);
	if (w->state == WAIT_QUEUED && w->next != LR_NONE &&
		lt_wait_of(w->next)->terms.kind == w->terms.kind)
	{
		create->amount = handover_tokens(0);
		lt_wait_of(lt_keys[w->key].queue.list.head)->of_list.asks_ahead = LrMyProcNumber;
	}
	lt_unlock();
}

/*
 * lt_take_reserved --- see locktable.h
 *
 * As far as is known here, nobody else has had the key since the tokens were issued, and
 * this store gives everybody else higher ones.  Another store or master may not: it
 * does not know these.
 */
bool
lt_take_reserved(LrIndex hold, StoreId *store, int64 *more)
{
	LrHold	   *h = &lt_holds[hold];
	bool		taken;

	lt_lock_hold(hold);
	taken = h->state == HOLD_HELD && h->as.held.reserve.left > 0 &&
		h->as.held.reserve.topology == (uint32) lt_moves(h);
	if (taken)
	{
		h->given.fence++;
		h->given.fenced = true;
		h->as.held.reserve.left--;
	}
	*store = h->given.fence_store;
	*more = handover_tokens(lt_keys[h->key].handoffs);
	lt_unlock();
	return taken;
}

/*
 * lt_refuse_handed --- the session that was handed a lock has given up
 */
void
lt_refuse_handed(void)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		handed = w->handed;

	(void) lt_leave_queue(LrMyProcNumber);
	handover_pass_on(handed);
}

/*
 * lt_take_handed_back --- the session that was handed a lock does not run
 *
 * The next one gets it, or it is released.  This session comes behind the head of the
 * queue, or behind all in the order of the store.  There it has to look: the process that
 * was to wake it may have been stopped.
 */
void
lt_take_handed_back(LrIndex session)
{
	LrIndex		handed = lt_wait_of(session)->handed;

	handover_pass_on(handed);
	lt_wait_on(session, false);
	if (lt_wait_of(session)->woken_at != 0)
		lt_add_to_wake(session);
}

/*
 * lt_pass_on --- see locktable.h
 */
void
lt_pass_on(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	if (h->state == HOLD_HELD)
		handover_pass_on(hold);
	else if (h->state == HOLD_LOST)
		lt_drop_lost_locked(hold);
	lt_unlock();
}

/*
 * lt_wait_again --- a lock that was accepted is gone, before the caller got it
 *
 * So it is no loss.  The session waits again, as the first.  A store may still have the lock
 * (it has moved, or another node is the master since), so the hold becomes an orphan, and
 * another one takes its place.  Without a row for that, what the store has ends with its
 * lease.
 */
void
lt_wait_again(LrIndex *hold)
{
	LrHold	   *h = &lt_holds[*hold];
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		key = h->key;
	bool		reserved = lt_reserve_row();

	lt_lock(lt_keys[key].hash);
	if (h->state == HOLD_LOST)
		pg_atomic_fetch_sub_u32(&lt_sessions[LrMyProcNumber].nlost, 1);
	if (h->traces != 0 && reserved)
	{
		lt_leave_to_watchdog(*hold);
		*hold = lt_alloc_hold();
		reserved = false;
	}
	else
		lt_unlink_hold(*hold);
	lt_init_waiting_hold(*hold, key, &w->terms);
	w->hold = *hold;
	lt_wait_on(LrMyProcNumber, true);
	w->woken_at = lr_now();
	lt_disown_next(LrMyProcNumber);
	lt_nudge_placeless(&lt_keys[key]);
	if (reserved)
		lt_free_rows(1);
	lt_unlock();
}
