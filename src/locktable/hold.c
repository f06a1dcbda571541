/*-------------------------------------------------------------------------
 *
 * hold.c
 *	  The lock table: what the session that holds a lock does with it, from its grant
 *	  to its release.
 *
 * Each transition is made under the partition lock and checks the state it starts from,
 * as another process may have found the lock gone (lose.c).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/hold.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable/locktable_int.h"
#include "settings.h"
#include "stats.h"

/* No lock: both are written before the hold is ours, and stay until it is freed. */
uint64
lt_owner(LrIndex hold)
{
	return lt_holds[hold].claim.owner;
}

const char *
lt_hold_name(LrIndex hold)
{
	return lt_key_of(hold)->name;
}

/* A lease only gets longer, so it does not end before that time. */
int64
lt_lease_end(LrIndex hold)
{
	return lt_deadline(hold);
}

/* No lock: only its session sets the scopes. */
int64
lt_commits_until(LrIndex hold)
{
	int64		lease_ms = lt_longest_lease_ms(lt_holds[hold].scope);

	return lt_deadline(hold) - lr_commit_margin(lease_ms * LR_US_PER_MS);
}

/*
 * hold_copy_view --- copy what a session may want to know; partition lock held
 */
static void
hold_copy_view(LrIndex hold, HoldView *view)
{
	const LrHold *h = &lt_holds[hold];

	view->state = h->state;
	view->kind = h->kind;
	view->deadline = lt_deadline(hold);
	view->store = h->claim.store;
	view->moves = lt_moves(h);
	view->place = h->claim.place;
	view->of_old_master = lt_is_of_old_master(h, h->claim.store);
	view->promised_ms = lt_promised_ms(hold);
	view->owner = h->claim.owner;
	memcpy(view->id, h->given.id, STORE_ID_LEN);
	view->fence = h->given.fenced ? h->given.fence : 0;
	view->fence_store = h->given.fence_store;
	view->guard = GUARD_OFF;
	for (int i = 0; i < SCOPE_COUNT; i++)
		if (h->scope[i].count > 0)
			view->guard = Max(view->guard, h->scope[i].guard);
	view->keep_until = h->keep_until;
	memcpy(view->scope, h->scope, sizeof(view->scope));
	lt_copy_loss(h, &view->lost);
}

void
lt_look(LrIndex hold, HoldView *view)
{
	lt_lock_hold(hold);
	lt_lose_if_expired(hold);
	hold_copy_view(hold, view);
	lt_unlock();
}

/*
 * lt_store_of_key --- see locktable.h
 */
StoreId
lt_store_of_key(const LrName *name)
{
	StoreId		store = current_store();
	LrIndex		key;

	lt_lock_shared(name->hash);
	key = lt_find_key(name->data, name->len, name->hash);
	if (key != LR_NONE)
		for (LrIndex i = lt_keys[key].first_hold; i != LR_NONE; i = lt_holds[i].next)
			if (lt_is_had(&lt_holds[i]))
				store = lt_holds[i].claim.store;
	lt_unlock();
	return store;
}

/*
 * lt_raise_locked --- a store has the lock until then; partition lock held
 *
 * A deadline that has passed is not raised, since other sessions may have gone on by
 * then.  Returns false in that case.
 */
bool
lt_raise_locked(LrIndex hold, int64 deadline)
{
	int64		current = lt_deadline(hold);

	if (current <= lr_now())
		return false;
	if (deadline > current)
		pg_atomic_write_u64(&lt_holds[hold].deadline, deadline);
	return true;
}

/*
 * hold_note_answer --- the store has confirmed the lock; that says nothing if it is in another
 * store, or at another master, by now
 *
 * The hold may have been lost before the request ran (lt_lost_is_there).
 */
static void
hold_note_answer(LrIndex hold, int64 deadline, uint64 moves)
{
	LrHold	   *h = &lt_holds[hold];
	bool		same = moves == lt_moves(h);

	if (same)
		lt_note_answer(h, moves);
	if (same && h->state == HOLD_HELD)
		(void) lt_raise_locked(hold, deadline);
	if (h->state == HOLD_LOST)
		lt_lost_is_there(hold);
}

