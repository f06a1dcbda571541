/*-------------------------------------------------------------------------
 *
 * lose.c
 *	  The lock table: a hold is lost, or becomes an orphan.
 *
 * Anybody who finds a lock gone may change its hold from HELD to LOST; other processes
 * than its session change the state of a HELD one in no other way.  The session has to
 * see the loss, and then drops the hold.  If a store may still have the lock, or a
 * request was not answered, the hold becomes an orphan, which the watchdog releases.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/lose.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "settings.h"
#include "stats.h"

/* ----------
 * Partition lock held
 * ----------
 */

/*
 * lose_tell --- have the session signalled, if it asked for that
 */
static void
lose_tell(const LrHold *h)
{
	OnLost		on_lost = ON_LOST_MARK;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (h->scope[i].count > 0)
			on_lost = Max(on_lost, h->scope[i].on_lost);
	if (on_lost != ON_LOST_MARK)
		lt_add_loser(h->session, on_lost);
}

/*
 * lt_copy_loss --- how the lock was lost, if it was
 */
void
lt_copy_loss(const LrHold *h, LockLoss *loss)
{
	memset(loss, 0, sizeof(LockLoss));
	if (h->state != HOLD_LOST)
		return;
	losses_find(h->as.lost.record, loss);
	loss->at = h->as.lost.at;
	loss->reason = h->as.lost.reason;
}

/*
 * lose_note_end --- a hold is no longer renewed: note when it will have expired in the
 * stores
 *
 * A renewal may have run just now.  What its session has asked for may still run for the
 * time of a call, if it does not know yet that the lock is lost; so may a create that was
 * not answered.  A release has to wait for that by the store's clock, too (not_after).
 */
static void
lose_note_end(LrIndex hold, bool asks)
{
	LrHold	   *h = &lt_holds[hold];
	int64		keep_until = h->state == HOLD_WAITING ?
		lt_sessions[h->session].wait.terms.keep_until : lr_later(lt_deadline(hold), h->keep_until);

	if (lt_is_left(h))
		return;
	h->lasts = lr_later(lr_now() + h->lasts + (asks || h->not_after != 0 ? lr_call_budget() : 0),
						keep_until);
}

/*
 * lose_locked --- a held lock is gone
 *
 * The store may still have it, or something of it, so the watchdog releases it: a renewal
 * whose reply was not read may have run, and the store's clock ends the lease a little
 * later than ours; another node may have become the master, which still has the lock, or a
 * place in a queue; or the lock was moved meanwhile.  Of several masters only most have
 * said that it is gone.  The others are told once the hold is LOST, and not before:
 *
 *	 S: has it at 1 and 2; client C elsewhere has had it at 3
 *	 2 is replaced by an empty server, which has no vote yet; C releases 3
 *	 watchdog: renewal: done at 1, gone at 2 and 3
 *	 watchdog: release at 1		C: takes it at 1 and 3, a majority
 *	 watchdog: the hold is LOST; until now S could believe in it
 *
 * As long as 1 has the lock, C gets no majority.
 *
 * If nobody has the key, another reason may say more: lockredis.url has changed, or the
 * lease has ended anyway.
 */
static void
lose_locked(LrIndex hold, LostReason reason, const char *taken_by)
{
	LrHold	   *h = &lt_holds[hold];
	const LrKey *key = lt_key_of(hold);
	LockLoss	loss;

	Assert(h->state == HOLD_HELD);
	if (reason == LOST_DELETED && lt_is_at_old_place(h, h->claim.store))
		reason = LOST_MOVED;
	else if (reason == LOST_DELETED && lt_deadline(hold) <= lr_now())
		reason = LOST_EXPIRED;
	losses_note(&loss, reason, taken_by);
	lose_note_end(hold, true);
	h->state = HOLD_LOST;
	h->as.lost = (LrLost) {.at = loss.at,.reason = reason};
	lt_set_due_in_traces(hold, lr_now());
	lt_nudge_after(lt_key_of(hold), h->kind);
	pg_atomic_fetch_add_u32(&lt_sessions[h->session].nlost, 1);
	if (lr_kind(h->kind)->passing || reason == LOST_WAITING)
		return;
	lr_count(STAT_LOSSES);
	h->as.lost.record = losses_add(lt_sessions[h->session].pid, key->name, key->name_len,
								   h->scope, &loss);
	lt_add_watchdog();
	lose_tell(h);
}

