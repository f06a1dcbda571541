/*-------------------------------------------------------------------------
 *
 * turn.c
 *	  The lock table: a session takes its turn in the queue of a key.
 *
 * Only the sessions in front of a queue ask the store (see queue.c).  The others sleep
 * until they are there.  Those in front sleep while a session of this server has the
 * key, until a message reports a release elsewhere, or until it is time to ask again.
 * A session that leaves the queue without the lock wakes those that come to the front
 * by that, so no wake-up is lost with a session that gives up.
 *
 * Sessions that wait in the order of the store (places.c) ask it whenever there is
 * news.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/turn.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable/locktable_int.h"
#include "settings.h"

/* Without a watchdog nobody notifies a waiting session: it looks by itself. */
#define LONELY_POLL			LR_US_PER_S

/* A release by the watchdog wakes those in front; this is in case it does not. */
#define GIVEN_BACK_POLL		LR_US_PER_S

/*
 * turn_find_other --- a hold beside or after which the store takes no lock of that kind
 */
static LrIndex
turn_find_other(LrKey *key, KindId kind, int64 now)
{
	KindSet		alike = lr_kind(kind)->alike;
	KindSet		seen = 0;

	if (!lt_has_kinds(key, ~alike))
		return LR_NONE;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		if (!kindset_has(alike, lt_holds[i].kind) && lt_is_live(i, now) &&
			!lr_kind(lt_holds[i].kind)->passing)
			return i;
		kindset_add(&seen, lt_holds[i].kind);
	}
	key->hold_kinds = seen;
	return LR_NONE;
}

/*
 * lt_find_own --- a hold of the session beside which it may take that kind, and which
 * excludes all that this kind excludes
 *
 * Then the session has nobody to wait for: all others that queue for the key wait for it.
 */
LrIndex
lt_find_own(const LrKey *key, LrIndex session, KindId kind, int64 now)
{
	KindSet		beside = lr_kind(kind)->beside;

	if (!lt_has_kinds(key, beside))
		return LR_NONE;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].session == session && lt_holds[i].state == HOLD_HELD &&
			lt_is_live(i, now) &&
			kindset_has(beside, lt_holds[i].kind) &&
			(lr_kind(kind)->excludes & ~lr_kind(lt_holds[i].kind)->excludes) == 0)
			return i;
	return LR_NONE;
}

uint64
lt_owner_beside(LrIndex hold)
{
	uint64		owner = 0;
	LrIndex		own;

	lt_lock_shared(lt_key_of(hold)->hash);
	own = lt_find_own(lt_key_of(hold), LrMyProcNumber, lt_holds[hold].kind, lr_now());
	if (own != LR_NONE)
		owner = lt_holds[own].claim.owner;
	lt_unlock();
	return owner;
}

/*
 * turn_judge --- may the session queue for the key?  "first": it stands behind nobody
 */
static EnqueueResult
turn_judge(LrKey *key, KindId kind, bool only_if_free, bool first, int64 now, KindId *other)
{
	LrIndex		in_the_way = turn_find_other(key, kind, now);

	if (in_the_way != LR_NONE)
	{
		*other = lt_holds[in_the_way].kind;
		return ENQUEUE_OTHER;
	}
	if (only_if_free &&
		((!first && !lt_would_be_in_front(&key->queue, kind)) ||
		 (lr_kind(kind)->placed && key->places.nplaceless + key->places.nlined > 0) ||
		 lt_conflicting_hold(key, LrMyProcNumber, kind, now) != LR_NONE))
		return ENQUEUE_BUSY;
	return ENQUEUED;
}

