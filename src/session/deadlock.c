/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Sessions of this server that wait for each other in a circle.
 *
 * A cycle that PostgreSQL's detector cannot see, as it does not know our locks,
 * has a session W in it that waits for a key, and so an edge from W to the
 * session H that has the key.  All who wait for the key wait for H.  So one
 * search that begins at H, by whichever of them, is one for all of them: it
 * comes to each W from which H is waited for over others, that is to each that
 * is in a cycle over this key.  Hence a key is searched from once each
 * deadlock_timeout, and not by each of its waiters (long_wait.c), again and
 * again, since a cycle may be closed later, by somebody who waits for a row and
 * whom PostgreSQL's detector leaves waiting.
 *
 * Nobody ends because of what somebody else has found, though: a waiter of the
 * same key to whom the search came is suspected and told so, and looks itself
 * once it has waited for its own deadlock_timeout.
 *
 * Nothing is lost if whoever searches leaves in the middle: the next of them
 * searches a deadlock_timeout later.  Nor if the key changes hands, as those who
 * sleep in a cycle take and give back nothing: its H stays.  A cycle that is
 * closed when W begins to wait is found by its first look: either nobody has
 * searched from the key since, and W does it, or somebody has, when W stood in
 * the queue, and W is suspected.
 *
 * The wait-for graph is read piece by piece, while it changes, so what looks
 * like a cycle may consist of edges that never were at the same time.  Hence
 * a cycle is followed twice more, and counts only if each process in it is
 * found both times in the very same wait, for the same one.  Somebody who
 * sleeps takes and gives back nothing, so at the moment between the two passes
 * all of these edges were there together.
 *
 * Of several that find the same cycle the first one to claim it breaks it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/deadlock.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/backend_status.h"

#include "session/deadlock.h"
#include "session/lock_waits.h"
#include "locktable/graph.h"
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
	bool		is_key;
	KeyWait		key;			/* for a key, */
	LockWait	lock;			/* or for one of PostgreSQL's locks */
} Edge;

/* Breadth first, so that the cycle found is short. */
typedef struct Search
{
	LrIndex    *reached;		/* processes, in the order they were found in */
	int			nreached;
	LrIndex    *from;			/* by process: whose edge led to it */
	LockWaits  *locks;
	KeyWait		own;			/* what this session waits for */
	int			nsuspects;
} Search;

struct Deadlock
{
	List	   *edges;			/* from this session back to itself */
};

/* ----------
 * The search
 * ----------
 */

static bool
deadlock_is_reached(void *arg, LrIndex process)
{
	const Search *search = arg;

	return process == LrMyProcNumber || search->from[process] != LR_NONE;
}

static void
deadlock_found_edge(void *arg, LrIndex waiter, LrIndex blocker)
{
	Search	   *search = arg;

	if (search->from[blocker] != LR_NONE)
		return;
	search->from[blocker] = waiter;
	if (blocker != LrMyProcNumber)
		search->reached[search->nreached++] = blocker;
}

/*
 * deadlock_follow_key --- the one edge that a wait for a key is
 *
 * Who waits for the same key as this session is in a cycle that we need not be
 * in.
 */
static void
deadlock_follow_key(Search *search, LrIndex process)
{
	KeyWait		wait;

	if (!lt_key_wait(process, &wait))
		return;
	deadlock_found_edge(search, process, wait.holder);
	if (process != LrMyProcNumber && wait.hold == search->own.hold &&
		wait.owner == search->own.owner)
	{
		lt_suspect_waiter(process, wait.generation);
		search->nsuspects++;
	}
}

/*
 * deadlock_search --- is this session reached from the one that has its key?
 *
 * Goes to the end all the same: others of the same key are not to be missed.
 */
static bool
deadlock_search(Search *search)
{
	memset(search, 0, sizeof(Search));
	if (!lt_key_wait(LrMyProcNumber, &search->own))
		return false;
	search->reached = palloc(sizeof(LrIndex) * (MaxBackends + 1));
	search->from = palloc(sizeof(LrIndex) * MaxBackends);
	for (LrIndex i = 0; i < MaxBackends; i++)
		search->from[i] = LR_NONE;
	search->locks = lock_waits_create(deadlock_found_edge, deadlock_is_reached,
									  search);

	search->reached[search->nreached++] = LrMyProcNumber;
	for (int i = 0; i < search->nreached; i++)
	{
		deadlock_follow_key(search, search->reached[i]);
		lock_waits_follow(search->locks, search->reached[i]);
	}
	ereport(DEBUG1,
			(errmsg_internal("searched for a deadlock: %d processes, %d looks into the lock manager, %zu bytes, %d suspects",
							 search->nreached, lock_waits_looks(search->locks),
							 lock_waits_memory(search->locks), search->nsuspects)));
	return search->from[LrMyProcNumber] != LR_NONE;
}

/* ----------
 * The two passes
 * ----------
 */

/*
 * deadlock_read_edge --- as it is now; NULL: it does not wait for that one any
 * more
 */
