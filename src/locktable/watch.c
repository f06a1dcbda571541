/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  The lock table for the watchdog: when it may sleep, and whom it lets go on.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/watch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/check.h"
#include "locktable/locktable_int.h"
#include "locktable/watch.h"

/* One in front that does not act on a wake-up for so long is passed over. */
#define IGNORED_AFTER		LR_US_PER_S

/* The watchdog ticks once a second while there are waiters, and so long after. */
#define TICK_ON				(3 * LR_US_PER_S)

/* ----------
 * Its presence
 * ----------
 */

/*
 * lt_watchdog_enter --- this process becomes the watchdog
 */
void
lt_watchdog_enter(void)
{
	lt_make_wake_room();
	lt_watchdog_is_awake();
	lr_watchdog_enter();
}

/*
 * lt_watchdog_leave --- the watchdog ends.  Those who wait are woken, since
 * from now on they ask for themselves.
 */
void
lt_watchdog_leave(void)
{
	lr_watchdog_leave();
	lt_wake_all_waiters();		/* they look by themselves from now on */
}

/*
 * lt_has_old_place --- a look without the locks: who comes too late is left to
 * its time to live
 */
bool
lt_has_old_place(void)
{
	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (pg_atomic_read_u64(&lt_leases[i].owner) != 0 &&
			lt_is_at_any_old_place(&lt_holds[i]))
			return true;
	return false;
}

int
lt_row_count(void)
{
	return (int) pg_atomic_read_u32(&lt_table->nrows);
}

/* ----------
 * Waiters
 * ----------
 */

bool
lt_has_waiters(void)
{
	return pg_atomic_read_u32(&lt_table->nwaiters) > 0 ||
		lr_now() - (int64) pg_atomic_read_u64(&lt_table->last_wait) < TICK_ON;
}

void
lt_wake_waiter(uint64 owner, const char *name, int name_len)
{
	uint32		hash = lr_name_hash(name, name_len);
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;
	LrIndex		key;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(name, name_len, hash);
	if (key != LR_NONE && owner != 0)
		lt_nudge_place(&lt_keys[key], owner, true, &wakes);
	else if (key != LR_NONE)
		lt_nudge_front(&lt_keys[key], &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * watch_pass_over --- let the next go before one in front that does not move
 *
 * Partition lock held.  It keeps the place behind that one; it may be stopped, or
 * in the middle of a request, and goes on from there.  The others in front need not
 * hear of it, if it was not alone in the way.  One for whom all others wait keeps its
 * place.
 */
static void
watch_pass_over(LrKey *key, LrIndex session, WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(session);
	LrIndex		next = lt_wait_of(key->front_tail)->next;
	bool		others;

	w->looks_at = 0;
	if (next == LR_NONE || lt_goes_first(key, session, w->terms.kind, lr_now()))
	{
		w->woken_at = lr_now();
		lt_add_to_wake(wakes, session);
		return;
	}
	w->woken_at = 0;
	others = lt_queue_remove(key, session);
	lt_queue_insert(key, session, next);
	if (others)
		lt_nudge_front(key, wakes);
}

/*
 * watch_is_ignoring --- does not do what it was woken for, or wanted to do by itself?
 *
 * For one that has a place in the store others wait only when it was told that it is
 * its turn.
 */
static bool
watch_is_ignoring(const LrWait *w, int64 now)
{
	int64		since = w->state == WAIT_PLACED ? w->told_at :
		w->woken_at != 0 ? w->woken_at : w->looks_at;

	return (lt_is_waiting(w) || w->state == WAIT_HANDED) &&
		since != 0 && now - since >= IGNORED_AFTER;
}

/*
 * watch_has_left --- keeps something in the store, and does not run
 *
 * In a request it may be for as long as that may take.
 */
static bool
watch_has_left(const LrWait *w, int64 now)
{
	if (w->kept.owner == 0)
		return false;
	return w->trying ? now - w->asks_until >= IGNORED_AFTER : watch_is_ignoring(w, now);
}

void
lt_pass_over_sleepers(void)
{
	int64		now = lr_now();

	for (LrIndex i = 0; i < lt_table->nsessions; i++)
	{
		LrWait	   *w = lt_wait_of(i);
		uint32		hash = w->hash;
		WakeList	wakes = WAKE_NOBODY;
		LWLock	   *lock;
		bool		ignoring;

		/* A look without the lock, to leave the many others alone. */
		if (!watch_is_ignoring(w, now) && !watch_has_left(w, now) &&
			!lt_holds_up_line(w, now))
			continue;

		lock = lt_partition(hash);
		LWLockAcquire(lock, LW_EXCLUSIVE);
		ignoring = w->hash == hash && watch_is_ignoring(w, now);
		if (w->hash == hash && watch_has_left(w, now) && !lt_disown(i, &wakes))
			ignoring = false;	/* others would wait for it all the same */
		if (w->hash == hash && lt_holds_up_line(w, now))
			lt_count_off(i, &wakes);
		if (!ignoring)
			 /* it has run meanwhile, or is looked at again */ ;
		else if (w->state == WAIT_HANDED)
			lt_take_handed_back(i, &wakes);
		else if (w->in_front)
			watch_pass_over(&lt_keys[w->key], i, &wakes);
		lt_check_change(lock);
		LWLockRelease(lock);
		lt_wake(&wakes);
	}
}

/* ----------
 * Its sleep
 * ----------
 */

void
lt_watchdog_is_awake(void)
{
	for (int s = 0; s < STORE_COUNT; s++)
		pg_atomic_write_u64(&lt_table->sleeps_until[s], 0);
}

bool
lt_watchdog_sleeps_until(int64 until, uint32 stores)
{
	int64		next = LR_NEVER;

	for (int s = 0; s < STORE_COUNT; s++)
		if (stores & STORE_BIT(s))
			pg_atomic_write_u64(&lt_table->sleeps_until[s], (uint64) until);
	pg_memory_barrier();
	for (int s = 0; s < STORE_COUNT; s++)
		if (stores & STORE_BIT(s))
			next = lr_earlier(next, lt_next_due(s));
	if (next >= until &&
		(until <= lr_now() + TICK_SOON || !lt_has_waiters()))
		return true;
	lt_watchdog_is_awake();
	return false;
}
