/*-------------------------------------------------------------------------
 *
 * lock_waits.c
 *	  Which processes wait for which others in PostgreSQL's lock manager.
 *
 * This file only reads the lock manager, and only for a process that waits in it: a
 * look at one wait locks all partitions (in shared mode).
 *
 * A look returns all holders and waiters of the lock, and the queue up to the process
 * that was asked for.  Of a thousand processes in one queue, each has an edge to all
 * ahead of it, which makes half a million; but a search that starts at the last one
 * needs only the thousand that lead to a new process.  So we do not look again for
 * those ahead in the queue: their edges follow from the same look.  A process nearer to
 * the head that waits for the same mode is blocked only by processes that the search
 * has reached by then, so each mode is gone through once.  A lock is looked at a second
 * time only for a process behind the one for which it was looked at first, if the
 * search reaches that another way.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/lock_waits.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/pg_bitutils.h"
#include "storage/proc.h"
#include "storage/procarray.h"

#include "session/session_int.h"

/* How often one mode is gone through, at most. */
#define PASSES_MAX			2

struct LockWaits
{
	LockEdgeFound found;
	LockIsReached is_reached;
	void	   *arg;

	/* for each process: its edges have been reported */
	bool	   *covered;

	/*
	 * hash table of processes by pid, with open addressing; NULL until the first look
	 */
	LrIndex    *slots;
	uint32		mask;

	int			looks;
	Size		memory;
};

/* One lock, as it was at the time of the look. */
typedef struct Look
{
	const LockInstanceData *instances;
	int			ninstances;
	LrIndex    *processes;		/* for each instance; LR_NONE = waits for nobody */
	LrIndex    *leaders;
	int		   *places;			/* for each instance: place in the queue; -1 = not known
								 * to be ahead of the process that was asked for */
	int		   *queue;			/* for each place: the instance; -1 = none */
	int			npasses[MAX_LOCKMODES];
	LrIndex		passed[MAX_LOCKMODES];	/* leader of the process for which the first pass
										 * was */
} Look;

/*
 * lock_waits_create --- begin a search
 *
 * "found" is called for each edge; "is_reached" says whether the search has reached a
 * process already.
 */
LockWaits *
lock_waits_create(LockEdgeFound found, LockIsReached is_reached, void *arg)
{
	LockWaits  *waits = palloc0(sizeof(LockWaits));

	waits->found = found;
	waits->is_reached = is_reached;
	waits->arg = arg;
	waits->covered = palloc0(sizeof(bool) * MaxBackends);
	return waits;
}

int
lock_waits_looks(const LockWaits *waits)
{
	return waits->looks;
}

Size
lock_waits_memory(const LockWaits *waits)
{
	return waits->memory;
}

/* ----------
 * Processes by pid
 * ----------
 */

static uint32
slot_of_pid(const LockWaits *waits, int pid)
{
	return ((uint32) pid * 0x9E3779B1U >> 7) & waits->mask;
}

/*
 * pid_of_process --- pid that belongs to a process number; 0 if there is none
 *
 * Before 17 the pid of a process that has ended stays, and may have been reused.  The
 * latch of such a PGPROC has no owner.
 */
static int
pid_of_process(LrIndex process)
{
	PGPROC	   *proc = GetPGProcByNumber(process);
	int			pid = proc->pid;

	return proc->procLatch.owner_pid == pid ? pid : 0;
}

/*
 * map_pids --- fill the hash table with the present processes
 *
 * A process that starts later waits for nobody that could wait for us already.
 */
static void
map_pids(LockWaits *waits)
{
	uint32		size = pg_nextpower2_32(Max(MaxBackends * 2, 16));

	waits->mask = size - 1;
	waits->slots = palloc(sizeof(LrIndex) * size);
	for (uint32 i = 0; i < size; i++)
		waits->slots[i] = LR_NONE;
	for (LrIndex i = 0; i < MaxBackends; i++)
	{
		int			pid = pid_of_process(i);
		uint32		slot = slot_of_pid(waits, pid);

		if (pid == 0)
			continue;
		while (waits->slots[slot] != LR_NONE)
			slot = (slot + 1) & waits->mask;
		waits->slots[slot] = i;
	}
}

/*
 * process_of_pid --- process number of a pid
 *
 * LR_NONE: a prepared transaction or the startup process, which wait for nobody, or a
 * process that has ended.
 */
