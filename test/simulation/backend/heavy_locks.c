/*-------------------------------------------------------------------------
 *
 * heavy_locks.c
 *	  Locks of PostgreSQL's lock manager: modes, a queue for each, its deadlock
 *	  detector, and what GetBlockerStatusData() tells of them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/heavy_locks.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/timestamp.h"

#define LOCKS_MAX		128
#define HOLDERS_MAX		32
#define OWNERS_MAX		(OWNER_STRANGER + STRANGERS_MAX)

typedef struct Holder
{
	int			owner;
	SubTransactionId sub;
	LOCKMASK	mask;
} Holder;

typedef struct HeavyLock
{
	bool		used;
	LOCKTAG		tag;
	int			nholders;
	Holder		holder[HOLDERS_MAX];
	int			nwaiters;
	struct
	{
		int			owner;
		LOCKMODE	mode;
	}			waiter[SIM_MAX_PROCS];
} HeavyLock;

static HeavyLock *locks;

/* As in PostgreSQL's lock.c. */
static const LOCKMASK conflicts[] = {
	0,
	LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(ExclusiveLock) | LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(ShareLock) | LOCKBIT_ON(ShareRowExclusiveLock) |
	LOCKBIT_ON(ExclusiveLock) | LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(ShareUpdateExclusiveLock) | LOCKBIT_ON(ShareLock) |
	LOCKBIT_ON(ShareRowExclusiveLock) | LOCKBIT_ON(ExclusiveLock) |
	LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(RowExclusiveLock) | LOCKBIT_ON(ShareUpdateExclusiveLock) |
	LOCKBIT_ON(ShareRowExclusiveLock) | LOCKBIT_ON(ExclusiveLock) |
	LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(RowExclusiveLock) | LOCKBIT_ON(ShareUpdateExclusiveLock) |
	LOCKBIT_ON(ShareLock) | LOCKBIT_ON(ShareRowExclusiveLock) |
	LOCKBIT_ON(ExclusiveLock) | LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(RowShareLock) | LOCKBIT_ON(RowExclusiveLock) |
	LOCKBIT_ON(ShareUpdateExclusiveLock) | LOCKBIT_ON(ShareLock) |
	LOCKBIT_ON(ShareRowExclusiveLock) | LOCKBIT_ON(ExclusiveLock) |
	LOCKBIT_ON(AccessExclusiveLock),
	LOCKBIT_ON(AccessShareLock) | LOCKBIT_ON(RowShareLock) |
	LOCKBIT_ON(RowExclusiveLock) | LOCKBIT_ON(ShareUpdateExclusiveLock) |
	LOCKBIT_ON(ShareLock) | LOCKBIT_ON(ShareRowExclusiveLock) |
	LOCKBIT_ON(ExclusiveLock) | LOCKBIT_ON(AccessExclusiveLock)
};

static const LockMethodData method = {
	.numLockModes = AccessExclusiveLock,
	.conflictTab = conflicts,
};

void
heavy_locks_init(void)
{
	if (shared_root->heavy_locks == NULL)
		shared_root->heavy_locks = sim_arena_alloc(sizeof(HeavyLock) * LOCKS_MAX);
	locks = shared_root->heavy_locks;
}

static HeavyLock *
find(const LOCKTAG *tag)
{
	HeavyLock  *unused = NULL;

	for (int i = 0; i < LOCKS_MAX; i++)
	{
		if (!locks[i].used)
			unused = unused == NULL ? &locks[i] : unused;
		else if (memcmp(&locks[i].tag, tag, sizeof(LOCKTAG)) == 0)
			return &locks[i];
	}
	if (unused == NULL)
		sim_fail("simulator", "too many heavyweight locks");
	memset(unused, 0, sizeof(HeavyLock));
	unused->used = true;
	unused->tag = *tag;
	return unused;
}

/* ----------
 * Who keeps whom from a lock
 * ----------
 */

static bool
is_kept_by_holders(const HeavyLock *lock, int owner, LOCKMODE mode)
{
	for (int i = 0; i < lock->nholders; i++)
		if (lock->holder[i].owner != owner && (lock->holder[i].mask & conflicts[mode]) != 0)
			return true;
	return false;
}