EnqueueResult
lt_enqueue(const LrName *name, const LockTerms *terms, bool only_if_free,
		   LrIndex *hold, KindId *other)
{
	LrIndex		self = LrMyProcNumber;
	LrWait	   *w = lt_wait_of(self);
	LrIndex		key;
	EnqueueResult result;
	int64		now;
	StoreId		store;
	bool		placed;
	bool		first;
	bool		stocked PG_USED_FOR_ASSERTS_ONLY = lt_take_row();

	Assert(w->state == WAIT_NONE && stocked);
	*hold = lt_alloc_hold();

	lt_lock(name->hash);
	key = lt_make_key(name->data, name->len, name->hash);
	lt_init_waiting_hold(*hold, key, terms);
	store = lt_keep_order(&lt_keys[key]);
	placed = lt_is_placed_by(terms->kind, store);

	/* Without a hold, nothing here depends on the time. */
	now = lt_keys[key].first_hold != LR_NONE ? lr_now() : 0;
	first = lt_find_own(&lt_keys[key], self, terms->kind, now) != LR_NONE;
	result = turn_judge(&lt_keys[key], terms->kind, only_if_free, first || placed, now, other);
	if (result != ENQUEUED)
		lt_free_hold(*hold);
	else
	{
		w->generation++;
		w->key = key;
		w->hold = *hold;
		w->terms = *terms;
		memset(&w->asked, 0, sizeof(LrAsked));
		w->blocker[0] = '\0';
		w->since = GetCurrentTimestamp();
		w->place.came_at = lr_now();
		pg_write_barrier();		/* see lt_waits_for() */
		w->state = placed ? WAIT_PLACED : WAIT_QUEUED;
		if (placed)
			lt_place_insert(&lt_keys[key].places, self, lt_keys[key].places.list.tail, STANDING_NEW);
		else
			lt_queue_insert(&lt_keys[key].queue, self,
							first ? LR_NONE : lt_keys[key].queue.list.tail);
	}
	lt_unlock();
	return result;
}

EnqueueResult
lt_may_take(const LrName *name, KindId kind, KindId *other, bool *sent)
{
	EnqueueResult result = ENQUEUED;
	LrIndex		key;

	lt_lock(name->hash);
	key = lt_find_key(name->data, name->len, name->hash);
	*sent = key != LR_NONE && lt_find_sent(&lt_keys[key], kind, lr_now()) != LR_NONE;
	if (key != LR_NONE)
		result = turn_judge(&lt_keys[key], kind, true, false, lr_now(), other);
	lt_unlock();
	return result;
}

/*
 * turn_give_up --- leave the queue without the lock; partition lock held
 *
 * The next session may not have asked the store yet, and learns here who has the lock.
 */
static void
turn_give_up(void)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		key = w->key;

	if (w->state == WAIT_HANDED)
	{
		lt_refuse_handed();
		return;
	}
	if (w->state == WAIT_QUEUED && w->next != LR_NONE &&
		lt_wait_of(w->next)->blocker[0] == '\0')
		strlcpy(lt_wait_of(w->next)->blocker, w->blocker, LR_OWNER_MAX);
	if (lt_leave_queue(LrMyProcNumber))
		lt_nudge_front(&lt_keys[key].queue);
}

/*
 * turn_note_create --- that create may have run, or may still run
 */
static void
turn_note_create(LrHold *h, const StoreOp *op)
{
	lt_first_trace(h, lt_claim_of(op, h->key));
	lt_set_not_after(h, op->store, op->outcome == STORE_UNKNOWN ? op->sent.not_after : 0);
}

/*
 * turn_orphan --- leave what a create may have left to the watchdog
 *
 * It releases at once what was granted.  A session that asks before that would find the key
 * locked, although nobody has it, so it is waited for.
 */
static void
turn_orphan(LrIndex hold, const StoreOp *create)
{
	if (create->outcome != STORE_OK && create->outcome != STORE_UNCONFIRMED)
	{
		lt_make_orphan(hold);
		return;
	}
	lt_leave_to_watchdog(hold);
	if (create->store == current_store())
		lt_holds[hold].as.sent.until = lr_now() + SENT_PATIENCE;
}

/*
 * lt_give_up --- leave the queue without the lock
 *
 * A hold that is left is the watchdog's from here on.  To others it is a holder elsewhere.  Only
 * the watchdog removes an announcement, so a session that gives up does not have to ask the
 * store.  The watchdog may have its owner already; see lt_disown().
 */