/*
 * lt_lost_is_there --- the store had the lock of a hold that is LOST, and has made its lease
 * longer: it may be there
 *
 * Nothing of it may have been left there when the store was asked last.  But another node,
 * which still has the key, can become the master:
 *
 *	 S takes k again, and is stopped	watchdog: k is gone: LOST, and no store has it
 *										a replica that still has k becomes the master
 *	 S: asks for a whole lease: done	watchdog: releases k
 */
void
lt_lost_is_there(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];

	h->traces |= STORE_BIT(h->claim.store);
	lt_set_due_in_traces(hold, lr_now());
}

/*
 * lt_lose_if_expired --- any process that sees the end of a lease marks it
 */
void
lt_lose_if_expired(LrIndex hold)
{
	if (lt_holds[hold].state == HOLD_HELD && lt_deadline(hold) <= lr_now())
		lt_lose_locked(hold, LOST_EXPIRED, NULL);
}

/*
 * lt_is_live --- does the hold keep others of this server from the key?
 *
 * One that is being released or handed over counts until its lease ends: if its session
 * is stopped, the others go on then.
 */
bool
lt_is_live(LrIndex hold, int64 now)
{
	return (lt_is_had(&lt_holds[hold]) || lt_holds[hold].state == HOLD_RELEASING) &&
		lt_deadline(hold) > now;
}

/*
 * lt_keeps_from --- does the hold keep that session from the key as that kind?
 *
 * Its own holds of other kinds do not: the store decides about them.  One of the same
 * kind does: the session would take it again, if it were not on its way out.
 */
bool
lt_keeps_from(LrIndex hold, LrIndex session, KindId kind)
{
	const LrHold *h = &lt_holds[hold];

	return (h->session != session || h->kind == kind) &&
		lr_kinds_conflict(kind, h->kind);
}

/*
 * lt_conflicting_hold --- one of the holds that keep the session from the key
 *
 * Expired ones are marked on the way.  Without a hold of a conflicting kind none is
 * looked at.
 */
LrIndex
lt_conflicting_hold(LrKey *key, LrIndex session, KindId kind, int64 now)
{
	KindSet		seen = 0;

	if (!lt_has_kinds(key, lr_kind(kind)->excludes))
		return LR_NONE;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		kindset_add(&seen, lt_holds[i].kind);
		if (lt_is_live(i, now))
		{
			if (lt_keeps_from(i, session, kind))
				return i;
		}
		else if (lt_holds[i].state == HOLD_HELD)
			lt_lose_locked(i, LOST_EXPIRED, NULL);
	}
	key->hold_kinds = seen;
	return LR_NONE;
}

/*
 * lt_is_being_given_back --- has the watchdog yet to release a lock with that id?
 *
 * Its release would take a new one with the same id away.  Locks that the store knows
 * by their owners can be told apart.
 */
bool
lt_is_being_given_back(const LrKey *key, KindId kind, const uint8 *id)
{
	static const uint8 none[STORE_ID_LEN] = {0};

	if (!lr_kind(kind)->ownerless || memcmp(id, none, STORE_ID_LEN) == 0)
		return false;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].state == HOLD_ORPHAN && lt_holds[i].kind == kind &&
			memcmp(lt_holds[i].given.id, id, STORE_ID_LEN) == 0)
			return true;
	return false;
}

/*
 * lt_leave_until --- the hold has no session any more; the watchdog releases it then
 */
