/*-------------------------------------------------------------------------
 *
 * grant.c
 *	  The lock table: the store has granted a lock to a session in front of a queue.
 *
 * Only sessions that can hold the key together have asked the store, so no other hold
 * should conflict; but while a session in front is stopped, the next may go first.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/grant.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable/locktable_int.h"
#include "settings.h"

/* A reachable master that does not have the lock gets it after this time. */
#define REPAIR_AFTER		LR_US_PER_S

/*
 * lt_set_terms --- the lock is held once, in one scope, on these terms
 */
void
lt_set_terms(LrHold *h, const LockTerms *terms, TimestampTz now)
{
	ScopeHold  *part = &h->scope[terms->scope];

	part->count = 1;
	part->renewed = terms->renewed;
	part->guard = terms->guard;
	part->on_lost = terms->on_lost;
	part->lease_ms = terms->lease_ms;
	part->min_replicas = terms->min_replicas;
	part->acquired_at = now;
	h->keep_until = terms->keep_until;
}

/*
 * grant_tokens --- the store has issued a token for the hold, and perhaps a reserve
 *
 * Tokens that were in reserve before are below the new one, so they are not used any
 * more.
 */
static void
grant_tokens(LrHold *h, const StoreOp *op)
{
	LrReserve  *reserve = &h->as.held.reserve;
	int64		token = op->answer.fence;

	h->given.fence = token;
	h->given.fence_store = op->store;
	h->given.fenced = true;
	if (h->state != HOLD_HELD)
		return;
	reserve->left = op->moves >> 32 == h->claim.moves ?
		store_last_token(token, op->amount) - token : 0;
	reserve->topology = (uint32) op->moves;
}

/*
 * grant_is_stale --- is the master that granted the lock no longer the master?
 *
 * A process that finds another master first publishes that and then looks at all
 * holds.  So we first publish the owner and then look which master is the present
 * one.  Either we see the new master, or the other process sees our hold, and the
 * new master is asked about it.
 */
static bool
grant_is_stale(LrIndex hold, const StoreOp *op)
{
	LrHold	   *h = &lt_holds[hold];

	if (op->sent.topology == 0)
		return false;
	h->claim.owner = op->owner;
	pg_memory_barrier();
	if (!lt_is_past(h->key, op->sent.topology))
		return false;
	h->claim.owner = 0;
	return true;
}

/*
 * grant_was_forced --- may the lock have been taken away by force since its grant?
 *
 * A create that was sent before the end of a redis_force_unlock of the key may have run
 * before the lock was taken away.  If the lock was taken away from one owner, that concerns
 * this owner's creates only.  Those of others are granted after it:
 *
 *	 A has it		F: takes it away from A; the answer is on its way
 *									B asks, and is granted the lock
 *					F: reads the answer
 *									B reads the answer: it has the lock
 *
 * If B released the lock it would lose its turn.  Several keys share an entry (LT_FORCED),
 * so a session may repeat its request needlessly.
 */
static bool
grant_was_forced(const LrHold *h, const StoreOp *op)
{
	const LrForced *forced = &lt_table->forced[lt_keys[h->key].hash % LT_FORCED];

	return !lr_kind(h->kind)->passing &&
		(op->sent.at <= forced->all_until ||
		 (op->owner == forced->owner && op->sent.at <= forced->until));
}

/*
 * grant_conflicts --- does another session of this server hold the lock?
 *
 * A session that waits in the order of the store may be notified of its turn before the
 * session that has released the lock has read the answer.
 *
 *	 A releases: the store notifies B
 *									B asks, and is granted the lock
 *	 A reads the answer
 *
 * A no longer uses the lock when it sends its release, so a RELEASING hold is no
 * conflict.  If B released the lock because of A's hold, B would lose its place in the
 * store, or sleep although the key is free.  The same goes for a head that asks while
 * such a lock, or one of several that were taken together, is acquired and released.
 *
 * A session that still has such a lock HELD, or was handed it, although the store has
 * granted it to another one, has probably lost it without knowing, so the watchdog asks
 * at once.
 */
