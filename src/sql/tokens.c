/*-------------------------------------------------------------------------
 *
 * tokens.c
 *	  Statements on the tables that have tokens, run as the owner of the table.
 *
 * The tables belong to the owner of the extension.  So the statements qualify every name,
 * operators too, and whenever they are analyzed, we check that the table is ours.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/tokens.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "nodes/params.h"
#include "parser/parse_node.h"
#include "parser/parse_param.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "sql/arguments.h"

bool		tokens_running = false;

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
	[COUNTER_RAISE] = {COUNTER_TABLE, SPI_OK_INSERT,
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
	{
		ParamExternData *param = &params->params[i];

		param->ptype = token_types[i];
		param->value = row->value[i];
		param->isnull = row->isnull[i];
		param->pflags = PARAM_FLAG_CONST;
	}
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
	Oid			owner = GetSysCacheOid1(RELOID, Anum_pg_class_relowner,
										ObjectIdGetDatum(table));
	bool		save_own = tokens_running;
	uint64		processed = 0;

	if (!OidIsValid(owner))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension lockredis does not exist",
						statements[statement].table_name)));
	tokens_running = true;
	PG_TRY();
	{
		processed = tokens_run_as(owner, &statements[statement], schema, table, row, token);
	}
	PG_FINALLY();
	{
		tokens_running = save_own;
	}
	PG_END_TRY();
	return processed;
}
