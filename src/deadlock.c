/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Sessions of this server that wait for each other in a circle.
 *
 * A session that has waited for a key for deadlock_timeout looks whether it
 * waits for itself, over other keys and over PostgreSQL's own locks, and does so
 * again each deadlock_timeout: the cycle may be closed later, by somebody who
 * waits for a row and whom PostgreSQL's detector, which does not know our
 * locks, leaves waiting.  Each cycle that PostgreSQL cannot see has a session
 * in it that waits for a key, and that one finds it.
 *
 * The wait-for graph is read piece by piece, while it changes, so what looks
 * like a cycle may consist of edges that never were at the same time.  Hence
 * a cycle is followed a second time, and counts only if each process in it is
 * found in the very same wait, for the same one.  Somebody who sleeps takes and
 * gives back nothing, so at the moment between the two passes all of these
 * edges were there together.
 *
 * Of several that find the same cycle the first one to claim it breaks it.
 *
 * Only reads PostgreSQL's lock manager, and only for a process that waits in
 * it: for a look at one wait all its partitions are locked (in shared mode).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/deadlock.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/backend_status.h"

#include "deadlock.h"
#include "locktable.h"
#include "report.h"
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
	int			pid;			/* who sleeps: the waiter or its worker */
	int			blocker_pid;
	uint64		generation;		/* of the waiter's wait for a key, if any */

	/* either for a key ... */
	bool		is_key;
	KeyWait		key;

	/* ... or for one of PostgreSQL's locks */
	LOCKTAG		tag;
	LOCKMODE	mode;
	uint64		since;
} Edge;

/* Breadth first, so that the cycle found is the shortest. */
typedef struct Search
{
	LrIndex    *found;			/* nodes, in the order they were found in */
	int			nfound;
	Edge	  **found_by;		/* by node: the edge that led to it */
} Search;

struct Deadlock
{
	List	   *edges;			/* from this session back to itself */
};

/* ----------
 * Waits for PostgreSQL's locks
 * ----------
 */

/*
 * waits_for_lock --- does the process, or a parallel worker of it, wait?
 *
 * For the many who have no parallel workers this is a look without any lock.
 */
static bool
waits_for_lock(LrIndex node)
{
	PGPROC	   *proc = GetPGProcByNumber(node);
	PGPROC	   *leader = proc->lockGroupLeader;
	LWLock	   *lock;
	dlist_iter	iter;
	bool		waits = false;

	if (leader == NULL)
		return proc->waitLock != NULL;

	lock = LockHashPartitionLockByProc(leader);
	LWLockAcquire(lock, LW_SHARED);
	if (proc->lockGroupLeader == leader)
	{
		dlist_foreach(iter, &leader->lockGroupMembers)
		{
			PGPROC	   *member = dlist_container(PGPROC, lockGroupLink, iter.cur);

			waits = waits || member->waitLock != NULL;
		}
	}
	LWLockRelease(lock);
	return waits;
}

/* The instance of the process that waits. */
static const LockInstanceData *
blocked_instance(const BlockedProcData *blocked, const LockInstanceData *locks)
{
	for (int i = 0; i < blocked->num_locks; i++)
		if (locks[i].pid == blocked->pid)
			return &locks[i];
	return NULL;
}

static bool
is_ahead(const BlockedProcData *blocked, const int *waiters, int pid)
{
	for (int i = 0; i < blocked->num_waiters; i++)
		if (waiters[i] == pid)
			return true;
	return false;
}

/*
 * blocks --- does "other" keep "self" from the lock?  As pg_blocking_pids() has
 * it: it holds a conflicting one, or awaits one and is ahead in the queue.
 */
static bool
blocks(const BlockedProcData *blocked, const int *waiters,
	   const LockInstanceData *self, const LockInstanceData *other)
{
	LOCKMASK	conflicts =
		GetLockTagsMethodTable(&self->locktag)->conflictTab[self->waitLockMode];

	if (other->leaderPid == self->leaderPid)
		return false;
	if (conflicts & other->holdMask)
		return true;
	return other->waitLockMode != NoLock &&
		(conflicts & LOCKBIT_ON(other->waitLockMode)) != 0 &&
		is_ahead(blocked, waiters, other->pid);
}

/*
 * make_lock_edge --- NULL if it does not wait any more, or the other one is a
 * prepared transaction or the startup process, which wait for nobody
 */
static Edge *
make_lock_edge(LrIndex node, const LockInstanceData *self, int blocker_pid)
{
	PGPROC	   *sleeper = BackendPidGetProc(self->pid);
	PGPROC	   *blocker = BackendPidGetProc(blocker_pid);
	Edge	   *edge;

	if (sleeper == NULL || blocker == NULL)
		return NULL;
	edge = palloc0(sizeof(Edge));
	edge->waiter = node;
	edge->blocker = LrProcNumberOf(blocker);
	edge->pid = self->pid;
	edge->blocker_pid = blocker_pid;
	edge->generation = lt_wait_generation(node);
	edge->tag = self->locktag;
	edge->mode = self->waitLockMode;
	edge->since = pg_atomic_read_u64(&sleeper->waitStart);
	return edge;
}

static List *
add_lock_edges(List *edges, LrIndex node)
{
	const BlockedProcsData *data =
		GetBlockerStatusData(GetPGProcByNumber(node)->pid);

	for (int i = 0; i < data->nprocs; i++)
	{
		const BlockedProcData *blocked = &data->procs[i];
		const LockInstanceData *locks = &data->locks[blocked->first_lock];
		const int  *waiters = &data->waiter_pids[blocked->first_waiter];
		const LockInstanceData *self = blocked_instance(blocked, locks);

		if (self == NULL || self->waitLockMode == NoLock)
			continue;
		for (int j = 0; j < blocked->num_locks; j++)
		{
			Edge	   *edge = NULL;

			if (blocks(blocked, waiters, self, &locks[j]))
				edge = make_lock_edge(node, self, locks[j].leaderPid);
			if (edge != NULL)
				edges = lappend(edges, edge);
		}
	}
	return edges;
}

