/*-------------------------------------------------------------------------
 *
 * fence.c
 *	  Locks with fencing tokens, and tokens that were issued elsewhere.
 *
 * The store hands out tokens; the table (fence_table.c) has the highest one recorded
 * for each key.  A transaction records its token only if that is higher, together
 * with the writes that it protects.  So if two transactions both believe they hold
 * the key, the one that comes to the row later waits for the other, and then fails
 * or sees its changes.  A store that lost its counter hands out tokens that are too
 * low: then a request that checks the owner raises the counter above the row.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "fmgr.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"

#include "report.h"
#include "session/session.h"
#include "settings.h"
#include "sql/arguments.h"
#include "sql/fence.h"

PG_FUNCTION_INFO_V1(lockredis_fence_check);
PG_FUNCTION_INFO_V1(lockredis_fence_forget);

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
 * fence_take --- see fence.h
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
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("fencing token must not be null")));
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
