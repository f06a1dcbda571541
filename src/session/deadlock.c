/*-------------------------------------------------------------------------
 *
 * deadlock.c
 *	  Sessions of this server that wait for each other in a circle.
 *
 * A cycle that PostgreSQL's detector cannot see, as it does not know our locks,
 * has a session W in it that waits for a key, and so an edge from W to a session
 * H that has the key.  Of kinds of locks that can be had together there are several
 * H, and W waits for each that keeps it from the key: all of them have to go, so a
 * cycle over any one is a deadlock.  One search that begins at all H, by whichever of
 * those who wait for the key, is one for all of them: it comes to each W from which an
 * H is waited for over others, that is to each that is in a cycle over this key.
 * Hence a key is searched from once each deadlock_timeout, and not by each of its
 * waiters (long_wait.c), again and again, since a cycle may be closed later, by
 * somebody who waits for a row and whom PostgreSQL's detector leaves waiting.
 *
 * Nobody ends because of what somebody else has found, though: a waiter of the
 * same key to whom the search came is suspected and told so, and looks itself
 * once it has waited for its own deadlock_timeout.  That look suspects nobody: it
 * comes to none but those to whom the first one came, and two of them that are
 * reached from each other, but in no cycle, would wake each other for as long as
 * they wait.
 *
 * Nothing is lost if whoever searches leaves in the middle: the next of them
 * searches a deadlock_timeout later.  Nor if the key changes hands, as those who
 * sleep in a cycle take and give back nothing: their H stays.  A cycle that is
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
	int			pid;			/* who sleeps: the waiter or its worker */
	int			blocker_pid;
	uint64		generation;		/* of the waiter's wait for a key, if any */
	bool		is_key;
	KeyWait		key;			/* for a key, */
	KeyHolder	holder;			/* which the blocker has, */
	LockWait	lock;			/* or for one of PostgreSQL's locks */
} Edge;

/* Others that have a key. */
typedef struct KeyHolders
{
	KeyHolder  *list;
	int			n;
	int			room;
} KeyHolders;

/* Breadth first, so that the cycle found is short. */
typedef struct Search
{
	LrIndex    *reached;		/* processes, in the order they were found in */
	int			nreached;
	LrIndex    *from;			/* by process: whose edge led to it */
	bool		for_all;		/* who wait for the key, or for this session */
	LockWaits  *locks;
	KeyWait		own;			/* what this session waits for, */
	KeyHolders	own_holders;	/* and who has it */
	KeyHolders	holders;		/* of another wait */
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
 * deadlock_read_holders --- of the key that the process waits for; false: it does
 * not, or for nobody
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
 * deadlock_follow_key --- the edges that a wait for a key is
 *
 * Who waits for the same key as this session is in a cycle that we need not be
 * in.
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
 * deadlock_follow --- from all that is reached, and not yet followed
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
 * deadlock_follow_others --- those who have our key and do not keep us from it may
 * keep others of its queue
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
 * deadlock_search --- is this session reached from those that it waits for?
 *
 * Goes to the end all the same: others of the same key are not to be missed.
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
 * deadlock_read_key_edge --- if the waiter waits for a key that the blocker has
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
 * deadlock_read_edge --- as it is now; NULL: it does not wait for that one any
 * more
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
		return a->holder.hold == b->holder.hold && a->holder.owner == b->holder.owner;
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
 * deadlock_find --- see session_int.h
 *
 * Searched, found in two passes, and claimed: then it is ours to break.
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
 * deadlock_may_show_key --- to the caller: what it would see in redis_locks, and
 * a key that it holds itself
 */
static bool
deadlock_may_show_key(const Edge *edge)
{
	return edge->blocker == LrMyProcNumber || lr_may_see_keys_of(edge->key.userid);
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
	if (in_log || deadlock_may_show_key(edge))
		appendStringInfo(buf, " \"%s\"",
						 lr_name_to_show(edge->key.name, edge->key.name_len));
	appendStringInfo(buf, edge->key.scope == SCOPE_XACT ?
					 _(" (transaction-level); blocked by process %d.") :
					 _(" (session-level); blocked by process %d."),
					 edge->blocker_pid);
}

/*
 * deadlock_report --- see session_int.h
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