bool
lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
			 int64 deadline, uint64 moves)
{
	LrHold	   *h = &lt_holds[hold];
	bool		second = h->scope[scope].count == 0 && part->count > 0;
	int			rows;

	/* Only we write the scopes, so we can read them without the lock. */
	if (second && !lt_take_row())
		return false;

	lt_lock(lt_key_of(hold)->hash);
	rows = lt_hold_rows(h) + (second ? 1 : 0);
	h->scope[scope] = *part;
	if (part->count > 0)
		lt_ask_longer(h, part->lease_ms);
	lt_free_rows(rows - lt_hold_rows(h));
	if (deadline != 0)
		hold_note_answer(hold, deadline, moves);
	if (h->state == HOLD_HELD)
	{
		lt_set_due_in_own(hold);
		lt_nudge_placeless(lt_key_of(hold));
	}
	lt_unlock();
	return true;
}

/*
 * lt_keep_longer --- see locktable.h
 */
void
lt_keep_longer(LrIndex hold, int64 keep_until)
{
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	h->keep_until = Max(h->keep_until, keep_until);
	lt_nudge_placeless(lt_key_of(hold));
	lt_unlock();
}

/*
 * lt_note_lease --- a lease of that length is requested; the answer may not be read
 *
 * The store may have the lock for as long, whatever lease the session knows of, and
 * even if it takes the scope back, as it learns of a loss meanwhile.  Then, a lease that is no
 * longer than an earlier one ends later, too.
 */
void
lt_note_lease(LrIndex hold, int64 lease_ms)
{
	lt_lock_hold(hold);
	lt_ask_longer(&lt_holds[hold], lease_ms);
	lt_unlock();
}

void
lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves)
{
	lt_lock_hold(hold);
	hold_note_answer(hold, deadline, moves);
	if (lt_holds[hold].state == HOLD_HELD)
		lt_set_due_in_own(hold);
	lt_unlock();
}

void
lt_set_committing(LrIndex hold, bool committing)
{
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	h->renewal.committing = committing;
	if (h->state == HOLD_HELD)
		lt_set_due_in_own(hold);
	lt_unlock();
}

ReleaseStart
lt_begin_release(LrIndex hold, bool aside, HoldView *view)
{
	LrHold	   *h = &lt_holds[hold];
	ReleaseStart start = RELEASE_IN_STORE;

	lt_lock_hold(hold);
	lt_lose_if_expired(hold);
	hold_copy_view(hold, view);
	if (h->state == HOLD_LOST)
		start = RELEASE_LOST;
	else if (!aside && lt_hand_over(hold))
		start = RELEASE_HANDED_OVER;
	else
	{
		h->state = HOLD_RELEASING;
		lt_nudge_placeless(lt_key_of(hold));
		lt_nudge_behind(hold);
	}
	view->awaited = start == RELEASE_IN_STORE &&
		(lt_key_of(hold)->queue.list.head != LR_NONE ||
		 lt_key_of(hold)->places.list.head != LR_NONE || lt_key_of(hold)->notified_elsewhere);
	lt_unlock();
	return start;
}

/*
 * lt_is_held --- see locktable.h
 *
 * A session notes that it releases a lock before it sends that.
 */
bool
lt_is_held(const StoreOp *op)
{
	bool		held;

	if (!lt_lock_owned(op->hold, op->owner))
		return false;
	held = lt_is_had(&lt_holds[op->hold]);
	lt_unlock();
	return held;
}

/*
 * hold_note_stay --- note here_from (locktable.h) for the key; see lt_key_stayed_here
 *
 * Kinds that are no locks (passing) say nothing about that.
 */
static void
hold_note_stay(LrIndex hold, int64 from)
{
	if (lr_kind(lt_holds[hold].kind)->passing)
		return;
	lt_key_of(hold)->here_from = from;
	lt_key_of(hold)->here_kind = lt_holds[hold].kind;
}

bool
lt_let_stay(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	bool		had;

	lt_lock_hold(hold);
	lt_lose_if_expired(hold);
	had = h->state == HOLD_HELD;
	if (had)
		lt_free_and_nudge(hold);
	else
		lt_drop_lost_locked(hold);
	lt_unlock();
	return had;
}

/*
 * lt_end_release --- see locktable.h
 *
 * The answer of a former master says nothing about what the present one has.
 */
void
lt_end_release(LrIndex hold, const StoreOp *op)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		left;

	lt_lock(lt_key_of(hold)->hash);
	Assert(h->state == HOLD_RELEASING);
	if (!lr_kind(h->kind)->passing)
		lt_begin_pause(hold, op);
	hold_note_stay(hold, h->as.held.here_from);
	left = h->nodes & op->sent.nodes;
	if (left == 0 && !lt_is_past(h->key, op->sent.topology))
		lt_forget_trace(h, op->store);
	if (h->traces != 0)
	{
		lt_leave_to_watchdog(hold);
		h->nodes = left;
	}
	else
		lt_free_and_nudge(hold);
	lt_unlock();
}

