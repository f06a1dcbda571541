/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Deadlocks among sessions of this server.
 *
 * A cycle that PostgreSQL's detector cannot see, as it does not know our locks, has a
 * session W in it that waits for a key, and an edge from W to a session H that holds
 * the key.  Kinds of locks that several sessions can hold together can have several H,
 * and W waits for each of them that keeps it from the key: all of these must release,
 * so a cycle through any one is a deadlock.  One search that starts at all H does for
 * all sessions that wait for the key, whichever of them runs it: it reaches each W for
 * which an H waits, directly or through others, and that is each W in a cycle over this
 * key.  Hence a key is searched from once each deadlock_timeout, and not by each of its
 * waiters (long_wait.c).  The search is repeated because a cycle may be closed later,
 * by a process that waits for a row, and that PostgreSQL's detector leaves waiting.
 *
 * No session is ended by the result of another one's search, though.  A waiter of the
 * same key that the search reaches is suspected and woken.  It searches itself once it
 * has waited for its own deadlock_timeout.  That search suspects no other session: it
 * reaches only those that the first one has reached, and two that can be reached from
 * each other, but are in no cycle, would otherwise wake each other for as long as they
 * wait.
 *
 * No cycle is missed if the searching session stops waiting in the middle: the next one
 * searches a deadlock_timeout later.  Nor if the key changes hands: sessions that sleep
 * in a cycle acquire and release nothing, so their H stays.  A cycle that is closed
 * when W begins to wait is found when W first looks.  If no session has searched from
 * the key since, W does; otherwise W was in the queue during that search, and is
 * suspected.
 *
 * The wait-for graph is read piece by piece while it changes, so what looks like a
 * cycle may consist of edges that never existed at the same time.  Hence a cycle is
 * followed twice more, and counts only if each process in it is found both times in the
 * very same wait, for the same process.  A process that sleeps acquires and releases
 * nothing, so between the two passes all of these edges existed at once.
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

#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "utils/backend_status.h"

#include "locktable/graph.h"
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
	bool		is_key;
	KeyWait		key;			/* if for a key: which, */
	KeyHolder	holder;			/* and its holder, the blocker; */
	LockWait	lock;			/* else the lock of PostgreSQL */
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
	LrIndex    *from;			/* for each process: the one whose edge led to it */
	bool		for_all;		/* search for all that wait for the key, not only for this
								 * session */
	LockWaits  *locks;
	KeyWait		own;			/* what this session waits for */
	KeyHolders	own_holders;	/* the holders of that */
	KeyHolders	holders;		/* the holders of what another session waits for */
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
 * A process that waits for the same key as this session may be in a cycle without us,
 * so it is suspected.
 */
static void
deadlock_follow_key(Search *search, LrIndex process)
{
	KeyHolders *holders = &search->holders;
	KeyWait		wait;

	if (!deadlock_read_holders(process, &wait, holders))
		return;
	for (int i = 0; i < holders->n; i++)
		if (holders->list[i].awaited)
			deadlock_found_edge(search, process, holders->list[i].session);
	if (search->for_all && process != LrMyProcNumber &&
		wait.name_len == search->own.name_len &&
		memcmp(wait.name, search->own.name, wait.name_len) == 0)
	{
		lt_suspect_waiter(process, wait.generation);
		search->nsuspects++;
	}
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
		lock_waits_follow(search->locks, search->reached[i]);
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

	for (int i = 0; i < search->own_holders.n; i++)
		if (!search->own_holders.list[i].awaited)
			deadlock_found_edge(search, LrMyProcNumber,
								search->own_holders.list[i].session);
	deadlock_follow(search, nfollowed);
}

/*
 * deadlock_search --- can this session be reached from those that it waits for?
 *
 * The search does not stop there, so as not to miss others that wait for the key.
 */
