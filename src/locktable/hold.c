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

#include "locktable/hold.h"
#include "locktable/locktable_int.h"
#include "settings.h"
#include "store/stores.h"

/* No lock: both are written before the hold is ours, and stay until it is freed. */
uint64
lt_owner(LrIndex hold)
{
	return lt_holds[hold].owner;
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
	view->store = h->store;
	view->moves = lt_moves(h);
	view->place = h->place;
	view->of_old_master = lt_is_of_old_master(h, h->store);
	view->promised_ms = lt_promised_ms(hold);
	view->owner = h->owner;
	memcpy(view->id, h->id, STORE_ID_LEN);
	view->fence = h->fence;
	view->fence_store = h->fence_store;
	view->guard = GUARD_OFF;
	for (int i = 0; i < SCOPE_COUNT; i++)
		if (h->scope[i].count > 0)
			view->guard = Max(view->guard, h->scope[i].guard);
	view->keep_until = h->keep_until;
	memcpy(view->scope, h->scope, sizeof(view->scope));
	view->lost_reason = h->lost_reason;
	view->lost_at = h->lost_at;
	view->taken_by[0] = '\0';
	if (h->state == HOLD_LOST)
		strlcpy(view->taken_by, h->taken_by, LR_OWNER_MAX);
}

void
lt_look(LrIndex hold, HoldView *view)
{
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_SHARED);
	hold_copy_view(hold, view);
	LWLockRelease(lock);
	if (view->state != HOLD_HELD || view->deadline > lr_now())
		return;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_lose_if_expired(hold, &wakes);
	hold_copy_view(hold, view);
	lt_unlock(lock, &wakes);
}

void
lt_place(LrIndex hold, StoreId *store, uint64 *moves, int64 *promised_ms)
{
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);

	LWLockAcquire(lock, LW_SHARED);
	*store = lt_holds[hold].store;
	*moves = lt_moves(&lt_holds[hold]);
	*promised_ms = lt_promised_ms(hold);
	LWLockRelease(lock);
}

bool
lt_has_moved(LrIndex hold, uint64 moves)
{
	StoreId		store;
	uint64		present;
	int64		promised_ms;

	lt_place(hold, &store, &present, &promised_ms);
	return present != moves;
}

/*
 * lt_store_of_key --- see hold.h
 */
StoreId
lt_store_of_key(const LrName *name)
{
	LWLock	   *lock = lt_partition(name->hash);
	StoreId		store = current_store();
	LrIndex		key;

	LWLockAcquire(lock, LW_SHARED);
	key = lt_find_key(name->data, name->len, name->hash);
	if (key != LR_NONE)
		for (LrIndex i = lt_keys[key].first_hold; i != LR_NONE; i = lt_holds[i].next)
			if (lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED)
				store = lt_holds[i].store;
	LWLockRelease(lock);
	return store;
}

bool
lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
			 int64 deadline, uint64 moves)
{
	LrHold	   *h = &lt_holds[hold];
	LrLease    *lease = &lt_leases[hold];
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;
	bool		second = h->scope[scope].count == 0 && part->count > 0;
	bool		same;
	int			rows;

	/* Only we write the scopes, so we can read them without the lock. */
	if (second && !lt_take_row())
		return false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	rows = lt_hold_rows(h) + (second ? 1 : 0);
	h->scope[scope] = *part;
	lt_free_rows(rows - lt_hold_rows(h));
	same = moves == lt_moves(h);
	if (deadline != 0 && same)
		lt_note_answer(h, moves);
	if (h->state == HOLD_HELD)
	{
		int64		now = lr_now();
		int64		current = lt_deadline(hold);

		if (current > now && deadline > current && same)
		{
			pg_atomic_write_u64(&lease->deadline, deadline);
			current = deadline;
		}
		lt_set_due_in_own(hold, current, &wakes);
		lt_nudge_placeless(lt_key_of(hold), &wakes);
	}
	lt_unlock(lock, &wakes);
	return true;
}

/*
 * lt_keep_longer --- see hold.h
 */
void
lt_keep_longer(LrIndex hold, int64 keep_until)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_hold(hold);
	WakeList	wakes = WAKE_NOBODY;

	h->keep_until = Max(h->keep_until, keep_until);
	lt_nudge_placeless(lt_key_of(hold), &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * lt_note_lease --- a lease of that length is requested; the answer may not be read
 *
 * The store may have the lock for as long, whatever lease the session knows of, and
 * even if it takes the scope back, as it learns of a loss meanwhile.  Only the session
 * writes this, so it can read it without the lock.
 */
void
lt_note_lease(LrIndex hold, int64 lease_ms)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_partition(h->hash);

	if (lease_ms <= h->asked_lease_ms)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	h->asked_lease_ms = lease_ms;
	if (h->ends_at != 0)
		h->ends_at = lr_later(h->ends_at, lr_now() + lr_call_budget() +
							  lease_ms * LR_US_PER_MS);
	LWLockRelease(lock);
}

