/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  What happens when a wait for a key lasts longer than deadlock_timeout: a search for a
 *	  deadlock, and a message for log_lock_waits.
 *
 * This is the same as for PostgreSQL's locks: the session looks for a deadlock, and
 * with log_lock_waits the wait is logged, once when it has become long and once when it
 * has ended with the lock.  The session looks again each deadlock_timeout.  Of the
 * sessions that wait for one key, one searches for all; another one does only if a
 * search has reached it since it last looked.
 *
 * A cycle that PostgreSQL's detector cannot see, as it does not know our locks, has a
 * session W in it that waits for a key, and an edge from W to a session H that holds
 * the key.  Kinds of locks that several sessions can hold together can have several H,
 * and W waits for each of them that keeps it from the key: all of these must release,
 * so a cycle through any one is a deadlock.  One search that starts at all H does for
 * all sessions that wait for the key, whichever of them runs it: it reaches each W for
 * which an H waits, directly or through others, and that is each W in a cycle over this
 * key.  Hence a key is searched from once each deadlock_timeout, and not by each of its
 * waiters.  The search is repeated because a cycle may be closed later, by a process that
 * waits for a row, and that PostgreSQL's detector leaves waiting.
 *
 * No session is ended by the result of another one's search, though.  A waiter of the
 * same key that the search reaches is suspected: when it looks next, it searches itself.
 * It is not woken for that, so it has waited for its own deadlock_timeout, and two that
 * can be reached from each other, but are in no cycle, search no more often than others.
 *
 * No cycle is missed if the searching session stops waiting in the middle: the next one
 * searches a deadlock_timeout later.  Nor if the key changes hands: sessions that sleep
 * in a cycle acquire and release nothing, so their H stays.  A cycle that is closed
 * when W begins to wait is found when W first looks.  If no session has searched from
 * the key since, W does; otherwise W was in the queue during that search, and is
 * suspected.
 *
 * The wait-for graph is read piece by piece while it changes, so what looks like a
 * cycle may consist of edges that never existed at the same time.  Hence a session that
 * has found a cycle searches a second time.  The cycle counts only if each process in it
 * is found both times in the very same wait, for the same process.  A process that
 * sleeps acquires and releases nothing, so between the two searches all of these edges
 * existed at once.  If the second search comes to this session another way, because the
 * graph has changed beside the cycle, the next pair of searches finds the cycle: it stays.
 *
 * If several sessions find the same cycle, the first one to claim it breaks it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/deadlock.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

#include "report.h"
#include "session/session_int.h"
#include "stats.h"

/*
 * One process waits for another one.  Both are process numbers; the members of
 * a parallel query count as their leader, since PostgreSQL's locks do not
 * conflict within such a group.
 */
typedef struct Edge
{
	LrIndex		waiter;
	LrIndex		blocker;
	int			pid;			/* the process that sleeps: the waiter or its worker */
	int			blocker_pid;
	uint64		generation;		/* of the waiter's wait for a key, if any */
	const KeyWait *key;			/* if for a key: which, */
	KeyHolder	holder;			/* and its holder, the blocker; */
	LOCKTAG		tag;			/* else the lock of PostgreSQL, */
	LOCKMODE	mode;			/* how it is wanted, */
	TimestampTz since;			/* and since when */
} Edge;

/* Sessions that hold a key. */
typedef struct KeyHolders
{
	KeyHolder  *list;
	int			n;
	int			room;
} KeyHolders;

/* Breadth first, so that the cycle found is short. */
typedef struct Search
{
	LrIndex    *reached;		/* processes, in the order in which they were found */
	int			nreached;
	Edge	  **from;			/* for each process: the edge that led to it, or NULL */
	KeyHolders	holders;		/* the holders of what one of them waits for */
	int			nsuspects;

	/* In PostgreSQL's lock manager: */
	bool	   *covered;		/* for each process: its edges have been reported */
	int			looks;			/* the cost: how many looks, and the most memory */
	Size		memory;
} Search;

