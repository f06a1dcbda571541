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
#include "store/nodes.h"

/* Clocks run at different speeds: a part of the lease, and a bit. */
#define DRIFT_PART			100
#define DRIFT_MIN			(2 * LR_US_PER_MS)

/* What is known of the server behind a URL, under the lock. */
typedef struct MasterRow
{
	MasterStatus server;
	bool		known;			/* there was one before, this or another */
	bool		claimed;		/* it was heard since the watchdog's connection to this
								 * row has ended last, and nobody has found another one
								 * there since */
} MasterRow;

typedef struct MastersShared
{
	pg_atomic_uint32 n;
	pg_atomic_uint32 place;
	pg_atomic_uint32 there;		/* those that answer the watchdog: bits */

	/* Changes, under the lock, whenever another server is found in the row. */
	pg_atomic_uint32 life[LR_MAX_MASTERS];

	MasterRow	row[LR_MAX_MASTERS];

	/* Who was there by the settings of before, under the lock. */
	MasterStatus former[LR_MAX_MASTERS];
} MastersShared;

/* So often has the watchdog found one that was away; its own. */
static uint32 returns = 0;

static MastersShared *shared = NULL;
static LWLock *masters_lock = NULL;

/*
 * masters_shmem_size --- the shared memory that this file uses, in bytes
 */
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
	pg_atomic_init_u32(&shared->there, 0);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		pg_atomic_init_u32(&shared->life[i], 1);
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

int64
masters_votes_at(int64 since)
{
	int64		lease = lr_max_lease * LR_US_PER_MS;

	return since + lease + lease / DRIFT_PART + DRIFT_MIN;
}

/* ----------
 * Who they are
 * ----------
 */

/*
 * master_was_there --- since when, by the settings of before; lock held
 *
 * It may have been in several rows, one after the other.  One that was in none has been
 * there for ever: 0 is when this machine was started, and a master may have run for longer.
 */
static int64
master_was_there(const char *run_id)
{
	int64		since = -LR_NEVER;

	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (strcmp(shared->former[i].run_id, run_id) == 0)
			since = lr_later(since, shared->former[i].since);
	return since;
}

/*
 * master_becomes --- another server answers in that row, or none of it any more; lock held
 *
 * The first that is seen goes by what it says itself, unless it had taken another's place
 * when other settings were read.  Any other may have run for long, and know nothing of the
 * locks that the one before has granted: it counts as started now.
 */
static void
master_becomes(int row, const char *run_id, int64 booted_by)
{
	MasterRow  *m = &shared->row[row];

	m->server.since = lr_later(booted_by, m->known ? lr_now() : master_was_there(run_id));
	strlcpy(m->server.run_id, run_id, sizeof(m->server.run_id));
	m->known = true;
	m->claimed = false;
	pg_atomic_fetch_add_u32(&shared->life[row], 1);
}

/*
 * masters_note --- see nodes.h
 *
 * Whoever is refused shows that the server of its own row is there no more: another row may
 * have that.  So two rows whose servers change places are free for each other when both have
 * been connected to.
 */
bool
masters_note(int row, uint32 place, const char *run_id, int64 booted_by, uint32 *life,
			 int64 *since)
{
	MasterRow  *m = &shared->row[row];
	bool		refused = false;

	*life = 0;
	*since = booted_by;
	LWLockAcquire(masters_lock, LW_EXCLUSIVE);
	if (place == masters_place())
	{
		bool		same = strcmp(m->server.run_id, run_id) == 0;

		for (int i = 0; i < masters_count(); i++)
		{
			const MasterRow *other = &shared->row[i];

			if (i == row || strcmp(other->server.run_id, run_id) != 0)
				continue;
			if (other->claimed)
				refused = true;
			else
				master_becomes(i, "", 0);
		}
		if (!refused && !same)
			master_becomes(row, run_id, booted_by);
		m->claimed = !refused;
		*life = pg_atomic_read_u32(&shared->life[row]);
		*since = m->server.since;
	}
	LWLockRelease(masters_lock);
	return !refused;
}

uint32
masters_life(int row)
{
	return pg_atomic_read_u32(&shared->life[row]);
}

/*
 * masters_get --- copy the row of a master: which server it is, and since when
 * it runs
 */
void
masters_get(int row, MasterStatus *out)
{
	LWLockAcquire(masters_lock, LW_SHARED);
	*out = shared->row[row].server;
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
 * masters_set_there --- see nodes.h
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
 * masters_forget --- see nodes.h
 *
 * Should it be there after all it is the same as before.
 */
void
masters_forget(int row)
{
	LWLockAcquire(masters_lock, LW_EXCLUSIVE);
	shared->row[row].claimed = false;
	LWLockRelease(masters_lock);
}

/*
 * masters_start --- see nodes.h
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
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (shared->row[i].server.run_id[0] != '\0')
			shared->former[i] = shared->row[i].server;
	memset(shared->row, 0, sizeof(shared->row));
	LWLockRelease(masters_lock);
	for (int i = 0; i < n; i++)
		node_appear(NODE_MASTER + i, STORE_REDIS, ROLE_MASTER);
	pg_atomic_write_u32(&shared->n, (uint32) n);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->place, place);
}
