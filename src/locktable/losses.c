/*-------------------------------------------------------------------------
 *
 * losses.c
 *	  Losses of locks that are not in the server log yet.
 *
 * A process that finds a loss may not log it: it holds a partition lock, or is at
 * the end of a transaction or of its life, where a message could raise.  So it
 * writes a plain record of the loss into a ring in shared memory, and the watchdog
 * logs it (watchdog/health.c).  A new watchdog goes on with the records in the ring.
 *
 * The lock of the ring may be taken while a partition lock is held.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/losses.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "locktable/losses.h"

/* Not much more than the watchdog logs at once; see watchdog/health.c. */
#define RING_SIZE			64

/* The ring is written under the lock; "n" is also read, and "left_out" used, without. */
typedef struct LossRing
{
	int			first;
	pg_atomic_uint32 n;			/* in the ring */
	pg_atomic_uint64 left_out;	/* neither logged nor counted in the log yet */
	LossRecord	ring[RING_SIZE];
} LossRing;

static LossRing *losses = NULL;
static LWLock *losses_lock = NULL;

/*
 * losses_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
losses_shmem_size(void)
{
	return MAXALIGN(sizeof(LossRing));
}

/*
 * losses_lwlocks --- the light-weight locks that this file uses
 */
int
losses_lwlocks(void)
{
	return 1;
}

/* Called with AddinShmemInitLock held. */
void
losses_shmem_init(int first_lwlock)
{
	bool		found;

	losses = ShmemInitStruct("lockredis losses", losses_shmem_size(), &found);
	losses_lock = &(GetNamedLWLockTranche("lockredis"))[first_lwlock].lock;
	if (found)
		return;
	losses->first = 0;
	pg_atomic_init_u32(&losses->n, 0);
	pg_atomic_init_u64(&losses->left_out, 0);
}

/*
 * losses_fill --- fill a record, with the stricter on_lost of both scopes
 */
static void
losses_fill(LossRecord *r, int pid, const char *name, int len,
			const ScopeHold *scope, LostReason reason, const char *taken_by)
{
	r->pid = pid;
	r->reason = reason;
	r->on_lost = ON_LOST_MARK;
	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		r->in_scope[i] = scope[i].count > 0;
		if (r->in_scope[i])
			r->on_lost = Max(r->on_lost, scope[i].on_lost);
	}
	r->name_len = len;
	memcpy(r->name, name, len);
	strlcpy(r->taken_by, taken_by ? taken_by : "", LR_OWNER_MAX);
}

/*
 * losses_add --- add a record; if the ring is full, only count the loss
 */
void
losses_add(int pid, const char *name, int len, const ScopeHold *scope,
		   LostReason reason, const char *taken_by)
{
	uint32		n;

	LWLockAcquire(losses_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&losses->n);
	if (n < RING_SIZE)
	{
		losses_fill(&losses->ring[(losses->first + n) % RING_SIZE], pid, name,
					len, scope, reason, taken_by);
		pg_atomic_write_u32(&losses->n, n + 1);
	}
	else
		pg_atomic_fetch_add_u64(&losses->left_out, 1);
	LWLockRelease(losses_lock);
}

/*
 * losses_any --- are there records in the ring?
 */
bool
losses_any(void)
{
	return pg_atomic_read_u32(&losses->n) > 0;
}

/*
 * losses_take --- see losses.h
 *
 * Only the watchdog takes records, so a record that it has seen without the lock is
 * still there.
 */
bool
losses_take(LossRecord *r)
{
	uint32		n;

	if (!losses_any())
		return false;
	LWLockAcquire(losses_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&losses->n);
	*r = losses->ring[losses->first];
	losses->first = (losses->first + 1) % RING_SIZE;
	pg_atomic_write_u32(&losses->n, n - 1);
	LWLockRelease(losses_lock);
	return true;
}

void
losses_leave_out(void)
{
	pg_atomic_fetch_add_u64(&losses->left_out, 1);
}

bool
losses_any_left_out(void)
{
	return pg_atomic_read_u64(&losses->left_out) > 0;
}

uint64
losses_take_left_out(void)
{
	return pg_atomic_exchange_u64(&losses->left_out, 0);
}
