/*-------------------------------------------------------------------------
 *
 * locktable_due.c
 *	  The lock table: what the watchdog has to do, and when.
 *
 * Each hold has a due time in a dense array: a renewal, the end of a lease, an
 * orphan to give back.  Per block of holds there is a lower bound of their due
 * times, so that looking for work costs a few reads a thousand holds.
 *
 * No lock guards the bounds.  Whoever sets a due time writes it first, then
 * lowers the bound; the watchdog raises the bound first, then reads the due
 * times.  With a full barrier between the two steps on either side at least
 * one of them sees the other.  The same handshake is made between the bounds
 * and the time until which the watchdog says that it sleeps.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable_due.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable_int.h"

/*
 * Renewals that are due a little later go out with those that are due now: a
 * twelfth of their lease before, at most this.
 */
#define EARLY_MAX			(2 * LR_US_PER_S)

static int64
read_time(pg_atomic_uint64 *t)
{
	return (int64) pg_atomic_read_u64(t);
}

/* Lower a bound, never raise it. */
static void
lower_bound(pg_atomic_uint64 *bound, int64 t)
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
 */
int64
lt_renew_lease_ms(const LrHold *hold)
{
	int64		lease_ms = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (hold->scope[i].count > 0 &&
			(hold->scope[i].renewed || (i == SCOPE_XACT && hold->committing)))
			lease_ms = Max(lease_ms, hold->scope[i].lease_ms);
	return lease_ms;
}

/*
 * lt_due_of_held --- when to look at a held lock: at a third of its lease if
 * it is renewed, else at its end
 */
int64
lt_due_of_held(const LrHold *hold, int64 deadline)
{
	return deadline - lt_renew_lease_ms(hold) * LR_US_PER_MS * 2 / 3;
}

void
lt_set_due(LrIndex hold, int64 due, WakeList *wakes)
{
	pg_atomic_write_u64(&lt_leases[hold].due, (uint64) due);
	pg_memory_barrier();
	lower_bound(&lt_block_due[hold / DUE_BLOCK], due);
	pg_memory_barrier();
	if (due < read_time(&lt_table->sleeps_until))
		wakes->watchdog = true;
}

int64
lt_next_due(void)
{
	int64		next = LR_NEVER;

	for (int b = 0; b < lt_table->nblocks; b++)
		next = Min(next, read_time(&lt_block_due[b]));
	return next;
}

bool
lt_watchdog_sleeps_until(int64 until)
{
	pg_atomic_write_u64(&lt_table->sleeps_until, (uint64) until);
	pg_memory_barrier();
	if (lt_next_due() >= until &&
		(until <= lr_now() + TICK_SOON || !lt_has_waiters()))
		return true;
	lt_watchdog_is_awake();
	return false;
}

void
lt_watchdog_is_awake(void)
{
	pg_atomic_write_u64(&lt_table->sleeps_until, 0);
}

/*
 * decide --- what is to be done for a hold that is due; partition lock held
 *
 * Its next due time is set first: the end of its lease, so that an expiry is
 * seen on time whatever becomes of the renewal, or "again".
 */
static DueAction
decide(LrIndex hold, int64 now, bool connected, int64 again, WakeList *wakes)
{
	LrHold	   *h = &lt_holds[hold];
	int64		deadline = read_time(&lt_leases[hold].deadline);
	bool		renewed = lt_renew_lease_ms(h) > 0;

	if (h->state == HOLD_HELD && deadline <= now)
		lt_lose_locked(hold, LOST_EXPIRED, NULL, wakes);

	if (h->state == HOLD_HELD)
	{
		if (!renewed || connected)
			lt_set_due(hold, deadline, wakes);
		else
			lt_set_due(hold, Min(again, deadline), wakes);
		return renewed && connected ? DUE_RENEW : DUE_NOTHING;
	}
	if (h->state == HOLD_ORPHAN || (h->state == HOLD_LOST && h->give_back))
	{
		lt_set_due(hold, again, wakes);
		return connected ? DUE_GIVE_BACK : DUE_NOTHING;
	}

	/* It is being released: its session sets the next due time, if any. */
	pg_atomic_write_u64(&lt_leases[hold].due, LR_NEVER);
	return DUE_NOTHING;
}

/*
 * is_due --- or, of a renewal, nearly so?  Partition lock held
 */