void
lt_give_up(LrIndex hold, const StoreOp *create, uint64 announced)
{
	const LrAsked *asked = &lt_wait_of(LrMyProcNumber)->asked;
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	if (create != NULL)
		turn_note_create(h, create);
	else if (announced != 0 && asked->claim.owner == announced)
		lt_first_trace(h, asked->claim);
	turn_give_up();
	if (create != NULL)
		turn_orphan(hold, create);
	else if (h->traces != 0)
		lt_leave_to_watchdog(hold);
	else
		lt_free_hold(hold);		/* and the key's entry, if it is unused now */
	lt_unlock();
}

/*
 * lt_orphan_unqueued --- see locktable.h
 */
void
lt_orphan_unqueued(const LrName *name, const LockTerms *terms, const StoreOp *op)
{
	LrIndex		hold;

	lt_lock(name->hash);
	hold = lt_make_unqueued(name, terms);
	turn_note_create(&lt_holds[hold], op);
	turn_orphan(hold, op);
	lt_unlock();
}

/*
 * turn_all_fit --- can the lock be handed over to all sessions before this one, too?
 *
 * If not, it will be released in the store when their turn comes, and a session behind them
 * needs a place there.  A session without a place was judged when it asked.
 */
static bool
turn_all_fit(const LrKey *key, const LrWait *w, int64 now)
{
	for (LrIndex i = w->prev; i != LR_NONE; i = lt_wait_of(i)->prev)
	{
		const LrWait *before = lt_wait_of(i);

		if (before->place.standing == STANDING_PLACELESS)
			return true;
		if (!lr_kind(before->terms.kind)->passing && lt_fitting_hold(key, before, now) == LR_NONE)
			return false;
	}
	return true;
}

/*
 * turn_owner_here --- the owner of a lock that a session here can hand over to this
 * one; 0: there is none
 *
 * After max_handoffs in a row there is none, so that sessions get places in the store.
 */
static uint64
turn_owner_here(const LrKey *key, const LrWait *w, StoreId store)
{
	int64		now;
	LrIndex		hold;

	if (!(w->state == WAIT_PLACED || w->early) || lr_kind(w->terms.kind)->passing ||
		key->handoffs >= lr_max_handoffs || !lr_watchdog_running())
		return 0;
	now = lr_now();
	hold = lt_fitting_hold(key, w, now);
	if (hold == LR_NONE || lt_holds[hold].claim.store != store || !turn_all_fit(key, w, now))
		return 0;
	return lt_holds[hold].claim.owner;
}

/*
 * lt_ask_as --- see locktable.h
 *
 * What the session may leave in the store is noted here before it asks, for a process
 * that has to release that while the session is stopped.  It asks no later than the time
 * noted, so that no request is under way then.
 */
uint64
lt_ask_as(LrIndex hold, StoreId store, uint64 owner, int64 until, bool *anew,
		  uint64 *here)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);

	lt_lock_hold(hold);
	*anew = w->asked.disowned != 0;
	if (owner == 0 || w->asked.claim.owner != owner)
	{
		owner = lr_new_owner();
		w->place.subscription = SUB_NONE;
	}
	w->asked.claim.owner = owner;
	w->asked.claim.topology = lt_epoch_of(w->key);
	w->asked.claim.place = lr_place;
	w->asked.claim.store = store;
	w->asked.disowned = 0;
	w->asked.until = until;
	*here = w->asked.named = turn_owner_here(&lt_keys[w->key], w, store);
	lt_unlock();
	return owner;
}

bool
lt_leave_orphan(const StoreOp *op)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrIndex		left;

	lt_lock_hold(w->hold);
	left = lt_make_record(LrMyProcNumber);
	if (left != LR_NONE)
	{
		turn_note_create(&lt_holds[left], op);
		turn_orphan(left, op);
		w->asked.claim.owner = 0;
		if (w->state != WAIT_HANDED)
			w->woken_at = 0;	/* that was our own doing */
	}
	lt_unlock();
	return left != LR_NONE;
}