/* By those who are ahead of this place. */
static bool
is_kept_by_queue(const HeavyLock *lock, int place, LOCKMODE mode)
{
	for (int i = 0; i < place; i++)
		if ((LOCKBIT_ON(lock->waiter[i].mode) & conflicts[mode]) != 0)
			return true;
	return false;
}

static HeavyLock *
awaited_by(int process)
{
	return (HeavyLock *) ProcGlobal->allProcs[process].waitLock;
}

static int
place_of(const HeavyLock *lock, int owner)
{
	for (int i = 0; i < lock->nwaiters; i++)
		if (lock->waiter[i].owner == owner)
			return i;
	return -1;
}

void
heavy_lock_blockers(int process, bool *reached)
{
	const HeavyLock *lock = awaited_by(process);
	int			place;
	LOCKMODE	mode;

	if (lock == NULL)
		return;
	place = place_of(lock, process);
	mode = lock->waiter[place].mode;
	for (int i = 0; i < lock->nholders; i++)
		if (lock->holder[i].owner != process && lock->holder[i].owner < OWNER_PREPARED &&
			(lock->holder[i].mask & conflicts[mode]) != 0)
			reached[lock->holder[i].owner] = true;
	for (int i = 0; i < place; i++)
		if ((LOCKBIT_ON(lock->waiter[i].mode) & conflicts[mode]) != 0)
			reached[lock->waiter[i].owner] = true;
}

/*
 * is_deadlock --- as PostgreSQL's detector, which knows only these locks
 */
static bool
is_deadlock(int self)
{
	bool		reached[SIM_MAX_PROCS] = {false};
	bool		followed[SIM_MAX_PROCS] = {false};
	bool		more = true;

	heavy_lock_blockers(self, reached);
	while (more)
	{
		more = false;
		for (int i = 0; i < SIM_MAX_PROCS; i++)
			if (reached[i] && !followed[i])
			{
				followed[i] = more = true;
				heavy_lock_blockers(i, reached);
			}
	}
	return reached[self];
}

/* ----------
 * Granting and releasing
 * ----------
 */

static void
grant(HeavyLock *lock, int owner, SubTransactionId sub, LOCKMODE mode)
{
	for (int i = 0; i < lock->nholders; i++)
		if (lock->holder[i].owner == owner && lock->holder[i].sub == sub)
		{
			lock->holder[i].mask |= LOCKBIT_ON(mode);
			return;
		}
	if (lock->nholders == HOLDERS_MAX)
		sim_fail("simulator", "too many holders of a heavyweight lock");
	lock->holder[lock->nholders++] = (Holder) {
		owner, sub, LOCKBIT_ON(mode)
	};
}

static void
leave_queue(HeavyLock *lock, int place)
{
	ProcGlobal->allProcs[lock->waiter[place].owner].waitLock = NULL;
	lock->nwaiters--;
	memmove(&lock->waiter[place], &lock->waiter[place + 1],
			sizeof(lock->waiter[0]) * (lock->nwaiters - place));
}

/* Those who can have it now are woken, and take it then. */
static void
wake(HeavyLock *lock)
{
	for (int i = 0; i < lock->nwaiters; i++)
		if (!is_kept_by_holders(lock, lock->waiter[i].owner, lock->waiter[i].mode) &&
			!is_kept_by_queue(lock, i, lock->waiter[i].mode))
		{
			Latch	   *latch = &ProcGlobal->allProcs[lock->waiter[i].owner].procLatch;

			latch->is_set = true;
			sim_wake(latch->owner_pid);
		}
	if (lock->nholders == 0 && lock->nwaiters == 0)
		lock->used = false;
}

static void
drop_holder(HeavyLock *lock, int i)
{
	lock->holder[i] = lock->holder[--lock->nholders];
}

