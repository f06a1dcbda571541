/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Locks with fencing tokens, and tokens that were issued elsewhere.
 *
 * The store hands out tokens; the table has the highest one recorded
 * for each key.  A transaction records its token only if that is higher, together
 * with the writes that it protects.  So if two transactions both believe they hold
 * the key, the one that comes to the row later waits for the other, and then fails
 * or sees its changes.  A store that lost its counter hands out tokens that are too
 * low: then a request that checks the owner raises the counter above the row.
 *
 * The table belongs to the owner of the extension, and the statements here run as
 * that role.  So they qualify every name, operators too, and whenever they are
 * analyzed, we check that the table is ours.
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
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "nodes/params.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "report.h"
#include "session/session.h"
#include "settings.h"
#include "sql/arguments.h"

PG_FUNCTION_INFO_V1(lockredis_fence_check);
PG_FUNCTION_INFO_V1(lockredis_fence_forget);

/* ----------
 * Statements on tables of tokens
 * ----------
 */

#define FENCE_TABLE		"redis_fences"

/* A statement, with the plan that was made for this table in a schema of this name. */
typedef struct Statement
{
	const char *table_name;
	int			result;
	const char *text;
	SPIPlanPtr	plan;
	Oid			table;
	NameData	schema;
} Statement;

static Statement statements[TOKEN_STATEMENTS] = {
	[FENCE_RAISE] = {FENCE_TABLE, SPI_OK_INSERT,
		"INSERT INTO %s AS t (key, token, recorded_at) VALUES ($1, $2, $3) "
		"ON CONFLICT (key) DO UPDATE "
		"SET token = EXCLUDED.token, recorded_at = EXCLUDED.recorded_at "
	"WHERE t.token OPERATOR(pg_catalog.<) EXCLUDED.token"},
	[FENCE_READ] = {FENCE_TABLE, SPI_OK_SELECT,
	"SELECT token FROM %s WHERE key OPERATOR(pg_catalog.=) $1"},
	[FENCE_DELETE] = {FENCE_TABLE, SPI_OK_DELETE,
	"DELETE FROM %s WHERE key OPERATOR(pg_catalog.=) $1"},
	[COUNTER_RAISE] = {"redis_lock_counters", SPI_OK_INSERT,
		"INSERT INTO %s AS t (key, token) VALUES ($1, $2) "
		"ON CONFLICT (key) DO UPDATE SET token = EXCLUDED.token "
	"WHERE t.token OPERATOR(pg_catalog.<) EXCLUDED.token"}
};

const Oid	token_types[TOKEN_COLUMNS] = {TEXTOID, INT8OID, TIMESTAMPTZOID};

/* The statement that is analyzed, or analyzed again, at present. */
static const Statement *analyzed;

/*
 * tokens_check_relations --- raise an error if a statement means another table than
 * ours
 *
 * PostgreSQL analyzes the text of a plan again when something has changed.  Somebody
 * who can rename our schema could put another table in its place, with triggers that
 * would run as the owner of ours.  This is called for each column that is named.
 */
static Node *
tokens_check_relations(ParseState *pstate, ColumnRef *column)
{
	ListCell   *lc;

	foreach(lc, pstate->p_rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, lc);

		if (rte->rtekind == RTE_RELATION && rte->relid != analyzed->table)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("table \"%s\" of extension lockredis has moved",
							analyzed->table_name)));
	}
	return NULL;
}

static void
tokens_set_up_parser(ParseState *pstate, void *arg)
{
	setup_parse_fixed_parameters(pstate, token_types, TOKEN_COLUMNS);
	pstate->p_pre_columnref_hook = tokens_check_relations;
}

/*
 * tokens_get_plan --- the plan of a statement, made on first use and again for a new
 * table
 */