/* ----------
 * The search
 * ----------
 */

static List *
add_key_edge(List *edges, LrIndex node)
{
	Edge	   *edge = palloc0(sizeof(Edge));

	if (!lt_key_wait(node, &edge->key))
	{
		pfree(edge);
		return edges;
	}
	edge->waiter = node;
	edge->blocker = edge->key.holder;
	edge->pid = edge->key.pid;
	edge->blocker_pid = edge->key.holder_pid;
	edge->generation = edge->key.generation;
	edge->is_key = true;
	return lappend(edges, edge);
}

static List *
edges_from(LrIndex node)
{
	List	   *edges = add_key_edge(NIL, node);

	if (waits_for_lock(node))
		edges = add_lock_edges(edges, node);
	return edges;
}

/* Back from the edge that closes the cycle to this session. */
static List *
cycle_that_ends_with(const Search *search, Edge *last)
{
	List	   *cycle = list_make1(last);

	for (Edge *e = last; e->waiter != LrMyProcNumber;)
	{
		e = search->found_by[e->waiter];
		cycle = lcons(e, cycle);
	}
	return cycle;
}

static List *
find_cycle(void)
{
	Search		search;

	search.found = palloc(sizeof(LrIndex) * MaxBackends);
	search.found_by = palloc0(sizeof(Edge *) * MaxBackends);
	search.found[0] = LrMyProcNumber;
	search.nfound = 1;

	for (int i = 0; i < search.nfound; i++)
	{
		ListCell   *lc;

		foreach(lc, edges_from(search.found[i]))
		{
			Edge	   *edge = lfirst(lc);

			if (edge->blocker == LrMyProcNumber)
				return cycle_that_ends_with(&search, edge);
			if (search.found_by[edge->blocker] == NULL)
			{
				search.found_by[edge->blocker] = edge;
				search.found[search.nfound++] = edge->blocker;
			}
		}
	}
	return NIL;
}

/* ----------
 * The second pass
 * ----------
 */

/*
 * same_wait --- the same process in the same wait for the same one?
 *
 * Waits for PostgreSQL's locks are told apart by their start, which is noted a
 * moment after the wait has begun, and is read here after everything else: so
 * two edges with the same start are of waits that were there between.
 */
static bool
same_wait(const Edge *a, const Edge *b)
{
	if (a->is_key != b->is_key || a->generation != b->generation ||
		a->pid != b->pid ||
		a->blocker != b->blocker || a->blocker_pid != b->blocker_pid)
		return false;
	if (a->is_key)
		return a->key.hold == b->key.hold && a->key.owner == b->key.owner;
	return a->mode == b->mode && a->since == b->since && a->since != 0 &&
		memcmp(&a->tag, &b->tag, sizeof(LOCKTAG)) == 0;
}

static bool
is_found_again(const Edge *edge)
{
	List	   *edges = edge->is_key ?
		add_key_edge(NIL, edge->waiter) : add_lock_edges(NIL, edge->waiter);
	ListCell   *lc;

	foreach(lc, edges)
		if (same_wait(edge, lfirst(lc)))
			return true;
	return false;
}

/*
 * claim --- let the others of the cycle go on, unless one lets us go on
 */
static bool
claim(const List *cycle)
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

Deadlock *
deadlock_find(void)
{
	List	   *cycle = find_cycle();
	Deadlock   *deadlock;
	ListCell   *lc;

	if (cycle == NIL)
		return NULL;
	foreach(lc, cycle)
		if (!is_found_again(lfirst(lc)))
			return NULL;
	if (!claim(cycle))
		return NULL;
	deadlock = palloc(sizeof(Deadlock));
	deadlock->edges = cycle;
	return deadlock;
}

/* ----------
 * The report
 * ----------
 */

/*
 * may_show_key --- to the caller: what it would see in redis_locks, and a key
 * that it holds itself
 */
static bool
may_show_key(const KeyWait *wait)
{
	return wait->holder == LrMyProcNumber || lr_may_see_keys_of(wait->userid);
}

static void
describe_edge(StringInfo buf, const Edge *edge, bool in_log)
{
	if (buf->len > 0)
		appendStringInfoChar(buf, '\n');
	if (!edge->is_key)
	{
		StringInfoData tag;

		initStringInfo(&tag);
		DescribeLockTag(&tag, &edge->tag);
		appendStringInfo(buf,
						 _("Process %d waits for %s on %s; blocked by process %d."),
						 edge->pid,
						 GetLockmodeName(edge->tag.locktag_lockmethodid, edge->mode),
						 tag.data, edge->blocker_pid);
		return;
	}

	appendStringInfo(buf, _("Process %d waits for Redis lock"), edge->pid);
	if (in_log || may_show_key(&edge->key))
		appendStringInfo(buf, " \"%s\"",
						 lr_name_to_show(edge->key.name, edge->key.name_len));
	appendStringInfo(buf, edge->key.scope == SCOPE_XACT ?
					 _(" (transaction-level); blocked by process %d.") :
					 _(" (session-level); blocked by process %d."),
					 edge->blocker_pid);
}

void
deadlock_report(const Deadlock *deadlock)
{
	StringInfoData client;
	StringInfoData log;
	ListCell   *lc;

	initStringInfo(&client);
	initStringInfo(&log);
	foreach(lc, deadlock->edges)
	{
		describe_edge(&client, lfirst(lc), false);
		describe_edge(&log, lfirst(lc), true);
	}
	foreach(lc, deadlock->edges)
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