static bool
deadlock_search(Search *search, bool for_all)
{
	bool		in_cycle;

	memset(search, 0, sizeof(Search));
	search->for_all = for_all;
	if (!deadlock_read_holders(LrMyProcNumber, &search->own, &search->own_holders))
		return false;
	search->reached = palloc(sizeof(LrIndex) * (MaxBackends + 1));
	search->from = palloc(sizeof(LrIndex) * MaxBackends);
	for (LrIndex i = 0; i < MaxBackends; i++)
		search->from[i] = LR_NONE;
	search->locks = lock_waits_create(deadlock_found_edge, deadlock_is_reached,
									  search);

	search->reached[search->nreached++] = LrMyProcNumber;
	deadlock_follow(search, 0);
	in_cycle = search->from[LrMyProcNumber] != LR_NONE;
	if (search->for_all)
		deadlock_follow_others(search);
	ereport(DEBUG1,
			(errmsg_internal("searched for a deadlock: %d processes, %d looks into the lock manager, %zu bytes, %d suspects",
							 search->nreached, lock_waits_looks(search->locks),
							 lock_waits_memory(search->locks), search->nsuspects)));
	return in_cycle;
}

/* ----------
 * The two passes
 * ----------
 */

/*
 * deadlock_read_key_edge --- does the waiter wait for a key that the blocker holds?
 */
static bool
deadlock_read_key_edge(Edge *edge)
{
	KeyHolders	holders = {NULL, 0, 0};

	if (!deadlock_read_holders(edge->waiter, &edge->key, &holders))
		return false;
	for (int i = 0; i < holders.n; i++)
		if (holders.list[i].awaited && holders.list[i].session == edge->blocker)
		{
			edge->is_key = true;
			edge->pid = edge->key.pid;
			edge->holder = holders.list[i];
			edge->blocker_pid = edge->holder.pid;
			edge->generation = edge->key.generation;
			return true;
		}
	return false;
}

/*
 * deadlock_read_edge --- read an edge as it is now; NULL: there is none any more
 */
static Edge *
deadlock_read_edge(LrIndex waiter, LrIndex blocker)
{
	Edge	   *edge = palloc0(sizeof(Edge));

	edge->waiter = waiter;
	edge->blocker = blocker;
	if (deadlock_read_key_edge(edge))
		return edge;
	if (!lock_wait_between(waiter, blocker, &edge->lock))
		return NULL;
	edge->pid = edge->lock.pid;
	edge->blocker_pid = edge->lock.blocker_pid;
	edge->generation = lt_wait_generation(waiter);
	return edge;
}

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
	if (a->is_key != b->is_key || a->generation != b->generation ||
		a->pid != b->pid || a->blocker_pid != b->blocker_pid)
		return false;
	if (a->is_key)
		return a->holder.hold == b->holder.hold && a->holder.owner == b->holder.owner;
	return a->lock.mode == b->lock.mode &&
		a->lock.since == b->lock.since && a->lock.since != 0 &&
		memcmp(&a->lock.tag, &b->lock.tag, sizeof(LOCKTAG)) == 0;
}

/*
 * deadlock_first_pass --- read the cycle, from this session back to itself
 *
 * NIL: it is none any more.
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
 * deadlock_second_pass --- is each edge of the cycle still the same?
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
 * If the cycle was found by the search and by both passes, and claimed, we have to
 * break it.
 */
Deadlock *
deadlock_find(bool for_all)
{
	Search		search;
	Deadlock   *deadlock;
	List	   *cycle;

	if (!deadlock_search(&search, for_all))
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
 * deadlock_may_show_key --- may the client see the name of the key?
 *
 * It may see what redis_locks would show it, and keys that this session holds.
 */
static bool
deadlock_may_show_key(const Edge *edge)
{
	return edge->blocker == LrMyProcNumber || lr_may_see_keys_of(edge->key.userid);
}

/*
 * deadlock_describe_edge --- append one line of the error's detail
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
	if (in_log || deadlock_may_show_key(edge))
		appendStringInfo(buf, " \"%s\"",
						 lr_name_to_show(edge->key.name, edge->key.name_len));
	appendStringInfo(buf, edge->key.scope == SCOPE_XACT ?
					 _(" (transaction-level); blocked by process %d.") :
					 _(" (session-level); blocked by process %d."),
					 edge->blocker_pid);
}

/* The server log has all names, and the queries. */
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
