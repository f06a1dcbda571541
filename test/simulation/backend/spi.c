/*-------------------------------------------------------------------------
 *
 * spi.c
 *	  SPI: three statements on the fence table, commits of procedures, and commands.
 *
 * A statement is known by its first word; the rest of it is taken as said in
 * src/sql/fence.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/spi.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "catalog/pg_proc.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "nodes/params.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "sql.h"
#include "utils/builtins.h"
#include "utils/rel.h"

/* No table has a trigger. */
TriggerDesc *
CopyTriggerDesc(TriggerDesc *trigdesc)
{
	return trigdesc;
}

void
FreeTriggerDesc(TriggerDesc *trigdesc)
{
}

/* ----------
 * Plans
 * ----------
 */

struct _SPI_plan
{
	char		statement;		/* I, S, D */
};

uint64		SPI_processed = 0;
SPITupleTable *SPI_tuptable = NULL;
int			SPI_result = 0;

static int	connected = 0;
static int64 read_value;

int
SPI_connect(void)
{
	return SPI_connect_ext(0);
}

int
SPI_connect_ext(int options)
{
	connected++;
	return SPI_OK_CONNECT;
}

int
SPI_finish(void)
{
	if (connected-- == 0)
		sim_fail("simulator", "SPI_finish without SPI_connect");
	return SPI_OK_FINISH;
}

/* An error leaves them; of a subtransaction those that it made. */
void
spi_at_abort(int keep)
{
	connected = Min(connected, keep);
}

void
spi_set_depth(int depth)
{
	connected = depth;
}

int
spi_depth(void)
{
	return connected;
}

const char *
SPI_result_code_string(int code)
{
	return psprintf("code %d", code);
}

void
setup_parse_fixed_parameters(ParseState *pstate, const Oid *paramTypes, int numParams)
{
}

/* The parser calls the hook for each column; once is enough. */
static void
parse(ParserSetupHook setup, void *arg)
{
	ParseState *pstate = palloc0(sizeof(ParseState));
	RangeTblEntry *rte = palloc0(sizeof(RangeTblEntry));

	rte->type = T_RangeTblEntry;
	rte->rtekind = RTE_RELATION;
	rte->relid = ROWS_TABLE;
	pstate->p_rtable = lappend(NIL, rte);
	setup(pstate, arg);
	if (pstate->p_pre_columnref_hook != NULL)
		(void) pstate->p_pre_columnref_hook(pstate, NULL);
}

SPIPlanPtr
SPI_prepare_params(const char *src, ParserSetupHook parserSetup, void *parserSetupArg,
				   int cursorOptions)
{
	SPIPlanPtr	plan = MemoryContextAlloc(TopMemoryContext, sizeof(struct _SPI_plan));

	parse(parserSetup, parserSetupArg);
	plan->statement = src[0];
	return plan;
}

int
SPI_keepplan(SPIPlanPtr plan)
{
	return 0;
}

int
SPI_freeplan(SPIPlanPtr plan)
{
	pfree(plan);
	return 0;
}

ParamListInfo
makeParamList(int numParams)
{
	return palloc0(sizeof(ParamListInfoData) + sizeof(ParamExternData) * numParams);
}

static int
select_row(const char *key)
{
	static HeapTuple no_tuple = NULL;
	static SPITupleTable table = {.vals = &no_tuple};

	SPI_tuptable = &table;
	SPI_processed = row_read(key, &read_value);
	return SPI_OK_SELECT;
}

int
SPI_execute_plan_with_paramlist(SPIPlanPtr plan, ParamListInfo params, bool read_only,
								long tcount)
{
	const char *key = text_to_cstring(DatumGetTextPP(params->params[0].value));

	if (GetUserId() != SQL_OWNER)
		sim_fail("SQL", "the fence table is used as somebody else than its owner");
	if (plan->statement == 'S')
		return select_row(key);
	if (plan->statement == 'D')
	{
		SPI_processed = row_remove(key);
		return SPI_OK_DELETE;
	}
	SPI_processed = row_raise(key, DatumGetInt64(params->params[1].value), false);
	return SPI_OK_INSERT;
}

Datum
SPI_getbinval(HeapTuple tuple, TupleDesc tupdesc, int fnumber, bool *isnull)
{
	*isnull = false;
	return Int64GetDatum(read_value);
}