static SPIPlanPtr
tokens_get_plan(Statement *s, Oid schema, Oid table)
{
	char	   *schema_name = get_namespace_name(schema);

	if (schema_name == NULL)
		elog(ERROR, "cache lookup failed for schema %u", schema);
	if (s->plan != NULL &&
		(s->table != table || strcmp(NameStr(s->schema), schema_name) != 0))
	{
		SPI_freeplan(s->plan);
		s->plan = NULL;
	}
	analyzed = s;
	if (s->plan == NULL)
	{
		SPIPlanPtr	plan;

		s->table = table;
		namestrcpy(&s->schema, schema_name);
		plan = SPI_prepare_params(psprintf(s->text,
										   quote_qualified_identifier(schema_name, s->table_name)),
								  tokens_set_up_parser, NULL, 0);
		if (plan == NULL)
			elog(ERROR, "SPI_prepare_params failed: %s",
				 SPI_result_code_string(SPI_result));
		SPI_keepplan(plan);
		s->plan = plan;
	}
	return s->plan;
}

/* After an error the abort of the (sub)transaction restores the user id. */
static uint64
tokens_run_as(Oid owner, Statement *s, Oid schema, Oid table, const TokenRow *row,
			  int64 *token)
{
	ParamListInfo params = makeParamList(TOKEN_COLUMNS);
	Oid			save_user;
	int			save_context;
	uint64		processed;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(owner,
						   save_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	for (int i = 0; i < TOKEN_COLUMNS; i++)
		params->params[i] = (ParamExternData) {
			.ptype = token_types[i],.value = row->value[i],.isnull = row->isnull[i],
			.pflags = PARAM_FLAG_CONST
		};
	if (SPI_execute_plan_with_paramlist(tokens_get_plan(s, schema, table), params,
										false, 0) != s->result)
		elog(ERROR, "could not use table \"%s\"", s->table_name);
	processed = SPI_processed;
	if (s->result == SPI_OK_SELECT && processed > 0)
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
 * tokens_run --- see arguments.h
 */
uint64
tokens_run(TokenStatement statement, Oid schema, Oid table, const TokenRow *row,
		   int64 *token)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	bool		save_own = replicated_is_own;
	uint64		processed = 0;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension lockredis does not exist",
						statements[statement].table_name)));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	replicated_is_own = true;
	PG_TRY();
	{
		processed = tokens_run_as(owner, &statements[statement], schema, table, row, token);
	}
	PG_FINALLY();
	{
		replicated_is_own = save_own;
	}
	PG_END_TRY();
	return processed;
}

