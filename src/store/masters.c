/*-------------------------------------------------------------------------
 *
 * masters.c
 *	  Independent masters: what all processes know of each of them.
 *
 * Which servers they are is under the lock of the table of nodes, which is held only for
 * short updates; all else is atomic.  Any process that connects to a master writes.
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

/* Allowance for clocks of different speed: a part of the lease, and a bit more. */
#define DRIFT_PART			100
#define DRIFT_MIN			(2 * LR_US_PER_MS)

/* What is known of the server at one URL, under the lock. */
typedef struct MasterRow
{
	MasterStatus server;
	bool		known;			/* some server was seen in this row before */
	bool		claimed;		/* the server was heard since the watchdog's last
								 * connection to this row ended, and no other one was
								 * found there since */
} MasterRow;

typedef struct MastersShared
{
	pg_atomic_uint32 n;
	pg_atomic_uint32 place;
	pg_atomic_uint32 there;		/* bits: those that answer the watchdog */

	/* Changes, under the lock, whenever the server of the row changes. */
	pg_atomic_uint32 life[LR_MAX_MASTERS];

	MasterRow	row[LR_MAX_MASTERS];

	/* The servers by former settings, under the lock. */
	MasterStatus former[LR_MAX_MASTERS];
} MastersShared;

/* How often the watchdog found a master to be back; in its own memory. */
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
 * The servers
 * ----------
 */

/*
 * master_was_there --- since when a server was in place by former settings; lock held
 *
 * It may have been in several rows, one after another.  A server that was in none of
 * them gets a time before all others; 0 would be the start of this machine, and a
 * master may have run for longer.
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
 * master_becomes --- a row has another server now, or ("") none that is known; lock
 * held
 *
 * The first server of a row counts since the time that it reports itself, or since it
 * took the place of another one by former settings.  Any later one may have run for
 * long, but does not know the locks that the server before it has granted: it counts as
 * started now.
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
 * If the server of a connection is claimed by another row, the former server of this
 * row is not here any more, so another row may claim that one.  So after servers have
 * changed places, all is right when both rows have been connected to.
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
 * masters_get --- copy what is known of the server in a row
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
 * A process first notes that a master lacks a lock, and then checks whether it is
 * there; the watchdog sets the bit, and then looks for such locks.  The atomic
 * operation is a barrier, so one of the two sees the other.
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

/* If the server is there after all, nothing changes. */
void
masters_forget(int row)
{
	LWLockAcquire(masters_lock, LW_EXCLUSIVE);
	shared->row[row].claimed = false;
	LWLockRelease(masters_lock);
}

/*
 * With the same place everything known stays valid: a watchdog may have been restarted.
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
