/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Fencing tokens, and the table in which PostgreSQL decides by them.
 *
 * The store hands tokens out; the table has the highest one recorded for each
 * key.  A token is recorded only above that, in the transaction whose writes
 * it protects, so of two transactions that both believe they hold the key the
 * later one at the row waits for the earlier one and then fails or sees its
 * changes.  A store that lost its counter hands out numbers that are too low:
 * then one owner-checked request raises the counter above the row.
 *
 * The table belongs to the owner of the extension, as whom it is written here:
 * every name in the statements is qualified, operators too, and whenever they
 * are analyzed the table is checked to be ours.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "nodes/params.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "sql/fence.h"
#include "sql/replicated.h"
#include "session/ask.h"
#include "session/held.h"
#include "session/session.h"
#include "session/track.h"

#define FENCE_TABLE		"redis_fences"

/* ----------
 * The table
 * ----------
 */

typedef enum FenceStatement
{
	FENCE_RAISE,
	FENCE_READ,
	FENCE_DELETE,
	FENCE_STATEMENTS
} FenceStatement;

static const char *const statement_text[FENCE_STATEMENTS] = {
	"INSERT INTO %s AS f (key, token, recorded_at) "
	"VALUES ($1, $2, pg_catalog.clock_timestamp()) "
	"ON CONFLICT (key) DO UPDATE "
	"SET token = EXCLUDED.token, recorded_at = EXCLUDED.recorded_at "
	"WHERE f.token OPERATOR(pg_catalog.<) EXCLUDED.token",
	"SELECT token FROM %s WHERE key OPERATOR(pg_catalog.=) $1",
	"DELETE FROM %s WHERE key OPERATOR(pg_catalog.=) $1"
};

/*
 * Plans are kept for the table they were made for, and for the name that its
 * schema had then.
 */
static SPIPlanPtr plans[FENCE_STATEMENTS];
static Oid	plans_table = InvalidOid;
static NameData plans_schema;

/*
 * check_relations --- a statement must mean our table and no other
 *
 * Plans are made anew from their text when something has changed.  Whoever can
 * rename our schema could put another table in its place, with triggers, and
 * have them run as the owner of ours.  Called for each column that is named.
 */
static Node *
check_relations(ParseState *pstate, ColumnRef *column)
{
	ListCell   *lc;

	foreach(lc, pstate->p_rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relid != plans_table)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("table \"%s\" of extension lockredis has moved",
							FENCE_TABLE)));
	}
	return NULL;
}

static void
set_up_parser(ParseState *pstate, void *arg)
{
	static const Oid types[2] = {TEXTOID, INT8OID};

	setup_parse_fixed_parameters(pstate, types, lengthof(types));
	pstate->p_pre_columnref_hook = check_relations;
}

static void
forget_plans(void)
{
	for (int i = 0; i < FENCE_STATEMENTS; i++)
	{
		if (plans[i] != NULL)
			SPI_freeplan(plans[i]);
		plans[i] = NULL;
	}
}

static SPIPlanPtr
get_plan(FenceStatement statement, Oid schema, Oid table)
{
	char	   *schema_name = get_namespace_name(schema);

	if (schema_name == NULL)
		elog(ERROR, "cache lookup failed for schema %u", schema);
	if (plans_table != table ||
		strcmp(NameStr(plans_schema), schema_name) != 0)
	{
		forget_plans();
		plans_table = table;
		namestrcpy(&plans_schema, schema_name);
	}
	if (plans[statement] == NULL)
	{
		char	   *sql = psprintf(statement_text[statement],
								   quote_qualified_identifier(schema_name, FENCE_TABLE));
		SPIPlanPtr	plan = SPI_prepare_params(sql, set_up_parser, NULL, 0);

		if (plan == NULL)
			elog(ERROR, "SPI_prepare_params failed: %s",
				 SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		plans[statement] = plan;
	}
	return plans[statement];
}

/*
 * find_table --- the fence table and its owner
 */
static Oid
find_table(Oid schema, Oid *owner)
{
	Oid			table = get_relname_relid(FENCE_TABLE, schema);
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension lockredis does not exist",
						FENCE_TABLE)));
	*owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return table;
}

