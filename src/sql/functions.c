/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  The SQL functions: arguments in, results out.
 *
 * No state and no store here; see session.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/functions.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "instance.h"
#include "access/htup_details.h"
#include "common/int.h"
#include "datatype/timestamp.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "sql/fence.h"
#include "sql/job.h"
#include "keyname.h"
#include "report.h"
#include "session/session.h"
#include "settings.h"
#include "session/transaction.h"

/* The largest number that the store's scripts count exactly. */
#define TOKEN_MAX			((INT64CONST(1) << 53) - 1)

#define LEASE_MIN_MS		10
#define LEASE_MAX_MS		(INT64CONST(24) * 24 * 60 * 60 * 1000)

PG_FUNCTION_INFO_V1(lockredis_lock);
PG_FUNCTION_INFO_V1(lockredis_try_lock);
PG_FUNCTION_INFO_V1(lockredis_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_fenced_lock);
PG_FUNCTION_INFO_V1(lockredis_try_fenced_lock);
PG_FUNCTION_INFO_V1(lockredis_fenced_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_fenced_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_with_lock);
PG_FUNCTION_INFO_V1(lockredis_fence);
PG_FUNCTION_INFO_V1(lockredis_fence_check);
PG_FUNCTION_INFO_V1(lockredis_fence_forget);
PG_FUNCTION_INFO_V1(lockredis_unlock);
PG_FUNCTION_INFO_V1(lockredis_unlock_all);
PG_FUNCTION_INFO_V1(lockredis_extend);
PG_FUNCTION_INFO_V1(lockredis_is_locked);
PG_FUNCTION_INFO_V1(lockredis_lock_ttl);
PG_FUNCTION_INFO_V1(lockredis_lock_owner);
PG_FUNCTION_INFO_V1(lockredis_is_held);
PG_FUNCTION_INFO_V1(lockredis_hold_count);
PG_FUNCTION_INFO_V1(lockredis_assert_held);
PG_FUNCTION_INFO_V1(lockredis_force_unlock);

/* ----------
 * Arguments
 * ----------
 */

static void
get_key(FunctionCallInfo fcinfo, LrName *name)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("lock key must not be null")));
	lr_require_preload();
	lr_name_from_text(PG_GETARG_TEXT_PP(0), name);
}

/*
 * interval_us --- microseconds of an interval; false if it is infinite or out
 * of range, *sign then says of which one
 *
 * Days have 24 hours and months 30 days, as in EXTRACT(EPOCH ...).
 */
static bool
interval_us(const Interval *i, int64 *us, int *sign)
{
	int64		days = (int64) i->month * DAYS_PER_MONTH + i->day;

	*sign = days < 0 ? -1 : 1;
#ifdef INTERVAL_NOT_FINITE
	if (INTERVAL_NOT_FINITE(i))
	{
		*sign = INTERVAL_IS_NOBEGIN(i) ? -1 : 1;
		return false;
	}
#endif
	return !pg_mul_s64_overflow(days, USECS_PER_DAY, us) &&
		!pg_add_s64_overflow(*us, i->time, us);
}

/*
 * get_lease --- an optional lease in milliseconds; not given = renewed
 */
static int64
get_lease(FunctionCallInfo fcinfo, int argno, bool *renewed)
{
	int64		us;
	int64		ms;
	int			sign;

	*renewed = PG_ARGISNULL(argno);
	if (*renewed)
		return lr_lease;

	if (!interval_us(PG_GETARG_INTERVAL_P(argno), &us, &sign) ||
		us > LEASE_MAX_MS * LR_US_PER_MS)
		ms = sign > 0 ? LEASE_MAX_MS + 1 : 0;
	else
		ms = us <= 0 ? 0 : (us + LR_US_PER_MS - 1) / LR_US_PER_MS;

	if (ms < LEASE_MIN_MS || ms > LEASE_MAX_MS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lease must be between 10 milliseconds and 24 days")));
	return ms;
}

/*
 * get_wait --- an optional time limit in microseconds; not given = for ever
 */
static int64
get_wait(FunctionCallInfo fcinfo, int argno)
{
	int64		us;
	int			sign;

	if (PG_ARGISNULL(argno))
		return WAIT_FOREVER;
	if (!interval_us(PG_GETARG_INTERVAL_P(argno), &us, &sign))
		us = sign < 0 ? -1 : LR_NEVER;
	if (us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait must not be negative")));
	return us >= LR_NEVER / 2 ? WAIT_FOREVER : us;
}

static Datum
interval_from_ms(int64 ms)
{
	Interval   *result = palloc0(sizeof(Interval));

	result->time = ms * LR_US_PER_MS;
	return IntervalPGetDatum(result);
}

/*
 * get_request --- on which terms the lock is wanted
 *
 * A negative number for an argument that the function does not have.
 */
static void
get_request(FunctionCallInfo fcinfo, LockScope scope, int wait_arg,
			int lease_arg, AcquireRequest *request)
{
	memset(request, 0, sizeof(AcquireRequest));
	request->wait_us = wait_arg < 0 ? WAIT_FOREVER : get_wait(fcinfo, wait_arg);
	request->terms.scope = scope;
	request->terms.lease_ms = get_lease(fcinfo, lease_arg, &request->terms.renewed);
	request->terms.guard = lr_commit_guard;
	request->terms.on_lost = InSecurityRestrictedOperation() ? ON_LOST_MARK :
		lr_on_lost;
}

/*
 * require_unrestricted --- holds of the session belong to who commands it
 *
 * ANALYZE, REINDEX, REFRESH and autovacuum run code of a table's owner in a
 * session of somebody else.  That code must not give back what the session
 * holds, nor leave anything behind in it.  PostgreSQL refuses DISCARD and
 * LISTEN there for the same reason.
 */
static void
require_unrestricted(void)
{
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot take or give back session-level Redis locks within security-restricted operation")));
}

/*
 * require_session_locks --- may the session take session-level locks here?
 */
static void
require_session_locks(void)
{
	require_unrestricted();
	if (!lr_session_locks)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("session-level Redis locks are not allowed"),
				 errdetail("\"%s\" is off.", "lockredis.session_locks"),
				 errhint("Use redis_xact_lock.")));
}