static bool
grant_conflicts(LrKey *key, KindId kind, int64 now)
{
	LrIndex		hold = lt_conflicting_hold(key, LrMyProcNumber, kind, now);
	bool		conflict = false;

	for (; hold != LR_NONE; hold = lt_holds[hold].next)
	{
		const LrHold *h = &lt_holds[hold];
		bool		placed = lr_kind(kind)->placed || lr_kind(h->kind)->placed;

		if (!lt_is_live(hold, now) || !lt_keeps_from(hold, LrMyProcNumber, kind) ||
			h->state == HOLD_RELEASING)
			continue;
		conflict = true;
		if (placed && lt_is_had(h))
			lt_set_due(hold, h->claim.store, now);
	}
	return conflict;
}

/*
 * grant_is_overtaken --- can the key have been granted to somebody elsewhere since it
 * was judged that nobody there can have it?
 *
 * A store that excludes this server only is asked once the other store has been silent
 * for so long that nobody elsewhere can have the key any more.  If new locks go to the
 * other store by now, or it has answered in between, somebody can:
 *
 *	 session: asks the table	other store: silent -> answers, grants it -> silent
 *
 * The time of the request would not do, as a request that is blocked in the table is
 * sent again.
 */
static bool
grant_is_overtaken(StoreId store, int64 judged_at)
{
	return lr_store_can(store, STORE_SERVER_ONLY) &&
		(store != current_store() ||
		 (lr_has_fallback() && !silence_lasts_since(judged_at)));
}

/*
 * grant_repair --- some of several masters may not have the lock
 *
 * A master that is away gets the lock when the watchdog finds that it is back.
 *
 *	 session: look_at = LR_NEVER		watchdog: the master is there
 *	 barrier							barrier
 *	 is the master there?				look at look_at of all holds
 *
 * So at least one of the two sees the other's write.
 */
static void
grant_repair(LrIndex hold, uint32 without)
{
	LrHold	   *h = &lt_holds[hold];

	if (h->as.held.look_at == 0)
		h->as.held.look_at = LR_NEVER;
	pg_memory_barrier();
	if (!masters_are_there(h->claim.place, without))
		return;
	h->as.held.look_at = lr_earlier(h->as.held.look_at, lr_now() + REPAIR_AFTER);
	lt_set_due_in_own(hold);
}

/*
 * lt_note_nodes --- with several masters, a create or a renewal was answered: note which of
 * them may have the lock, and which may not (StoreSent.nodes and without)
 */
void
lt_note_nodes(LrIndex hold, const StoreOp *op)
{
	LrHold	   *h = &lt_holds[hold];

	if (h->state != HOLD_ORPHAN || h->nodes != 0)
		h->nodes |= op->sent.nodes;
	if (op->sent.without != 0 && h->state == HOLD_HELD)
		grant_repair(hold, op->sent.without);
}

/*
 * grant_locked --- the store granted us the lock; partition lock held
 *
 * If another session of this server still holds the lock, one of the two has lost it,
 * and we cannot tell here which: the key may have been deleted after either grant.  So
 * the newcomer gives way (its caller releases the new lock by its owner), and the next
 * renewal of the other hold finds out.
 */