/*
 * lt_note_nodes --- see hold.h
 */
void
lt_note_nodes(LrIndex hold, uint64 owner, uint32 nodes)
{
	LWLock	   *lock = lt_lock_owned(hold, owner);

	if (lock == NULL)
		return;
	lt_holds[hold].nodes |= nodes;
	LWLockRelease(lock);
}

/*
 * lt_set_fence --- see hold.h
 *
 * Tokens that were in reserve before are below the new one, so they are not used any
 * more.
 */
void
lt_set_fence(LrIndex hold, const StoreOp *mint)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_lock_hold(hold);

	h->fence = mint->fence;
	h->fence_store = mint->store;
	h->reserve_used = mint->fence;
	h->reserve_last = store_last_token(mint->fence, mint->amount);
	h->reserve_moves = mint->moves;
	LWLockRelease(lock);
}

void
lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;
	bool		same;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	same = moves == lt_moves(h);
	if (same)
		lt_note_answer(h, moves);
	if (h->state == HOLD_HELD && lt_deadline(hold) > lr_now() &&
		deadline > lt_deadline(hold) && same)
	{
		pg_atomic_write_u64(&lt_leases[hold].deadline, deadline);
		lt_set_due_in_own(hold, deadline, &wakes);
	}
	lt_unlock(lock, &wakes);
}

void
lt_set_committing(LrIndex hold, bool committing)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	h->committing = committing;
	if (h->state == HOLD_HELD)
		lt_set_due_in_own(hold, lt_deadline(hold), &wakes);
	lt_unlock(lock, &wakes);
}

ReleaseStart
lt_begin_release(LrIndex hold, HoldView *view)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;
	ReleaseStart start = RELEASE_IN_STORE;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_lose_if_expired(hold, &wakes);
	hold_copy_view(hold, view);
	if (h->state == HOLD_LOST)
		start = RELEASE_LOST;
	else if (lt_hand_over(hold, &wakes))
		start = RELEASE_HANDED_OVER;
	else
	{
		h->state = HOLD_RELEASING;
		lt_nudge_placeless(lt_key_of(hold), &wakes);
	}
	view->awaited = start == RELEASE_IN_STORE &&
		(lt_key_of(hold)->queue_head != LR_NONE ||
		 lt_key_of(hold)->place_head != LR_NONE || lt_key_of(hold)->notified_elsewhere);
	lt_unlock(lock, &wakes);
	return start;
}

/*
 * lt_note_stay --- note here_from (locktable.h) for the key; see lt_key_stayed_here
 *
 * Kinds that are no locks (passing) say nothing about that.
 */
void
lt_note_stay(LrIndex hold, int64 from)
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
	LWLock	   *lock = lt_partition(h->hash);
	WakeList	wakes = WAKE_NOBODY;
	bool		had;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_lose_if_expired(hold, &wakes);
	had = h->state == HOLD_HELD;
	if (had)
		lt_free_and_nudge(hold, &wakes);
	else
		lt_drop_lost_locked(hold, &wakes);
	lt_unlock(lock, &wakes);
	return had;
}

/*
 * lt_end_release --- see hold.h
 *
 * The answer of a former master says nothing about what the present one has.
 */
void
lt_end_release(LrIndex hold, StoreId store, uint32 topology, int receivers, uint32 nodes)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;
	int64		pause = lt_pause_after(store, receivers);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(h->state == HOLD_RELEASING);
	if (!lr_kind(h->kind)->passing)
		lt_begin_pause(lt_key_of(hold), lr_kind(h->kind)->topic, receivers, pause);
	lt_note_stay(hold, h->here_from);
	h->nodes &= nodes;
	h->left = h->nodes != 0;
	if (!h->left && !lt_is_past(h->key, topology))
		lt_forget_trace(h, store);
	if (h->traces != 0)
		lt_leave_to_watchdog(hold, &wakes);
	else
		lt_free_and_nudge(hold, &wakes);
	lt_unlock(lock, &wakes);
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
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(h->state == HOLD_RELEASING);

	/* We held the lock until then, and the store has not answered since. */
	if (lr_store_can(h->store, STORE_SERVER_ONLY))
		lt_note_stay(hold, h->here_from);
	else
		lt_note_stay(hold, sent_at != 0 ? sent_at : lr_now());
	lt_make_orphan(hold, &wakes);
	lt_unlock(lock, &wakes);
}
