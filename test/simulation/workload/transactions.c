/*-------------------------------------------------------------------------
 *
 * transactions.c
 *	  Statements about transactions, as PostgreSQL's transaction blocks treat them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/transactions.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "tcop/utility.h"

#include "../backend/heap.h"

/* The nesting of an exception block in a savepoint in ... */
#define DEPTH_LIMIT		5

BlockState	block = BLOCK_NONE;

void
block_commit(void)
{
	while (xact_depth() > 1)
		xact_sub_commit();

	/* Also if it is refused. */
	block = BLOCK_NONE;
	xact_commit();
}

static void
roll_back(void)
{
	xact_abort();
	block = BLOCK_NONE;
}

void
block_abort_statement(void)
{
	if (xact_depth() == 0)
		return;
	if (block == BLOCK_NONE)
		roll_back();
	else if (xact_depth() > 1)
	{
		xact_sub_abort();
		block = BLOCK_SUB_FAILED;
	}
	else
	{
		roll_back();
		block = BLOCK_FAILED;
	}
}

void
block_leave_failed(void)
{
	if (block == BLOCK_SUB_FAILED && sim_draw(2) == 0)
	{
		sim_trace("ROLLBACK TO");
		xact_sub_start();
		block = BLOCK_OPEN;
		return;
	}
	sim_trace("ROLLBACK");
	roll_back();
}

/* ----------
 * Statements
 * ----------
 */

static void
begin(void)
{
	xact_start();
	block = BLOCK_OPEN;
	if (sim_chance(100))
		XactIsoLevel = XACT_REPEATABLE_READ;
	XactReadOnly = sim_chance(50);
}

static void
savepoint(void)
{
	if (xact_depth() < DEPTH_LIMIT)
		xact_sub_start();
}

static void
rollback_to(void)
{
	if (xact_depth() < 2)
		return;

	/* The innermost, or one around it. */
	if (xact_depth() > 2 && sim_chance(300))
		xact_sub_abort();
	xact_sub_abort();
	xact_sub_start();
}

static void
release_savepoint(void)
{
	if (xact_depth() > 1)
		xact_sub_commit();
}

static void
write_something(void)
{
	PreventCommandIfReadOnly("INSERT");
	(void) xact_assign_xid();
}

/* One of a few rows, for the writer or beside others. */
static void
lock_row(void)
{
	LOCKTAG		tag;

	PreventCommandIfReadOnly("SELECT FOR UPDATE");
	(void) xact_assign_xid();
	SET_LOCKTAG_TUPLE(tag, MyDatabaseId, 17000, 0, 1 + sim_draw(3));
	heavy_lock_acquire(&tag, sim_chance(300) ? ShareLock : ExclusiveLock);
}

/*
 * exception_block --- a subtransaction that catches what is raised in it
 *
 * PL/pgSQL does not catch cancels.
 */
static void
exception_block(void)
{
	MemoryContext context = CurrentMemoryContext;

	if (xact_depth() >= DEPTH_LIMIT)
		return;
	xact_sub_start();
	PG_TRY();
	{
		statements_inside(INSIDE);
		if (sim_chance(300))
			ereport(ERROR, (errmsg("an error of the user")));
		xact_sub_commit();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		xact_sub_abort();
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		FlushErrorState();
	}
	PG_END_TRY();
}

const Statement transaction_statements[] = {
	{"BEGIN", 10, AT_TOP | CONTROL, begin},
	{"COMMIT", 9, IN_BLOCK | CONTROL, block_commit},
	{"ROLLBACK", 3, IN_BLOCK | CONTROL, roll_back},
	{"INSERT", 6, ANYWHERE, write_something},
	{"SELECT FOR UPDATE", 4, ANYWHERE, lock_row},
	{"SAVEPOINT", 5, IN_BLOCK | CONTROL, savepoint},
	{"ROLLBACK TO", 4, IN_BLOCK | CONTROL, rollback_to},
	{"RELEASE", 2, IN_BLOCK | CONTROL, release_savepoint},
	{"exception block", 4, ANYWHERE, exception_block},
	{NULL}
};
