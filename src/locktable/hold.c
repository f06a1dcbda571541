/*-------------------------------------------------------------------------
 *
 * hold.c
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
 *	  src/locktable/hold.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timestamp.h"

#include "locktable/hold.h"
#include "locktable/locktable_int.h"
#include "locktable/losses.h"
#include "locktable/watch.h"
#include "store/current.h"
#include "settings.h"
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

bool
lt_is_at_old_place(const LrHold *h)
{
	return (h->traces & STORE_BIT(STORE_REDIS)) != 0 && h->place != lr_place;
}

/*
 * lt_forget_trace --- the store that this process talks to has nothing of it
 *
 * Another one, at the place where Redis was before, may: only the watchdog can
 * give that back.
 */
void
lt_forget_trace(LrHold *h, StoreId store)
{
	if (h->not_after[store] != 0 ||
		(store == STORE_REDIS && lt_is_at_old_place(h)))
		return;
	h->traces &= ~STORE_BIT(store);
}

/*
 * note_place --- Redis has said that it has the lock, where this process asks
 */
static void
note_place(LrHold *h)
{
	if (h->store == STORE_REDIS)
		h->place = lr_place;
}

/*
 * found_moved --- is it not there because lockredis.url was changed?
 *
 * If somebody else has the key there, to say so says more.
 */
static bool
found_moved(const LrHold *h, StoreId where, LostReason reason)
{
	return reason == LOST_DELETED && where == STORE_REDIS && lt_is_at_old_place(h);
}

/*
 * lt_lose_locked --- a held lock is gone, as that store says
 *
 * After an expiry something may remain in the store (a renewal whose reply was
 * not read may have run, and its clock ends the lease a little later than
 * ours), so the watchdog gives that back.  Whoever finds the lock gone when the
 * lease has ended anyway has found an expiry.
 */
void
lt_lose_locked(LrIndex hold, StoreId where, LostReason reason,
			   const char *taken_by, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	OnLost		on_lost = ON_LOST_MARK;

	Assert(h->state == HOLD_HELD);
	if (found_moved(h, where, reason))
		reason = LOST_MOVED;
	else if (reason == LOST_DELETED && deadline_of(hold) <= lr_now())
		reason = LOST_EXPIRED;
	h->state = HOLD_LOST;
	h->lost_reason = reason;
	h->lost_at = GetCurrentTimestamp();
	strlcpy(h->taken_by, taken_by ? taken_by : "", LR_OWNER_MAX);
	if (reason != LOST_EXPIRED)
		lt_forget_trace(h, where);
	if (h->traces != 0)
		lt_set_due_in_traces(hold, lr_now(), wakes);
	else
		lt_nothing_due(hold);
	lt_nudge_head(key_of(hold), wakes);
	lr_count(STAT_LOSSES);
	losses_add(lt_sessions[h->session].pid, key_of(hold)->name,
			   key_of(hold)->name_len, h->scope, reason, taken_by);
	wakes->watchdog = true;

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
			lt_lose_locked(i, lt_holds[i].store, LOST_EXPIRED, NULL, wakes);
		else if (!expired && (state == HOLD_HELD || state == HOLD_RELEASING ||
							  state == HOLD_HANDED))
			return i;
	}
	return LR_NONE;
}

/*
 * leave_to_watchdog --- it is nobody's; what there is of it is to be given back
 */
static void
leave_to_watchdog(LrIndex hold, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];

	lt_note_end(hold);
	lt_free_rows(lt_hold_rows(h) - 1);
	memset(h->scope, 0, sizeof(h->scope));
	if (h->state == HOLD_WAITING)
		lt_link_hold(hold);
	h->state = HOLD_ORPHAN;
	h->session = LR_NONE;
	pg_atomic_write_u64(&lt_leases[hold].owner, h->owner);
	lt_set_due_in_traces(hold, lr_now(), wakes);
	lt_nudge_head(key_of(hold), wakes);
}

/*
 * lt_make_orphan --- a request of it was not answered, or not even sent
 */