static GrantResult
grant_locked(LrIndex hold, const StoreOp *op, int64 judged_at, const LockTerms *terms,
			 TimestampTz acquired_at)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];
	bool		queued = lt_wait_of(LrMyProcNumber)->state != WAIT_NONE;
	bool		ownerless = lr_kind(h->kind)->ownerless;
	bool		asks_ahead = false;
	int64		now = lr_now();
	int64		deadline = lr_lease_deadline(op->sent.at, terms->lease_ms);

	if (deadline <= now)
		return GRANT_TOO_LATE;
	if (grant_is_overtaken(op->store, judged_at) || grant_was_forced(h, op))
		return GRANT_STALE;
	if (grant_conflicts(key, h->kind, now) ||
		lt_is_being_given_back(key, h->kind, h->given.id))
		return GRANT_CONFLICT;
	if (ownerless ? lt_is_past(h->key, op->sent.topology) : grant_is_stale(hold, op))
		return GRANT_STALE;

	if (key->queue.list.head != LR_NONE)
	{
		LrOfList   *queue = &lt_wait_of(key->queue.list.head)->of_list;

		asks_ahead = queue->asks_ahead == LrMyProcNumber;
		queue->asks_ahead = LR_NONE;
		if (lt_wait_of(LrMyProcNumber)->state == WAIT_PLACED)
			queue->no_pause_until = 0;	/* one came for which they held back */
	}

	/* Nobody here will wake those that come to the front by an ownerless one: they ask. */
	if (queued && lt_leave_queue(LrMyProcNumber))
		lt_nudge_beside(&key->queue, ownerless ? 0 : lr_kind(h->kind)->excludes);
	if (!lr_kind(h->kind)->passing)
		key->handoffs = 0;
	if (ownerless)
	{
		key->here_from = 0;
		lt_free_hold(hold);
		return GRANTED;
	}
	lt_first_trace(h, lt_claim_of(op, h->key));
	h->state = HOLD_HELD;
	h->as.held.here_from = lt_here_since(op->store, now);
	if (op->args.fenced)
		grant_tokens(h, op);
	if (!asks_ahead)
		h->as.held.reserve.left = 0;
	lt_set_terms(h, terms, acquired_at);
	lt_watch_from(h, now, terms->lease_ms);
	lt_link_hold(hold);
	pg_atomic_write_u64(&h->deadline, deadline);

	/* The watchdog sees the hold from here on: now look which store is in use. */
	pg_memory_barrier();
	lt_set_due_of_held(hold);
	lt_note_nodes(hold, op);
	return GRANTED;
}

/*
 * lt_grant --- see locktable.h
 *
 * The store would not have granted the lock if it still had the one that the session was
 * handed meanwhile.  Unless the answer is older than that; then this costs a release.
 */
GrantResult
lt_grant(LrIndex hold, const StoreOp *op, int64 judged_at, const LockTerms *terms)
{
	TimestampTz acquired_at = GetCurrentTimestamp();
	GrantResult result;

	lt_lock_hold(hold);
	if (lt_wait_of(LrMyProcNumber)->state == WAIT_HANDED)
		lt_drop_handed(LrMyProcNumber);
	if (lt_wait_of(LrMyProcNumber)->asked.disowned == op->owner)
		result = GRANT_DISOWNED;
	else
		result = grant_locked(hold, op, judged_at, terms, acquired_at);
	if (result == GRANTED && op->answer.clear)
		lt_note_clear(hold, op);
	lt_unlock();
	return result;
}

/*
 * lt_grant_unqueued --- see locktable.h
 *
 * If the lock is not granted, its hold is an orphan before the partition lock is
 * released.
 */
GrantResult
lt_grant_unqueued(const LrName *name, const StoreOp *op, const LockTerms *terms,
				  LrIndex *hold)
{
	TimestampTz acquired_at = GetCurrentTimestamp();
	GrantResult result;

	lt_lock(name->hash);
	*hold = lt_make_unqueued(name, terms);
	result = grant_locked(*hold, op, op->sent.at, terms, acquired_at);
	if (result != GRANTED)
	{
		lt_first_trace(&lt_holds[*hold], lt_claim_of(op, lt_holds[*hold].key));
		lt_make_orphan(*hold);
	}
	lt_unlock();
	return result;
}

void
lt_set_fence(LrIndex hold, const StoreOp *mint)
{
	lt_lock_hold(hold);
	grant_tokens(&lt_holds[hold], mint);
	lt_unlock();
}

/*
 * lt_key_stayed_here --- see locktable.h
 *
 * The lock that was held here kept others from the kinds that it conflicts with, and
 * from no others.  So the wanted kind must not conflict with any other kind.
 */
bool
lt_key_stayed_here(LrIndex hold)
{
	const LrKey *key = lt_key_of(hold);
	KindSet		wanted = lr_kind(lt_holds[hold].kind)->excludes;
	bool		stayed;

	lt_lock_shared(lt_key_of(hold)->hash);
	stayed = (wanted & ~lr_kind(key->here_kind)->excludes) == 0 &&
		silence_lasts_since(key->here_from);
	lt_unlock();
	return stayed;
}
