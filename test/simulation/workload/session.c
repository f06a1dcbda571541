/*-------------------------------------------------------------------------
 *
 * session.c
 *	  A simulated session: its statements, drawn from the seed.
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
#include "workload.h"

#include <setjmp.h>
#include <signal.h>

#include "storage/ipc.h"
#include "tcop/tcopprot.h"

#include "../../../src/session/unlock.h"
#include "../../../src/settings.h"
#include "../models/kinds.h"

/* Kinds of statements: bits of SimShared.mix. */
typedef enum Kind
{
	DO_NOTHING,
	DO_LOCK,
	DO_TRY,
	DO_XACT_LOCK,
	DO_UNLOCK,
	DO_UNLOCK_ALL,
	DO_EXTEND,
	DO_FORCE,
	DO_BEGIN,
	DO_WRITE,
	DO_COMMIT,
	DO_ROLLBACK,
	DO_SAVEPOINT,
	DO_ROLLBACK_TO,
	DO_RELEASE_SAVEPOINT,
	DO_EXCEPTION_BLOCK,
	DO_SLEEP,
	DO_SET,
	DO_DISCARD,
	DO_EXIT,
	KINDS
} Kind;

static const char *const kind_names[] = {
	"nothing", "lock", "try", "xact lock", "unlock", "unlock_all", "extend",
	"force", "BEGIN", "INSERT", "COMMIT", "ROLLBACK", "SAVEPOINT",
	"ROLLBACK TO", "RELEASE", "exception block", "sleep", "SET", "DISCARD ALL", "exit"
};

/* How often each is drawn. */
static const int weights[KINDS] = {
	2, 16, 8, 14, 14, 4, 5, 2, 10, 6, 9, 3, 5, 4, 2, 4, 8, 3, 1, 1
};

typedef enum Block
{
	BLOCK_NONE,
	BLOCK_OPEN,
	BLOCK_FAILED,				/* only ROLLBACK */
	BLOCK_SUB_FAILED			/* ROLLBACK TO too */
} Block;

static Block block = BLOCK_NONE;

static int *
statements_left(void)
{
	return &sim_config.left[sim_slot()];
}

/* ----------
 * Transactions
 * ----------
 */

static void
sub_start(void)
{
	xact_sub_start();
}

static void
sub_end(bool commit)
{
	SubTransactionId sub = GetCurrentSubTransactionId();

	if (commit)
		xact_sub_commit();
	else
		xact_sub_abort();
	ledger_sub_ends(sub, GetCurrentSubTransactionId(), commit);
}

static void
commit(void)
{
	while (xact_depth() > 1)
		sub_end(true);
	xact_commit();
	ledger_transaction_ends();
	block = BLOCK_NONE;
}

static void
rollback(void)
{
	xact_abort();
	ledger_transaction_ends();
	block = BLOCK_NONE;
}

/* AbortCurrentTransaction() */
static void
abort_statement(void)
{
	if (xact_depth() == 0)
		return;
	if (block == BLOCK_NONE)
		rollback();
	else if (xact_depth() > 1)
	{
		sub_end(false);
		block = BLOCK_SUB_FAILED;
	}
	else
	{
		rollback();
		block = BLOCK_FAILED;
	}
}

/* ----------
 * Statements
 * ----------
 */

static void
draw_key(LrName *name)
{
	memset(name, 0, sizeof(LrName));
	name->len = snprintf(name->data, sizeof(name->data), "k%d",
							(int) sim_draw(sim_config.nkeys));
	name->hash = lr_name_hash(name->data, name->len);
}

/*
 * draw_kind_of --- that which the key is held as, if it is
 */
static KindId
draw_kind_of(const LrName *name)
{
	if (!sim_config.shared)
		return KIND_REENTRANT;
	if (held_find(name, KIND_REENTRANT) != NULL)
		return KIND_REENTRANT;
	if (held_find(name, KIND_SHARED) != NULL)
		return KIND_SHARED;
	if (held_find(name, KIND_FREE) != NULL)
		return KIND_FREE;
	return (KindId) SIM_PICK(KIND_SHARED, KIND_REENTRANT, KIND_SHARED, KIND_FREE);
}

/*
 * other_kind --- of a key that is held; it may be had by nobody for as long
 */
static KindId
other_kind(KindId kind)
{
	return kind == KIND_REENTRANT ? KIND_SHARED : KIND_REENTRANT;
}