/*
 * lt_fail_waiters --- the store failed for us, and so it does for all that wait
 *
 * They leave the queue at once, so that one that does not run cannot be in the way of
 * those that come later; each frees its hold when it runs.  If replicas were missing,
 * those that ask for fewer stay, and may come to the front.  In the order of the store,
 * only those fail that are in line and do not ask yet.
 */
void
lt_fail_waiters(LrIndex hold, int min_replicas)
{
	LrKey	   *key;
	LrIndex		session;
	const LrWait *own = lt_wait_of(LrMyProcNumber);
	bool		placed;

	lt_lock(lt_key_of(hold)->hash);
	placed = own->state == WAIT_PLACED || own->early;
	key = &lt_keys[lt_holds[hold].key];
	session = placed ? key->places.list.head : key->queue.list.head;
	while (session != LR_NONE)
	{
		LrWait	   *w = lt_wait_of(session);
		LrIndex		next = w->next;

		if (session != LrMyProcNumber && w->terms.min_replicas >= min_replicas &&
			(!placed || (w->place.standing == STANDING_LINED && !w->asked.trying)))
		{
			if (placed)
				lt_place_remove(&key->places, session);
			else if (lt_queue_remove(&key->queue, session))
				lt_nudge_front(&key->queue);
			w->state = min_replicas > 0 ? WAIT_UNREPLICATED : WAIT_FAILED;
			lt_add_to_wake(session);
		}
		session = next;
	}
	lt_unlock();
}

/*
 * turn_heeds_pause --- does a pause apply to sessions that want that kind?
 *
 * If several can have the key, and nobody here was refused, there may be enough for
 * clients elsewhere, too.
 */
static bool
turn_heeds_pause(const LrKey *key, KindId kind)
{
	return key->queue.scarce || !lr_kind(kind)->one_asks;
}

/*
 * turn_in_front --- we are in front: may we ask the store?
 */
static TurnResult
turn_in_front(LrKey *key, LrWait *w, int64 now, int64 retry_at, int64 *look_again)
{
	LrIndex		holder = lt_conflicting_hold(key, LrMyProcNumber, w->terms.kind, now);
	int64		pause_until = lt_wait_of(key->queue.list.head)->of_list.pause_until;

	if (holder != LR_NONE)
	{
		w->woken_at = 0;
		w->blocker[0] = '\0';	/* that answer is older */
		*look_again = lt_deadline(holder);
		return TURN_WAIT;
	}
	if (lt_is_being_given_back(key, w->terms.kind, w->terms.id))
	{
		w->woken_at = 0;
		*look_again = now + GIVEN_BACK_POLL;
		return TURN_WAIT;
	}
	if (now < pause_until && turn_heeds_pause(key, w->terms.kind))
	{
		w->woken_at = pause_until;	/* we act on it then */
		*look_again = pause_until;
		return TURN_WAIT;
	}
	if (w->woken_at != 0 || now >= retry_at)
	{
		w->woken_at = 0;
		return TURN_TRY;
	}
	*look_again = retry_at;
	return TURN_WAIT;
}

/*
 * turn_placed --- the store says whose turn it is: ask whenever there may be news
 */
static TurnResult
turn_placed(LrKey *key, LrWait *w, int64 now, int64 retry_at, int64 *look_again)
{
	if (w->place.standing >= STANDING_PLACELESS)
	{
		LrIndex		here = w->place.came_at <= key->clear_at ?
			lt_fitting_hold(key, w, now) : LR_NONE;

		/* A session here will hand the lock over to it. */
		if (here != LR_NONE)
		{
			lt_stand(&key->places, LrMyProcNumber, STANDING_PLACELESS);
			w->woken_at = 0;
			*look_again = lt_deadline(here);
			return TURN_WAIT;
		}
		if (w->place.standing == STANDING_PLACELESS)
			lt_line_up(&key->places);
	}
	if (w->in_front && (w->woken_at != 0 || now >= retry_at))
	{
		w->woken_at = 0;
		w->place.notified_at = 0;
		return TURN_TRY;
	}
	*look_again = retry_at;
	return TURN_WAIT;
}

