/*-------------------------------------------------------------------------
 *
 * spi_commands.c
 *	  SPI: commands as texts, and the ends of transactions in procedures.
 *
 * What a command does is the workload's; here it is cut into statements, and what
 * must not be in one is refused.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/spi_commands.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "executor/spi.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "sql.h"
#include "tcop/dest.h"

void		(*spi_statement) (const char *statement, bool may_commit);

DestReceiver *None_Receiver = NULL;

/* ----------
 * The ends of transactions
 * ----------
 */

/* Those who are connected stay so. */
static void
end_and_start(bool commit)
{
	int			connected = spi_depth();
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		if (commit)
			xact_commit();
		else
			xact_abort();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		xact_abort();
		xact_start();
		spi_set_depth(connected);
		PG_RE_THROW();
	}
	PG_END_TRY();
	xact_start();
	spi_set_depth(connected);
}

void
SPI_commit(void)
{
	end_and_start(true);
}

void
SPI_rollback(void)
{
	end_and_start(false);
}

/* ----------
 * Commands
 * ----------
 */

static NodeTag
tag_of(const char *statement)
{
	return strncmp(statement, "CALL", 4) == 0 ? T_CallStmt :
		strncmp(statement, "DO", 2) == 0 ? T_DoStmt :
		strncmp(statement, "BEGIN", 5) == 0 ? T_TransactionStmt : T_SelectStmt;
}

List *
raw_parser(const char *str, RawParseMode mode)
{
	List	   *list = NIL;
	int			from = 0;

	if (strchr(str, '!') != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("syntax error at or near \"!\"")));
	for (;;)
	{
		const char *end = strchr(str + from, ';');
		RawStmt    *raw = palloc0(sizeof(RawStmt));

		raw->type = T_RawStmt;
		raw->stmt_location = from;
		raw->stmt_len = end == NULL ? 0 : end - (str + from);
		raw->stmt = palloc0(sizeof(Node));
		raw->stmt->type = tag_of(str + from);
		list = lappend(list, raw);
		if (end == NULL)
			return list;
		from = end + 1 - str;
	}
}

static const char *running;

static void
run_body(void)
{
	spi_statement(running, true);
}

int
SPI_execute_extended(const char *src, const SPIExecuteOptions *options)
{
	NodeTag		tag = tag_of(src);

	if (tag == T_TransactionStmt)
		return SPI_ERROR_TRANSACTION;
	if (options->allow_nonatomic != (tag == T_CallStmt || tag == T_DoStmt))
		sim_fail("SQL", "%s may%s end transactions in a job", src,
				 options->allow_nonatomic ? "" : " not");
	sim_yield("statement of a command");
	if (tag == T_SelectStmt)
		spi_statement(src, false);
	else
	{
		running = src;
		utility_run(tag, run_body);
	}
	return SPI_OK_SELECT;
}

/* ----------
 * Places of errors
 * ----------
 */

int
errposition(int cursorpos)
{
	return 0;
}

int
geterrposition(void)
{
	return 0;
}

int
internalerrposition(int cursorpos)
{
	return 0;
}

int
internalerrquery(const char *query)
{
	return 0;
}
