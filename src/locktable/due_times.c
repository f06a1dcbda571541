/*-------------------------------------------------------------------------
 *
 * due_times.c
 *	  The lock table: when the watchdog has to look at which hold.
 *
 * Each hold has a due time for each store, in a dense array: for a renewal, for the
 * end of a lease, or for the release of an orphan.  Each block of holds has a lower
 * bound of their due times, so that the search for work costs a few reads per
 * thousand holds.
 *
 * No lock guards the bounds.  A process that sets a due time writes it first and
 * then lowers the bound; the watchdog raises the bound first and then reads the due
 * times.  With a full barrier between the two steps on either side at least one of
 * them sees the other's write.  The same holds between the bounds and the time until
 * which the watchdog says that it sleeps.
 *
 * Due times are set under the partition lock, with one exception: when new locks go
 * to another store, or a store may be another one than before, the watchdog makes
 * all holds due there, and takes no lock, or a shared one.  A session that has just
 * computed a due time from the former state would overwrite that.  So the watchdog
 * marks such a look as forced (a negative time).  As long as the hold has an owner,
 * only the watchdog replaces a mark, under the partition lock, when it looks.  Either
 * the session finds the mark and leaves it, or the mark replaces the session's due
 * time.  A hold that the watchdog's walk cannot see yet needs another order: the
 * watchdog sets the store, barrier, looks for owners; lt_grant sets the owner,
 * barrier, looks which store is in use.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/due_times.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "locktable/watch.h"
#include "store/stores.h"

/* Look no more often: nobody renews so often that a lease is shortened twice meanwhile. */
#define WATCH_LEAST_MS		INT64CONST(100)

/*
 * lt_read_due --- when the watchdog has to look, whether the look is forced or not
 */
int64
lt_read_due(LrIndex hold, StoreId store)
{
	int64		due = lt_read_time(&lt_leases[hold].due[store]);

	return due < 0 ? -due : due;
}

/*
 * due_put --- set a due time, unless a look is forced; returns when the hold is due
 */
static int64
due_put(LrIndex hold, StoreId store, int64 due)
{
	pg_atomic_uint64 *at = &lt_leases[hold].due[store];
	uint64		seen = pg_atomic_read_u64(at);

	while ((int64) seen >= 0)
		if (pg_atomic_compare_exchange_u64(at, &seen, (uint64) due))
			return due;
	return -(int64) seen;
}

/* Lower a bound, never raise it. */
void
lt_lower_bound(pg_atomic_uint64 *bound, int64 t)
{
	uint64		seen = pg_atomic_read_u64(bound);

	while ((int64) seen > t)
		if (pg_atomic_compare_exchange_u64(bound, &seen, (uint64) t))
			break;
}

/*
 * lt_renew_lease_ms --- the longest lease that a scope of the hold wants
 * renewed, 0 = none
 *
 * From pre-commit to its release a transaction's hold is renewed in any case.
 * A hold that is handed over has no scopes, but the lease that it had for them.
 */
int64
lt_renew_lease_ms(const LrHold *hold)
{
	int64		lease_ms = hold->state == HOLD_HANDED ? hold->handed_lease_ms : 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (hold->scope[i].count > 0 &&
			(hold->scope[i].renewed || (i == SCOPE_XACT && hold->committing)))
			lease_ms = Max(lease_ms, hold->scope[i].lease_ms);
	return lease_ms;
}

/*
 * lt_min_replicas --- how many replicas have to confirm a longer lease
 */
int
lt_min_replicas(const LrHold *hold)
{
	int			n = hold->state == HOLD_HANDED ? hold->handed_replicas : 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (hold->scope[i].count > 0)
			n = Max(n, hold->scope[i].min_replicas);
	return n;
}

/*
 * lt_due_of_held --- when to look at a held lock
 *
 * After a third of its lease if it is renewed, else at the end of its lease; earlier if
 * others may shorten the lease, or if some of several masters do not have the lock.
 */
