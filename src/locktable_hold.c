/*-------------------------------------------------------------------------
 *
 * locktable_hold.c
 *	  The lock table: from the grant of a hold to its end.
 *
 * A hold belongs to its session, with two exceptions: anybody who finds out
 * that it is gone may turn it from held to lost, and an orphan is the
 * watchdog's.  Each transition is made under the partition lock and checks the
 * state it starts from.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable_hold.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable_int.h"
#include "stats.h"

static LWLock *
partition_of(LrIndex hold)
{
	return lt_partition(lt_holds[hold].hash);
}

static int64
deadline_of(LrIndex hold)
{
	return (int64) pg_atomic_read_u64(&lt_leases[hold].deadline);
}

static LrKey *
key_of(LrIndex hold)
{
	return &lt_keys[lt_holds[hold].key];
}

/* ----------
 * Transitions; partition lock held
 * ----------
 */

/* The watchdog has nothing to do for it any more. */
static void
nothing_due(LrIndex hold)
{
	pg_atomic_write_u64(&lt_leases[hold].owner, 0);
	pg_atomic_write_u64(&lt_leases[hold].due, LR_NEVER);
}

/*
 * lt_lose_locked --- a held lock is gone
 *
 * After an expiry something may remain in the store (a renewal whose reply was
 * not read may have run, and its clock ends the lease a little later than
 * ours), so the watchdog gives that back.
 */
void
lt_lose_locked(LrIndex hold, LostReason reason, const char *taken_by,
			   WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	OnLost		on_lost = ON_LOST_MARK;

	Assert(h->state == HOLD_HELD);
	h->state = HOLD_LOST;
	h->lost_reason = reason;
	h->lost_at = GetCurrentTimestamp();
	strlcpy(h->taken_by, taken_by ? taken_by : "", LR_OWNER_MAX);
	h->give_back = reason == LOST_EXPIRED;
	if (h->give_back)
		lt_set_due(hold, lr_now(), wakes);
	else
		nothing_due(hold);
	lt_nudge_head(key_of(hold), wakes);
	lr_count(STAT_LOSSES);

	pg_atomic_fetch_add_u32(&lt_sessions[h->session].nlost, 1);
	for (int i = 0; i < SCOPE_COUNT; i++)
		if (h->scope[i].count > 0)
			on_lost = Max(on_lost, h->scope[i].on_lost);
	if (on_lost != ON_LOST_MARK)
	{
		wakes->loser = h->session;
		wakes->loser_pid = lt_sessions[h->session].pid;
		wakes->on_lost = on_lost;
	}
}

/*
 * lt_live_hold --- the hold that keeps others of this server from the key
 *
 * One that is being released or handed over counts until its lease ends: should
 * its session be stopped, the others go on then.
 */
LrIndex
lt_live_hold(LrKey *key, int64 now, WakeList *wakes)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		HoldState	state = lt_holds[i].state;
		bool		expired = deadline_of(i) <= now;

		if (state == HOLD_HELD && expired)
			lt_lose_locked(i, LOST_EXPIRED, NULL, wakes);
		else if (!expired && (state == HOLD_HELD || state == HOLD_RELEASING ||
							  state == HOLD_HANDED))
			return i;
	}
	return LR_NONE;
}

/*
 * lt_make_orphan --- leave a hold to the watchdog
 */
void
lt_make_orphan(LrIndex hold, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];

	lt_free_rows(lt_hold_rows(h) - 1);
	memset(h->scope, 0, sizeof(h->scope));
	if (h->state == HOLD_WAITING)
		lt_link_hold(hold);
	h->state = HOLD_ORPHAN;
	h->session = LR_NONE;
	pg_atomic_write_u64(&lt_leases[hold].owner, h->owner);
	lt_set_due(hold, lr_now(), wakes);
	lt_nudge_head(key_of(hold), wakes);
	lr_count(STAT_ORPHANS);
}

static void
free_and_nudge(LrIndex hold, WakeList *wakes)
{
	LrKey	   *key = key_of(hold);

	lt_nudge_head(key, wakes);
	lt_free_hold(hold);
}

/* ----------
 * For the session that owns the hold
 * ----------
 */

