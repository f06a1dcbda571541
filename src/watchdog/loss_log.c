/*-------------------------------------------------------------------------
 *
 * loss_log.c
 *	  Losses of locks, for the server log.
 *
 * Whoever finds a loss may not log it: it holds a partition of the lock table
 * locked, or is at the end of a transaction or of its process, where a message
 * could raise.  And the session that is told by a signal (lockredis.on_lost) has
 * nothing but "canceling statement due to user request" in the log.  So a plain
 * record of each loss goes into a ring in shared memory, and the watchdog, which
 * is woken for it, is the only one that writes: one line for each, in one place
 * where their number can be limited.  A watchdog that is started anew goes on
 * with what is in the ring.
 *
 * When a store loses all it has, thousands of locks are lost at once.  So there
 * are so many lines in so much time, and then the number of those that were left
 * out; the ring is not much larger than that.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/loss_log.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

#include "watchdog/loss_log.h"
#include "report.h"

/* At most so many lines */
#define LINES_MAX			50
/* in so much time */
#define LINES_INTERVAL		(10 * LR_US_PER_S)

#define RING_SIZE			64

typedef struct LossRecord
{
	int			pid;
	bool		in_scope[SCOPE_COUNT];
	OnLost		on_lost;
	LostReason	reason;
	int			name_len;
	char		name[LR_NAME_MAX];
	char		taken_by[LR_OWNER_MAX];
} LossRecord;

/* All of it is written under the lock; atomics are looked at without. */
typedef struct LossLog
{
	int			first;
	pg_atomic_uint32 n;			/* in the ring */
	pg_atomic_uint64 left_out;	/* not written, and not yet told */
	LossRecord	ring[RING_SIZE];
} LossLog;

static LossLog *losses = NULL;
static LWLock *losses_lock = NULL;

/* The watchdog's own. */
static int64 interval_ends = 0;
static int	lines = 0;
static MemoryContext line_context = NULL;

Size
loss_log_shmem_size(void)
{
	return MAXALIGN(sizeof(LossLog));
}

int
loss_log_lwlocks(void)
{
	return 1;
}

/* Called with AddinShmemInitLock held. */
void
loss_log_shmem_init(int first_lwlock)
{
	bool		found;

	losses = ShmemInitStruct("lockredis losses", loss_log_shmem_size(), &found);
	losses_lock = &(GetNamedLWLockTranche("lockredis"))[first_lwlock].lock;
	if (found)
		return;
	losses->first = 0;
	pg_atomic_init_u32(&losses->n, 0);
	pg_atomic_init_u64(&losses->left_out, 0);
}

/* ----------
 * Whoever finds a loss
 * ----------
 */

static void
fill_record(LossRecord *r, int pid, const char *name, int len,
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

void
loss_log_add(int pid, const char *name, int len, const ScopeHold *scope,
			 LostReason reason, const char *taken_by)
{
	uint32		n;

	LWLockAcquire(losses_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&losses->n);
	if (n < RING_SIZE)
	{
		fill_record(&losses->ring[(losses->first + n) % RING_SIZE], pid, name,
					len, scope, reason, taken_by);
		pg_atomic_write_u32(&losses->n, n + 1);
	}
	else
		pg_atomic_fetch_add_u64(&losses->left_out, 1);
	LWLockRelease(losses_lock);
}

/* ----------
 * The watchdog
 * ----------
 */

static bool
take_record(LossRecord *r)
{
	uint32		n;

	if (pg_atomic_read_u32(&losses->n) == 0)
		return false;
	LWLockAcquire(losses_lock, LW_EXCLUSIVE);
	n = pg_atomic_read_u32(&losses->n);
	*r = losses->ring[losses->first];
	losses->first = (losses->first + 1) % RING_SIZE;
	pg_atomic_write_u32(&losses->n, n - 1);
	LWLockRelease(losses_lock);
	return true;
}

static const char *
level_of(const LossRecord *r)
{
	if (!r->in_scope[SCOPE_XACT])
		return "session-level";
	return r->in_scope[SCOPE_SESSION] ? "session-level and transaction-level" :
		"transaction-level";
}

static void
write_record(const LossRecord *r)
{
	ereport(LOG,
			(errmsg("lockredis: process %d lost the %s lock \"%s\": %s",
					r->pid, level_of(r), lr_name_to_show(r->name, r->name_len),
					lost_reason_text(r->reason, r->taken_by)),
			 r->on_lost == ON_LOST_MARK ? 0 :
			 errdetail("It was taken with \"%s\" set to \"%s\".", "lockredis.on_lost",
					   r->on_lost == ON_LOST_CANCEL ? "cancel" : "terminate")));
}

static void
write_left_out(void)
{
	uint64		n = pg_atomic_exchange_u64(&losses->left_out, 0);

	if (n > 0)
		ereport(LOG,
				(errmsg("lockredis: %llu more losses of locks were not logged",
						(unsigned long long) n)));
}

void
loss_log_write(void)
{
	LossRecord	r;
	MemoryContext before;

	bool		empty = pg_atomic_read_u32(&losses->n) == 0;

	if ((lines > 0 || empty) && lr_now() >= interval_ends)
	{
		write_left_out();
		lines = 0;
	}
	if (empty)
		return;

	if (line_context == NULL)
		line_context = AllocSetContextCreate(TopMemoryContext, "lockredis losses",
											 ALLOCSET_SMALL_SIZES);
	before = MemoryContextSwitchTo(line_context);
	while (take_record(&r))
	{
		if (lines == 0)
			interval_ends = lr_now() + LINES_INTERVAL;
		if (lines++ < LINES_MAX)
			write_record(&r);
		else
			pg_atomic_fetch_add_u64(&losses->left_out, 1);
		MemoryContextReset(line_context);
	}
	MemoryContextSwitchTo(before);
}

/*
 * loss_log_next --- when there is something to write though nothing is lost
 */
int64
loss_log_next(void)
{
	return pg_atomic_read_u64(&losses->left_out) > 0 ? interval_ends : LR_NEVER;
}

void
loss_log_finish(void)
{
	loss_log_write();
	write_left_out();
}
