/*-------------------------------------------------------------------------
 *
 * session.c
 *	  A simulated session: makes one statement after the other, drawn from the seed.
 *
 * The loop is that of PostgresMain(): an error ends the statement, and its
 * transaction or subtransaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include <setjmp.h>
#include <signal.h>

#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/timeout.h"

#include "../../../src/settings.h"

static MemoryContext statement_context;

static int *
statements_left(void)
{
	return &sim_config.left[sim_slot()];
}

static void
run(const Statement *s)
{
	if (s->where & CONTROL)
	{
		s->run();
		return;
	}
	if (block == BLOCK_NONE)
		xact_start();
	s->run();
	if (block == BLOCK_NONE)
		block_commit();
}

/* A deadlock of several servers is ended by a time-out and nothing else. */
#define WAITS_AMONG_SERVERS	(20 * SIM_S)

/* Of the statement; SIM_NEVER: it has no limit. */
static int64 began;
static int64 limit = SIM_NEVER;
static int64 flush_waits;		/* xact_flush_waits when it began */

static void
statement_begins(void)
{
	MemoryContextReset(statement_context);
	MemoryContextSwitchTo(statement_context);
	ledger_statement();
	began = sim_now();
	limit = SIM_NEVER;
	flush_waits = xact_flush_waits;
	if (!sim_config.calm && sim_chance(sim_config.timeouts))
		limit = SIM_PICK(2 * SIM_S, 300 * SIM_MS, 20 * SIM_MS, 300, 100);
	else if (sim_config.nservers > 1)
		limit = WAITS_AMONG_SERVERS;
	if (limit < SIM_NEVER)
		backend_statement_timeout(began + limit);
}

static void
statement_ends(void)
{
	backend_statement_timeout(SIM_NEVER);
	ledger_statement_ends();
	book_check();
	rest_check();

	/* A time-out does not end a commit, and a procedure may have several. */
	if (limit < SIM_NEVER)
		time_check("a statement with a statement_timeout", began,
				   limit + xact_flush_waits - flush_waits);
}

/* From now on; what it has taken before may be taken again with more. */
static void
ask_for_replicas(void)
{
	lr_min_replicas = 1;
	sim_config.asking |= UINT64_C(1) << sim_slot();
	sim_trace("min_replicas = 1");
}

static void
one_statement(void)
{
	const Statement *s;

	sim_draw_begins();
	if (lr_min_replicas == 0 && (sim_config.min_replicas >> sim_slot() & 1) != 0 &&
		sim_chance(200))
		ask_for_replicas();
	statement_begins();
	if (block == BLOCK_FAILED || block == BLOCK_SUB_FAILED)
		block_leave_failed();
	else
	{
		s = statement_next(block == BLOCK_NONE ? AT_TOP : IN_BLOCK);
		sim_trace("%s", s->name);
		sim_reached(s->name);
		run(s);
	}
	statement_ends();
}

static void
shutdown_postgres(int code, Datum arg)
{
	xact_abort();
}

void
session_main(int slot)
{
	sigjmp_buf	local;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);
	before_shmem_exit(shutdown_postgres, 0);
	statement_context = AllocSetContextCreateInternal(TopMemoryContext, "statement", 0, 0, 0);
	backend_told = ledger_told;
	backend_waited = ledger_waited;
	recorder_begin();
	sim_config.asking &= ~(UINT64_C(1) << slot);
	lr_min_replicas = 0;
	lr_commit_guard = sim_config.verify ? GUARD_VERIFY : GUARD_LEASE;

	if (sigsetjmp(local, 0) != 0)
	{
		PG_exception_stack = &local;
		error_context_stack = NULL;
		HOLD_INTERRUPTS();
		backend_statement_timeout(SIM_NEVER);
		disable_all_timeouts(false);
		QueryCancelPending = false;
		MemoryContextSwitchTo(TopMemoryContext);
		block_abort_statement();
		FlushErrorState();
		RESUME_INTERRUPTS();
		statement_ends();
	}
	PG_exception_stack = &local;
	while (*statements_left() > 0)
	{
		(*statements_left())--;
		sim_check_for_interrupts();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		one_statement();
	}
	proc_exit(0);
}
