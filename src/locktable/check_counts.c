/*-------------------------------------------------------------------------
 *
 * check_counts.c
 *	  The lock table: do its counters agree with its contents?  In builds with
 *	  assertions only.
 *
 * Each session checks its own holds at the end of its transactions and at its end.
 * Counters over all partitions can only be compared while no process changes
 * anything: the simulator does that, between two steps.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/check_counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "storage/ipc.h"

#include "locktable/check.h"

#ifdef USE_ASSERT_CHECKING

#include "locktable/hold.h"
#include "settings.h"
#include "store/stores.h"

/* ----------
 * Counters over all partitions
 * ----------
 */

/*
 * check_pools --- is each slot that was ever used either in use, or once in the free
 * list?  Likewise for keys
 */
static const char *
check_pools(int nholds)
{
	int			free = 0;
	int			nkeys = 0;
	int			used = lt_used_slots();
	int			used_keys = (int) pg_atomic_read_u32(&lt_table->key_pool.nused);

	for (LrIndex i = lt_table->hold_pool.first_free; i != LR_NONE; i = lt_holds[i].next)
		if (!lt_is_index(i) || lt_holds[i].state != HOLD_FREE || ++free > used)
			return lt_check_says("hold %d is among the free ones", i);
	if (free + nholds != used || used > lt_table->max_locks)
		return lt_check_says("of %d holds %d are free and %d are not", used, free, nholds);
	for (LrIndex i = lt_table->key_pool.first_free; i != LR_NONE; i = lt_keys[i].next)
		if (++nkeys > used_keys)
			return lt_check_says("the free keys have no end");
	for (int b = 0; b < lt_table->nbuckets; b++)
		for (LrIndex i = lt_buckets[b]; i != LR_NONE; i = lt_keys[i].next)
			if (++nkeys > used_keys)
				return lt_check_says("the keys have no end");
	if (nkeys != used_keys || used_keys > lt_table->max_locks)
		return lt_check_says("of %d keys %d are there", used_keys, nkeys);
	return NULL;
}

/*
 * check_session_numbers --- the lost holds of each session, and the sessions asleep
 */
static const char *
check_session_numbers(void)
{
	int			asleep = 0;

	for (LrIndex s = 0; s < lt_table->nsessions; s++)
	{
		uint32		lost = 0;
		uint32		counted = pg_atomic_read_u32(&lt_sessions[s].nlost);

		if (lt_sessions[s].pid == 0)
			continue;
		for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
			if (lt_holds[i].state == HOLD_LOST && lt_holds[i].session == s)
				lost++;
		if (lost != counted)
			return lt_check_says("session %d has lost %u locks, its counter says %u", s, lost,
								 counted);
		if (lt_wait_of(s)->state != WAIT_NONE && lt_wait_of(s)->asleep)
			asleep++;
	}
	if (asleep != (int) pg_atomic_read_u32(&lt_table->nwaiters))
		return lt_check_says("%d sessions wait, the counter says %d", asleep,
							 (int) pg_atomic_read_u32(&lt_table->nwaiters));
	return NULL;
}

const char *
lt_check_counts(void)
{
	int			rows = 0;
	int			nholds = 0;

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (lt_holds[i].state != HOLD_FREE)
		{
			nholds++;
			rows += lt_hold_rows(&lt_holds[i]);
		}
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
		rows += lt_sessions[s].stocked_rows;
	if (rows != (int) pg_atomic_read_u32(&lt_table->nrows))
		return lt_check_says("there are %d rows, the counter says %d", rows,
							 (int) pg_atomic_read_u32(&lt_table->nrows));
	CHECK(check_pools(nholds));
	return check_session_numbers();
}

/*
 * is_stale_mark --- was a look forced (due_times.c) while no hold had the slot?
 *
 * The bound of the block may be later than that: the next process that sets a due time
 * of the slot lowers the bound.
 */