/* ----------
 * What is reached
 * ----------
 */

static bool
deadlock_is_reached(const Search *search, LrIndex process)
{
	return process == LrMyProcNumber || search->from[process] != NULL;
}

static void
deadlock_found_edge(Search *search, const Edge *edge)
{
	if (search->from[edge->blocker] != NULL)
		return;
	search->from[edge->blocker] = palloc(sizeof(Edge));
	*search->from[edge->blocker] = *edge;
	if (edge->blocker != LrMyProcNumber)
		search->reached[search->nreached++] = edge->blocker;
}

/* ----------
 * Waits in PostgreSQL's lock manager
 *
 * The lock manager is only read, and only for a process that waits in it: a
 * look at one wait locks all partitions (in shared mode).
 *
 * A look returns all holders and waiters of the lock, and the queue up to the process
 * that was asked for.  So we do not look again for those ahead in the queue: their edges
 * follow from the same look.  A lock is looked at a second time only for a process behind
 * the one for which it was looked at first, if the search reaches that another way.
 * ----------
 */

/* What else is known of a holder or waiter of the lock that is looked at. */
typedef struct LockParty
{
	LrIndex		leader;			/* LR_NONE = waits for nobody */
	int			place;			/* see place_of() */
} LockParty;

/*
 * process_of_pid --- process number of a pid
 *
 * LR_NONE: a prepared transaction or the startup process, which wait for nobody, or a
 * process that has ended.
 */
static LrIndex
process_of_pid(int pid)
{
	PGPROC	   *proc = BackendPidGetProc(pid);

	return proc == NULL ? LR_NONE : LrProcNumberOf(proc);
}

static bool
is_news(const Search *search, const PGPROC *proc)
{
	return proc->waitLock != NULL && !search->covered[LrProcNumberOf(proc)];
}

/*
 * has_news --- does the process, or a parallel worker of it, wait for something that has not
 * been looked at?
 */
