/*-------------------------------------------------------------------------
 *
 * grant.c
 *	  The lock table: the store has given a lock to one in front of a queue.
 *
 * Only those asked who can have the key together, so nobody should be in the way;
 * but one in front can be stopped for so long that the next was let go before it.
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
#include "locktable/wait.h"
#include "settings.h"
#include "store/nodes.h"
#include "store/stores.h"

/* What a master that is there does not have it is to have after this. */
#define REPAIR_AFTER		LR_US_PER_S

/*
 * lt_set_terms --- one hold, of one scope, from now on
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
	h->asked_lease_ms = Max(h->asked_lease_ms, terms->lease_ms);
	h->keep_until = terms->keep_until;
}

/*
 * grant_is_stale --- does the master that gave it not count any more?
 *
 * Whoever finds another master first makes that known and then looks at what is
 * held.  So the lock is made known first, and then is looked who is the master:
 * either we see that, or the lock is seen and the new master is asked about it.
 */
static bool
grant_is_stale(LrIndex hold, uint64 owner, uint32 topology)
{
	LrLease    *lease = &lt_leases[hold];

	if (topology == 0)
		return false;
	pg_atomic_write_u64(&lease->owner, owner);
	pg_memory_barrier();
	if (!lt_is_past(lt_holds[hold].key, topology))
		return false;
	pg_atomic_write_u64(&lease->owner, 0);
	return true;
}

/*
 * grant_was_forced --- may it have been taken away since it was given?
 *
 * A create that was sent before the end of a redis_force_unlock of the key may have run
 * before it.  Another key of that hash is asked for once more for nothing.
 */
static bool
grant_was_forced(const LrHold *h, int64 sent_at)
{
	return !lr_kind(h->kind)->passing &&
		sent_at <= lt_table->forced_at[h->hash % LT_FORCED];
}

/*
 * grant_conflicts --- has another session of this server the lock?
 *
 * Who waits in the order of the store may have been told that it is its turn before
 * the one who has released the lock has read its answer.
 *
 *	 A releases: the store tells B
 *									B asks, and is given the lock
 *	 A reads the answer
 *
 * A has done with the lock since before it has asked.  If B gave it back for that, it
 * would have lost its place, or slept beside a free key.  Likewise for a head that has
 * asked while such a lock, or one of several that were taken together, came and went.
 *
 * Who has the lock in fact, though the store has given it to somebody else, has lost it
 * and does not know: the watchdog is to ask at once.
 */
static bool
grant_conflicts(LrKey *key, KindId kind, int64 now, WakeList *wakes)
{
	LrIndex		hold = lt_conflicting_hold(key, LrMyProcNumber, kind, now, wakes);
	bool		conflict = false;

	for (; hold != LR_NONE; hold = lt_holds[hold].next)
	{
		const LrHold *h = &lt_holds[hold];
		bool		placed = lr_kind(kind)->placed || lr_kind(h->kind)->placed;

		if (!lt_is_live(hold, now) || !lt_keeps_from(hold, LrMyProcNumber, kind) ||
			h->state == HOLD_RELEASING)
			continue;
		conflict = true;
		if (placed && h->state == HOLD_HELD)
			lt_set_due(hold, h->store, now, wakes);
	}
	return conflict;
}

/*
 * grant_ownerless --- it is had, but by nobody here: so all that is left is a key that
 * those behind us in the queue find busy
 */
static void
grant_ownerless(LrIndex hold, WakeList *wakes)
{
	LrKey	   *key = lt_key_of(hold);

	if (lt_leave_queue(LrMyProcNumber, wakes))
		lt_nudge_front(key, wakes);
	key->handoffs = 0;
	key->here_from = 0;
	lt_judge_pause(key, true);
	lt_free_hold(hold);
}

/*
 * grant_is_overtaken --- can somebody elsewhere have been granted the key since it was
 * judged that nobody can have it?
 *
 * A store that excludes this server only is asked when nobody elsewhere can have the
 * key any more, as the other store has been silent for so long.  If new locks go to
 * that one by now, or it has answered in between, they can:
 *
 *	 session: asks the table	other store: silent -> answers, grants it -> silent
 *
 * The time of the request would not do: one that is blocked in the table is sent again.
 */
static bool
grant_is_overtaken(StoreId store, int64 judged_at)
{
	return lr_store_can(store, STORE_SERVER_ONLY) &&
		(store != current_store() ||
		 (lr_has_fallback() && !silence_lasts_since(judged_at)));
}

/*
 * grant_locked --- the store gave us the lock; partition lock held
 *
 * If another session of this server still has it, one of the two is wrong, and
 * it cannot be told here which: the key may have been deleted after either.
 * So the newcomer gives way (its caller gives back what it got, checked by
 * owner), and the other one's next renewal finds out.
 */