/*
 * lt_orphan --- the release of a hold was not answered
 *
 * A release finds its owner or does nothing, so it may run late.  The watchdog only has
 * to repeat it until one has run.
 */
void
lt_orphan(LrIndex hold, int64 sent_at)
{
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	Assert(h->state == HOLD_RELEASING);

	/*
	 * We held the lock until then, and the store has not answered since; but the key may
	 * have to stay locked, for the next session of this server, too.
	 */
	if (lr_store_can(h->claim.store, STORE_SERVER_ONLY))
		hold_note_stay(hold, h->as.held.here_from);
	else if (h->keep_until > lr_now())
		hold_note_stay(hold, 0);
	else
		hold_note_stay(hold, sent_at != 0 ? sent_at : lr_now());
	lt_make_orphan(hold);
	lt_unlock();
}

/*
 * lt_moved --- the watchdog has moved a held lock: from now on it is in that store; partition
 * lock held
 *
 * While the request was under way, the old store may have granted a longer lease than
 * the new one did: for a re-entry, or for renewals while the reply was late.  Then the
 * lock stays where it is, and the move is repeated with its present lease.  Likewise if
 * the lock requires more replicas by now.  The deadline of a lease that is not renewed
 * stays as it is.
 *
 * The trace of the lock in the old store stays, so that the watchdog releases it there.
 * If the deadline has passed, the lock is lost, and the watchdog releases what the move
 * has created.
 */
void
lt_moved(const DueItem *item, int64 deadline)
{
	LrIndex		hold = item->op.hold;
	LrHold	   *h = &lt_holds[hold];

	if (deadline < lt_deadline(hold) || lt_lacks_replicas(item, deadline))
	{
		lt_set_due(hold, item->op.store, lr_now());
		return;
	}
	if (!lt_raise_locked(hold, lt_renew_lease_ms(h) > 0 ? deadline : 0))
	{
		lt_lose_if_expired(hold);
		return;
	}
	h->claim.store = item->op.store;
	h->claim.moves++;
	h->as.held.here_from = lt_here_since(item->op.store, lr_now());
	h->as.held.reserve.left = 0;
	lr_count(STAT_MOVES);
	if (h->state == HOLD_HELD)
		lt_set_due_of_held(hold);
}

/* ----------
 * A lock that its session releases while it waits for a condition
 *
 * Meanwhile its hold is LOST, for the reason LOST_WAITING.  So however the wait ends,
 * the session finds that it does not have the lock, without anybody's help.
 *
 *	 HELD --lt_begin_release--> RELEASING --lt_end_aside--> LOST (LOST_WAITING)
 *								   |
 *								   +--lt_end_aside: it was gone--> LOST
 *
 * A loss for that reason counts in nlost, but is neither logged nor signalled.
 * ----------
 */

/*
 * lt_end_aside --- see locktable.h
 *
 * The answer of a former master says nothing of what the present one has.  What a store
 * may still have is released by the watchdog.
 */
void
lt_end_aside(LrIndex hold, const StoreOp *op)
{
	LrHold	   *h = &lt_holds[hold];

	lt_lock_hold(hold);
	Assert(h->state == HOLD_RELEASING);
	h->state = HOLD_HELD;
	if (op->outcome == STORE_GONE)
		lt_lose_locked(hold, lt_reason_of(op), lt_taken_by(op));
	else
	{
		hold_note_stay(hold, h->as.held.here_from);
		if ((op->outcome == STORE_BUSY || op->outcome == STORE_OK) &&
			!lt_is_past(h->key, op->sent.topology))
			lt_forget_trace(h, op->store);
		lt_lose_locked(hold, LOST_WAITING, NULL);
	}
	lt_unlock();
}