static bool
is_due(LrIndex hold, int64 now)
{
	int64		early = 0;

	if (lt_holds[hold].state == HOLD_HELD)
		early = Min(lt_renew_lease_ms(&lt_holds[hold]) * LR_US_PER_MS / 12, EARLY_MAX);
	return read_time(&lt_leases[hold].due) - early <= now;
}

/*
 * collect_one --- look at a hold that seemed due; false if there was nothing
 */
static bool
collect_one(LrIndex hold, int64 now, bool connected, int64 again, DueItem *item)
{
	LrHold	   *h = &lt_holds[hold];
	uint64		owner = pg_atomic_read_u64(&lt_leases[hold].owner);
	uint32		hash = h->hash;
	LWLock	   *lock;
	WakeList	wakes = WAKE_NOBODY;

	item->action = DUE_NOTHING;
	if (owner == 0)
		return false;

	lock = lt_partition(hash);
	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (h->hash == hash && h->owner == owner &&
		pg_atomic_read_u64(&lt_leases[hold].owner) == owner && is_due(hold, now))
	{
		LrKey	   *key = &lt_keys[h->key];

		item->hold = hold;
		item->owner = owner;
		item->action = decide(hold, now, connected, again, &wakes);
		item->lease_ms = lt_renew_lease_ms(h);
		item->not_after = h->state == HOLD_ORPHAN ? h->not_after : 0;
		item->keep_ms = h->keep_until > now ?
			(h->keep_until - now + LR_US_PER_MS - 1) / LR_US_PER_MS : 0;
		item->name_len = key->name_len;
		memcpy(item->name, key->name, key->name_len);
	}
	LWLockRelease(lock);

	/* The caller is the watchdog itself, and awake. */
	wakes.watchdog = false;
	lt_wake(&wakes);
	return item->action != DUE_NOTHING;
}

int
lt_collect_due(int64 now, bool connected, int64 again,
			   DueItem *items, int max, bool *more)
{
	int			n = 0;
	DueItem		ignored;
	int64		horizon = now;

	*more = false;
	if (connected && lt_next_due() <= now)
		horizon += EARLY_MAX;
	for (int b = 0; b < lt_table->nblocks; b++)
	{
		int			first = b * DUE_BLOCK;
		int			last = Min(first + DUE_BLOCK, lt_table->max_locks);
		int64		bound = LR_NEVER;

		if (read_time(&lt_block_due[b]) > horizon)
			continue;
		pg_atomic_exchange_u64(&lt_block_due[b], (uint64) LR_NEVER);

		for (LrIndex i = first; i < last; i++)
		{
			int64		due = read_time(&lt_leases[i].due);

			/* Whoever gives it an owner sets its due time after that. */
			if (pg_atomic_read_u64(&lt_leases[i].owner) == 0)
				continue;
			if (due <= now && !connected)
				collect_one(i, now, false, again, &ignored);
			else if (due <= horizon && n < max)
			{
				if (collect_one(i, now, true, again, &items[n]))
					n++;
				else if (pg_atomic_read_u64(&lt_leases[i].owner) != 0)
					bound = Min(bound, read_time(&lt_leases[i].due));
			}
			else
			{
				bound = Min(bound, due);
				*more = *more || due <= now;
			}
		}
		lower_bound(&lt_block_due[b], bound);
	}
	return n;
}

/*
 * lt_renew_all_now --- make everything due, after the store came back
 *
 * What is not renewed is looked at too, and finds nothing to do.
 */
void
lt_renew_all_now(void)
{
	int64		now = lr_now();
	WakeList	wakes = WAKE_NOBODY;

	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (pg_atomic_read_u64(&lt_leases[i].owner) != 0)
			lt_set_due(i, now, &wakes);
}

int64
lt_renewal_lag(void)
{
	int64		lag = 0;

	for (LrIndex i = 0; i < lt_table->max_locks; i++)
	{
		LrHold	   *h = &lt_holds[i];
		uint32		hash = h->hash;
		LWLock	   *lock;

		if (pg_atomic_read_u64(&lt_leases[i].owner) == 0)
			continue;
		lock = lt_partition(hash);
		LWLockAcquire(lock, LW_SHARED);
		if (h->hash == hash && h->state == HOLD_HELD && lt_renew_lease_ms(h) > 0)
			lag = Max(lag, lr_now() - lt_due_of_held(h, read_time(&lt_leases[i].deadline)));
		LWLockRelease(lock);
	}
	return lag;
}

int
lt_hold_count(void)
{
	return (int) pg_atomic_read_u32(&lt_table->nrows);
}