static GrantResult
grant_locked(LrIndex hold, StoreId store, uint64 owner, uint32 topology,
			 int64 judged_at, int64 deadline, const LockTerms *terms, int64 fence,
			 TimestampTz acquired_at, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	LrLease    *lease = &lt_leases[hold];
	bool		queued = lt_wait_of(LrMyProcNumber)->state != WAIT_NONE;
	bool		placed = lt_wait_of(LrMyProcNumber)->state == WAIT_PLACED;
	int64		now = lr_now();

	if (deadline <= now)
		return GRANT_TOO_LATE;
	if (grant_is_overtaken(store, judged_at) ||
		grant_was_forced(h, deadline - terms->lease_ms * LR_US_PER_MS))
		return GRANT_STALE;
	if (grant_conflicts(&lt_keys[h->key], h->kind, now, wakes) ||
		lt_is_being_given_back(&lt_keys[h->key], h->kind, h->id))
		return GRANT_CONFLICT;
	if (lr_kind(h->kind)->ownerless)
	{
		if (lt_is_past(h->key, topology))
			return GRANT_STALE;
		grant_ownerless(hold, wakes);
		return GRANTED;
	}
	if (grant_is_stale(hold, owner, topology))
		return GRANT_STALE;

	if (queued && lt_leave_queue(LrMyProcNumber, wakes))
		lt_nudge_beside(&lt_keys[h->key], h->kind, wakes);
	if (!lr_kind(h->kind)->passing)
	{
		lt_keys[h->key].handoffs = 0;
		if (queued)
			lt_judge_pause(&lt_keys[h->key], !placed);
	}
	lt_first_trace(h, store, owner, topology);
	h->state = HOLD_HELD;
	h->here_from = lt_here_since(store, now);
	h->fence = fence;
	h->fence_store = store;
	lt_set_terms(h, terms, acquired_at);
	lt_watch_from(h, now, terms->lease_ms);
	lt_link_hold(hold);
	pg_atomic_write_u64(&lease->deadline, deadline);
	pg_atomic_write_u64(&lease->owner, owner);

	/* Known from here on: now look where it belongs. */
	pg_memory_barrier();
	lt_set_due_of_held(hold, wakes);
	return GRANTED;
}

GrantResult
lt_grant(LrIndex hold, StoreId store, uint64 owner, uint32 topology,
		 int64 judged_at, int64 deadline, const LockTerms *terms, int64 fence)
{
	TimestampTz acquired_at = GetCurrentTimestamp();
	LWLock	   *lock = lt_lock_hold(hold);
	WakeList	wakes = WAKE_NOBODY;
	GrantResult result;

	if (lt_wait_of(LrMyProcNumber)->kept.disowned == owner)
		result = GRANT_DISOWNED;
	else
		result = grant_locked(hold, store, owner, topology, judged_at, deadline, terms,
							  fence, acquired_at, &wakes);
	lt_unlock(lock, &wakes);
	return result;
}

/*
 * lt_grant_unqueued --- see wait.h
 *
 * What is not granted is an orphan before anybody else can look.
 */
GrantResult
lt_grant_unqueued(const LrName *name, StoreId store, uint64 owner, uint32 topology,
				  int64 deadline, const LockTerms *terms, LrIndex *hold)
{
	TimestampTz acquired_at = GetCurrentTimestamp();
	LWLock	   *lock = lt_partition(name->hash);
	WakeList	wakes = WAKE_NOBODY;
	GrantResult result;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	*hold = lt_make_unqueued(name, terms);
	result = grant_locked(*hold, store, owner, topology,
						  deadline - terms->lease_ms * LR_US_PER_MS, deadline, terms, 0,
						  acquired_at, &wakes);
	if (result != GRANTED)
	{
		lt_first_trace(&lt_holds[*hold], store, owner, topology);
		lt_make_orphan(*hold, &wakes);
	}
	lt_unlock(lock, &wakes);
	return result;
}

/*
 * lt_note_without --- see wait.h
 *
 * A master that is away gets it when it is back, which the watchdog finds.
 *
 *	 session: repair_at = LR_NEVER		watchdog: the master is there
 *	 barrier							barrier
 *	 is it there?						repair_at of all
 *
 * So one of the two sees the other.
 */
void
lt_note_without(LrIndex hold, uint64 owner, uint32 without)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_owned(hold, owner);
	WakeList	wakes = WAKE_NOBODY;

	if (lock == NULL)
		return;
	if (h->state == HOLD_HELD)
	{
		h->repair_at = LR_NEVER;
		pg_memory_barrier();
		if (masters_are_there(h->place, without))
		{
			h->repair_at = lr_now() + REPAIR_AFTER;
			lt_set_due_in_own(hold, lt_deadline(hold), &wakes);
		}
	}
	lt_unlock(lock, &wakes);
}

/*
 * lt_key_stayed_here --- see wait.h
 *
 * Of others elsewhere it is only known that they do not have what could not be
 * beside the lock that was had here.
 */
bool
lt_key_stayed_here(LrIndex hold)
{
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	const LrKey *key = lt_key_of(hold);
	uint32		wanted = lr_kind(lt_holds[hold].kind)->excludes;
	bool		stayed;

	LWLockAcquire(lock, LW_SHARED);
	stayed = (wanted & ~lr_kind(key->here_kind)->excludes) == 0 &&
		silence_lasts_since(key->here_from);
	LWLockRelease(lock);
	return stayed;
}