/* ----------
 * Releases whose answer their session does not await (lockredis.release_wait)
 *
 * As soon as the release is sent, the hold is an orphan.  The watchdog repeats the
 * release if the session has not read the answer after SENT_REPEAT.  That is harmless,
 * as a release checks the owner, and no owner is used twice.  Meanwhile the session
 * itself may ask for the key again, since its request follows the release on the same
 * connection.  The other sessions of this server wait for the answer; the first one
 * that waits has the release repeated at once.
 *
 *	 A sends the release of a, returns		the node runs it; the answer lies in A's socket
 *	 B wants the key: a is due now
 *											watchdog: repeats the release of a: gone
 *	 B is woken, asks, takes the key as b
 *	 A asks for something, reads its answer: the hold is not a's any more
 *
 * If a release runs twice, the second answer is that the owner is gone.  So that
 * answer, read by the session, means a loss only if nothing was repeated before.
 * ----------
 */

/* If the session has not read the answer after this, the watchdog repeats the release. */
#define SENT_REPEAT			(100 * LR_US_PER_MS)

/* The answer wakes no session that waits in the order of the store, so that one polls. */
#define SENT_POLL			(10 * LR_US_PER_MS)

void
lt_leave_sent(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	int64		now = lr_now();

	lt_lock_hold(hold);
	Assert(h->state == HOLD_RELEASING);
	hold_note_stay(hold, h->as.held.here_from);
	lt_leave_until(hold, now + SENT_REPEAT);
	h->as.sent.pid = MyProcPid;
	h->as.sent.until = now + SENT_PATIENCE;
	lt_unlock();
}

/*
 * sent_note_loss --- the release has found that the lock was gone
 */
static void
sent_note_loss(const LrHold *h, const StoreOp *op)
{
	const LrKey *key = &lt_keys[h->key];
	ScopeHold	scope[SCOPE_COUNT] = {0};
	LockLoss	loss;

	scope[SCOPE_XACT].count = 1;
	lr_count(STAT_LOSSES);
	losses_note(&loss, lt_reason_of(op), lt_taken_by(op));
	(void) losses_add(h->as.sent.pid, key->name, key->name_len, scope, &loss);
	lt_add_watchdog();
}

/*
 * lt_end_sent --- see locktable.h
 *
 * If the release will not be answered, the watchdog repeats it, and this session has to wait
 * for that like all others: a request of its own over a new connection may overtake the
 * release.  The answer of a former master does not count, so the watchdog repeats the release
 * then, too.  It also releases what may be left elsewhere.
 */
bool
lt_end_sent(const StoreOp *op)
{
	LrIndex		hold = op->hold;
	LrHold	   *h = &lt_holds[hold];
	bool		released = op->outcome == STORE_OK;
	bool		notified = false;

	if (!lt_lock_owned(hold, op->owner))
		return false;
	Assert(h->state == HOLD_ORPHAN && h->as.sent.pid == MyProcPid);
	if (op->outcome == STORE_UNKNOWN)
		h->as.sent.pid = 0;
	else if ((released || !h->as.sent.repeated) && !lt_is_past(h->key, op->sent.topology))
	{
		if (released)
		{
			lt_begin_pause(hold, op);
			notified = lt_key_of(hold)->notified_elsewhere;
		}
		else
			sent_note_loss(h, op);
		h->as.sent.until = 0;
		lt_forget_trace(h, op->store);
		if (h->traces == 0)
			lt_free_and_nudge(hold);
		else
			lt_set_due_in_traces(hold, lr_now());
	}
	lt_unlock();
	return notified;
}

/*
 * lt_find_sent --- find a lock whose release another session has sent, and which conflicts
 * with "kind"; LR_NONE: there is none to wait for
 */
LrIndex
lt_find_sent(const LrKey *key, KindId kind, int64 now)
{
	if (!lt_has_kinds(key, lr_kind(kind)->excludes) || !lr_watchdog_running())
		return LR_NONE;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].state == HOLD_ORPHAN && lt_holds[i].as.sent.until > now &&
			lt_holds[i].as.sent.pid != MyProcPid && lr_kinds_conflict(kind, lt_holds[i].kind))
			return i;
	return LR_NONE;
}

/*
 * lt_awaits_sent --- does this session have to wait for the answer to such a release?
 */
bool
lt_awaits_sent(const LrKey *key, const LrWait *w, int64 now, int64 *look_again)
{
	LrIndex		sent = lt_find_sent(key, w->terms.kind, now);

	if (sent == LR_NONE)
		return false;
	if (!lt_holds[sent].as.sent.repeated)
		lt_set_due(sent, lt_holds[sent].claim.store, now);
	*look_again = w->state == WAIT_PLACED ? now + SENT_POLL : lt_holds[sent].as.sent.until;
	return true;
}
