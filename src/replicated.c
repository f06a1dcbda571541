/*-------------------------------------------------------------------------
 *
 * replicated.c
 *	  What logical replication brings into the tables of the extension.
 *
 * A publication FOR ALL TABLES, or of our schema, has our tables too.  At its
 * subscriber they are about the locks of that server, which has sessions of its
 * own.  So a trigger that fires for replicated changes only decides:
 *	 - rows of locks (redis_lock_rows) are the business of the server that wrote
 *	   them: ignored.  Else a release there would delete a lock that is held
 *	   here, and an acquire there would fail here on the primary key, for ever;
 *	 - tokens (redis_fences, redis_lock_counters) must never go down, and must
 *	   not come twice after the subscriber took over: the higher one stays, and
 *	   nothing is deleted;
 *	 - TRUNCATE cannot be ignored by a trigger, and is refused.
 *
 * The trigger is called before the primary key is checked.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/replicated.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "replicated.h"

PG_FUNCTION_INFO_V1(lockredis_replicated);

bool		replicated_is_own = false;

/* The columns of a table of tokens, in this order. */
#define TOKEN_COLUMNS	3

static const char *const token_column[TOKEN_COLUMNS] = {
	"key", "token", "recorded_at"
};
static const Oid token_type[TOKEN_COLUMNS] = {TEXTOID, INT8OID, TIMESTAMPTZOID};

static const char *const raise_fence =
"INSERT INTO %s AS t (key, token, recorded_at) VALUES ($1, $2, $3) "
"ON CONFLICT (key) DO UPDATE "
"SET token = EXCLUDED.token, recorded_at = EXCLUDED.recorded_at "
"WHERE t.token OPERATOR(pg_catalog.<) EXCLUDED.token";

static const char *const raise_counter =
"INSERT INTO %s AS t (key, token) VALUES ($1, $2) "
"ON CONFLICT (key) DO UPDATE SET token = EXCLUDED.token "
"WHERE t.token OPERATOR(pg_catalog.<) EXCLUDED.token";

/* A row that came, or is there.  recorded_at may not be a column of it. */
typedef struct TokenRow
{
	int			ncolumns;
	Datum		value[TOKEN_COLUMNS];
	char		isnull[TOKEN_COLUMNS];	/* as SPI wants it */
} TokenRow;

/*
 * get_token_row --- false: this is no table of tokens
 */
static bool
get_token_row(Relation rel, HeapTuple tuple, TokenRow *row)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (row->ncolumns = 0; row->ncolumns < TOKEN_COLUMNS; row->ncolumns++)
	{
		int			i = row->ncolumns;
		int			column = SPI_fnumber(desc, token_column[i]);
		bool		isnull;

		if (column <= 0)
			break;
		if (SPI_gettypeid(desc, column) != token_type[i])
			elog(ERROR, "unexpected type of column \"%s\"", token_column[i]);
		row->value[i] = SPI_getbinval(tuple, desc, column, &isnull);
		row->isnull[i] = isnull ? 'n' : ' ';
	}
	return row->ncolumns >= 2;
}

/*
 * raise_token --- insert the row, or raise the one that is there
 *
 * As the owner of the table, since a subscription may have the right to insert
 * only.  If it raises, the abort brings the user id back.
 */
static void
raise_token(Relation rel, TokenRow *row)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
												  RelationGetRelationName(rel));
	char	   *sql = psprintf(row->ncolumns == TOKEN_COLUMNS ? raise_fence : raise_counter,
							   name);
	Oid			types[TOKEN_COLUMNS];
	Oid			save_user;
	int			save_context;

	memcpy(types, token_type, sizeof(types));
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(rel->rd_rel->relowner,
						   save_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_NOFORCE_RLS);
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(sql, row->ncolumns, types, row->value, row->isnull,
							  false, 0) != SPI_OK_INSERT)
		elog(ERROR, "could not use table %s", name);
	SPI_finish();
	SetUserIdAndSecContext(save_user, save_context);
}

static void
raise_token_as_own(Relation rel, TokenRow *row)
{
	replicated_is_own = true;
	PG_TRY();
	{
		raise_token(rel, row);
	}
	PG_FINALLY();
	{
		replicated_is_own = false;
	}
	PG_END_TRY();
}

/*
 * is_raise --- does the new row have the same key and a higher token?
 */
static bool
is_raise(Relation rel, HeapTuple old_tuple, const TokenRow *new_row)
{
	TokenRow	old_row;

	(void) get_token_row(rel, old_tuple, &old_row);
	return new_row->isnull[0] == ' ' && new_row->isnull[1] == ' ' &&
		strcmp(TextDatumGetCString(old_row.value[0]),
			   TextDatumGetCString(new_row->value[0])) == 0 &&
		DatumGetInt64(old_row.value[1]) < DatumGetInt64(new_row->value[1]);
}

static void
refuse_truncate(Relation rel)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot apply TRUNCATE of another server to table \"%s\"",
					RelationGetRelationName(rel)),
			 errdetail("Its rows are about the locks of this server."),
			 errhint("Skip the transaction with ALTER SUBSCRIPTION ... SKIP, and leave tables of lockredis out of the publication.")));
}

/*
 * is_replicated --- trust nobody with the choice when this is to happen
 *
 * ALTER TABLE ... ENABLE TRIGGER ALL makes the triggers fire for everybody.
 */
static bool
is_replicated(void)
{
	return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA &&
		!replicated_is_own;
}

/*
 * lockredis_replicated --- trigger, before each row and before TRUNCATE; null:
 * the row is ignored
 */
Datum
lockredis_replicated(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	HeapTuple	tuple;
	TokenRow	row;
	bool		update;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s must be called by a trigger that fires before", "lockredis_replicated()")));

	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
	{
		if (is_replicated())
			refuse_truncate(data->tg_relation);
		return PointerGetDatum(NULL);
	}
	update = TRIGGER_FIRED_BY_UPDATE(data->tg_event);
	tuple = update ? data->tg_newtuple : data->tg_trigtuple;
	if (!is_replicated())
		return PointerGetDatum(tuple);

	if (TRIGGER_FIRED_BY_DELETE(data->tg_event) ||
		!get_token_row(data->tg_relation, tuple, &row))
		return PointerGetDatum(NULL);
	if (update)
		return PointerGetDatum(is_raise(data->tg_relation, data->tg_trigtuple, &row) ?
							   tuple : NULL);
	raise_token_as_own(data->tg_relation, &row);
	return PointerGetDatum(NULL);
}