static bool
has_news(const Search *search, LrIndex process)
{
	PGPROC	   *proc = GetPGProcByNumber(process);
	PGPROC	   *leader = proc->lockGroupLeader;
	bool		news = is_news(search, proc);
	LWLock	   *lock;
	dlist_iter	at;

	if (news || leader == NULL)
		return news;
	lock = LockHashPartitionLockByProc(leader);
	LWLockAcquire(lock, LW_SHARED);
	if (proc->lockGroupLeader == leader)
	{
		dlist_foreach(at, &leader->lockGroupMembers)
		{
			news |= is_news(search, dlist_container(PGPROC, lockGroupLink, at.cur));
		}
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

/*
 * place_of --- place of a process in the queue of the lock
 *
 * INT_MAX: it is not known to be ahead of the process that was asked for, which has the last
 * place.
 */
static int
place_of(const BlockedProcsData *data, const BlockedProcData *blocked, int pid)
{
	const int  *pids = &data->waiter_pids[blocked->first_waiter];

	if (pid == blocked->pid)
		return blocked->num_waiters;
	for (int place = 0; place < blocked->num_waiters; place++)
		if (pids[place] == pid)
			return place;
	return INT_MAX;
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

/*
 * tell_blockers --- report what blocks one of the waiters
 *
 * The start of its wait is read after everything else; see deadlock_is_same_wait().
 */
static void
tell_blockers(Search *search, const LockInstanceData *instances, const LockParty *party, int n,
			  int self)
{
	const LockInstanceData *waiter = &instances[self];
	PGPROC	   *sleeper = waiter->pid == waiter->leaderPid ?
		GetPGProcByNumber(party[self].leader) : BackendPidGetProc(waiter->pid);
	Edge		edge = {.waiter = party[self].leader,.pid = waiter->pid,
	.tag = waiter->locktag,.mode = waiter->waitLockMode};

	if (sleeper == NULL)
		return;
	search->covered[LrProcNumberOf(sleeper)] = true;
	edge.generation = lt_wait_generation(edge.waiter);
	edge.since = pg_atomic_read_u64(&sleeper->waitStart);
	for (int i = 0; i < n; i++)
	{
		edge.blocker = party[i].leader;
		edge.blocker_pid = instances[i].leaderPid;
		if (edge.blocker != LR_NONE && search->from[edge.blocker] == NULL &&
			instance_blocks(waiter, &instances[i], party[i].place < party[self].place))
			deadlock_found_edge(search, &edge);
	}
}

/*
 * follow_queue --- report the edges of the process that was asked for, and of those ahead of
 * it that are reached
 */
static void
follow_queue(Search *search, const BlockedProcsData *data,
			 const BlockedProcData *blocked)
{
	const LockInstanceData *instances = &data->locks[blocked->first_lock];
	int			n = blocked->num_locks;
	LockParty  *party = palloc(sizeof(LockParty) * n);

	for (int i = 0; i < n; i++)
	{
		party[i].leader = process_of_pid(instances[i].leaderPid);
		party[i].place = place_of(data, blocked, instances[i].pid);
	}
	for (int place = blocked->num_waiters; place >= 0; place--)
		for (int i = 0; i < n; i++)
			if (party[i].place == place && party[i].leader != LR_NONE &&
				deadlock_is_reached(search, party[i].leader))
				tell_blockers(search, instances, party, n, i);
	search->memory = Max(search->memory,
						 MemoryContextMemAllocated(CurrentMemoryContext, true));
	pfree(party);
}

/*
 * lock_waits_follow --- report edges until all processes are reached that keep this one
 * from the lock that it waits for
 *
 * Then do the same for the processes that have been reached so and wait for the same lock
 * ahead of it.  A process and its parallel workers can wait for several locks.
 */
static void
lock_waits_follow(Search *search, LrIndex process)
{
	BlockedProcsData *data;

	if (!has_news(search, process))
		return;
	search->looks++;
	data = GetBlockerStatusData(GetPGProcByNumber(process)->pid);
	for (int i = 0; i < data->nprocs; i++)
		follow_queue(search, data, &data->procs[i]);
	free_data(data);
}

/* ----------
 * The search
 * ----------
 */

/*
 * deadlock_read_holders --- read the holders of the key that the process waits for
 *
 * False: it does not wait for a key, or no session of this server holds that.
 */
static bool
deadlock_read_holders(LrIndex process, KeyWait *wait, KeyHolders *holders)
{
	for (;;)
	{
		holders->n = lt_key_wait(process, wait, holders->list, holders->room);
		if (holders->n <= holders->room)
			return holders->n > 0;
		holders->room = holders->n * 2;
		holders->list = palloc(sizeof(KeyHolder) * holders->room);
	}
}

/*
 * deadlock_follow_key --- report the edges of a wait for a key
 *
 * A process that waits for the same key as this session may be in a cycle without us, so
 * it is suspected.
 */
static void
deadlock_follow_key(Search *search, LrIndex process)
{
	const KeyHolders *holders = &search->holders;
	KeyWait    *wait = palloc(sizeof(KeyWait));
	Edge		edge = {.waiter = process,.key = wait};

	if (!deadlock_read_holders(process, wait, &search->holders))
	{
		pfree(wait);
		return;
	}
	edge.pid = wait->pid;
	edge.generation = wait->generation;
	for (int i = 0; i < holders->n; i++)
	{
		edge.holder = holders->list[i];
		edge.blocker = edge.holder.session;
		edge.blocker_pid = edge.holder.pid;
		if (edge.holder.awaited)
			deadlock_found_edge(search, &edge);
	}
	if (process != LrMyProcNumber && lt_suspect_waiter(process, wait->generation))
		search->nsuspects++;
}

/*
 * deadlock_follow --- follow all processes that were reached, from that number on
 */
static void
deadlock_follow(Search *search, int nfollowed)
{
	for (int i = nfollowed; i < search->nreached; i++)
	{
		deadlock_follow_key(search, search->reached[i]);
		lock_waits_follow(search, search->reached[i]);
	}
}

/*
 * deadlock_follow_others --- follow the holders of our key that do not block us
 *
 * They may block others in the queue of the key.
 */
static void
deadlock_follow_others(Search *search)
{
	int			nfollowed = search->nreached;
	Edge		edge = {.waiter = LrMyProcNumber};
	KeyWait		wait;

	(void) deadlock_read_holders(LrMyProcNumber, &wait, &search->holders);
	for (int i = 0; i < search->holders.n; i++)
	{
		edge.blocker = search->holders.list[i].session;
		if (!search->holders.list[i].awaited)
			deadlock_found_edge(search, &edge);
	}
	deadlock_follow(search, nfollowed);
}

/*
 * deadlock_search --- can this session be reached from those that it waits for?
 *
 * The search does not stop there, so as not to miss others that wait for the key.
 */
static bool
deadlock_search(Search *search)
{
	bool		in_cycle;

	memset(search, 0, sizeof(Search));
	search->reached = palloc(sizeof(LrIndex) * (MaxBackends + 1));
	search->from = palloc0(sizeof(Edge *) * MaxBackends);
	search->covered = palloc0(sizeof(bool) * MaxBackends);

	search->reached[search->nreached++] = LrMyProcNumber;
	deadlock_follow(search, 0);
	in_cycle = search->from[LrMyProcNumber] != NULL;
	deadlock_follow_others(search);
	ereport(DEBUG1,
			(errmsg_internal("searched for a deadlock: %d processes, %d looks into the lock manager, %zu bytes, %d suspects",
							 search->nreached, search->looks, search->memory,
							 search->nsuspects)));
	return in_cycle;
}

/* ----------
 * The cycle
 * ----------
 */

/*
 * deadlock_is_same_wait --- is it the same wait, for the same process?
 *
 * Waits for PostgreSQL's locks are distinguished by their start time.  That is set a
 * moment after the wait has begun, and is read here after everything else.  So if two
 * edges have the same start time, the wait lasted from the one to the other.
 */
static bool
deadlock_is_same_wait(const Edge *a, const Edge *b)
{
	if (a->waiter != b->waiter || (a->key == NULL) != (b->key == NULL) ||
		a->generation != b->generation || a->pid != b->pid || a->blocker_pid != b->blocker_pid)
		return false;
	if (a->key != NULL)
		return a->holder.hold == b->holder.hold && a->holder.owner == b->holder.owner;
	return a->mode == b->mode &&
		a->since == b->since && a->since != 0 &&
		memcmp(&a->tag, &b->tag, sizeof(LOCKTAG)) == 0;
}

/*
 * deadlock_read_cycle --- the cycle that both searches have found, from this session back to
 * itself
 *
 * NIL: a wait is not the same in both.
 */
static List *
deadlock_read_cycle(const Search *first, const Search *second)
{
	List	   *cycle = NIL;
	LrIndex		blocker = LrMyProcNumber;

	do
	{
		Edge	   *edge = first->from[blocker];

		if (second->from[blocker] == NULL ||
			!deadlock_is_same_wait(edge, second->from[blocker]))
			return NIL;
		cycle = lcons(edge, cycle);
		blocker = edge->waiter;
	} while (blocker != LrMyProcNumber);
	return cycle;
}

/*
 * deadlock_claim --- become the victim, unless another session of the cycle is
 */
static bool
deadlock_claim(const List *cycle)
{
	LrIndex    *sessions = palloc(sizeof(LrIndex) * list_length(cycle));
	uint64	   *generations = palloc(sizeof(uint64) * list_length(cycle));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, cycle)
	{
		const Edge *edge = lfirst(lc);

		sessions[n] = edge->waiter;
		generations[n++] = edge->generation;
	}
	return lt_claim_deadlock(sessions, generations, n);
}

/*
 * deadlock_find --- the cycle that this session has to break, or NIL
 *
 * It was found by two searches, and claimed.
 */
static List *
deadlock_find(void)
{
	Search		first;
	Search		second;
	List	   *cycle;

	if (!deadlock_search(&first) || !deadlock_search(&second))
		return NIL;
	cycle = deadlock_read_cycle(&first, &second);
	return cycle != NIL && deadlock_claim(cycle) ? cycle : NIL;
}

/* ----------
 * The report
 * ----------
 */

/*
 * deadlock_may_show_key --- may the client see the name of the key?
 *
 * It may see what redis_locks would show it, and keys that this session holds.
 */
static bool
deadlock_may_show_key(const Edge *edge)
{
	return edge->blocker == LrMyProcNumber || lr_may_see_keys_of(edge->key->userid);
}

/*
 * deadlock_describe_edge --- append one line of the error's detail
 */
static void
deadlock_describe_edge(StringInfo buf, const Edge *edge, bool in_log)
{
	if (buf->len > 0)
		appendStringInfoChar(buf, '\n');
	if (edge->key == NULL)
	{
		StringInfoData tag;

		initStringInfo(&tag);
		DescribeLockTag(&tag, &edge->tag);
		appendStringInfo(buf,
						 _("Process %d waits for %s on %s; blocked by process %d."),
						 edge->pid,
						 GetLockmodeName(edge->tag.locktag_lockmethodid,
										 edge->mode),
						 tag.data, edge->blocker_pid);
		return;
	}

	appendStringInfo(buf, _("Process %d waits for Redis lock"), edge->pid);
	if (in_log || deadlock_may_show_key(edge))
		appendStringInfo(buf, " \"%s\"",
						 lr_name_to_show(edge->key->name, edge->key->name_len));
	appendStringInfo(buf, edge->key->scope == SCOPE_XACT ?
					 _(" (transaction-level); blocked by process %d.") :
					 _(" (session-level); blocked by process %d."),
					 edge->blocker_pid);
}

/* The server log has all names, and the queries. */
static void
deadlock_report(const List *cycle)
{
	StringInfoData client;
	StringInfoData log;
	ListCell   *lc;

	initStringInfo(&client);
	initStringInfo(&log);
	foreach(lc, cycle)
	{
		deadlock_describe_edge(&client, lfirst(lc), false);
		deadlock_describe_edge(&log, lfirst(lc), true);
	}
	foreach(lc, cycle)
	{
		int			pid = ((const Edge *) lfirst(lc))->pid;

		appendStringInfoChar(&log, '\n');
		appendStringInfo(&log, _("Process %d: %s"), pid,
						 pgstat_get_backend_current_activity(pid, false));
	}

	lr_count(STAT_DEADLOCKS);
	pgstat_report_deadlock();
	ereport(ERROR,
			(errcode(ERRCODE_T_R_DEADLOCK_DETECTED),
			 errmsg("deadlock detected"),
			 errdetail_internal("%s", client.data),
			 errdetail_log("%s", log.data),
			 errhint("See server log for query details.")));
}

/* ----------
 * The long wait; a session has one at a time
 * ----------
 */

static int64 since;
static int64 look_at = LR_NEVER;
static bool looked;

void
long_wait_reset(void)
{
	look_at = LR_NEVER;
	looked = false;
}

void
long_wait_begin(void)
{
	since = lr_now();
	look_at = since + DeadlockTimeout * LR_US_PER_MS;
}

int64
long_wait_look_at(void)
{
	return look_at;
}

/* ----------
 * log_lock_waits
 * ----------
 */

/*
 * long_wait_elapsed --- how long the wait has lasted, in milliseconds
 */
static char *
long_wait_elapsed(void)
{
	int64		elapsed = lr_now() - since;

	return psprintf("%lld.%03d", (long long) (elapsed / LR_US_PER_MS), (int) (elapsed % LR_US_PER_MS));
}

/*
 * long_wait_pids --- format a list of process ids
 */
static char *
long_wait_pids(const int *pids, int n)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < n; i++)
		appendStringInfo(&list, i == 0 ? "%d" : ", %d", pids[i]);
	return list.data;
}