/* Both are written before the hold is ours and stay until it is freed. */
uint64
lt_owner(LrIndex hold)
{
	return lt_holds[hold].owner;
}

const char *
lt_hold_name(LrIndex hold)
{
	return key_of(hold)->name;
}

static void
copy_view(LrIndex hold, HoldView *view)
{
	const LrHold *h = &lt_holds[hold];

	view->state = h->state;
	view->deadline = deadline_of(hold);
	view->owner = h->owner;
	view->fence = h->fence;
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
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_SHARED);
	copy_view(hold, view);
	LWLockRelease(lock);
	if (view->state != HOLD_HELD || view->deadline > lr_now())
		return;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (lt_holds[hold].state == HOLD_HELD && deadline_of(hold) <= lr_now())
		lt_lose_locked(hold, LOST_EXPIRED, NULL, &wakes);
	copy_view(hold, view);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

bool
lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
			 int64 deadline)
{
	LrHold	   *h = &lt_holds[hold];
	LrLease    *lease = &lt_leases[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;
	bool		second = h->scope[scope].count == 0 && part->count > 0;
	int			rows;

	/* Only we write the scopes, so they can be looked at without the lock. */
	if (second && !lt_reserve_row())
		return false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	rows = lt_hold_rows(h) + (second ? 1 : 0);
	h->scope[scope] = *part;
	lt_free_rows(rows - lt_hold_rows(h));
	if (h->state == HOLD_HELD)
	{
		int64		now = lr_now();
		int64		current = deadline_of(hold);

		if (current > now && deadline > current)
		{
			pg_atomic_write_u64(&lease->deadline, deadline);
			current = deadline;
		}
		lt_set_due(hold, lt_due_of_held(h, current), &wakes);
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
	return true;
}

/*
 * lt_tighten --- the hold was taken again on other terms
 */
void
lt_tighten(LrIndex hold, const LockTerms *terms)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	h->keep_until = Max(h->keep_until, terms->keep_until);
	LWLockRelease(lock);
}

void
lt_set_fence(LrIndex hold, int64 fence)
{
	LWLock	   *lock = partition_of(hold);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_holds[hold].fence = fence;
	LWLockRelease(lock);
}

void
lt_raise_deadline(LrIndex hold, int64 deadline)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->state == HOLD_HELD && deadline_of(hold) > lr_now() &&
		deadline > deadline_of(hold))
	{
		pg_atomic_write_u64(&lt_leases[hold].deadline, deadline);
		lt_set_due(hold, lt_due_of_held(h, deadline), &wakes);
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}

void
lt_set_committing(LrIndex hold, bool committing)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	h->committing = committing;
	if (h->state == HOLD_HELD)
		lt_set_due(hold, lt_due_of_held(h, deadline_of(hold)), &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

ReleaseStart
lt_begin_release(LrIndex hold, HoldView *view)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;
	ReleaseStart start = RELEASE_IN_STORE;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->state == HOLD_HELD && deadline_of(hold) <= lr_now())
		lt_lose_locked(hold, LOST_EXPIRED, NULL, &wakes);
	copy_view(hold, view);
	if (h->state == HOLD_LOST)
		start = RELEASE_LOST;
	else if (lt_hand_over(hold, &wakes))
		start = RELEASE_HANDED_OVER;
	else
		h->state = HOLD_RELEASING;
	LWLockRelease(lock);
	lt_wake(&wakes);
	return start;
}