static Edge *
deadlock_read_edge(LrIndex waiter, LrIndex blocker)
{
	Edge	   *edge = palloc0(sizeof(Edge));

	edge->waiter = waiter;
	edge->blocker = blocker;
	if (lt_key_wait(waiter, &edge->key) && edge->key.holder == blocker)
	{
		edge->is_key = true;
		edge->pid = edge->key.pid;
		edge->blocker_pid = edge->key.holder_pid;
		edge->generation = edge->key.generation;
		return edge;
	}
	if (!lock_wait_between(waiter, blocker, &edge->lock))
		return NULL;
	edge->pid = edge->lock.pid;
	edge->blocker_pid = edge->lock.blocker_pid;
	edge->generation = lt_wait_generation(waiter);
	return edge;
}

/*
 * deadlock_is_same_wait --- the same process in the same wait for the same one?
 *
 * Waits for PostgreSQL's locks are told apart by their start, which is noted a
 * moment after the wait has begun, and is read here after everything else: so
 * two edges with the same start are of waits that were there between.
 */
static bool
deadlock_is_same_wait(const Edge *a, const Edge *b)
{
	if (a->is_key != b->is_key || a->generation != b->generation ||
		a->pid != b->pid || a->blocker_pid != b->blocker_pid)
		return false;
	if (a->is_key)
		return a->key.hold == b->key.hold && a->key.owner == b->key.owner;
	return a->lock.mode == b->lock.mode &&
		a->lock.since == b->lock.since && a->lock.since != 0 &&
		memcmp(&a->lock.tag, &b->lock.tag, sizeof(LOCKTAG)) == 0;
}

/*
 * deadlock_first_pass --- the cycle, from this session back to itself; NIL if it
 * is none any more
 */
static List *
deadlock_first_pass(const Search *search)
{
	List	   *cycle = NIL;
	LrIndex		blocker = LrMyProcNumber;

	do
	{
		LrIndex		waiter = search->from[blocker];
		Edge	   *edge = deadlock_read_edge(waiter, blocker);

		if (edge == NULL)
			return NIL;
		cycle = lcons(edge, cycle);
		blocker = waiter;
	} while (blocker != LrMyProcNumber);
	return cycle;
}

/*
 * deadlock_second_pass --- is each edge of it still the same?
 */
static bool
deadlock_second_pass(const List *cycle)
{
	ListCell   *lc;

	foreach(lc, cycle)
	{
		const Edge *edge = lfirst(lc);
		const Edge *again = deadlock_read_edge(edge->waiter, edge->blocker);

		if (again == NULL || !deadlock_is_same_wait(edge, again))
			return false;
	}
	return true;
}

/*
 * deadlock_claim --- let the others of the cycle go on, unless one lets us go on
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
 * deadlock_find --- see deadlock.h
 *
 * Searched, found in two passes, and claimed: then it is ours to break.
 */
Deadlock *
deadlock_find(void)
{
	Search		search;
	Deadlock   *deadlock;
	List	   *cycle;

	if (!deadlock_search(&search))
		return NULL;
	cycle = deadlock_first_pass(&search);
	if (cycle == NIL || !deadlock_second_pass(cycle) || !deadlock_claim(cycle))
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
 * deadlock_may_show_key --- to the caller: what it would see in redis_locks, and
 * a key that it holds itself
 */
static bool
deadlock_may_show_key(const KeyWait *wait)
{
	return wait->holder == LrMyProcNumber || lr_may_see_keys_of(wait->userid);
}

/*
 * deadlock_describe_edge --- one line of the error's detail
 */
static void
deadlock_describe_edge(StringInfo buf, const Edge *edge, bool in_log)
{
	if (buf->len > 0)
		appendStringInfoChar(buf, '\n');
	if (!edge->is_key)
	{
		StringInfoData tag;

		initStringInfo(&tag);
		DescribeLockTag(&tag, &edge->lock.tag);
		appendStringInfo(buf,
						 _("Process %d waits for %s on %s; blocked by process %d."),
						 edge->pid,
						 GetLockmodeName(edge->lock.tag.locktag_lockmethodid,
										 edge->lock.mode),
						 tag.data, edge->blocker_pid);
		return;
	}

	appendStringInfo(buf, _("Process %d waits for Redis lock"), edge->pid);
	if (in_log || deadlock_may_show_key(&edge->key))
		appendStringInfo(buf, " \"%s\"",
						 lr_name_to_show(edge->key.name, edge->key.name_len));
	appendStringInfo(buf, edge->key.scope == SCOPE_XACT ?
					 _(" (transaction-level); blocked by process %d.") :
					 _(" (session-level); blocked by process %d."),
					 edge->blocker_pid);
}

/*
 * deadlock_report --- see deadlock.h
 *
 * In the server log the names are complete, and the queries follow.
 */
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
		deadlock_describe_edge(&client, lfirst(lc), false);
		deadlock_describe_edge(&log, lfirst(lc), true);
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
