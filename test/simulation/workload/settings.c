/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Statements about the session: its settings, its end, and what it does beside.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/settings.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "storage/ipc.h"

#include "../../../src/settings.h"

static void
nothing(void)
{
	sim_yield("idle");
}

static void
sleep_a_while(void)
{
	int64		length = SIM_PICK(SIM_MS, 30 * SIM_MS, 400 * SIM_MS, 1500 * SIM_MS, 6 * SIM_S);
	int64		until;

	/* Where nothing disturbs any more, short leases would be renewed for nothing. */
	if (sim_config.calm)
		length = Min(length, 400 * SIM_MS);
	until = sim_now() + length;
	while (sim_now() < until)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (until - sim_now()) / SIM_MS + 1, 0);
		ResetLatch(MyLatch);
		sim_check_for_interrupts();
	}
}

static void
set_something(void)
{
	switch (sim_draw(4))
	{
		case 0:
			lr_commit_guard = (int) SIM_PICK(GUARD_LEASE, GUARD_VERIFY, GUARD_OFF);
			sim_trace("  commit_guard = %d", lr_commit_guard);
			break;
		case 1:
			lr_on_lost = (int) SIM_PICK(ON_LOST_MARK, ON_LOST_CANCEL, ON_LOST_TERMINATE);
			sim_trace("  on_lost = %d", lr_on_lost);
			break;
		case 2:
			LockTimeout = (int) SIM_PICK(0, 300, 1500);
			sim_trace("  lock_timeout = %d", LockTimeout);
			break;
		default:
			lr_session_locks = !sim_chance(200);
			sim_trace("  session_locks = %d", lr_session_locks);
	}
}

static void
discard_all(void)
{
	utility_run(T_DiscardStmt, NULL);
	ledger_statement();			/* it says nothing of losses */
}

static void
leave(void)
{
	proc_exit(0);
}

const Statement setting_statements[] = {
	{"nothing", 2, AT_TOP | IN_BLOCK | CONTROL, nothing},
	{"sleep", 8, ANYWHERE, sleep_a_while},
	{"SET", 3, ANYWHERE, set_something},
	{"DISCARD ALL", 1, AT_TOP, discard_all},
	{"exit", 1, AT_TOP | IN_BLOCK | CONTROL, leave},
	{NULL}
};