void
lt_leave_until(LrIndex hold, int64 due)
{
	LrHold	   *h = &lt_holds[hold];

	lose_note_end(hold, false);
	lt_free_rows(lt_hold_rows(h) - 1);
	h->nodes = 0;
	memset(h->scope, 0, sizeof(h->scope));
	if (h->state == HOLD_WAITING)
		lt_link_hold(hold);
	if (h->state != HOLD_ORPHAN)
		pg_atomic_fetch_add_u32(&lt_table->norphans, 1);
	h->state = HOLD_ORPHAN;
	memset(&h->as, 0, sizeof(h->as));
	h->session = LR_NONE;
	lt_set_due_in_traces(hold, due);
	lt_nudge_after(lt_key_of(hold), h->kind);
}

void
lt_leave_to_watchdog(LrIndex hold)
{
	lt_leave_until(hold, lr_now());
}

/*
 * lt_make_orphan --- a request for the hold was not answered, or not even sent
 */
void
lt_make_orphan(LrIndex hold)
{
	lt_leave_to_watchdog(hold);
	lr_count(STAT_ORPHANS);
}

/*
 * lt_free_and_nudge --- free a hold of which no store has anything
 */
void
lt_free_and_nudge(LrIndex hold)
{
	lt_nudge_after(lt_key_of(hold), lt_holds[hold].kind);
	lt_free_hold(hold);
}

/*
 * lt_drop_lost_locked --- the session has seen the loss
 *
 * Only what has expired is an orphan for want of an answer, and counts as one.
 *
 * A count of losses that is too low lets a commit pass, so it is lowered only for LOST
 * holds.  One that is HELD, against all rules, is left to the watchdog.
 */
void
lt_drop_lost_locked(LrIndex hold)
{
	const LrHold *h = &lt_holds[hold];
	bool		lost = h->state == HOLD_LOST;

	Assert(lost);
	if (lost)
		pg_atomic_fetch_sub_u32(&lt_sessions[LrMyProcNumber].nlost, 1);
	if (h->traces == 0)
		lt_free_hold(hold);
	else if (h->as.lost.reason == LOST_EXPIRED)
		lt_make_orphan(hold);
	else
		lt_leave_to_watchdog(hold);
}

/*
 * lt_make_record --- a hold for what a waiting session has in the store; LR_NONE: there is no
 * row for that
 */
LrIndex
lt_make_record(LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);
	LrIndex		hold;

	if (!lt_reserve_row())
		return LR_NONE;
	hold = lt_alloc_hold();
	lt_init_waiting_hold(hold, w->key, &w->terms);
	lt_holds[hold].session = session;
	return hold;
}

/*
 * lt_disown --- leave to the watchdog what a waiting session has in the store
 *
 * The session does not run, or others would wait for that.  Partition lock held, by any
 * process.  The session finds out when it asks again, or is granted the lock under an
 * owner that the watchdog has by then, and starts anew with another one.  False: there
 * is no row for a record.
 *
 *	 W is announced as 1, is woken, and is stopped
 *									watchdog: 1 goes into a record
 *									watchdog: release of 1, a message
 *									another one takes the lock
 *	 W goes on: asks as 2, and stands behind all that wait by then
 */
bool
lt_disown(LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);
	LrIndex		hold = lt_make_record(session);
	LrHold	   *h;

	if (hold == LR_NONE)
		return false;
	h = &lt_holds[hold];
	lt_first_trace(h, w->asked.claim);
	if (w->asked.trying)
		lt_set_not_after(h, h->claim.store, NOT_AFTER_UNKNOWN);
	w->asked.disowned = w->asked.claim.owner;
	w->asked.claim.owner = 0;
	w->place.notified_at = 0;	/* the others need not wait for it any more */
	lt_leave_to_watchdog(hold);
	return true;
}

/*
 * lt_disown_next --- the session has come back before one that may be announced
 *
 * That one is no longer in front and would sleep.  The session that asks now came
 * later, by the store's clock, and would be refused for it.
 */