static void
draw_lease(int64 *lease_ms, bool *renewed)
{
	*renewed = !sim_chance(300);
	*lease_ms = *renewed ? lr_lease : SIM_PICK(700, 40, 2000, 6000);
}

static void
take(LockScope scope, int64 wait_us)
{
	LrName		name;
	AcquireRequest request;
	HeldEntry  *entry;
	bool		got;

	draw_key(&name);
	memset(&request, 0, sizeof(request));
	request.wait_us = wait_us;
	request.terms.kind = draw_kind_of(&name);

	/* It may wait for itself, in the store: not for ever. */
	if (sim_config.shared && wait_us != WAIT_FOREVER && sim_chance(200))
		request.terms.kind = other_kind(request.terms.kind);
	request.terms.scope = scope;
	draw_lease(&request.terms.lease_ms, &request.terms.renewed);
	request.terms.guard = lr_commit_guard;
	request.terms.on_lost = lr_on_lost;
	sim_trace("%s%slock(%s, lease %lld ms%s, wait %lld us)",
			  scope == SCOPE_XACT ? "xact_" : "",
			  request.terms.kind == KIND_SHARED ? "shared_" :
			  request.terms.kind == KIND_FREE ? "free_" : "", name.data,
			  (long long) request.terms.lease_ms,
			  request.terms.renewed ? " renewed" : "", (long long) wait_us);
	got = session_lock(&name, &request, &entry);
	if (got)
		ledger_taken(entry, scope);
	sim_trace("-> %s", got ? "taken" : "busy");
	sim_reached(got ? "taken" : "busy");
}

static void
unlock(void)
{
	LrName		name;

	draw_key(&name);
	sim_trace("unlock(%s)", name.data);
	sim_trace("-> %d", session_unlock(&name, draw_kind_of(&name)));
}

static void
extend(void)
{
	LrName		name;
	int64		lease_ms;
	bool		renewed;

	draw_key(&name);
	draw_lease(&lease_ms, &renewed);
	sim_trace("extend(%s, %lld ms%s)", name.data, (long long) lease_ms,
			  renewed ? " renewed" : "");
	sim_trace("-> %d", session_extend(&name, draw_kind_of(&name), lease_ms, renewed));
}

static void
force(void)
{
	LrName		name;

	draw_key(&name);
	sim_trace("force_unlock(%s)", name.data);
	sim_trace("-> %d", session_force(&name, draw_kind_of(&name)));
}

static void
sleep_a_while(void)
{
	int64		until = sim_now() + SIM_PICK(SIM_MS, 30 * SIM_MS, 400 * SIM_MS, 1500 * SIM_MS);

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
	switch (sim_draw(3))
	{
		case 0:
			lr_commit_guard = (int) SIM_PICK(GUARD_LEASE, GUARD_VERIFY, GUARD_OFF);
			sim_trace("SET commit_guard = %d", lr_commit_guard);
			break;
		case 1:
			lr_on_lost = (int) SIM_PICK(ON_LOST_MARK, ON_LOST_CANCEL, ON_LOST_TERMINATE);
			sim_trace("SET on_lost = %d", lr_on_lost);
			break;
		default:
			LockTimeout = (int) SIM_PICK(0, 300, 1500);
			sim_trace("SET lock_timeout = %d", LockTimeout);
	}
}

static void
do_something_with_locks(Kind kind)
{
	switch (kind)
	{
		case DO_LOCK:
			take(SCOPE_SESSION, WAIT_FOREVER);
			break;
		case DO_TRY:
			take(sim_chance(300) ? SCOPE_XACT : SCOPE_SESSION,
				 sim_config.shared ? SIM_PICK(0, 100 * SIM_MS, 2 * SIM_S, 30 * SIM_S) :
				 SIM_PICK(0, 0, 100 * SIM_MS, 2 * SIM_S));
			break;
		case DO_XACT_LOCK:
			take(SCOPE_XACT, WAIT_FOREVER);
			break;
		case DO_UNLOCK:
			unlock();
			break;
		case DO_UNLOCK_ALL:
			sim_trace("unlock_all()");
			sim_trace("-> %lld", (long long) session_unlock_all());
			break;
		case DO_EXTEND:
			extend();
			break;
		case DO_FORCE:
			force();
			break;
		case DO_SLEEP:
			sleep_a_while();
			break;
		case DO_SET:
			set_something();
			break;
		case DO_WRITE:
			xact_assign_xid();
			break;
		default:
			break;
	}
}

