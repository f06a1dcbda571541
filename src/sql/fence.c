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
 * The table belongs to the owner of the extension, and its statements (tokens.c) run as
 * that role.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/table.h"
#include "catalog/pg_proc.h"
#include "commands/trigger.h"
#include "fmgr.h"
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
 * The table
 * ----------
 */

/*
 * fences_check_triggers --- refuse triggers whose code is not of the table's owner
 *
 * GRANT ALL ON TABLE includes the right to create triggers.  They would run in our
 * statements, as the owner of the table, and everybody can have us execute those.  The
 * lock prevents new triggers until the end of the transaction.
 *
 * A statement that only reads fires none, so it needs no check.  A WHEN condition is code of
 * whoever made the trigger, so it is refused.  Internal triggers and ours (replicated.c) may
 * stay.
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
		Oid			function_owner = GetSysCacheOid1(PROCOID, Anum_pg_proc_proowner,
													 ObjectIdGetDatum(trigger->tgfoid));

		if (trigger->tgisinternal ||
			(trigger->tgqual == NULL &&
			 (function_owner == rel->rd_rel->relowner ||
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
			(void) session_mint(name, entry->hold, request, 0);
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
		fences_run(FENCE_READ, schema, name, &row) > 0 && row == token;
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

		if (raised || (row == token && entry->recorded == token))
			break;
		token = session_mint(name, entry->hold, request, row);
	}
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
 * lockredis_fence_check --- redis_fence_check(key, token): record a token issued elsewhere
 */
PGDLLEXPORT Datum
lockredis_fence_check(PG_FUNCTION_ARGS)
{
	LrName		name;
	int64		token;
	int64		row;

	arg_key(fcinfo, &name);
	arg_require(fcinfo, 1, "fencing token");
	token = PG_GETARG_INT64(1);
	if (token < 1 || token > STORE_TOKEN_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("fencing token must be between 1 and 2^53-1")));
	PreventCommandIfReadOnly("redis_fence_check()");
	if (!fences_raise(&name, get_func_namespace(fcinfo->flinfo->fn_oid), token, &row) &&
		row != token)
		ereport(ERROR,
				(errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
				 errmsg("fencing token " INT64_FORMAT " of lock \"%s\" is stale",
						token, lr_name_to_show(name.data, name.len)),
				 errdetail("Token " INT64_FORMAT " was recorded.", row)));
	PG_RETURN_VOID();
}

PGDLLEXPORT Datum
lockredis_fence_forget(PG_FUNCTION_ARGS)
{
	LrName		name;

	arg_key(fcinfo, &name);
	PreventCommandIfReadOnly("redis_fence_forget()");
	PG_RETURN_BOOL(fences_run(FENCE_DELETE, get_func_namespace(fcinfo->flinfo->fn_oid), &name,
							  NULL) > 0);
}
