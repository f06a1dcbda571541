/*-------------------------------------------------------------------------
 *
 * fence_table.c
 *	  The table that has the highest fencing token recorded for each key.
 *
 * The table belongs to the owner of the extension, and the statements here run as
 * that role.  So they qualify every name, operators too, and whenever they are
 * analyzed, we check that the table is ours.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence_table.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "nodes/params.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "sql/fence.h"

#define FENCE_TABLE		"redis_fences"

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
 * The saved plans are valid for this table, and for the name that its schema had then.
 */
static SPIPlanPtr plans[FENCE_STATEMENTS];
static Oid	plans_table = InvalidOid;
static NameData plans_schema;

/*
 * fences_check_relations --- raise an error if a statement means another table than
 * ours
 *
 * PostgreSQL analyzes the text of a plan again when something has changed.  Somebody
 * who can rename our schema could put another table in its place, with triggers that
 * would run as the owner of ours.  This is called for each column that is named.
 */
static Node *
fences_check_relations(ParseState *pstate, ColumnRef *column)
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
fences_set_up_parser(ParseState *pstate, void *arg)
{
	static const Oid types[2] = {TEXTOID, INT8OID};

	setup_parse_fixed_parameters(pstate, types, lengthof(types));
	pstate->p_pre_columnref_hook = fences_check_relations;
}

static void
fences_forget_plans(void)
{
	for (int i = 0; i < FENCE_STATEMENTS; i++)
	{
		if (plans[i] != NULL)
			SPI_freeplan(plans[i]);
		plans[i] = NULL;
	}
}

/*
 * fences_get_plan --- the plan of a statement, made on first use and again for a new
 * table
 */
static SPIPlanPtr
fences_get_plan(FenceStatement statement, Oid schema, Oid table)
{
	char	   *schema_name = get_namespace_name(schema);

	if (schema_name == NULL)
		elog(ERROR, "cache lookup failed for schema %u", schema);
	if (plans_table != table ||
		strcmp(NameStr(plans_schema), schema_name) != 0)
	{
		fences_forget_plans();
		plans_table = table;
		namestrcpy(&plans_schema, schema_name);
	}
	if (plans[statement] == NULL)
	{
		char	   *sql = psprintf(statement_text[statement],
								   quote_qualified_identifier(schema_name, FENCE_TABLE));
		SPIPlanPtr	plan = SPI_prepare_params(sql, fences_set_up_parser, NULL, 0);

		if (plan == NULL)
			elog(ERROR, "SPI_prepare_params failed: %s",
				 SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		plans[statement] = plan;
	}
	return plans[statement];
}

/*
 * fences_find_table --- the fence table and its owner
 */
static Oid
fences_find_table(Oid schema, Oid *owner)
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
 * fences_check_triggers --- refuse triggers whose code is not of the table's owner
 *
 * GRANT ALL ON TABLE includes the right to create triggers.  They would run in our
 * statements, as the owner of the table, and everybody can have us execute those.  The
 * lock prevents new triggers until the end of the transaction.
 */
static void
fences_check_triggers(Oid table, Oid owner)
{
	Relation	rel = table_open(table, RowExclusiveLock);

	/* Copy them: the lookups in the loop may rebuild the relcache entry. */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

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
	FreeTriggerDesc(triggers);
	table_close(rel, NoLock);
}

static void
fences_set_param(ParamListInfo params, int i, Oid type, Datum value, bool isnull)
{
	params->params[i].ptype = type;
	params->params[i].value = value;
	params->params[i].isnull = isnull;
	params->params[i].pflags = PARAM_FLAG_CONST;
}

/* After an error the abort of the (sub)transaction restores the user id. */
static uint64
fences_run_as_owner(FenceStatement statement, Oid schema, const LrName *name,
					int64 *token)
{
	Oid			save_user;
	int			save_context;
	Oid			owner;
	Oid			table = fences_find_table(schema, &owner);
	ParamListInfo params;
	uint64		processed;
	int			expected = statement == FENCE_RAISE ? SPI_OK_INSERT :
		statement == FENCE_READ ? SPI_OK_SELECT : SPI_OK_DELETE;

	if (statement != FENCE_READ)
		fences_check_triggers(table, owner);
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(owner,
						   save_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");

	params = makeParamList(2);
	fences_set_param(params, 0, TEXTOID,
					 CStringGetTextDatum(lr_name_to_show(name->data, name->len)),
					 false);
	fences_set_param(params, 1, INT8OID,
					 statement == FENCE_RAISE ? Int64GetDatum(*token) : (Datum) 0,
					 statement != FENCE_RAISE);
	if (SPI_execute_plan_with_paramlist(fences_get_plan(statement, schema, table),
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
 * fences_run --- run a statement on the fence table; returns the number of rows
 *
 * A SELECT sets *token.
 */
static uint64
fences_run(FenceStatement statement, Oid schema, const LrName *name,
		   int64 *token)
{
	bool		save_own = replicated_is_own;
	uint64		processed = 0;

	replicated_is_own = true;
	PG_TRY();
	{
		processed = fences_run_as_owner(statement, schema, name, token);
	}
	PG_FINALLY();
	{
		replicated_is_own = save_own;
	}
	PG_END_TRY();
	return processed;
}

/*
 * fences_raise --- see fence.h
 */
bool
fences_raise(const LrName *name, Oid schema, int64 token, int64 *row)
{
	int64		value = token;

	for (;;)
	{
		if (fences_run(FENCE_RAISE, schema, name, &value) > 0)
			return true;
		if (fences_run(FENCE_READ, schema, name, row) > 0)
			return false;

		/* redis_fence_forget has deleted the row in between: try again. */
	}
}

bool
fences_read(const LrName *name, Oid schema, int64 *row)
{
	return fences_run(FENCE_READ, schema, name, row) > 0;
}

bool
fences_delete(const LrName *name, Oid schema)
{
	return fences_run(FENCE_DELETE, schema, name, NULL) > 0;
}