static Oid
function_owner(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * check_triggers --- no code of others may run as the owner of the table
 *
 * GRANT ALL ON TABLE gives the right to make triggers, too: they would run in
 * our statements, which everybody may have us execute.  The lock keeps new ones
 * out until the end of the transaction.
 */
static void
check_triggers(Oid table, Oid owner)
{
	Relation	rel = table_open(table, RowExclusiveLock);

	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (trigger->tgisinternal ||
			(trigger->tgqual == NULL &&
			 (function_owner(trigger->tgfoid) == owner ||
			  replicated_is_trigger(trigger->tgfoid))))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("trigger \"%s\" of table \"%s\" is not allowed",
						trigger->tgname, FENCE_TABLE),
				 errdetail("A trigger of this table must have no WHEN condition, and a function that belongs to the owner of the table."),
				 errhint("Drop the trigger, and revoke the privilege TRIGGER on the table.")));
	}
	table_close(rel, NoLock);
}

static void
set_param(ParamListInfo params, int i, Oid type, Datum value, bool isnull)
{
	params->params[i].ptype = type;
	params->params[i].value = value;
	params->params[i].isnull = isnull;
	params->params[i].pflags = PARAM_FLAG_CONST;
}

/*
 * run_as_owner --- run_statement, as the owner of the table
 *
 * If it raises, the abort of the (sub)transaction brings the user id back.
 */
static uint64
run_as_owner(FenceStatement statement, Oid schema, const LrName *name,
			 int64 *token)
{
	Oid			save_user;
	int			save_context;
	Oid			owner;
	Oid			table = find_table(schema, &owner);
	ParamListInfo params;
	uint64		processed;
	int			expected = statement == FENCE_RAISE ? SPI_OK_INSERT :
		statement == FENCE_READ ? SPI_OK_SELECT : SPI_OK_DELETE;

	if (statement != FENCE_READ)
		check_triggers(table, owner);
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(owner,
						   save_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");

	params = makeParamList(2);
	set_param(params, 0, TEXTOID,
			  CStringGetTextDatum(lr_name_to_show(name->data, name->len)), false);
	set_param(params, 1, INT8OID,
			  statement == FENCE_RAISE ? Int64GetDatum(*token) : (Datum) 0,
			  statement != FENCE_RAISE);
	if (SPI_execute_plan_with_paramlist(get_plan(statement, schema, table),
										params, false, 0) != expected)
		elog(ERROR, "could not use table \"%s\"", FENCE_TABLE);
	processed = SPI_processed;
	if (statement == FENCE_READ && processed > 0)
	{
		bool		isnull;

		*token = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0],
											 SPI_tuptable->tupdesc, 1, &isnull));
	}

	SPI_finish();
	SetUserIdAndSecContext(save_user, save_context);
	return processed;
}

/*
 * run_statement --- one statement on the fence table
 *
 * The number of rows; of a SELECT *token is set.
 */
static uint64
run_statement(FenceStatement statement, Oid schema, const LrName *name,
			  int64 *token)
{
	bool		save_own = replicated_is_own;
	uint64		processed = 0;

	replicated_is_own = true;
	PG_TRY();
	{
		processed = run_as_owner(statement, schema, name, token);
	}
	PG_FINALLY();
	{
		replicated_is_own = save_own;
	}
	PG_END_TRY();
	return processed;
}

/*
 * raise_row --- record the token if it is above the row
 *
 * Waits for another transaction that has the row locked, and judges anew.
 * False: *row has what is there, which is ours to see from now on, as the row
 * is locked.
 */
static bool
raise_row(const LrName *name, Oid schema, int64 token, int64 *row)
{
	int64		value = token;

	for (;;)
	{
		if (run_statement(FENCE_RAISE, schema, name, &value) > 0)
			return true;
		if (run_statement(FENCE_READ, schema, name, row) > 0)
			return false;

		/* Deleted in between by redis_fence_forget. */
	}
}

/* ----------
 * Tokens
 * ----------
 */