/* ----------
 * Taking and giving back
 * ----------
 */

/*
 * take --- a lock of either scope, without a token
 */
static bool
take(FunctionCallInfo fcinfo, LockScope scope, int wait_arg, int lease_arg)
{
	LrName		name;
	AcquireRequest request;

	get_key(fcinfo, &name);
	get_request(fcinfo, scope, wait_arg, lease_arg, &request);
	if (scope == SCOPE_SESSION)
		require_session_locks();
	xact_warn_snapshot(scope);
	return session_lock(&name, &request, NULL);
}

Datum
lockredis_lock(PG_FUNCTION_ARGS)
{
	(void) take(fcinfo, SCOPE_SESSION, -1, 1);
	PG_RETURN_VOID();
}

Datum
lockredis_try_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take(fcinfo, SCOPE_SESSION, 1, 2));
}

Datum
lockredis_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take(fcinfo, SCOPE_XACT, -1, 1);
	PG_RETURN_VOID();
}

Datum
lockredis_try_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take(fcinfo, SCOPE_XACT, 1, 2));
}

/*
 * take_fenced --- a lock of either scope with its token; null: busy
 */
static Datum
take_fenced(FunctionCallInfo fcinfo, LockScope scope, int wait_arg, int lease_arg)
{
	LrName		name;
	AcquireRequest request;
	int64		token;
	bool		taken;

	get_key(fcinfo, &name);
	get_request(fcinfo, scope, wait_arg, lease_arg, &request);
	if (scope == SCOPE_SESSION)
		require_session_locks();
	xact_warn_snapshot(scope);
	taken = scope == SCOPE_SESSION ?
		fence_lock(&name, &request, &token) :
		fence_xact_lock(&name, &request,
						get_func_namespace(fcinfo->flinfo->fn_oid), &token);
	if (!taken)
		PG_RETURN_NULL();
	PG_RETURN_INT64(token);
}

Datum
lockredis_fenced_lock(PG_FUNCTION_ARGS)
{
	return take_fenced(fcinfo, SCOPE_SESSION, -1, 1);
}

Datum
lockredis_try_fenced_lock(PG_FUNCTION_ARGS)
{
	return take_fenced(fcinfo, SCOPE_SESSION, 1, 2);
}

Datum
lockredis_fenced_xact_lock(PG_FUNCTION_ARGS)
{
	return take_fenced(fcinfo, SCOPE_XACT, -1, 1);
}

Datum
lockredis_try_fenced_xact_lock(PG_FUNCTION_ARGS)
{
	return take_fenced(fcinfo, SCOPE_XACT, 1, 2);
}

/*
 * lockredis_with_lock --- CALL redis_with_lock(key, command, wait, lease,
 * hold_at_least, ran)
 */
Datum
lockredis_with_lock(PG_FUNCTION_ARGS)
{
	LrName		name;
	AcquireRequest request;
	TupleDesc	desc;
	MemoryContext caller = CurrentMemoryContext;
	Datum		value;
	bool		isnull = false;
	int64		keep_us = 0;
	int			sign;
	bool		ran;

	get_key(fcinfo, &name);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("command must not be null")));
	get_request(fcinfo, SCOPE_SESSION, 2, 3, &request);
	if (!PG_ARGISNULL(4) &&
		(!interval_us(PG_GETARG_INTERVAL_P(4), &keep_us, &sign) ||
		 keep_us < 0 || keep_us > LEASE_MAX_MS * LR_US_PER_MS))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hold_at_least must be between 0 and 24 days")));
	if (keep_us > 0)
		request.terms.keep_until = lr_now() + keep_us;
	job_require_control(fcinfo);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	ran = job_run(&name, &request, text_to_cstring(PG_GETARG_TEXT_PP(1)));

	MemoryContextSwitchTo(caller);
	value = BoolGetDatum(ran);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, &value, &isnull)));
}