void
lt_end_release(LrIndex hold, int receivers)
{
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;
	int64		pause = lt_pause_after(receivers);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(lt_holds[hold].state == HOLD_RELEASING);
	lt_begin_pause(key_of(hold), receivers, pause);
	free_and_nudge(hold, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * lt_orphan --- a final release was not answered
 *
 * A release that is late finds its owner or nobody, so there is nothing to
 * wait for but one that has run.
 */
void
lt_orphan(LrIndex hold)
{
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(lt_holds[hold].state == HOLD_RELEASING);
	lt_holds[hold].not_after = 0;
	lt_make_orphan(hold, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * lt_limit_orphan --- a create of it cannot run later than "not_after"
 *
 * What its session thought of the store's clock may be wrong: a clock that
 * was ahead and has been set back must not keep the orphan until it gets
 * there again.
 */
void
lt_limit_orphan(LrIndex hold, uint64 owner, int64 not_after)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->state == HOLD_ORPHAN && h->hash == hash && h->owner == owner)
		h->not_after = Min(h->not_after, not_after);
	LWLockRelease(lock);
}

/*
 * lt_drop_lost_locked --- its session needs no longer be told; partition lock
 * held
 */
void
lt_drop_lost_locked(LrIndex hold, WakeList *wakes)
{
	Assert(lt_holds[hold].state == HOLD_LOST);
	pg_atomic_fetch_sub_u32(&lt_sessions[LrMyProcNumber].nlost, 1);
	if (lt_holds[hold].give_back)
	{
		lt_holds[hold].not_after = 0;
		lt_make_orphan(hold, wakes);
	}
	else
		lt_free_hold(hold);
}

void
lt_drop_lost(LrIndex hold)
{
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_drop_lost_locked(hold, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/* ----------
 * For whoever finds out
 * ----------
 */

bool
lt_lose(LrIndex hold, uint64 owner, LostReason reason, const char *taken_by)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;
	bool		held;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	held = h->state == HOLD_HELD && h->hash == hash && h->owner == owner;
	if (held)
		lt_lose_locked(hold, reason, taken_by, &wakes);
	else if (h->state == HOLD_HANDED && h->hash == hash && h->owner == owner)
		lt_lose_handed(hold, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
	return held;
}

bool
lt_lose_by_owner_text(const LrName *name, const char *owner_text,
					  LostReason reason)
{
	LWLock	   *lock = lt_partition(name->hash);
	WakeList	wakes = WAKE_NOBODY;
	LrIndex		key;
	bool		found = false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(name->data, name->len, name->hash);
	if (key != LR_NONE)
	{
		for (LrIndex i = lt_keys[key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		{
			char		text[LR_OWNER_MAX];

			if (lt_holds[i].state != HOLD_HELD && lt_holds[i].state != HOLD_HANDED)
				continue;
			lr_owner_text(lt_holds[i].owner, text);
			if (strcmp(text, owner_text) != 0)
				continue;
			if (lt_holds[i].state == HOLD_HELD)
				lt_lose_locked(i, reason, NULL, &wakes);
			else
				lt_lose_handed(i, &wakes);
			found = true;
			break;
		}
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
	return found;
}

/* ----------
 * For the watchdog: results of what it collected
 * ----------
 */

/*
 * lt_renewed --- a renewal was answered
 *
 * It counts only if the hold still has that owner, and not after the deadline:
 * others may have gone on by then.
 */
void
lt_renewed(LrIndex hold, uint64 owner, int64 deadline)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->state == HOLD_HANDED && h->hash == hash && h->owner == owner)
	{
		if (deadline_of(hold) > lr_now() && deadline > deadline_of(hold))
			pg_atomic_write_u64(&lt_leases[hold].deadline, deadline);
	}
	else if (h->state == HOLD_HELD && h->hash == hash && h->owner == owner)
	{
		int64		current = deadline_of(hold);

		if (current <= lr_now())
			lt_lose_locked(hold, LOST_EXPIRED, NULL, &wakes);
		else
		{
			current = Max(current, deadline);
			pg_atomic_write_u64(&lt_leases[hold].deadline, current);
			h->renewals++;
			lt_set_due(hold, lt_due_of_held(h, current), &wakes);
		}
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * lt_retry_at --- what was collected did not come through
 */
void
lt_retry_at(LrIndex hold, uint64 owner, int64 at)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner)
	{
		if (h->state == HOLD_HELD)
			lt_set_due(hold, Min(at, deadline_of(hold)), &wakes);
		else if (h->state == HOLD_ORPHAN ||
				 (h->state == HOLD_LOST && h->give_back))
			lt_set_due(hold, at, &wakes);
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * lt_given_back --- nothing of that owner remains in the store
 */
void
lt_given_back(LrIndex hold, uint64 owner)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner)
	{
		if (h->state == HOLD_ORPHAN)
			free_and_nudge(hold, &wakes);
		else if (h->state == HOLD_LOST)
		{
			h->give_back = false;
			nothing_due(hold);
			lt_nudge_head(key_of(hold), &wakes);
		}
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}
