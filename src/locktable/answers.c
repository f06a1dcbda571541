/*-------------------------------------------------------------------------
 *
 * answers.c
 *	  The lock table: the stores' answers to the watchdog.
 *
 * An answer counts only if the hold still has the same owner (lt_lock_owned).  For a
 * hold that is held, the answer counts only if it has not moved since the request.
 *
 * An orphan whose create may still be on its way is released repeatedly, until a
 * release has run after the last moment at which the create may run, both by the
 * store's own clock: TIME is sent before the releases, so a release in the same
 * batch runs later than the time that it returns.
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
#include "names.h"
#include "settings.h"
#include "stats.h"

/* Delay until an orphan is released again. */
#define ORPHAN_REPEAT		(100 * LR_US_PER_MS)

/* Likewise for what most nodes have released, at the others. */
#define LEFT_REPEAT			LR_US_PER_S

/* An answer for a hold, whose partition is locked. */
typedef struct Answer
{
	const DueItem *item;
	const StoreOp *op;			/* of a move the CREATE; the SET is behind it */
	const StoreOp *time;
	LrHold	   *h;
	int64		retry_at;		/* when to repeat what was not done */
	bool		has_room;		/* for what is to be done at the old place */
	DueResult	result;
} Answer;

/*
 * answer_again --- the hold is due again in that store at "at"
 */
