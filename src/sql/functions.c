/*-------------------------------------------------------------------------
 *
 * functions.c
 *	  The SQL functions that take locks, give them back and ask about them:
 *	  arguments in, results out.
 *
 * No state and no store here; see session.c.  Those with fencing tokens are in
 * fence.c, redis_with_lock is in job.c, what the views show in views.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/functions.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "instance.h"
#include "keyname.h"
#include "report.h"
#include "session/session.h"
#include "session/unlock.h"
#include "sql/arguments.h"

PG_FUNCTION_INFO_V1(lockredis_lock);
PG_FUNCTION_INFO_V1(lockredis_try_lock);
PG_FUNCTION_INFO_V1(lockredis_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_read_lock);
PG_FUNCTION_INFO_V1(lockredis_try_read_lock);
PG_FUNCTION_INFO_V1(lockredis_read_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_read_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_write_lock);
PG_FUNCTION_INFO_V1(lockredis_try_write_lock);
PG_FUNCTION_INFO_V1(lockredis_write_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_write_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_fair_lock);
PG_FUNCTION_INFO_V1(lockredis_try_fair_lock);
PG_FUNCTION_INFO_V1(lockredis_fair_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_fair_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_unlock);
PG_FUNCTION_INFO_V1(lockredis_read_unlock);
PG_FUNCTION_INFO_V1(lockredis_write_unlock);
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
 * Taking and giving back
 * ----------
 */

/*
 * take_kind --- a lock of any kind and either scope, without a token
 */
static bool
take_kind(FunctionCallInfo fcinfo, KindId kind, LockScope scope, WaitRule rule)
{
	LrName		name;
	AcquireRequest request;

	arg_key(fcinfo, &name);
	arg_take(fcinfo, kind, scope, rule, 1, &request);
	return session_lock(&name, &request, NULL);
}

static bool
take_lock(FunctionCallInfo fcinfo, LockScope scope, WaitRule rule)
{
	return take_kind(fcinfo, KIND_REENTRANT, scope, rule);
}

Datum
lockredis_lock(PG_FUNCTION_ARGS)
{
	(void) take_lock(fcinfo, SCOPE_SESSION, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_lock(fcinfo, SCOPE_SESSION, TRIES_OR_WAITS));
}

Datum
lockredis_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take_lock(fcinfo, SCOPE_XACT, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_lock(fcinfo, SCOPE_XACT, TRIES_OR_WAITS));
}

Datum
lockredis_read_lock(PG_FUNCTION_ARGS)
{
	(void) take_kind(fcinfo, KIND_READ, SCOPE_SESSION, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_read_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_kind(fcinfo, KIND_READ, SCOPE_SESSION, TRIES));
}

Datum
lockredis_read_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take_kind(fcinfo, KIND_READ, SCOPE_XACT, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_read_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_kind(fcinfo, KIND_READ, SCOPE_XACT, TRIES));
}

Datum
lockredis_write_lock(PG_FUNCTION_ARGS)
{
	(void) take_kind(fcinfo, KIND_WRITE, SCOPE_SESSION, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_write_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_kind(fcinfo, KIND_WRITE, SCOPE_SESSION, TRIES));
}

Datum
lockredis_write_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take_kind(fcinfo, KIND_WRITE, SCOPE_XACT, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_write_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_kind(fcinfo, KIND_WRITE, SCOPE_XACT, TRIES));
}

Datum
lockredis_fair_lock(PG_FUNCTION_ARGS)
{
	(void) take_kind(fcinfo, KIND_FAIR, SCOPE_SESSION, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_fair_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_kind(fcinfo, KIND_FAIR, SCOPE_SESSION, TRIES));
}

Datum
lockredis_fair_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take_kind(fcinfo, KIND_FAIR, SCOPE_XACT, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_fair_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_kind(fcinfo, KIND_FAIR, SCOPE_XACT, TRIES));
}

/*
 * give_back --- one session-level hold
 */
static bool
give_back(FunctionCallInfo fcinfo, KindId kind)
{
	LrName		name;

	arg_key(fcinfo, &name);
	require_unrestricted();
	return session_unlock(&name, kind);
}