static Kind
draw_kind(void)
{
	int			total = 0;
	int			drawn;
	int			kind;

	for (int i = 0; i < KINDS; i++)
		if (sim_config.mix & (1U << i))
			total += weights[i];
	drawn = sim_draw(total);
	for (kind = 0; kind < KINDS - 1; kind++)
		if (sim_config.mix & (1U << kind))
		{
			if (drawn < weights[kind])
				break;
			drawn -= weights[kind];
		}
	return kind;
}

/*
 * exception_block --- a subtransaction that catches what is raised in it
 */
static void
exception_block(void)
{
	sub_start();
	PG_TRY();
	{
		for (int n = 1 + sim_draw(3); n > 0; n--)
		{
			Kind		kind = draw_kind();

			if (kind < DO_BEGIN || kind == DO_WRITE || kind == DO_SLEEP)
				do_something_with_locks(kind);
		}
		if (sim_chance(300))
			ereport(ERROR, (errmsg("an error of the user")));
		sub_end(true);
	}
	PG_CATCH();
	{
		sub_end(false);

		/* PL/pgSQL does not catch cancels. */
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
}

/* Statements about transactions; false: it is another one. */
static bool
control(Kind kind)
{
	switch (kind)
	{
		case DO_BEGIN:
			if (block == BLOCK_NONE)
			{
				xact_start();
				block = BLOCK_OPEN;
			}
			return true;
		case DO_COMMIT:
			if (block == BLOCK_OPEN)
				commit();
			return true;
		case DO_ROLLBACK:
			if (block != BLOCK_NONE)
				rollback();
			return true;
		case DO_SAVEPOINT:
			if (block == BLOCK_OPEN && xact_depth() < 4)
				sub_start();
			return true;
		case DO_ROLLBACK_TO:
			if (block == BLOCK_OPEN && xact_depth() > 1)
			{
				sub_end(false);
				sub_start();
			}
			return true;
		case DO_RELEASE_SAVEPOINT:
			if (block == BLOCK_OPEN && xact_depth() > 1)
				sub_end(true);
			return true;
		case DO_DISCARD:
			if (block == BLOCK_NONE)
			{
				sim_trace("DISCARD ALL");
				session_discard();
				ledger_statement(); /* it says nothing of losses */
			}
			return true;
		case DO_EXIT:
			proc_exit(0);
		default:
			return false;
	}
}

static void
run_statement(Kind kind)
{
	if (control(kind))
		return;
	if (block == BLOCK_NONE)
		xact_start();
	if (kind == DO_EXCEPTION_BLOCK)
		exception_block();
	else
		do_something_with_locks(kind);
	if (block == BLOCK_NONE)
		commit();
}

static void
one_statement(void)
{
	Kind		kind = draw_kind();

	/* In a block that has failed all but its end is refused. */
	if (block == BLOCK_SUB_FAILED)
	{
		if (sim_draw(2) == 0)
		{
			sub_start();
			block = BLOCK_OPEN;
			return;
		}
		kind = DO_ROLLBACK;
	}
	else if (block == BLOCK_FAILED)
		kind = DO_ROLLBACK;
	if (kind == DO_NOTHING)
	{
		sim_yield("idle");
		return;
	}
	sim_trace("%s", kind_names[kind]);
	ledger_statement();
	if (!sim_config.calm && sim_chance(60))
		backend_statement_timeout(sim_now() + SIM_PICK(2 * SIM_S, 300 * SIM_MS, 20 * SIM_MS, 300));
	run_statement(kind);
	backend_statement_timeout(SIM_NEVER);
	ledger_statement_ends();
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

	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, die);
	before_shmem_exit(shutdown_postgres, 0);
	backend_told = ledger_told;
	backend_waited = ledger_waited;
	xact_guard_begins = ledger_guard_begins;
	xact_guard_passed = ledger_guard_passed;

	if (sigsetjmp(local, 0) != 0)
	{
		PG_exception_stack = &local;
		error_context_stack = NULL;
		HOLD_INTERRUPTS();
		backend_statement_timeout(SIM_NEVER);
		QueryCancelPending = false;
		CurrentMemoryContext = TopMemoryContext;
		abort_statement();
		FlushErrorState();
		RESUME_INTERRUPTS();
		ledger_statement_ends();
		ledger_statement();
	}
	PG_exception_stack = &local;
	while (*statements_left() > 0)
	{
		(*statements_left())--;
		sim_check_for_interrupts();
		one_statement();
	}
	proc_exit(0);
}