static LrIndex
process_of_pid(const LockWaits *waits, int pid)
{
	uint32		slot = slot_of_pid(waits, pid);

	if (pid == 0)
		return LR_NONE;
	for (; waits->slots[slot] != LR_NONE; slot = (slot + 1) & waits->mask)
		if (GetPGProcByNumber(waits->slots[slot])->pid == pid)
			return waits->slots[slot];
	return LR_NONE;
}

/* ----------
 * Which processes wait
 * ----------
 */

static bool
is_news(const LockWaits *waits, const PGPROC *proc)
{
	return proc->waitLock != NULL && !waits->covered[LrProcNumberOf(proc)];
}

/*
 * has_news --- does the process, or a parallel worker of it, wait for something that
 * has not been looked at?
 *
 * For a process that never had parallel workers, this takes no lock.
 */
static bool
has_news(const LockWaits *waits, LrIndex process)
{
	PGPROC	   *proc = GetPGProcByNumber(process);
	PGPROC	   *leader = proc->lockGroupLeader;
	LWLock	   *lock;
	dlist_iter	iter;
	bool		news = false;

	if (leader == NULL)
		return is_news(waits, proc);

	lock = LockHashPartitionLockByProc(leader);
	LWLockAcquire(lock, LW_SHARED);
	if (proc->lockGroupLeader == leader)
	{
		dlist_foreach(iter, &leader->lockGroupMembers)
			news = news ||
			is_news(waits, dlist_container(PGPROC, lockGroupLink, iter.cur));
	}
	LWLockRelease(lock);
	return news;
}

static void
free_data(BlockedProcsData *data)
{
	pfree(data->procs);
	pfree(data->locks);
	pfree(data->waiter_pids);
	pfree(data);
}

/* The instance of the waiting process itself; -1 if it does not wait any more. */
static int
waiting_instance(const BlockedProcData *blocked, const LockInstanceData *instances)
{
	for (int i = 0; i < blocked->num_locks; i++)
		if (instances[i].pid == blocked->pid)
			return instances[i].waitLockMode == NoLock ? -1 : i;
	return -1;
}

/*
 * instance_blocks --- does "other" keep "self" from the lock?
 *
 * The rule is that of pg_blocking_pids(): it holds a conflicting mode, or waits for one
 * and is ahead in the queue.
 */
static bool
instance_blocks(const LockInstanceData *self, const LockInstanceData *other,
				bool is_ahead)
{
	LOCKMASK	conflicts =
		GetLockTagsMethodTable(&self->locktag)->conflictTab[self->waitLockMode];

	if (other->leaderPid == self->leaderPid)
		return false;
	if (conflicts & other->holdMask)
		return true;
	return is_ahead && (conflicts & LOCKBIT_ON(other->waitLockMode)) != 0;
}

/* ----------
 * What one look returns
 * ----------
 */

/*
 * begin_look --- find the processes of all holders and waiters, and their places in the
 * queue
 */
static void
begin_look(const LockWaits *waits, const BlockedProcsData *data,
		   const BlockedProcData *blocked, Look *look)
{
	const int  *pids = &data->waiter_pids[blocked->first_waiter];
	int		   *instance_of = palloc(sizeof(int) * MaxBackends);
	int			n = blocked->num_locks;

	memset(look, 0, sizeof(Look));
	look->instances = &data->locks[blocked->first_lock];
	look->ninstances = n;
	look->processes = palloc(sizeof(LrIndex) * n);
	look->leaders = palloc(sizeof(LrIndex) * n);
	look->places = palloc(sizeof(int) * n);
	look->queue = palloc(sizeof(int) * (blocked->num_waiters + 1));

	for (LrIndex i = 0; i < MaxBackends; i++)
		instance_of[i] = -1;
	for (int i = 0; i < n; i++)
	{
		look->processes[i] = process_of_pid(waits, look->instances[i].pid);
		look->leaders[i] = process_of_pid(waits, look->instances[i].leaderPid);
		look->places[i] = -1;
		if (look->processes[i] != LR_NONE)
			instance_of[look->processes[i]] = i;
	}
	for (int place = 0; place < blocked->num_waiters; place++)
	{
		LrIndex		process = process_of_pid(waits, pids[place]);
		int			i = process == LR_NONE ? -1 : instance_of[process];

		look->queue[place] = i;
		if (i >= 0)
			look->places[i] = place;
	}
	pfree(instance_of);
}

static void
end_look(Look *look)
{
	pfree(look->processes);
	pfree(look->leaders);
	pfree(look->places);
	pfree(look->queue);
}

/*
 * tell_blockers --- report what blocks the waiter at this place of the queue
 *
 * This is called for one place after the other, towards the head.  So a waiter for a
 * mode that was gone through before is blocked by the same processes, or fewer of them.
 * It is also blocked by members of the lock group for which that was done: hence a
 * second pass, for another group.
 */