/*
 * mint --- have the store give a hold a new token above "floor"
 */
static int64
mint(const LrName *name, HeldEntry *entry, const AcquireRequest *request,
	 int64 floor)
{
	StoreOp		op;
	HoldView	view;
	bool		lost;

	lt_look(entry->hold, &view);
	if (view.state == HOLD_LOST)
		session_refuse_lost(name, &view);

	memset(&op, 0, sizeof(op));
	op.kind = STORE_MINT;
	op.name = name->data;
	op.name_len = name->len;
	op.owner = view.owner;
	op.floor = floor;
	lost = ask_held(entry->hold, &op);
	request_require_counter(request, op.store);
	if (lost)
	{
		lt_look(entry->hold, &view);
		session_refuse_lost(name, &view);
	}
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	lt_set_fence(entry->hold, op.fence);
	return op.fence;
}

bool
fence_lock(const LrName *name, AcquireRequest *request, int64 *token)
{
	HeldEntry  *entry;
	HoldView	view;

	session_enter();
	request->fenced = true;

	/* A plain hold gets its token first: a failure changes nothing then. */
	entry = held_find(name);
	if (entry != NULL)
	{
		lt_look(entry->hold, &view);
		if (view.state == HOLD_HELD)
			request_require_counter(request, view.store);
		if (view.state == HOLD_HELD && view.fence == 0)
			(void) mint(name, entry, request, 0);
	}
	if (!session_lock(name, request, &entry))
		return false;
	lt_look(entry->hold, &view);
	*token = view.fence;
	return true;
}

/*
 * is_recorded_here --- has the row this token since earlier in the transaction?
 *
 * Nobody else could change it since, as the row is locked.  This transaction
 * could: by redis_fence_forget, redis_fence_check of another token, statements
 * of the table's owner, or with a new table.  And what it did may have been
 * rolled back.  So the row is asked, which locks and writes nothing.
 */
static bool
is_recorded_here(const LrName *name, const HeldEntry *entry, Oid schema,
				 int64 token)
{
	int64		row;

	return entry->recorded_here && entry->recorded == token &&
		run_statement(FENCE_READ, schema, name, &row) > 0 && row == token;
}

/*
 * record --- write the hold's token to the fence table
 *
 * Once a transaction: the row is locked from then on.  A row with that very
 * token is fine if this hold wrote it, and only then: a store that lost its
 * counter may have given the same number to somebody before.
 */
static int64
record(const LrName *name, const AcquireRequest *request, Oid schema,
	   int64 token)
{
	HeldEntry  *entry = held_find(name);
	int64		row;

	if (is_recorded_here(name, entry, schema, token))
		return token;
	for (;;)
	{
		bool		raised = raise_row(name, schema, token, &row);

		/* A trigger on the table may have taken locks: entries move then. */
		entry = held_find(name);
		if (raised || (row == token && entry->recorded == token))
			break;
		token = mint(name, entry, request, row);
	}
	track_reserve();				/* such a trigger may have used up the room */
	track_recorded(entry, token);
	return token;
}

bool
fence_xact_lock(const LrName *name, AcquireRequest *request, Oid schema,
				int64 *token)
{
	PreventCommandIfReadOnly("redis_fenced_xact_lock()");
	request->terms.scope = SCOPE_XACT;
	if (!fence_lock(name, request, token))
		return false;
	*token = record(name, request, schema, *token);
	return true;
}

void
fence_check(const LrName *name, Oid schema, int64 token)
{
	int64		row;

	PreventCommandIfReadOnly("redis_fence_check()");
	if (raise_row(name, schema, token, &row) || row == token)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_INTEGRITY_CONSTRAINT_VIOLATION),
			 errmsg("fencing token " INT64_FORMAT " of lock \"%s\" is stale",
					token, lr_name_to_show(name->data, name->len)),
			 errdetail("Token " INT64_FORMAT " was recorded.", row)));
}

bool
fence_forget(const LrName *name, Oid schema)
{
	PreventCommandIfReadOnly("redis_fence_forget()");
	return run_statement(FENCE_DELETE, schema, name, NULL) > 0;
}
