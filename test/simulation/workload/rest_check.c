/*-------------------------------------------------------------------------
 *
 * rest_check.c
 *	  What has to be so when a statement has ended, whatever it was: nothing of it is
 *	  left in the session, and it did not take longer than it was allowed to.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/rest_check.c
 *
 *-------------------------------------------------------------------------
 */
#include "workload.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/session/session.h"
#include "../../../src/settings.h"
#include "utils/wait_event.h"

#define LEFT(...) sim_fail("left behind", __VA_ARGS__)

/* ----------
 * What is left in the session
 * ----------
 */

static int
holds_in_table(void)
{
	int			n = 0;

	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		if (lt_holds[i].session == LrMyProcNumber &&
			(lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_LOST))
			n++;
	return n;
}

/* Between statements, in a transaction or not. */
static void
check_process(void)
{
	const LrSession *s = &lt_sessions[LrMyProcNumber];

	if (backend_locks_held() != 0)
		LEFT("%d light-weight locks after a statement", backend_locks_held());
	if (*my_wait_event_info != 0)
		LEFT("wait event %x after a statement", *my_wait_event_info);
	if (InterruptHoldoffCount != 0 || CritSectionCount != 0)
		LEFT("interrupts are held back after a statement");
	if (s->wait.state != WAIT_NONE && s->pid == MyProcPid)
		LEFT("a statement has ended, and its session still waits for %s",
			 lt_keys[s->wait.key].name);
}

/* Between transactions. */
static void
check_session(void)
{
	if (!dlist_is_empty(&tracks))
		LEFT("a note of a transaction that has ended");
	if (lt_sessions[LrMyProcNumber].committing)
		LEFT("a transaction has ended, and its session still commits");
	if (held_count() == 0 && (held_nverified != 0 || held_commit_floor != LR_NEVER))
		LEFT("nothing is held, %d are to be verified, the first lease ends at %lld",
			 held_nverified, (long long) held_commit_floor);
	if (held_count() != holds_in_table())
		LEFT("the session knows of %d holds, the lock table of %d", held_count(),
			 holds_in_table());
}

void
rest_check(void)
{
	check_process();
	if (xact_depth() == 0)
		check_session();
}

/* ----------
 * Time
 * ----------
 */

/*
 * It has to see that its time is over, give back what it has asked for (a call's
 * budget) and end its transaction (two seconds at most; see release_patience()).
 */
#define END_MAX		(2 * SIM_S + 100 * SIM_MS)

static int64
budget(void)
{
	return (int64) (lr_connect_timeout + lr_command_timeout) * SIM_MS;
}

void
time_check(const char *what, int64 began, int64 limit)
{
	int64		took = sim_now() - began;

	/* Nobody can be on time who was stopped, or whose store is away. */
	if (sim_quiet_since() >= began || sim_config.slow || limit >= SIM_NEVER)
		return;
	if (took > limit + budget() + END_MAX)
		sim_fail("too late", "%s took %.3f s; its limit was %.3f s, a call's budget is %.3f s",
				 what, took / (double) SIM_S, limit / (double) SIM_S,
				 budget() / (double) SIM_S);
}