void
heavy_locks_release_sub(SubTransactionId sub)
{
	for (int l = 0; l < LOCKS_MAX; l++)
		for (int i = locks[l].nholders - 1; locks[l].used && i >= 0; i--)
			if (locks[l].holder[i].owner == sim_slot() && locks[l].holder[i].sub == sub)
			{
				drop_holder(&locks[l], i);
				wake(&locks[l]);
			}
}

void
heavy_lock_release(const LOCKTAG *tag)
{
	HeavyLock  *lock = find(tag);

	for (int i = lock->nholders - 1; i >= 0; i--)
		if (lock->holder[i].owner == sim_slot())
			drop_holder(lock, i);
	wake(lock);
}

void
heavy_locks_to_parent(SubTransactionId sub, SubTransactionId parent)
{
	for (int l = 0; l < LOCKS_MAX; l++)
		for (int i = 0; locks[l].used && i < locks[l].nholders; i++)
			if (locks[l].holder[i].owner == sim_slot() && locks[l].holder[i].sub == sub)
				locks[l].holder[i].sub = parent;
}

void
heavy_locks_release_all(int owner)
{
	for (int l = 0; l < LOCKS_MAX; l++)
		for (int i = locks[l].nholders - 1; locks[l].used && i >= 0; i--)
			if (locks[l].holder[i].owner == owner)
			{
				drop_holder(&locks[l], i);
				wake(&locks[l]);
			}
}

void
heavy_locks_pass_on(int to)
{
	for (int l = 0; l < LOCKS_MAX; l++)
		for (int i = 0; locks[l].used && i < locks[l].nholders; i++)
			if (locks[l].holder[i].owner == sim_slot())
				locks[l].holder[i].owner = to;
}

int
heavy_locks_of(int owner)
{
	int			n = 0;

	for (int l = 0; l < LOCKS_MAX; l++)
		for (int i = 0; locks[l].used && i < locks[l].nholders; i++)
			n += locks[l].holder[i].owner == owner;
	return n;
}

/* ----------
 * Waiting
 * ----------
 */

void
heavy_locks_stop_waiting(void)
{
	HeavyLock  *lock = awaited_by(sim_slot());

	if (lock == NULL)
		return;
	leave_queue(lock, place_of(lock, sim_slot()));
	wake(lock);
}

static bool
take_if_free(HeavyLock *lock, LOCKMODE mode)
{
	int			place = place_of(lock, sim_slot());

	if (is_kept_by_holders(lock, sim_slot(), mode) ||
		is_kept_by_queue(lock, place < 0 ? lock->nwaiters : place, mode))
		return false;
	if (place >= 0)
		leave_queue(lock, place);
	grant(lock, sim_slot(), GetCurrentSubTransactionId(), mode);
	wake(lock);
	return true;
}

/*
 * sleep_until_free --- as ProcSleep(): the detector looks once
 */
static void
sleep_until_free(HeavyLock *lock, LOCKMODE mode)
{
	int64		look_at = sim_now() + DeadlockTimeout * SIM_MS;
	int64		ends_at = LockTimeout > 0 ? sim_now() + LockTimeout * SIM_MS : SIM_NEVER;

	sim_trace("waits for a lock of PostgreSQL (%d/%u)", lock->tag.locktag_type,
			  lock->tag.locktag_field1);
	lock->waiter[lock->nwaiters].owner = sim_slot();
	lock->waiter[lock->nwaiters++].mode = mode;
	MyProc->waitLock = (LOCK *) lock;
	pg_atomic_write_u64(&MyProc->waitStart, GetCurrentTimestamp());
	while (!take_if_free(lock, mode))
	{
		int64		until = Min(look_at, ends_at);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_EXIT_ON_PM_DEATH |
						 (until < SIM_NEVER ? WL_TIMEOUT : 0),
						 (Max(until - sim_now(), 0)) / SIM_MS + 1, 0);
		ResetLatch(MyLatch);
		sim_check_for_interrupts();
		if (sim_now() >= ends_at)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("canceling statement due to lock timeout")));
		if (sim_now() < look_at)
			continue;
		look_at = SIM_NEVER;
		if (is_deadlock(sim_slot()))
			ereport(ERROR,
					(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
					 errmsg("deadlock detected by PostgreSQL")));
	}
}