/*
 * long_wait_detail --- DETAIL with the holders of the lock, as far as this server knows
 */
static int
long_wait_detail(const int *holder_pids, int nholders, const char *owner,
				 const char *queue)
{
	if (nholders > 0)
		return errdetail_log_plural("Process holding the lock: %s. Wait queue: %s.",
									"Processes holding the lock: %s. Wait queue: %s.",
									nholders, long_wait_pids(holder_pids, nholders),
									queue);
	if (owner[0] != '\0')
		return errdetail_log("No process of this server is holding the lock. Owner elsewhere: %s. Wait queue: %s.",
							 lr_owner_to_show(owner), queue);
	return errdetail_log("No process of this server is holding the lock. Wait queue: %s.",
						 queue);
}

/*
 * long_wait_log --- log that we are still waiting, as PostgreSQL does for its own locks
 */
static void
long_wait_log(const LrName *name)
{
	int		   *pids = palloc(sizeof(int) * MaxBackends);
	int		   *holder_pids = palloc(sizeof(int) * MaxBackends);
	char	   *shown = lr_name_to_show(name->data, name->len);
	WaitBlocker blocker;
	int			npids;
	int			nholders;

	/* The lock has just become ours. */
	if (!lt_own_queue(pids, MaxBackends, &npids, holder_pids, &nholders) ||
		!lt_find_blocker(LrMyProcNumber, &blocker))
		return;

	ereport(LOG,
			(errmsg("process %d still waiting for Redis lock \"%s\" after %s ms",
					MyProcPid, shown, long_wait_elapsed()),
			 long_wait_detail(holder_pids, nholders, blocker.owner,
							  long_wait_pids(pids, npids))));
}

