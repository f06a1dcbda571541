/*-------------------------------------------------------------------------
 *
 * replicated.c
 *	  Changes that logical replication applies to the tables of the extension.
 *
 * A publication FOR ALL TABLES, or of our schema, includes our tables.  At the
 * subscriber these tables are about the locks of that server, which has sessions of
 * its own.  So a trigger that fires only for replicated changes decides:
 *	 - rows of locks and numbers (redis_lock_rows, redis_lock_shares,
 *	   redis_lock_values) concern only the server that wrote them, and are ignored.
 *	   Otherwise a release there would delete a lock that is held here, and an acquire
 *	   there would fail here on the primary key, for ever;
 *	 - tokens (redis_fences, redis_lock_counters) must never go down, and must not
 *	   be issued again after the subscriber has taken over: the higher one stays,
 *	   and nothing is deleted;
 *	 - a trigger cannot ignore a TRUNCATE, so it is refused.
 *
 * The trigger is called before the primary key is checked.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/replicated.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "sql/arguments.h"

PG_FUNCTION_INFO_V1(lockredis_replicated);

static const char *const token_column[TOKEN_COLUMNS] = {
	"key", "token", "recorded_at"
};

/*
 * statement_of --- what raises a token in this table; TOKEN_STATEMENTS if it has rows of locks
 */
static TokenStatement
statement_of(Relation rel)
{
	const char *name = RelationGetRelationName(rel);

	if (strcmp(name, FENCE_TABLE) == 0)
		return FENCE_RAISE;
	return strcmp(name, COUNTER_TABLE) == 0 ? COUNTER_RAISE : TOKEN_STATEMENTS;
}

/*
 * get_token_row --- the columns that we know, found by name
 */
static void
get_token_row(Relation rel, HeapTuple tuple, TokenRow *row)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			ncolumns = statement_of(rel) == COUNTER_RAISE ? 2 : TOKEN_COLUMNS;

	memset(row->isnull, true, sizeof(row->isnull));
	for (int i = 0; i < ncolumns; i++)
	{
		int			column = SPI_fnumber(desc, token_column[i]);

		if (column <= 0 || SPI_gettypeid(desc, column) != token_types[i])
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table \"%s\" is not as the script of the extension makes it",
							RelationGetRelationName(rel))));
		row->value[i] = SPI_getbinval(tuple, desc, column, &row->isnull[i]);
	}
}

/*
 * is_raise --- does the new row have the same key and a higher token?
 */
static bool
is_raise(Relation rel, HeapTuple old_tuple, const TokenRow *new_row)
{
	TokenRow	old_row;

	get_token_row(rel, old_tuple, &old_row);
	return !new_row->isnull[0] && !new_row->isnull[1] &&
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
 * is_replicated --- does logical replication make this change?
 *
 * The trigger alone does not tell: ALTER TABLE ... ENABLE TRIGGER ALL makes it fire for
 * everybody.
 */
static bool
is_replicated(void)
{
	return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA &&
		!tokens_running;
}

/*
 * apply_row --- the row to write; NULL to ignore it
 *
 * An insert is left to a statement that runs as the owner of the table, since a
 * subscription may have the right to insert only.  Only triggers that the owner has
 * enabled for replicas fire, and a role that may merely create triggers cannot do that.
 */
static HeapTuple
apply_row(TriggerData *data, HeapTuple tuple)
{
	Relation	rel = data->tg_relation;
	TokenStatement raise = statement_of(rel);
	TokenRow	row;

	if (raise == TOKEN_STATEMENTS || TRIGGER_FIRED_BY_DELETE(data->tg_event))
		return NULL;
	get_token_row(rel, tuple, &row);
	if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
		return is_raise(rel, data->tg_trigtuple, &row) ? tuple : NULL;
	(void) tokens_run(raise, RelationGetNamespace(rel), RelationGetRelid(rel), &row, NULL);
	return NULL;
}

/*
 * lockredis_replicated --- trigger before each row, or before TRUNCATE
 *
 * Returning NULL ignores the row.
 */
PGDLLEXPORT Datum
lockredis_replicated(PG_FUNCTION_ARGS)
{
	TriggerData *data = (TriggerData *) fcinfo->context;
	HeapTuple	tuple;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(data->tg_event) ||
		TRIGGER_FIRED_FOR_ROW(data->tg_event) == TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("%s must be called by a trigger that fires before each row, or before TRUNCATE",
						"lockredis_replicated()")));

	if (TRIGGER_FIRED_BY_TRUNCATE(data->tg_event))
	{
		if (is_replicated())
			refuse_truncate(data->tg_relation);
		return PointerGetDatum(NULL);
	}
	tuple = TRIGGER_FIRED_BY_UPDATE(data->tg_event) ? data->tg_newtuple :
		data->tg_trigtuple;
	return PointerGetDatum(is_replicated() ? apply_row(data, tuple) : tuple);
}

bool
replicated_is_trigger(Oid function)
{
	FmgrInfo	info;

	fmgr_info(function, &info);
	return info.fn_addr == lockredis_replicated;
}