/*
 * lt_turn --- is it our turn, and if not, when to look again unless woken
 *
 * A session that is not in front looks again when the present lease ends: it may have
 * come there without a wake-up, and must not depend on the watchdog to see that a
 * holder is gone.
 */
TurnResult
lt_turn(LrIndex *hold, int64 retry_at, int64 *look_again, StoreId *store)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	int64		now = lr_now();
	LrKey	   *key;
	TurnResult	turn = TURN_WAIT;

	lt_lock(lt_key_of(*hold)->hash);
	w->looks_at = 0;
	w->asked.trying = false;
	key = &lt_keys[w->key];
	*store = lt_keep_order(key);

	/* The watchdog releases what it has in a store that is not asked any more. */
	if (w->asked.claim.owner != 0 && w->asked.claim.store != *store)
		(void) lt_disown(LrMyProcNumber);
	if (w->state == WAIT_FAILED)
		turn = TURN_FAILED;
	else if (w->state == WAIT_UNREPLICATED)
		turn = TURN_UNREPLICATED;
	else if (w->state == WAIT_HANDED && lt_accept(hold))
		turn = TURN_HANDED;
	else if (w->in_front && lt_awaits_sent(key, w, now, look_again))
	{
		turn = TURN_SENT;
		w->looks_at = *look_again;
		if (w->woken_at != 0)
			w->woken_at = now;	/* we act on it later */
	}
	else if (w->in_front)
	{
		turn = w->state == WAIT_PLACED ?
			turn_placed(key, w, now, retry_at, look_again) :
			turn_in_front(key, w, now, retry_at, look_again);
		w->looks_at = turn == TURN_WAIT ? *look_again : now + lr_call_budget();
	}
	else
	{
		LrIndex		holder = lt_conflicting_hold(key, LrMyProcNumber, w->terms.kind, now);

		*look_again = holder != LR_NONE ? lt_deadline(holder) :
			now + lr_lease * LR_US_PER_MS;

		/* Its announcement would get those before it in the queue refused. */
		if (w->asked.claim.owner != 0)
			(void) lt_disown(LrMyProcNumber);
	}
	if (turn == TURN_WAIT || turn == TURN_SENT)
	{
		lt_fall_asleep(w, now);
		if (!lr_watchdog_running())
			*look_again = Min(*look_again, now + LONELY_POLL);
	}
	w->asked.trying = turn == TURN_TRY;
	w->asked.until = w->asked.trying ? now + lr_call_budget() : 0;
	lt_unlock();
	return turn;
}

/*
 * lt_found_busy --- see locktable.h
 */
void
lt_found_busy(LrIndex hold, const StoreOp *create, const char *owner)
{
	LrKey	   *key = &lt_keys[lt_holds[hold].key];
	LrWait	   *w = lt_wait_of(LrMyProcNumber);

	lt_lock(lt_key_of(hold)->hash);
	if (create->answer.clear && create->args.wait_ms != 0)
		lt_note_clear(hold, create);
	strlcpy(w->blocker, owner, LR_OWNER_MAX);
	if (w->state == WAIT_PLACED && !create->answer.unplaced)
		lt_stand(&key->places, LrMyProcNumber, STANDING_ANSWERED);
	else if (w->place.standing == STANDING_NEW)
		w->place.standing = STANDING_ANSWERED;
	if (key->queue.list.head != LR_NONE)
		lt_wait_of(key->queue.list.head)->of_list.no_pause_until = 0;
	if (lr_kind(lt_holds[hold].kind)->one_asks && !key->queue.scarce && w->state == WAIT_QUEUED)
		lt_queue_scarce(&key->queue);
	lt_unlock();
}