int64
lt_due_of_held(const LrHold *hold, int64 deadline)
{
	int64		due = deadline -
		lr_left_at_renewal(lt_renew_lease_ms(hold) * LR_US_PER_MS);

	if (hold->watch_at != 0)
		due = lr_earlier(due, hold->watch_at);
	if (hold->repair_at != 0)
		due = lr_earlier(due, hold->repair_at);

	/*
	 * If the host has been up for less than the lease, this can be before 0, and a negative
	 * time would mark a forced look.
	 */
	return lr_later(due, 0);
}

/*
 * lt_watch_from --- when to look next at a hold whose lease others may shorten
 *
 * After a third of what is left of the lease in the store, even if it is not renewed.
 */
void
lt_watch_from(LrHold *hold, int64 now, int64 left_ms)
{
	int64		most = lr_kind(hold->kind)->watched_ms;

	if (most > 0)
		hold->watch_at = now + Max(Min(most, left_ms / 3), WATCH_LEAST_MS) * LR_US_PER_MS;
}

void
lt_set_due(LrIndex hold, StoreId store, int64 due, WakeList *wakes)
{
	due = due_put(hold, store, due);
	pg_memory_barrier();
	lt_lower_bound(&lt_block_due[store][hold / DUE_BLOCK], due);
	pg_memory_barrier();
	if (due < lt_read_time(&lt_table->sleeps_until[store]))
		wakes->watchdog = true;
}

void
lt_set_never_due(LrIndex hold, StoreId store)
{
	(void) due_put(hold, store, LR_NEVER);
}

/*
 * due_force --- make the hold due now; no session can undo that
 */
static void
due_force(LrIndex hold, StoreId store, int64 now)
{
	pg_atomic_write_u64(&lt_leases[hold].due[store], (uint64) -now);
	pg_memory_barrier();
	lt_lower_bound(&lt_block_due[store][hold / DUE_BLOCK], now);
}

/*
 * lt_take_due --- the watchdog looks now, so a mark goes; partition lock held
 */
void
lt_take_due(LrIndex hold, StoreId store)
{
	pg_atomic_write_u64(&lt_leases[hold].due[store], LR_NEVER);
}

/*
 * lt_set_due_in_traces --- in all stores in which something of the hold may be
 */
void
lt_set_due_in_traces(LrIndex hold, int64 due, WakeList *wakes)
{
	for (int s = 0; s < STORE_COUNT; s++)
	{
		if (lt_holds[hold].traces & STORE_BIT(s))
			lt_set_due(hold, s, due, wakes);
		else
			lt_set_never_due(hold, s);
	}
}

/*
 * lt_is_wanted_in --- has a held lock to move to this store?
 */
bool
lt_is_wanted_in(const LrHold *h, StoreId store)
{
	return store != h->store && current_store() == store &&
		lr_kind(h->kind)->falls_back;
}

/*
 * lt_is_left_in --- has a held lock left something in this store that should go?
 */
bool
lt_is_left_in(const LrHold *h, StoreId store)
{
	return store != h->store && lr_store_can(store, STORE_SERVER_ONLY) &&
		(h->traces & STORE_BIT(store)) != 0;
}

/*
 * lt_is_to_be_asked --- has the store to be asked whether it has the lock at all, as
 * lockredis.url has changed or another node is the master?
 */
bool
lt_is_to_be_asked(const LrHold *h)
{
	return lt_is_at_old_place(h, h->store) || lt_is_of_old_master(h, h->store);
}

/*
 * lt_set_due_in_own --- set the due time in the store of the hold, as its lease or a
 * scope has changed
 *
 * If that store has to be asked first whether it has the lock at all, the hold is due
 * for that already, perhaps later than now; the new due time must not delay it.
 */