void
lt_disown_next(LrIndex session)
{
	LrIndex		next = lt_wait_of(session)->next;

	if (lt_wait_of(session)->state == WAIT_PLACED)
		return;
	if (next != LR_NONE && lt_wait_of(next)->asked.claim.owner != 0)
		(void) lt_disown(next);
}

/*
 * lt_drop_handed --- the session waits again without the lock that it was handed, which
 * is gone, or which nobody here can use; the watchdog releases it
 */
void
lt_drop_handed(LrIndex session)
{
	LrIndex		handed = lt_wait_of(session)->handed;
	LrKey	   *key = lt_key_of(handed);

	lt_wait_on(session, true);
	lt_disown_next(session);
	lt_nudge_front(&key->queue);
	lt_make_orphan(handed);
	lt_nudge_placeless(key);
}

/*
 * lt_lose_locked --- a lock that is held, or was handed over, is gone
 */
void
lt_lose_locked(LrIndex hold, LostReason reason, const char *taken_by)
{
	if (lt_holds[hold].state == HOLD_HELD)
		lose_locked(hold, reason, taken_by);
	else if (lt_holds[hold].state == HOLD_HANDED)
		lt_drop_handed(lt_holds[hold].session);
}

/* ----------
 * For a process that finds a lock gone
 * ----------
 */

void
lt_drop_lost(LrIndex hold)
{
	lt_lock_hold(hold);
	lt_drop_lost_locked(hold);
	lt_unlock();
}

/*
 * lt_lose --- see locktable.h
 *
 * Nobody loses a lock that is being handed over: its next session has not seen it yet.
 */
void
lt_lose(LrIndex hold, const StoreOp *op)
{
	if (!lt_lock_owned(hold, op->owner))
		return;
	if (lt_moves(&lt_holds[hold]) == op->moves)
		lt_lose_locked(hold, lt_reason_of(op), lt_taken_by(op));
	lt_unlock();
}

/* ----------
 * Taken away by force
 * ----------
 */

/*
 * lose_note_forced --- note that requests until now may have been granted before the key
 * was taken away from that owner, or from all
 *
 * An entry has room for one owner.  What the one before it has asked until then is from now
 * on among what all have asked.
 */
static void
lose_note_forced(uint32 hash, bool one, uint64 owner)
{
	LrForced   *forced = &lt_table->forced[hash % LT_FORCED];
	int64		now = lr_now();

	if (!one)
		forced->all_until = now;
	else if (owner != 0)
	{
		if (owner != forced->owner)
			forced->all_until = lr_later(forced->all_until, forced->until);
		forced->owner = owner;
		forced->until = now;
	}
}

/*
 * lose_forced --- mark the holds lost that the key was taken away from
 *
 * Since the store answered, the lock may have been moved there again.  And if all owners
 * lost the key, one of them may have got it just after that.  The watchdog releases it.
 */
static void
lose_forced(LrIndex key, bool one, uint64 owner)
{
	LrIndex		next;

	for (LrIndex i = lt_keys[key].first_hold; i != LR_NONE; i = next)
	{
		const LrHold *h = &lt_holds[i];

		next = h->next;
		if (!lr_kind(h->kind)->passing && (!one || h->claim.owner == owner))
			lt_lose_locked(i, LOST_FORCED, NULL);
	}
}

/*
 * lt_lose_forced --- see locktable.h
 *
 * A create that was answered, but is not granted yet, may have been undone by that:
 *
 *	 A: asks for the lock; the answer is on its way
 *	 F: takes it away from A
 *	 A: reads the answer: granted
 *
 * So grants of A's requests from before now do not count (grant_was_forced).
 */
void
lt_lose_forced(const LrName *name, const char *owner_text)
{
	bool		one = owner_text != NULL;
	uint64		owner = one ? lr_owner_number(owner_text) : 0;
	LrIndex		key;

	lt_lock(name->hash);
	lose_note_forced(name->hash, one, owner);
	key = lt_find_key(name->data, name->len, name->hash);
	if (key != LR_NONE)
		lose_forced(key, one, owner);
	lt_unlock();
}