static void
tell_blockers(LockWaits *waits, Look *look, int self, int place)
{
	LOCKMODE	mode = look->instances[self].waitLockMode;
	LrIndex		leader = look->leaders[self];

	waits->covered[look->processes[self]] = true;
	if (look->npasses[mode] == PASSES_MAX ||
		(look->npasses[mode] == 1 && look->passed[mode] == leader))
		return;
	if (look->npasses[mode]++ == 0)
		look->passed[mode] = leader;

	for (int i = 0; i < look->ninstances; i++)
		if (look->leaders[i] != LR_NONE &&
			instance_blocks(&look->instances[self], &look->instances[i],
							look->places[i] >= 0 && look->places[i] < place))
			waits->found(waits->arg, leader, look->leaders[i]);
}

/*
 * follow_queue --- report the edges of the process, and of those ahead of it that are
 * reached
 */
static void
follow_queue(LockWaits *waits, const BlockedProcsData *data,
			 const BlockedProcData *blocked)
{
	int			self = waiting_instance(blocked, &data->locks[blocked->first_lock]);
	Look		look;

	if (self < 0)
		return;
	begin_look(waits, data, blocked, &look);
	if (look.processes[self] != LR_NONE && look.leaders[self] != LR_NONE)
	{
		tell_blockers(waits, &look, self, blocked->num_waiters);
		for (int place = blocked->num_waiters - 1; place >= 0; place--)
		{
			int			i = look.queue[place];

			if (i >= 0 && look.instances[i].waitLockMode != NoLock &&
				look.leaders[i] != LR_NONE &&
				waits->is_reached(waits->arg, look.leaders[i]))
				tell_blockers(waits, &look, i, place);
		}
	}
	waits->memory = Max(waits->memory,
						MemoryContextMemAllocated(CurrentMemoryContext, true));
	end_look(&look);
}

/*
 * lock_waits_follow --- see session_int.h
 *
 * A process and its parallel workers can wait for several locks.
 */
void
lock_waits_follow(LockWaits *waits, LrIndex process)
{
	BlockedProcsData *data;

	if (!has_news(waits, process))
		return;
	if (waits->slots == NULL)
		map_pids(waits);
	waits->looks++;
	data = GetBlockerStatusData(GetPGProcByNumber(process)->pid);
	for (int i = 0; i < data->nprocs; i++)
		follow_queue(waits, data, &data->procs[i]);
	free_data(data);
}

/* ----------
 * One edge
 * ----------
 */

static bool
is_ahead(const BlockedProcsData *data, const BlockedProcData *blocked, int pid)
{
	const int  *pids = &data->waiter_pids[blocked->first_waiter];

	for (int i = 0; i < blocked->num_waiters; i++)
		if (pids[i] == pid)
			return true;
	return false;
}

/*
 * is_blocked_by --- does that process keep this one from the lock?
 *
 * *wait says from which.
 */
static bool
is_blocked_by(const BlockedProcsData *data, const BlockedProcData *blocked,
			  int blocker_pid, LockWait *wait)
{
	const LockInstanceData *instances = &data->locks[blocked->first_lock];
	int			self = waiting_instance(blocked, instances);
	PGPROC	   *sleeper;

	if (self < 0)
		return false;
	for (int i = 0; i < blocked->num_locks; i++)
	{
		if (instances[i].leaderPid != blocker_pid ||
			!instance_blocks(&instances[self], &instances[i],
							 is_ahead(data, blocked, instances[i].pid)))
			continue;
		sleeper = BackendPidGetProc(blocked->pid);
		if (sleeper == NULL)
			return false;
		wait->pid = blocked->pid;
		wait->blocker_pid = blocker_pid;
		wait->tag = instances[self].locktag;
		wait->mode = instances[self].waitLockMode;
		wait->since = pg_atomic_read_u64(&sleeper->waitStart);
		return true;
	}
	return false;
}

bool
lock_wait_between(LrIndex waiter, LrIndex blocker, LockWait *wait)
{
	int			blocker_pid = GetPGProcByNumber(blocker)->pid;
	BlockedProcsData *data =
		GetBlockerStatusData(GetPGProcByNumber(waiter)->pid);
	bool		found = false;

	for (int i = 0; !found && blocker_pid != 0 && i < data->nprocs; i++)
		found = is_blocked_by(data, &data->procs[i], blocker_pid, wait);
	free_data(data);
	return found;
}