static bool
is_stale_mark(LrIndex hold, StoreId store)
{
	return lt_read_time(&lt_leases[hold].due[store]) < 0 && lt_holds[hold].store != store &&
		current_store() != store && (lt_holds[hold].traces & STORE_BIT(store)) == 0;
}

/*
 * lt_check_due_times --- will the watchdog find all that is due?
 *
 * A lock that has to move to the other store must be due there.
 */
const char *
lt_check_due_times(void)
{
	StoreId		current = current_store();

	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		for (int s = 0; s < STORE_COUNT; s++)
			if (lr_has_store(s) && pg_atomic_read_u64(&lt_leases[i].owner) != 0 &&
				!is_stale_mark(i, s) &&
				lt_read_due(i, s) < lt_read_time(&lt_block_due[s][i / DUE_BLOCK]))
				return lt_check_says("hold %d (%s) is due in store %d before its block", i,
									 lt_state_names[lt_holds[i].state], s);
		if (lt_holds[i].state == HOLD_HELD && lt_is_wanted_in(&lt_holds[i], current) &&
			lt_read_due(i, current) >= LR_NEVER)
			return lt_check_says("hold %d is not due to be moved to store %d", i, current);
	}
	return NULL;
}

/* ----------
 * Holds of this session
 * ----------
 */

/*
 * check_own_hold --- may this session have the hold after a transaction, or after its
 * own end ("ended")?  Partition lock held
 */
static const char *
check_own_hold(LrIndex hold, bool ended)
{
	const LrHold *h = &lt_holds[hold];

	if (ended || (h->state != HOLD_HELD && h->state != HOLD_LOST))
		return lt_check_says("session %d still has hold %d, which is %s", LrMyProcNumber, hold,
							 lt_state_names[h->state]);
	if (h->scope[SCOPE_XACT].count > 0 || h->committing)
		return lt_check_says("hold %d is the transaction's, which has ended", hold);
	return NULL;
}

static bool
is_own(const LrHold *h)
{
	return h->session == LrMyProcNumber && h->state != HOLD_FREE;
}

/*
 * check_own --- check all holds of this session, which other processes can only lose
 *
 * While another process writes a slot, it may look like ours, so we look again under
 * the partition lock.
 */
static const char *
check_own(bool ended)
{
	uint32		before = pg_atomic_read_u32(&lt_sessions[LrMyProcNumber].nlost);
	uint32		lost = 0;

	if (lt_wait_of(LrMyProcNumber)->state != WAIT_NONE)
		return lt_check_says("session %d still waits", LrMyProcNumber);
	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
	{
		const LrHold *h = &lt_holds[i];
		const char *says;
		LWLock	   *lock;

		if (!is_own(h))
			continue;
		lock = lt_partition(h->hash);
		LWLockAcquire(lock, LW_SHARED);
		says = is_own(h) ? check_own_hold(i, ended) : NULL;
		if (is_own(h) && h->state == HOLD_LOST)
			lost++;
		LWLockRelease(lock);
		CHECK(says);
	}

	/* A process that loses a hold first marks it and then counts it. */
	if (before > lost || (ended && before != 0))
		return lt_check_says("session %d has lost %u locks, its counter said %u", LrMyProcNumber,
							 lost, before);
	return NULL;
}

/*
 * lt_check_transaction_end --- see hold.h
 *
 * Not after FATAL, which can interrupt an acquire: the end of the session releases what
 * the acquire has left.
 */
void
lt_check_transaction_end(void)
{
	if (!proc_exit_inprogress)
		lt_check_insist(check_own(false), "at the end of a transaction");
}

void
lt_check_session_end(void)
{
	lt_check_insist(check_own(true), "at the end of a session");
	for (int p = 0; p < LT_PARTITIONS; p++)
	{
		LWLock	   *lock = lt_partition(p);

		LWLockAcquire(lock, LW_SHARED);
		lt_check_change(lock);
		LWLockRelease(lock);
	}
}

#endif							/* USE_ASSERT_CHECKING */