void
lt_set_due_in_own(LrIndex hold, int64 deadline, WakeList *wakes)
{
	const LrHold *h = &lt_holds[hold];
	int64		due = lt_due_of_held(h, deadline);

	if (lt_is_to_be_asked(h))
		due = lr_earlier(due, lt_read_due(hold, h->store));
	lt_set_due(hold, h->store, due, wakes);
}

/*
 * lt_set_due_of_held --- set the due times of a held lock in all stores
 */
void
lt_set_due_of_held(LrIndex hold, WakeList *wakes)
{
	const LrHold *h = &lt_holds[hold];

	for (int s = 0; s < STORE_COUNT; s++)
	{
		if (s == h->store && lt_is_to_be_asked(h))
			lt_set_due(hold, s, lr_now(), wakes);
		else if (s == h->store)
			lt_set_due(hold, s, lt_due_of_held(h, lt_deadline(hold)),
					   wakes);
		else if (lt_is_wanted_in(h, s) || lt_is_left_in(h, s))
			lt_set_due(hold, s, lr_now(), wakes);
		else
			lt_set_never_due(hold, s);
	}
}

int64
lt_next_due(StoreId store)
{
	int64		next = LR_NEVER;

	for (int b = 0, nblocks = lt_used_blocks(); b < nblocks; b++)
	{
		int64		bound = lt_read_time(&lt_block_due[store][b]);

		next = Min(next, bound);
	}
	return next;
}

/*
 * lt_renew_all_now --- make all holds due in that store
 *
 * For holds that are not renewed the watchdog finds nothing to do.
 */
void
lt_renew_all_now(StoreId store)
{
	int64		now = lr_now();

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (pg_atomic_read_u64(&lt_leases[i].owner) != 0)
			due_force(i, store, now);
}

/*
 * lt_repair_now --- see watch.h
 *
 * The first look is without the lock, as most holds need no repair.
 */
void
lt_repair_now(StoreId store)
{
	WakeList	wakes = WAKE_NOBODY;	/* the caller is the watchdog itself, and awake */
	int64		now = lr_now();

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		LrHold	   *h = &lt_holds[i];
		uint64		owner = pg_atomic_read_u64(&lt_leases[i].owner);
		LWLock	   *lock;

		if (owner == 0 || h->repair_at == 0)
			continue;
		lock = lt_lock_owned(i, owner);
		if (lock == NULL)
			continue;
		if (h->store == store && h->repair_at != 0 &&
			(h->state == HOLD_HELD || h->state == HOLD_HANDED))
		{
			h->repair_at = now;
			lt_set_due(i, store, now, &wakes);
		}
		LWLockRelease(lock);
	}
}

/*
 * due_force_some --- make the holds of a part of the store due, or those whose keys have
 * another master now ("part" -1)
 *
 * Its session has written the key of a hold under the partition lock, so under that lock
 * we see the key that belongs to the owner.
 */
static void
due_force_some(StoreId store, int part)
{
	int64		now = lr_now();
	const StoreRoutine *routine = lr_store(store);

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		const LrHold *h = &lt_holds[i];
		uint32		hash = h->hash;
		LWLock	   *lock;
		const LrKey *key;

		if (pg_atomic_read_u64(&lt_leases[i].owner) == 0)
			continue;
		lock = lt_partition(hash);
		LWLockAcquire(lock, LW_SHARED);
		key = &lt_keys[h->key];
		if (h->hash != hash || pg_atomic_read_u64(&lt_leases[i].owner) == 0)
			;					/* another hold by now, made since */
		else if (part < 0 ? lt_is_of_old_master(h, store) :
				 routine->part_of(key->name, key->name_len) == part)
			due_force(i, store, now);
		LWLockRelease(lock);
	}
}

void
lt_renew_part_now(StoreId store, int part)
{
	due_force_some(store, part);
}

/*
 * lt_renew_moved_now --- slots of a cluster are on other nodes now
 */
void
lt_renew_moved_now(StoreId store)
{
	due_force_some(store, -1);
}