static void
answer_again(const Answer *a, int64 at)
{
	LrIndex		hold = a->item->op.hold;
	StoreId		store = a->item->op.store;

	if (a->h->state == HOLD_HELD)
		lt_set_due(hold, store,
				   a->h->claim.store == store ? lr_earlier(at, lt_deadline(hold)) : at);
	else if (lt_is_left(a->h) && (a->h->traces & STORE_BIT(store)) != 0)
		lt_set_due(hold, store, at);
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

static bool
answer_is_refusal(const StoreOp *op)
{
	return op->answer.own_fault &&
		(op->outcome == STORE_REFUSED || op->outcome == STORE_DENIED);
}

/*
 * answer_left_is_over --- has the lease of what is left ended by now, so that no store has it?
 *
 * A read lock that a session holds beside a write lock extends both in the store.
 */
static bool
answer_left_is_over(LrHold *h)
{
	if (!lt_is_left(h))
		return false;
	for (LrIndex i = lt_keys[h->key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (kindset_has(lr_kind(lt_holds[i].kind)->beside, h->kind))
			h->lasts = lr_later(h->lasts, lt_deadline(i));
	return h->lasts <= lr_now();
}

/*
 * answer_refused --- the store refuses this, though it does others; has the lease of what is
 * left ended by now?
 *
 * A held lock is tried a few times more before its end, as somebody may remove the cause by
 * then.
 */
static bool
answer_refused(Answer *a, bool alone)
{
	LrHold	   *h = a->h;
	int64		now = lr_now();
	int64		again = now + (AGAIN_FIRST << Min(h->renewal.refusals, AGAIN_DOUBLED));
	bool		over = answer_left_is_over(h);

	a->result.refused = h->renewal.refusals == 0;
	if (h->renewal.refusals <= AGAIN_DOUBLED)
		h->renewal.refusals++;
	h->renewal.alone = h->renewal.alone || alone;
	if (h->state == HOLD_HELD)
	{
		int64		left = lt_deadline(a->item->op.hold) - now;

		again = Min(again, now + Max(left / 4, AGAIN_MIN));
	}
	else if (lt_is_left(h) && !over)
		again = Min(again, h->lasts);
	a->retry_at = again + AGAIN_STEP - again % AGAIN_STEP;
	return over;
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

/* ----------
 * Renewals
 * ----------
 */

/*
 * answer_note_renewal --- the store in which a session has the lock, or is handed it, has
 * confirmed it
 *
 * If no scope wants the lease renewed, the request asked for no more than is left of the
 * lease (due_fill_item), and the deadline stays.  If the lock is being handed over, the
 * renewal counts for the next session, which sets the due time when it runs.
 */
static void
answer_note_renewal(Answer *a, int64 deadline)
{
	LrIndex		hold = a->item->op.hold;
	LrHold	   *h = a->h;
	bool		renewed = lt_renew_lease_ms(h) > 0;
	bool		in_time;

	/*
	 * The request also went to those of several masters that did not have the lock: that is
	 * tried once.  If one has come back since the item was collected, look_at is another.
	 */
	if (h->as.held.look_at == a->item->look_at && h->as.held.look_at != LR_NEVER)
		h->as.held.look_at = 0;
	if (renewed && lt_lacks_replicas(a->item, deadline))
	{
		answer_again(a, lr_now());
		return;
	}
	lt_note_answer(h, a->item->op.moves);
	in_time = lt_raise_locked(hold, renewed ? deadline : 0);
	if (in_time)
		lr_count(STAT_RENEWALS);
	if (h->state == HOLD_HANDED)
		return;
	if (!in_time)
	{
		lt_lose_locked(hold, LOST_EXPIRED, NULL);
		return;
	}
	if (renewed)
		h->renewal.n++;
	lt_watch_from(h, lr_now(), a->op->answer.ttl_ms);
	lt_set_due_in_own(hold);
}

/*
 * answer_renewal --- the lock was renewed, is lost, or is tried again
 *
 * A hold that has been left meanwhile may have been renewed after that.  Should its release be
 * refused, it is there for longer than was noted then (lt_leave_until):
 *
 *	 watchdog: is to renew k, and is stopped	S ends at T: k lasts until T + lease
 *	 watchdog: renews k at T + 5 s
 */
static void
answer_renewal(Answer *a)
{
	const DueItem *item = a->item;
	const StoreOp *op = a->op;
	bool		same = lt_moves(a->h) == item->op.moves;

	if (lt_is_left(a->h))
		lt_ask_longer(a->h, item->op.lease_ms);
	if (answer_is_refusal(op))
		(void) answer_refused(a, op->args.alone);
	switch (op->outcome)
	{
		case STORE_OK:
			answer_accepted(a->h);
			if (same && lt_is_had(a->h))
				answer_note_renewal(a, lr_lease_deadline(op->sent.at, item->op.lease_ms));
			else if (a->h->state == HOLD_LOST)
				lt_lost_is_there(item->op.hold);
			if ((op->sent.nodes & ~item->nodes) != 0)
				lt_note_nodes(item->op.hold, op);
			break;
		case STORE_GONE:
		case STORE_WRONG_TYPE:
			if (same)
				lt_lose_locked(item->op.hold, lt_reason_of(op), lt_taken_by(op));
			break;
		default:
			answer_again(a, a->retry_at);
	}
}

/* ----------
 * Releases
 * ----------
 */

/*
 * The store's clock (ms) after which no request sent until now can run; a session may have
 * begun it before a reload that has lowered the time limits.
 */
static int64
end_of_calls(const StoreOp *time)
{
	return time->answer.store_ms + lr_longest_call() / LR_US_PER_MS;
}

/*
 * answer_nothing_left --- nothing of that owner remains in the store, and the watchdog deals
 * with the place where lockredis.url pointed before
 *
 * If the lock is held in the other store, it may have to move here by now.
 */
static void
answer_nothing_left(Answer *a)
{
	LrIndex		hold = a->item->op.hold;
	StoreId		store = a->item->op.store;
	LrHold	   *h = a->h;

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
}

/*
 * answer_done_here --- what is still to be done at the old place needs no record any more, if
 * there is room for it
 */
static void
answer_done_here(Answer *a)
{
	if (a->item->at_old_place && !a->has_room)
	{
		answer_again(a, lr_now() + ORPHAN_REPEAT);
		return;
	}
	a->result.is_farewell = a->item->at_old_place;
	answer_nothing_left(a);
}

/*
 * answer_left --- most nodes have released the lock, some had not
 *
 * At those it expires in the end, whether they come back or not; the same goes for
 * nodes that lockredis.url does not name any more.
 */
static void
answer_left(Answer *a, bool ran)
{
	const DueItem *item = a->item;
	int64		now = lr_now();
	uint32		nodes = ran ? item->nodes & a->op->sent.nodes : item->nodes;

	if (nodes == 0 || now >= item->ends_at || item->at_old_place)
	{
		answer_nothing_left(a);
		return;
	}
	a->h->nodes = nodes;
	answer_again(a, lr_earlier(Max(now + LEFT_REPEAT, a->retry_at), item->ends_at));
}

/*
 * answer_limit --- a create of an orphan cannot run later than a call from now
 *
 * The session may have gone by a wrong clock of the store: if that clock was ahead and
 * has been set back, the orphan must not stay until the clock gets there again.  The
 * time that was noted before is ignored if it may be by the clock of another node
 * (NOT_AFTER_UNKNOWN).  From now on the orphan goes by the node that was asked.
 */
static void
answer_limit(const Answer *a)
{
	const StoreOp *op = &a->item->op;
	int64		not_after = end_of_calls(a->time);

	if (a->item->not_after != NOT_AFTER_UNKNOWN)
		not_after = Min(a->h->not_after, not_after);
	lt_set_not_after(a->h, op->store, not_after);
	if (op->store == a->h->claim.store && lr_store_can(op->store, STORE_HAS_PLACE))
		a->h->claim.topology = (uint32) op->moves;
}

/*
 * answer_give_back --- an orphan was released, or is tried again
 *
 * It is gone when a release has run after the last possible create, or when a release
 * is refused and the lease is over.  A table that refuses everything has nothing of it then,
 * as it answers in the order of the requests; its traces must not fill the lock table.
 * What was taken from a number has no lease.
 */
static void
answer_give_back(Answer *a)
{
	const StoreOp *op = a->op;
	int64		not_after = a->item->not_after;
	bool		ran = op->outcome == STORE_OK || op->outcome == STORE_GONE ||
		op->outcome == STORE_WRONG_TYPE;
	bool		knows_time = a->time->outcome == STORE_OK;

	if (a->item->nodes != 0)
	{
		answer_left(a, ran);
		return;
	}
	if (ran)
		a->retry_at = lr_now() + ORPHAN_REPEAT;
	else if (answer_is_refusal(op))
		ran = answer_refused(a, op->args.alone);
	else if (op->outcome == STORE_REFUSED && lr_store_can(op->store, STORE_SERVER_ONLY) &&
			 !lr_is_number(a->h->kind) && answer_left_is_over(a->h))
		ran = true;
	else
	{
		answer_again(a, a->retry_at);
		return;
	}
	if (ran && (not_after == 0 || (knows_time && a->time->answer.store_ms > not_after)))
	{
		answer_done_here(a);
		return;
	}
	if (not_after != 0 && knows_time)
		answer_limit(a);
	answer_again(a, a->retry_at);
}

/* ----------
 * Counts
 * ----------
 */

/*
 * answer_count --- it was counted, cannot be, or is tried again
 *
 * While no request may have run, a later one cannot count twice.  If the answered request
 * was the only one that may run, the store may forget its ticket.  When a slot moves, the
 * watchdog asks the new node before the former one has answered:
 *
 *	 node 1 is asked, and hangs		the slot moves: node 2 is asked, late
 *	 node 1 sends on to node 2, which counts
 *	 the ticket is forgotten		the second request arrives, and counts
 */
static void
answer_count(Answer *a)
{
	const StoreOp *op = a->op;
	LrCount    *count = &a->h->as.count;
	bool		refused = answer_is_refusal(op);

	if (op->outcome == STORE_WRONG_TYPE)
		a->result.dropped = "The key holds something else.";
	else if (op->outcome == STORE_OK)
		a->result.forget = !op->sent.again && count->sent == 1;
	else
	{
		if (op->outcome == STORE_DOWN || op->outcome == STORE_BLOCKED ||
			(refused && !op->sent.again))
			count->sent--;
		if (!refused || !answer_refused(a, op->args.alone))
		{
			answer_again(a, a->retry_at);
			return;
		}
		a->result.dropped = "The lock store refuses it.";
	}
	answer_nothing_left(a);
}

/*
 * answer_drop --- give up a count that may have been made
 *
 * To repeat it could count twice: the store does not know the ticket any more, or it is
 * another store now; then the request goes to the old one.
 */
static void
answer_drop(Answer *a)
{
	if (!a->item->at_old_place)
		a->result.dropped = "It may have been counted: the lock store does not remember that any more.";
	answer_done_here(a);
}

/* ----------
 * A lock moves to another store
 * ----------
 */

/*
 * answer_pending --- until when a create of this move may still run, by the store's
 * clock
 *
 * That includes earlier ones whose reply was not read either; 0 if none can.
 */
static int64
answer_pending(const Answer *a)
{
	int64		not_after = a->item->not_after;

	if (not_after != 0 && a->time->outcome == STORE_OK)
		not_after = a->time->answer.store_ms > not_after ? 0 :
			Min(not_after, end_of_calls(a->time));
	if (a->op->outcome == STORE_UNKNOWN)
		not_after = Max(not_after, a->op->sent.not_after);
	return not_after;
}

/*
 * answer_is_taken --- does another client hold the key, so that our lock must give way?
 *
 * That is so only in a store that excludes clients elsewhere.  In one that excludes
 * only this server, it is a row that has outlived its server, or that somebody has
 * changed: our lock stays in the other store for as long as it can.  What an earlier
 * owner of this server has left is no reason either: it will soon be released.
 */
static bool
answer_is_taken(const StoreOp *set)
{
	if (lr_store_can(set->store, STORE_SERVER_ONLY))
		return false;
	if (set->outcome == STORE_WRONG_TYPE)
		return true;
	return set->outcome == STORE_GONE && set->answer.holder[0] != '\0' &&
		strncmp(set->answer.holder, lr_instance_uuid(), LR_UUID_LEN) != 0;
}

/*
 * answer_move --- the lock is here now, is taken by another client, or is tried again
 *
 * Whatever has become of the hold, it is noted until when the create of the move may run.
 */
static void
answer_move(Answer *a)
{
	const DueItem *item = a->item;
	const StoreOp *set = a->op + 1;
	LrHold	   *h = a->h;
	bool		may_move = lt_is_had(h) && lt_moves(h) == item->op.moves;

	if ((h->traces & STORE_BIT(item->op.store)) == 0)
		return;
	lt_set_not_after(h, item->op.store, answer_pending(a));
	if (lt_is_left(h))
		lt_set_due(item->op.hold, item->op.store, lr_now());
	if (set->outcome == STORE_OK)
	{
		answer_accepted(h);
		if (may_move)
			lt_moved(item, lr_lease_deadline(set->sent.at, item->op.lease_ms));
	}
	else if (answer_is_taken(set))
	{
		if (may_move)
			lt_lose_locked(item->op.hold, LOST_TAKEN, lt_taken_by(set));
	}
	else
	{
		if (answer_is_refusal(set) || answer_is_refusal(a->op))
			(void) answer_refused(a, set->args.alone);
		answer_again(a, a->retry_at);
	}
}

/*
 * lt_answered --- see watch.h
 */
DueResult
lt_answered(const DueItem *item, const StoreOp *op, const StoreOp *time, int64 retry_at,
			bool has_room)
{
	Answer		a = {.item = item,.op = op,.time = time,.h = &lt_holds[item->op.hold],
	.retry_at = retry_at,.has_room = has_room};

	if (!lt_lock_owned(item->op.hold, item->op.owner))
		return a.result;
	switch (item->action)
	{
		case DUE_RENEW:
			answer_renewal(&a);
			break;
		case DUE_GIVE_BACK:
			answer_give_back(&a);
			break;
		case DUE_MOVE:
			answer_move(&a);
			break;
		case DUE_COUNT:
			answer_count(&a);
			break;
		case DUE_DROP:
			answer_drop(&a);
			break;
		case DUE_NOTHING:
			break;
	}
	lt_unlock();
	return a.result;
}
