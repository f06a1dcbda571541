/*-------------------------------------------------------------------------
 *
 * masters.c
 *	  Independent masters: what all processes know of each of them.
 *
 * Who they are lies under the lock of the table of nodes, which is held for copying
 * only; all else is atomic.  Whoever connects writes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/masters.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "settings.h"
#include "store/masters.h"

#define MS_PER_S			1000

/* A lease is remembered for as long as it is, at least that many s. */
#define LEASE_REMEMBERED	3600

/* Clocks run at different speeds: a part of the lease, and a bit. */
#define DRIFT_PART			100
#define DRIFT_MIN			(2 * LR_US_PER_MS)

typedef struct MastersShared
{
	pg_atomic_uint32 n;
	pg_atomic_uint32 place;
	pg_atomic_uint64 lease;		/* the server's setting, ms */
	pg_atomic_uint64 seen;		/* longest lease (s), and when seen (s) */
	pg_atomic_uint32 there;		/* those that answer the watchdog: bits */

	/* Under the lock. */
	MasterStatus master[LR_MAX_MASTERS];
} MastersShared;

/* So often has the watchdog found one that was away; its own. */
static uint32 returns = 0;

static MastersShared *shared = NULL;
static LWLock *masters_lock = NULL;

Size
masters_shmem_size(void)
{
	return MAXALIGN(sizeof(MastersShared));
}

/* Called with AddinShmemInitLock held. */
void
masters_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("lockredis masters", masters_shmem_size(), &found);
	masters_lock = node_lwlock();
	if (found)
		return;

	memset(shared, 0, sizeof(MastersShared));
	pg_atomic_init_u32(&shared->n, 0);
	pg_atomic_init_u32(&shared->place, 0);
	pg_atomic_init_u64(&shared->lease, 0);
	pg_atomic_init_u64(&shared->seen, 0);
	pg_atomic_init_u32(&shared->there, 0);
}

int
masters_count(void)
{
	return (int) pg_atomic_read_u32(&shared->n);
}

uint32
masters_place(void)
{
	return pg_atomic_read_u32(&shared->place);
}

/* ----------
 * Leases
 * ----------
 */

/*
 * seen_lease --- the longest one that was seen, in s; 0 = none that matters
 */
static uint32
seen_lease(uint64 seen)
{
	uint32		lease = (uint32) (seen >> 32);
	uint32		at = (uint32) seen;

	return lr_now() / LR_US_PER_S < (int64) at + Max(lease, LEASE_REMEMBERED) ? lease : 0;
}

void
masters_saw_lease(int64 lease_ms)
{
	uint64		before;
	uint64		after;
	uint32		lease;

	if (lease_ms <= (int64) pg_atomic_read_u64(&shared->lease))
		return;
	lease = (uint32) Min(1 + (lease_ms - 1) / MS_PER_S, (int64) PG_INT32_MAX);
	before = pg_atomic_read_u64(&shared->seen);
	after = (uint64) lease << 32 | (uint32) (lr_now() / LR_US_PER_S);

	/* One that is remembered for a while yet is not written for each lock. */
	if (lease == (uint32) (before >> 32) && (uint32) after - (uint32) before < LEASE_REMEMBERED / 2)
		return;
	while (seen_lease(before) <= lease &&
		   !pg_atomic_compare_exchange_u64(&shared->seen, &before, after))
		;
}

int64
masters_longest_lease(void)
{
	int64		seen = (int64) seen_lease(pg_atomic_read_u64(&shared->seen)) * MS_PER_S;

	return Max(seen, Max((int64) lr_lease, (int64) pg_atomic_read_u64(&shared->lease)));
}

int64
masters_votes_at(int64 booted_by, int64 lease_ms)
{
	int64		lease = Max(lease_ms, masters_longest_lease()) * LR_US_PER_MS;

	return booted_by + lease + lease / DRIFT_PART + DRIFT_MIN;
}

/* ----------
 * Who they are
 * ----------
 */

/*
 * masters_note --- see masters.h
 *
 * The first who says so is that one, and stays it until it says that it is another:
 * one that does not answer now may be the same still.  By settings that the watchdog
 * has not read nobody connects.
 */
bool
masters_note(int row, uint32 place, const char *run_id, int64 booted_by)
{
	MasterStatus *m = &shared->master[row];
	bool		other = false;

	LWLockAcquire(masters_lock, LW_EXCLUSIVE);
	if (place == masters_place())
	{
		for (int i = 0; i < masters_count() && !other; i++)
			other = i != row && strcmp(shared->master[i].run_id, run_id) == 0;
		if (!other)
		{
			if (strcmp(m->run_id, run_id) != 0 || booted_by < m->booted_by)
				m->booted_by = booted_by;
			strlcpy(m->run_id, run_id, sizeof(m->run_id));
		}
	}
	LWLockRelease(masters_lock);
	return !other;
}

void
masters_get(int row, MasterStatus *out)
{
	LWLockAcquire(masters_lock, LW_SHARED);
	*out = shared->master[row];
	LWLockRelease(masters_lock);
}

bool
masters_are_there(uint32 place, uint32 rows)
{
	rows &= pg_atomic_read_u32(&shared->there);
	if (place != masters_place())
		return false;
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if ((rows & (1U << i)) != 0 && !node_is_silent(NODE_MASTER + i))
			return true;
	return false;
}

/* ----------
 * For the watchdog
 * ----------
 */

/*
 * masters_set_there --- see masters.h
 *
 * Whoever looks after that for what one lacks that is back finds what was noted before
 * it was seen to be: the atomic operation is a barrier.
 */
void
masters_set_there(int row, bool there)
{
	uint32		bit = 1U << row;

	if (!there)
		pg_atomic_fetch_and_u32(&shared->there, ~bit);
	else
	{
		pg_atomic_fetch_or_u32(&shared->there, bit);
		returns++;
	}
}

uint32
masters_returns(void)
{
	return returns + node_silences_ended();
}

/*
 * masters_start --- see masters.h
 *
 * With the same place what is known is right: a watchdog may have been started again.
 */
void
masters_start(int n, uint32 place)
{
	uint32		before = masters_place();
	int			nbefore = masters_count();

	if (place == before)
		return;
	pg_atomic_write_u32(&shared->place, 0);
	for (int i = n; i < nbefore; i++)
		node_vanish(NODE_MASTER + i);
	LWLockAcquire(masters_lock, LW_EXCLUSIVE);
	memset(shared->master, 0, sizeof(shared->master));
	LWLockRelease(masters_lock);
	for (int i = 0; i < n; i++)
		node_appear(NODE_MASTER + i, STORE_REDIS, ROLE_MASTER);
	pg_atomic_write_u32(&shared->n, (uint32) n);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->place, place);
}

void
masters_set_lease(int64 lease_ms)
{
	pg_atomic_write_u64(&shared->lease, (uint64) lease_ms);
}