void
heavy_lock_acquire(const LOCKTAG *tag, LOCKMODE mode)
{
	HeavyLock  *lock;

	sim_yield("heavyweight lock");
	backend_must_hold_no_lock("a heavyweight lock");
	lock = find(tag);
	if (!take_if_free(lock, mode))
		sleep_until_free(lock, mode);
}

bool
heavy_lock_try(const LOCKTAG *tag, LOCKMODE mode, int owner, SubTransactionId sub)
{
	HeavyLock  *lock = find(tag);

	if (is_kept_by_holders(lock, owner, mode) ||
		is_kept_by_queue(lock, lock->nwaiters, mode))
		return false;
	grant(lock, owner, sub, mode);
	return true;
}

/*
 * heavy_lock_wait_for --- of a subtransaction: until it is rolled back, or all of
 * it has ended
 */
void
heavy_lock_wait_for(TransactionId xid)
{
	while (transam_is_running(xid))
	{
		LOCKTAG		tag;

		SET_LOCKTAG_TRANSACTION(tag, xid);
		heavy_lock_acquire(&tag, ShareLock);
		heavy_lock_release(&tag);
		if (!transam_is_running(xid))
			break;
		xid = transam_top(xid);
	}
}

/* ----------
 * What is told of them
 * ----------
 */

static int
pid_of(int owner)
{
	return owner < OWNER_PREPARED ? ProcGlobal->allProcs[owner].pid : 0;
}

static void
add_instance(BlockedProcsData *data, const HeavyLock *lock, int owner)
{
	LockInstanceData *instance = NULL;
	int			place = owner < OWNER_PREPARED ? place_of(lock, owner) : -1;

	for (int i = 0; i < data->nlocks; i++)
		if (data->locks[i].SIM_LOCK_OWNER == owner)
			return;
	instance = &data->locks[data->nlocks++];
	memset(instance, 0, sizeof(LockInstanceData));
	instance->locktag = lock->tag;
	for (int i = 0; i < lock->nholders; i++)
		if (lock->holder[i].owner == owner)
			instance->holdMask |= lock->holder[i].mask;
	instance->waitLockMode = place >= 0 ? lock->waiter[place].mode : NoLock;
	instance->SIM_LOCK_OWNER = owner;
	instance->pid = instance->leaderPid = pid_of(owner);
}

BlockedProcsData *
GetBlockerStatusData(int blocked_pid)
{
	BlockedProcsData *data = palloc0(sizeof(BlockedProcsData));
	PGPROC	   *proc = BackendPidGetProc(blocked_pid);
	const HeavyLock *lock;
	int			process;
	BlockedProcData *blocked;

	data->procs = palloc0(sizeof(BlockedProcData));
	data->locks = palloc0(sizeof(LockInstanceData) * OWNERS_MAX);
	data->waiter_pids = palloc0(sizeof(int) * SIM_MAX_PROCS);
	sim_yield("blockers");
	if (proc == NULL || proc->waitLock == NULL)
		return data;
	process = proc - ProcGlobal->allProcs;
	lock = awaited_by(process);
	blocked = &data->procs[data->nprocs++];
	blocked->pid = blocked_pid;
	for (int i = 0; i < lock->nholders; i++)
		add_instance(data, lock, lock->holder[i].owner);
	for (int i = 0; i < lock->nwaiters; i++)
		add_instance(data, lock, lock->waiter[i].owner);
	blocked->num_locks = data->nlocks;
	for (int i = 0; i < lock->nwaiters && lock->waiter[i].owner != process; i++)
		data->waiter_pids[data->npids++] = pid_of(lock->waiter[i].owner);
	blocked->num_waiters = data->npids;
	return data;
}

LockMethod
GetLockTagsMethodTable(const LOCKTAG *locktag)
{
	return &method;
}

const char *
GetLockmodeName(LOCKMETHODID lockmethodid, LOCKMODE mode)
{
	return "some mode";
}

void
DescribeLockTag(StringInfo buf, const LOCKTAG *tag)
{
}
