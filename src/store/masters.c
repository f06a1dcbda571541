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
#include "port/pg_bitutils.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "settings.h"
#include "store/masters.h"

#define MS_PER_S			1000

/* A lease that was seen counts until it is over, and so many s more. */
#define SEEN_LONGER			3600

/* One for each power of two, of the leases (s) from that on. */
#define SEEN_CLASSES		31

/* Clocks run at different speeds: a part of the lease, and a bit. */
#define DRIFT_PART			100
#define DRIFT_MIN			(2 * LR_US_PER_MS)

typedef struct MastersShared
{
	pg_atomic_uint32 n;
	pg_atomic_uint32 place;
	pg_atomic_uint32 there;		/* those that answer the watchdog: bits */

	/* Only the watchdog writes these; masters_set_lease() says in which order. */
	pg_atomic_uint64 lease;		/* the server's setting, ms */
	pg_atomic_uint64 former;	/* a longer one that it was before, ms, */
	pg_atomic_uint64 former_until;	/* and when that is over */

	/* Of each class the longest lease (s), and until when it counts (s). */
	pg_atomic_uint64 seen[SEEN_CLASSES];

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
	pg_atomic_init_u32(&shared->there, 0);
	pg_atomic_init_u64(&shared->former, 0);
	pg_atomic_init_u64(&shared->former_until, 0);
	for (int i = 0; i < SEEN_CLASSES; i++)
		pg_atomic_init_u64(&shared->seen[i], 0);
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

static int64
with_drift(int64 lease_ms)
{
	int64		lease = lease_ms * LR_US_PER_MS;

	return lease + lease / DRIFT_PART + DRIFT_MIN;
}

static inline uint32
seen_lease(uint64 seen)
{
	return (uint32) (seen >> 32);
}

static inline uint32
seen_until(uint64 seen)
{
	return (uint32) seen;
}

/*
 * masters_saw_lease --- see masters.h
 *
 * Those of a class are remembered as one, which is as long as any of them and counts as
 * long: so one of a day is not remembered for as long as there are some of a minute, nor
 * these forgotten with it.
 */
void
masters_saw_lease(int64 lease_ms)
{
	uint64		before;
	uint64		after;
	uint32		now;
	uint32		lease;
	uint32		until;
	pg_atomic_uint64 *seen;

	if (lease_ms <= (int64) pg_atomic_read_u64(&shared->lease))
		return;
	now = (uint32) (lr_now() / LR_US_PER_S);
	lease = (uint32) Min(1 + (lease_ms - 1) / MS_PER_S, (int64) PG_INT32_MAX);
	until = now + 1 + lease + SEEN_LONGER;
	seen = &shared->seen[pg_leftmost_one_pos32(lease)];
	before = pg_atomic_read_u64(seen);
	do
	{
		bool		counts = seen_until(before) > now;

		/* One that counts for a while yet is not written for each lock. */
		if (seen_lease(before) >= lease && seen_until(before) > until - SEEN_LONGER / 2)
			return;
		after = (uint64) Max(lease, counts ? seen_lease(before) : 0) << 32 |
			Max(until, seen_until(before));
	} while (!pg_atomic_compare_exchange_u64(seen, &before, after));
}

/*
 * masters_votes_at --- see masters.h
 *
 * What it has forgotten of a lease that nobody has asked for any more is over when the
 * last of them is, however lately the node was started.
 */
int64
masters_votes_at(int64 booted_by, int64 lease_ms)
{
	int64		setting = (int64) pg_atomic_read_u64(&shared->lease);
	int64		votes_at;
	int64		former;

	votes_at = booted_by + with_drift(Max(lease_ms, Max((int64) lr_lease, setting)));

	pg_read_barrier();			/* pairs with those of masters_set_lease() */
	former = (int64) pg_atomic_read_u64(&shared->former);
	pg_read_barrier();
	votes_at = lr_later(votes_at,
						lr_earlier(booted_by + with_drift(former),
								   (int64) pg_atomic_read_u64(&shared->former_until)));

	for (int i = 0; i < SEEN_CLASSES; i++)
	{
		uint64		seen = pg_atomic_read_u64(&shared->seen[i]);

		votes_at = lr_later(votes_at,
							lr_earlier(booted_by + with_drift((int64) seen_lease(seen) * MS_PER_S),
									   (int64) seen_until(seen) * LR_US_PER_S));
	}
	return votes_at;
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

/*
 * masters_set_lease --- see masters.h
 *
 * Locks that were taken before it was lowered have the former one, here and elsewhere:
 *
 *	 A: has a lock for 30 s, of nodes 1 and 2
 *	 the lease is lowered to 1 s, and node 2 started again, empty
 *	 B: asks nodes 2 and 3, 1 s later
 *
 * So the former one counts until a lock with it is over that was asked for just now, by a
 * call that began before.  Who goes by it after that is seen (masters_saw_lease()).
 * Of several in a row the longest counts until the last one is over.
 *
 * Until it is lowered for others the former one stands there, and its end before itself:
 * whoever reads in the middle of this has one of them for too long, never for too short.
 */
void
masters_set_lease(int64 lease_ms)
{
	int64		before = (int64) pg_atomic_read_u64(&shared->lease);

	if (lease_ms < before)
	{
		int64		now = lr_now();
		int64		until = now + lr_call_budget() + with_drift(before);
		int64		last = (int64) pg_atomic_read_u64(&shared->former_until);
		int64		former = (int64) pg_atomic_read_u64(&shared->former);

		pg_atomic_write_u64(&shared->former_until, (uint64) lr_later(until, last));
		pg_write_barrier();
		pg_atomic_write_u64(&shared->former,
							(uint64) lr_later(before, last > now ? former : 0));
		pg_write_barrier();
	}
	pg_atomic_write_u64(&shared->lease, (uint64) lease_ms);
}
