/*-------------------------------------------------------------------------
 *
 * long_wait.c
 *	  What happens when a wait for a key lasts longer than deadlock_timeout.
 *
 * This is the same as for PostgreSQL's locks: the session looks for a deadlock, and
 * with log_lock_waits the wait is logged, once when it has become long and once when it
 * has ended with the lock.  The session looks again each deadlock_timeout.  Of the
 * sessions that wait for one key, one searches for all (see deadlock.c); another one
 * does only if that search has reached it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/long_wait.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "lib/stringinfo.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "locktable/graph.h"
#include "session/session_int.h"

/* A session has one wait at a time. */
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

static void
long_wait_elapsed(long *ms, int *us)
{
	int64		elapsed = lr_now() - since;

	*ms = (long) (elapsed / LR_US_PER_MS);
	*us = (int) (elapsed % LR_US_PER_MS);
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
	long		ms;
	int			us;

	/* The lock has just become ours. */
	if (!lt_own_queue(pids, MaxBackends, &npids, holder_pids, &nholders) ||
		!lt_find_blocker(LrMyProcNumber, &blocker))
		return;

	long_wait_elapsed(&ms, &us);
	ereport(LOG,
			(errmsg("process %d still waiting for Redis lock \"%s\" after %ld.%03d ms",
					MyProcPid, shown, ms, us),
			 long_wait_detail(holder_pids, nholders, blocker.owner,
							  long_wait_pids(pids, npids))));
}

/*
 * long_wait_log_deadlock --- log a deadlock, as the error may be caught by its caller
 */
static void
long_wait_log_deadlock(const LrName *name)
{
	long		ms;
	int			us;

	long_wait_elapsed(&ms, &us);
	ereport(LOG,
			(errmsg("process %d detected deadlock while waiting for Redis lock \"%s\" after %ld.%03d ms",
					MyProcPid, lr_name_to_show(name->data, name->len), ms, us)));
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
	long		ms;
	int			us;

	if (!looked || !log_lock_waits)
		return;
	long_wait_elapsed(&ms, &us);
	HOLD_CANCEL_INTERRUPTS();
	ereport(LOG,
			(errmsg("process %d acquired Redis lock \"%s\" after %ld.%03d ms",
					MyProcPid, lr_name_to_show(name->data, name->len), ms, us)));
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
long_wait_look_now(const LrName *name, bool search, bool for_all)
{
	Deadlock   *deadlock = search ? deadlock_find(for_all) : NULL;

	if (deadlock != NULL)
	{
		if (log_lock_waits)
			long_wait_log_deadlock(name);
		deadlock_report(deadlock);
	}
	if (log_lock_waits && !looked)
		long_wait_log(name);
}

/* A session looks before its own time if the search of another one has reached it. */
void
long_wait_look(const LrName *name)
{
	int64		interval = DeadlockTimeout * LR_US_PER_MS;
	MemoryContext scratch;
	MemoryContext old;
	bool		for_all;
	bool		suspected;

	if (lr_now() < look_at && !(looked && lt_is_suspected()))
		return;
	for_all = lt_begin_search(interval, &look_at);
	suspected = lt_take_suspicion();

	/*
	 * A wait may last for days, so use a context of our own; an error leaves it to the
	 * caller's.
	 */
	scratch = AllocSetContextCreate(CurrentMemoryContext, "lockredis long wait",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(scratch);
	long_wait_look_now(name, for_all || suspected, for_all);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(scratch);
	looked = true;
}