/* ----------
 * The fence table
 * ----------
 */

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
fences_check_triggers(Oid table)
{
	Relation	rel = table_open(table, RowExclusiveLock);

	/* Copy them: the lookups in the loop may rebuild the relcache entry. */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgisinternal ||
			(trigger->tgqual == NULL &&
			 (function_owner(trigger->tgfoid) == rel->rd_rel->relowner ||
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

/*
 * fences_run --- run a statement on the fence table; returns the number of rows
 *
 * A SELECT sets *token.
 */
static uint64
fences_run(TokenStatement statement, Oid schema, const LrName *name, int64 *token)
{
	Oid			table = get_relname_relid(FENCE_TABLE, schema);
	bool		raise = statement == FENCE_RAISE;
	TokenRow	row = {.isnull = {false, !raise, !raise}};

	if (statement != FENCE_READ && OidIsValid(table))
		fences_check_triggers(table);
	row.value[0] = CStringGetTextDatum(lr_name_to_show(name->data, name->len));
	if (raise)
	{
		row.value[1] = Int64GetDatum(*token);
		row.value[2] = TimestampTzGetDatum(GetCurrentTimestamp());
	}
	return tokens_run(statement, schema, table, &row, token);
}

/*
 * fences_raise --- record the token in the row of the key, if it is above the one there
 *
 * Waits while another transaction has the row locked, and compares again.  If the token is
 * not recorded, returns false, with the row's token in *row; the row is then locked, so
 * nobody else can change it.
 */
static bool
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

/*
 * fences_read --- read the recorded token; false if there is none
 */
static bool
fences_read(const LrName *name, Oid schema, int64 *row)
{
	return fences_run(FENCE_READ, schema, name, row) > 0;
}

/*
 * fences_delete --- delete the row; false if there was none
 */
static bool
fences_delete(const LrName *name, Oid schema)
{
	return fences_run(FENCE_DELETE, schema, name, NULL) > 0;
}

/* ----------
 * A lock with its token
 * ----------
 */

/*
 * fence_lock --- take a lock of either scope with its token; false: busy
 */
static bool
fence_lock(const LrName *name, AcquireRequest *request, int64 *token)
{
	HeldEntry  *entry;
	HoldView	view;

	session_enter();
	request->fenced = true;

	/* A lock held without a token gets that first: if it fails, nothing has changed. */
	entry = held_find(name, request->terms.kind);
	if (entry != NULL)
	{
		lt_look(entry->hold, &view);
		if (view.state == HOLD_HELD)
			request_require_counter(request, view.store);
		if (view.state == HOLD_HELD && !request_is_met_by(request, &view))
			(void) session_mint(name, entry, request, 0);
	}
	if (!session_lock(name, request, &entry))
		return false;
	lt_look(entry->hold, &view);
	*token = view.fence;
	return true;
}

/*
 * fence_is_recorded_here --- did this transaction record the token, and is it still
 * there?
 *
 * The row is locked, so nobody else can have changed it since.  But this transaction
 * can: by redis_fence_forget, by redis_fence_check of another token, by statements of
 * the table's owner, or by a new table; and what it recorded may have been rolled back.
 * Therefore we read the row, which neither locks nor writes anything.
 */
static bool
fence_is_recorded_here(const LrName *name, const HeldEntry *entry, Oid schema,
					   int64 token)
{
	int64		row;

	return entry->recorded_here && entry->recorded == token &&
		fences_read(name, schema, &row) && row == token;
}

/*
 * fence_record --- write the hold's token to the fence table
 *
 * We write it once a transaction, which has the row locked from then on.  A row with
 * this very token is all right only if this hold wrote it: a store that lost its
 * counter may have given the same number to another client before.
 */
static int64
fence_record(const LrName *name, const AcquireRequest *request, Oid schema,
			 int64 token)
{
	HeldEntry  *entry = held_find(name, request->terms.kind);
	int64		row;

	if (fence_is_recorded_here(name, entry, schema, token))
		return token;
	for (;;)
	{
		bool		raised = fences_raise(name, schema, token, &row);

		/* A trigger on the table may have taken locks, which moves the entries. */
		entry = held_find(name, request->terms.kind);
		if (raised || (row == token && entry->recorded == token))
			break;
		token = session_mint(name, entry, request, row);
	}
	track_reserve();			/* the trigger may have used up the room */
	track_recorded(entry, token);
	return token;
}

/*
 * fence_take --- see arguments.h
 */
bool
fence_take(const LrName *name, AcquireRequest *request, Oid function, int64 *token)
{
	Oid			schema;

	if (request->terms.scope == SCOPE_SESSION)
		return fence_lock(name, request, token);
	PreventCommandIfReadOnly("redis_fenced_xact_lock()");
	schema = get_func_namespace(function);
	if (!fence_lock(name, request, token))
		return false;
	*token = fence_record(name, request, schema, *token);
	return true;
}

/* ----------
 * Tokens issued elsewhere
 * ----------
 */

/*
 * fence_check --- record a token issued elsewhere; raises an error below the recorded
 * one
 */
static void
fence_check(const LrName *name, Oid schema, int64 token)
{
	int64		row;

	PreventCommandIfReadOnly("redis_fence_check()");
	if (fences_raise(name, schema, token, &row) || row == token)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
			 errmsg("fencing token " INT64_FORMAT " of lock \"%s\" is stale",
					token, lr_name_to_show(name->data, name->len)),
			 errdetail("Token " INT64_FORMAT " was recorded.", row)));
}

/*
 * lockredis_fence_check --- redis_fence_check(key, token)
 */
Datum
lockredis_fence_check(PG_FUNCTION_ARGS)
{
	LrName		name;
	int64		token;

	arg_key(fcinfo, &name);
	arg_require(fcinfo, 1, "fencing token");
	token = PG_GETARG_INT64(1);
	if (token < 1 || token > STORE_TOKEN_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("fencing token must be between 1 and 2^53-1")));
	fence_check(&name, get_func_namespace(fcinfo->flinfo->fn_oid), token);
	PG_RETURN_VOID();
}

Datum
lockredis_fence_forget(PG_FUNCTION_ARGS)
{
	LrName		name;

	arg_key(fcinfo, &name);
	PreventCommandIfReadOnly("redis_fence_forget()");
	PG_RETURN_BOOL(fences_delete(&name, get_func_namespace(fcinfo->flinfo->fn_oid)));
}