Datum
lockredis_unlock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(give_back(fcinfo, KIND_REENTRANT));
}

Datum
lockredis_read_unlock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(give_back(fcinfo, KIND_READ));
}

Datum
lockredis_write_unlock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(give_back(fcinfo, KIND_WRITE));
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
	KindId		kind;
	bool		renewed;
	int64		lease_ms;

	arg_key(fcinfo, &name);
	lease_ms = arg_lease_ms(fcinfo, 1, &renewed);
	kind = arg_kind(fcinfo, 2, &name);
	require_unrestricted();
	PG_RETURN_BOOL(session_extend(&name, kind, lease_ms, renewed));
}

Datum
lockredis_force_unlock(PG_FUNCTION_ARGS)
{
	LrName		name;

	arg_key(fcinfo, &name);
	PG_RETURN_BOOL(session_force(&name, KIND_REENTRANT));
}

/* ----------
 * Asking the store
 * ----------
 */

/*
 * inspect_key --- who has the key; raises if it holds something else than a lock
 */
static void
inspect_key(FunctionCallInfo fcinfo, StoreOp *op)
{
	LrName		name;

	arg_key(fcinfo, &name);
	session_inspect(&name, KIND_REENTRANT, op);
	if (op->value == STORE_VALUE_OTHER)
		report_wrong_type(&name, op);
}

Datum
lockredis_is_locked(PG_FUNCTION_ARGS)
{
	StoreOp		op;

	inspect_key(fcinfo, &op);
	PG_RETURN_BOOL(op.value != STORE_VALUE_NONE && op.value != STORE_VALUE_NUMBER &&
				   op.available <= 0);
}

Datum
lockredis_lock_ttl(PG_FUNCTION_ARGS)
{
	StoreOp		op;

	inspect_key(fcinfo, &op);
	if (op.value == STORE_VALUE_NONE || op.ttl_ms == STORE_NO_TTL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(interval_from_us(op.ttl_ms * LR_US_PER_MS));
}

Datum
lockredis_lock_owner(PG_FUNCTION_ARGS)
{
	StoreOp		op;

	inspect_key(fcinfo, &op);
	if (op.value == STORE_VALUE_NONE || op.value == STORE_VALUE_NUMBER)
		PG_RETURN_NULL();

	/* Several masters that do not agree. */
	if (op.value == STORE_VALUE_LOCK && op.holder[0] == '\0' && op.hold_count == 0)
		PG_RETURN_NULL();

	/* The string of a token lock is a credential: whoever knows it may unlock. */
	if (op.value == STORE_VALUE_TOKEN)
		PG_RETURN_TEXT_P(cstring_to_text("token"));
	PG_RETURN_TEXT_P(cstring_to_text(lr_name_to_show(op.holder, strlen(op.holder))));
}

/*
 * look_at_hold --- at the hold of this session, without asking the store: that of the
 * kind which is passed, or whatever it has of the key
 */
static bool
look_at_hold(FunctionCallInfo fcinfo, LrName *name, HoldView *view)
{
	arg_key(fcinfo, name);
	return session_look(name, arg_kind(fcinfo, 1, name), view);
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

	PG_RETURN_BOOL(look_at_hold(fcinfo, &name, &view) && view.state == HOLD_HELD);
}

Datum
lockredis_hold_count(PG_FUNCTION_ARGS)
{
	LrName		name;
	HoldView	view;

	if (!look_at_hold(fcinfo, &name, &view) || view.state != HOLD_HELD)
		PG_RETURN_INT32(0);
	PG_RETURN_INT32(view.scope[SCOPE_SESSION].count + view.scope[SCOPE_XACT].count);
}

Datum
lockredis_assert_held(PG_FUNCTION_ARGS)
{
	LrName		name;
	HoldView	view;

	if (!look_at_hold(fcinfo, &name, &view))
		report_not_held(ERROR, &name);
	if (view.state != HOLD_HELD)
		session_refuse_lost(&name, &view);
	PG_RETURN_VOID();
}