void
lt_make_orphan(LrIndex hold, WakeList *wakes)
{
	leave_to_watchdog(hold, wakes);
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
	view->kind = h->kind;
	view->deadline = deadline_of(hold);
	view->store = h->store;
	view->moves = h->moves;
	view->place = h->place;
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

/*
 * lt_has_session_part --- see hold.h
 *
 * Without the lock: what is ours nobody else gives away, and what is not is
 * seen by its session or owner number, which is never used twice.
 */
bool
lt_has_session_part(LrIndex hold, uint64 owner)
{
	const LrHold *h = &lt_holds[hold];

	return h->session == LrMyProcNumber && h->owner == owner &&
		h->scope[SCOPE_SESSION].count > 0;
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
		lt_lose_locked(hold, lt_holds[hold].store, LOST_EXPIRED, NULL, &wakes);
	copy_view(hold, view);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

void
lt_place(LrIndex hold, StoreId *store, uint32 *moves)
{
	LWLock	   *lock = partition_of(hold);

	LWLockAcquire(lock, LW_SHARED);
	*store = lt_holds[hold].store;
	*moves = lt_holds[hold].moves;
	LWLockRelease(lock);
}

bool
lt_has_moved(LrIndex hold, uint32 moves)
{
	StoreId		store;
	uint32		present;

	lt_place(hold, &store, &present);
	return present != moves;
}

/*
 * lt_store_of_key --- where a lock of this key is looked for
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
			 int64 deadline, uint32 moves)
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
	if (deadline != 0 && moves == h->moves)
		note_place(h);
	if (h->state == HOLD_HELD)
	{
		int64		now = lr_now();
		int64		current = deadline_of(hold);

		if (current > now && deadline > current && moves == h->moves)
		{
			pg_atomic_write_u64(&lease->deadline, deadline);
			current = deadline;
		}
		lt_set_due(hold, h->store, lt_due_of_held(h, current), &wakes);
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
	return true;
}

/*
 * lt_keep_longer --- the hold was taken again, and is to leave the key locked
 */
void
lt_keep_longer(LrIndex hold, int64 keep_until)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	h->keep_until = Max(h->keep_until, keep_until);
	LWLockRelease(lock);
}

/*
 * lt_note_count --- a request that sets the count was answered, or was not
 *
 * Only its session writes it, so it can be looked at without the lock.
 */
void
lt_note_count(LrIndex hold, bool sure)
{
	LWLock	   *lock = partition_of(hold);

	if (lt_holds[hold].count_unsure == !sure)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	lt_holds[hold].count_unsure = !sure;
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
lt_raise_deadline(LrIndex hold, int64 deadline, uint32 moves)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (moves == h->moves)
		note_place(h);
	if (h->state == HOLD_HELD && deadline_of(hold) > lr_now() &&
		deadline > deadline_of(hold) && moves == h->moves)
	{
		pg_atomic_write_u64(&lt_leases[hold].deadline, deadline);
		lt_set_due(hold, h->store, lt_due_of_held(h, deadline), &wakes);
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
		lt_set_due(hold, h->store, lt_due_of_held(h, deadline_of(hold)), &wakes);
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
		lt_lose_locked(hold, h->store, LOST_EXPIRED, NULL, &wakes);
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
lt_end_release(LrIndex hold, StoreId store, int receivers)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;
	int64		pause = lt_pause_after(receivers);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(h->state == HOLD_RELEASING);
	lt_begin_pause(key_of(hold), receivers, pause);
	key_of(hold)->here_from = h->here_from;
	lt_forget_trace(h, store);
	if (h->traces != 0)
		leave_to_watchdog(hold, &wakes);
	else
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
lt_orphan(LrIndex hold, int64 sent_at)
{
	LrHold	   *h = &lt_holds[hold];
	LWLock	   *lock = partition_of(hold);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	Assert(h->state == HOLD_RELEASING);

	/* It was ours until then, and Redis does not answer since. */
	if (h->store == STORE_TABLE)
		key_of(hold)->here_from = h->here_from;
	else
		key_of(hold)->here_from = sent_at != 0 ? sent_at : lr_now();
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
lt_limit_orphan(LrIndex hold, uint64 owner, StoreId store, int64 not_after)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner)
		h->not_after[store] = Min(h->not_after[store], not_after);
	LWLockRelease(lock);
}

/*
 * lt_drop_lost_locked --- its session needs no longer be told; partition lock
 * held
 *
 * A count of losses that is too low lets a commit pass, so it is lowered for
 * nothing else; what is held, against all rules, is given back.
 */
void
lt_drop_lost_locked(LrIndex hold, WakeList *wakes)
{
	bool		lost = lt_holds[hold].state == HOLD_LOST;

	Assert(lost);
	if (lost)
		pg_atomic_fetch_sub_u32(&lt_sessions[LrMyProcNumber].nlost, 1);
	if (lt_holds[hold].traces != 0)
		lt_make_orphan(hold, wakes);
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
lt_lose(LrIndex hold, uint64 owner, StoreId where, uint32 moves,
		LostReason reason, const char *taken_by)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;
	bool		same;
	bool		held;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	same = h->hash == hash && h->owner == owner && h->moves == moves;
	held = same && h->state == HOLD_HELD;
	if (held)
		lt_lose_locked(hold, where, reason, taken_by, &wakes);
	else if (same && h->state == HOLD_HANDED)
		lt_lose_handed(hold, where, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
	return held;
}

bool
lt_lose_by_owner_text(const LrName *name, const char *owner_text,
					  StoreId where, LostReason reason)
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
				lt_lose_locked(i, where, reason, NULL, &wakes);
			else
				lt_lose_handed(i, where, &wakes);
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
 * raise_deadline --- a store has the lock until then; partition lock held
 *
 * Not after the present deadline: others may have gone on by then.  Returns
 * false if it had passed.
 */
static bool
raise_deadline(LrIndex hold, int64 deadline)
{
	int64		current = deadline_of(hold);

	if (current <= lr_now())
		return false;
	if (deadline > current)
		pg_atomic_write_u64(&lt_leases[hold].deadline, deadline);
	return true;
}

/*
 * lt_renewed --- a renewal was answered
 *
 * It counts only if the hold still has that owner, and is where it was.  A
 * given lease is not renewed, but asked about when lockredis.url has changed.
 */
void
lt_renewed(LrIndex hold, uint64 owner, uint32 moves, int64 deadline)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash != hash || h->owner != owner || h->moves != moves)
		 /* it is another one, or elsewhere */ ;
	else if (h->state == HOLD_HANDED)
	{
		note_place(h);
		(void) raise_deadline(hold, deadline);
	}
	else if (h->state == HOLD_HELD)
	{
		note_place(h);
		if (raise_deadline(hold, deadline))
		{
			if (lt_renew_lease_ms(h) > 0)
				h->renewals++;
			lt_set_due(hold, h->store, lt_due_of_held(h, deadline_of(hold)), &wakes);
		}
		else
			lt_lose_locked(hold, h->store, LOST_EXPIRED, NULL, &wakes);
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * retry_at --- partition lock held
 */
static void
retry_at(LrIndex hold, StoreId store, int64 at, WakeList *wakes)
{
	const LrHold *h = &lt_holds[hold];

	if (h->state == HOLD_HELD)
		lt_set_due(hold, store,
				   h->store == store ? Min(at, deadline_of(hold)) : at, wakes);
	else if ((h->state == HOLD_ORPHAN || h->state == HOLD_LOST) &&
			 (h->traces & STORE_BIT(store)) != 0)
		lt_set_due(hold, store, at, wakes);
}

/*
 * lt_retry_at --- what was collected did not come through
 */
void
lt_retry_at(LrIndex hold, uint64 owner, StoreId store, int64 at)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner)
		retry_at(hold, store, at, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * lt_given_back --- nothing of that owner remains in the store, and the place
 * where that was before has been seen to
 *
 * A lock that is held, in the other one, may be wanted here again.
 */
void
lt_given_back(LrIndex hold, uint64 owner, StoreId store)
{
	LrHold	   *h = &lt_holds[hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner)
	{
		h->not_after[store] = 0;
		if (store == STORE_REDIS)
			h->place = lr_place;
		lt_forget_trace(h, store);
		if (h->state == HOLD_HELD)
			lt_set_due_of_held(hold, &wakes);
		else if (h->state == HOLD_ORPHAN && h->traces == 0)
			free_and_nudge(hold, &wakes);
		else if (h->state == HOLD_LOST && h->traces == 0)
		{
			lt_nothing_due(hold);
			lt_nudge_head(key_of(hold), &wakes);
		}
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/* ----------
 * For the watchdog: a lock goes to another store
 * ----------
 */

/*
 * note_move --- whatever became of the hold: what may be in that store
 *
 * False: there is no such hold any more.  Partition lock held.
 */
static bool
note_move(const DueItem *item, StoreId store, int64 not_after, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[item->hold];

	if (h->owner != item->owner || (h->traces & STORE_BIT(store)) == 0)
		return false;
	h->not_after[store] = not_after;
	if (h->state == HOLD_ORPHAN || h->state == HOLD_LOST)
		lt_set_due(item->hold, store, lr_now(), wakes);
	return true;
}

static bool
may_move(const DueItem *item)
{
	const LrHold *h = &lt_holds[item->hold];

	return (h->state == HOLD_HELD || h->state == HOLD_HANDED) &&
		h->moves == item->moves;
}

/*
 * lt_moved --- the store has the lock too: its word counts from now on
 *
 * What the old store has stays, for the watchdog to give back.  A hold whose
 * deadline has passed was lost before, and what came of this is given back.
 *
 * While the request was under way the old store may have granted more than the
 * new one did: by a re-entry, or renewals while the reply was late.  The new
 * store would not keep that promise, so the lock stays where it is, and is
 * moved once more with what it has now.
 */
void
lt_moved(const DueItem *item, StoreId store, int64 deadline, int64 not_after)
{
	LrHold	   *h = &lt_holds[item->hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && note_move(item, store, not_after, &wakes) &&
		may_move(item))
	{
		/* A lease that was given ends when it ends. */
		if (deadline < deadline_of(item->hold))
			retry_at(item->hold, store, lr_now(), &wakes);
		else if (!raise_deadline(item->hold,
								 lt_renew_lease_ms(h) > 0 || h->state == HOLD_HANDED ?
								 deadline : 0))
		{
			if (h->state == HOLD_HELD)
				lt_lose_locked(item->hold, h->store, LOST_EXPIRED, NULL, &wakes);
		}
		else
		{
			h->store = store;
			h->moves++;
			h->count_unsure = Max(1, h->scope[SCOPE_SESSION].count) != item->count;
			h->here_from = store == STORE_TABLE ? lr_now() : 0;
			lr_count(STAT_MOVES);
			if (h->state == HOLD_HELD)
				lt_set_due_of_held(item->hold, &wakes);
		}
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}

/*
 * lt_not_moved --- not yet, or it is not known
 */
void
lt_not_moved(const DueItem *item, StoreId store, int64 at, int64 not_after)
{
	LrHold	   *h = &lt_holds[item->hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && note_move(item, store, not_after, &wakes))
		retry_at(item->hold, store, at, &wakes);
	LWLockRelease(lock);
	lt_wake(&wakes);
}

void
lt_lose_by_move(const DueItem *item, StoreId store, const char *taken_by,
				int64 not_after)
{
	LrHold	   *h = &lt_holds[item->hold];
	uint32		hash = h->hash;
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && note_move(item, store, not_after, &wakes) &&
		may_move(item))
	{
		if (h->state == HOLD_HELD)
			lt_lose_locked(item->hold, store, LOST_TAKEN, taken_by, &wakes);
		else
			lt_lose_handed(item->hold, store, &wakes);
	}
	LWLockRelease(lock);
	lt_wake(&wakes);
}