/*
 * long_wait_log_deadlock --- log a deadlock, as the error may be caught by its caller
 */
static void
long_wait_log_deadlock(const LrName *name)
{
	ereport(LOG,
			(errmsg("process %d detected deadlock while waiting for Redis lock \"%s\" after %s ms",
					MyProcPid, lr_name_to_show(name->data, name->len), long_wait_elapsed())));
}

/*
 * long_wait_acquired --- see session_int.h
 *
 * A pending cancel has to wait: the session holds the lock by now, and only the caller can
 * release it.
 */
void
long_wait_acquired(const LrName *name)
{
	if (!looked || !log_lock_waits)
		return;
	HOLD_CANCEL_INTERRUPTS();
	ereport(LOG,
			(errmsg("process %d acquired Redis lock \"%s\" after %s ms",
					MyProcPid, lr_name_to_show(name->data, name->len), long_wait_elapsed())));
	RESUME_CANCEL_INTERRUPTS();
}

/* ----------
 * The look
 * ----------
 */

/*
 * long_wait_look_now --- search for a deadlock, and log the wait
 */
static void
long_wait_look_now(const LrName *name, bool search)
{
	const List *cycle = search ? deadlock_find() : NIL;

	if (cycle != NIL)
	{
		if (log_lock_waits)
			long_wait_log_deadlock(name);
		deadlock_report(cycle);
	}
	if (log_lock_waits && !looked)
		long_wait_log(name);
}

void
long_wait_look(const LrName *name)
{
	MemoryContext scratch;
	MemoryContext old;
	bool		search;

	if (lr_now() < look_at)
		return;
	search = lt_begin_search(DeadlockTimeout * LR_US_PER_MS, &look_at);

	/*
	 * A wait may last for days, so use a context of our own; an error leaves it to the
	 * caller's.
	 */
	scratch = AllocSetContextCreate(CurrentMemoryContext, "lockredis long wait",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(scratch);
	long_wait_look_now(name, search);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
	looked = true;
}