Datum
lockredis_unlock(PG_FUNCTION_ARGS)
{
	LrName		name;

	get_key(fcinfo, &name);
	require_unrestricted();
	PG_RETURN_BOOL(session_unlock(&name));
}

Datum
lockredis_unlock_all(PG_FUNCTION_ARGS)
{
	lr_require_preload();
	require_unrestricted();
	PG_RETURN_INT64(session_unlock_all());
}

Datum
lockredis_extend(PG_FUNCTION_ARGS)
{
	LrName		name;
	bool		renewed;
	int64		lease_ms;

	get_key(fcinfo, &name);
	lease_ms = get_lease(fcinfo, 1, &renewed);
	require_unrestricted();
	PG_RETURN_BOOL(session_extend(&name, lease_ms, renewed));
}

Datum
lockredis_force_unlock(PG_FUNCTION_ARGS)
{
	LrName		name;

	get_key(fcinfo, &name);
	PG_RETURN_BOOL(session_force(&name));
}

/* ----------
 * Asking the store
 * ----------
 */

/*
 * inspect --- who has the key; raises if it holds something else than a lock
 */
static void
inspect(FunctionCallInfo fcinfo, StoreOp *op)
{
	LrName		name;

	get_key(fcinfo, &name);
	session_inspect(&name, op);
	if (op->value == STORE_VALUE_OTHER)
		report_wrong_type(&name, op);
}

Datum
lockredis_is_locked(PG_FUNCTION_ARGS)
{
	StoreOp		op;

	inspect(fcinfo, &op);
	PG_RETURN_BOOL(op.value != STORE_VALUE_NONE);
}

Datum
lockredis_lock_ttl(PG_FUNCTION_ARGS)
{
	StoreOp		op;

	inspect(fcinfo, &op);
	if (op.value == STORE_VALUE_NONE || op.ttl_ms == STORE_NO_TTL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(interval_from_ms(op.ttl_ms));
}

Datum
lockredis_lock_owner(PG_FUNCTION_ARGS)
{
	StoreOp		op;

	inspect(fcinfo, &op);
	if (op.value == STORE_VALUE_NONE)
		PG_RETURN_NULL();

	/* The string of a token lock is a credential: whoever knows it may unlock. */
	if (op.value == STORE_VALUE_TOKEN)
		PG_RETURN_TEXT_P(cstring_to_text("token"));
	PG_RETURN_TEXT_P(cstring_to_text(lr_name_to_show(op.holder, strlen(op.holder))));
}

/*
 * look --- at the hold of this session, without asking the store
 */
static bool
look(FunctionCallInfo fcinfo, LrName *name, HoldView *view)
{
	get_key(fcinfo, name);
	return session_look(name, view);
}

/* ----------
 * Fencing
 * ----------
 */

Datum
lockredis_fence(PG_FUNCTION_ARGS)
{
	LrName		name;
	HoldView	view;

	if (!look(fcinfo, &name, &view) || view.state != HOLD_HELD || view.fence == 0)
		PG_RETURN_NULL();
	PG_RETURN_INT64(view.fence);
}

Datum
lockredis_fence_check(PG_FUNCTION_ARGS)
{
	LrName		name;
	int64		token;

	get_key(fcinfo, &name);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("fencing token must not be null")));
	token = PG_GETARG_INT64(1);
	if (token < 1 || token > TOKEN_MAX)
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

	get_key(fcinfo, &name);
	PG_RETURN_BOOL(fence_forget(&name, get_func_namespace(fcinfo->flinfo->fn_oid)));
}

/* ----------
 * Asking this session; no round trip
 * ----------
 */

Datum
lockredis_is_held(PG_FUNCTION_ARGS)
{
	LrName		name;
	HoldView	view;

	PG_RETURN_BOOL(look(fcinfo, &name, &view) && view.state == HOLD_HELD);
}

Datum
lockredis_hold_count(PG_FUNCTION_ARGS)
{
	LrName		name;
	HoldView	view;

	if (!look(fcinfo, &name, &view) || view.state != HOLD_HELD)
		PG_RETURN_INT32(0);
	PG_RETURN_INT32(view.scope[SCOPE_SESSION].count + view.scope[SCOPE_XACT].count);
}

Datum
lockredis_assert_held(PG_FUNCTION_ARGS)
{
	LrName		name;
	HoldView	view;

	if (!look(fcinfo, &name, &view))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("you don't own the Redis lock \"%s\"",
						lr_name_to_show(name.data, name.len))));
	if (view.state != HOLD_HELD)
		session_refuse_lost(&name, &view);
	PG_RETURN_VOID();
}
