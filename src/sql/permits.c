/*-------------------------------------------------------------------------
 *
 * permits.c
 *	  SQL functions: permits.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/permits.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "session/permits.h"
#include "session/session.h"
#include "session/unlock.h"
#include "sql/arguments.h"

PG_FUNCTION_INFO_V1(lockredis_permit_set);
PG_FUNCTION_INFO_V1(lockredis_permit_init);
PG_FUNCTION_INFO_V1(lockredis_permit_total);
PG_FUNCTION_INFO_V1(lockredis_permit_available);
PG_FUNCTION_INFO_V1(lockredis_permit_lock);
PG_FUNCTION_INFO_V1(lockredis_try_permit_lock);
PG_FUNCTION_INFO_V1(lockredis_permit_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_permit_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_permit_unlock);
PG_FUNCTION_INFO_V1(lockredis_permit_acquire);
PG_FUNCTION_INFO_V1(lockredis_try_permit_acquire);
PG_FUNCTION_INFO_V1(lockredis_permit_release);
PG_FUNCTION_INFO_V1(lockredis_permit_extend);

/* An id as text. */
#define ID_DIGITS			(2 * LR_SECRET_ID_LEN)

/* ----------
 * How many there are
 * ----------
 */

static bool
define_permits(FunctionCallInfo fcinfo, StoreChange change)
{
	LrName		name;
	StoreOp		op;

	arg_key(fcinfo, &name);
	(void) session_define(&name, KIND_PERMIT, change, arg_amount(fcinfo, 1, 0), &op);
	return op.changed;
}

Datum
lockredis_permit_set(PG_FUNCTION_ARGS)
{
	(void) define_permits(fcinfo, CHANGE_SET);
	PG_RETURN_VOID();
}

Datum
lockredis_permit_init(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(define_permits(fcinfo, CHANGE_INIT));
}

/* null: there is none. */
static Datum
show_number(FunctionCallInfo fcinfo, bool found, int64 number)
{
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_INT32(int_result(number));
}

Datum
lockredis_permit_total(PG_FUNCTION_ARGS)
{
	LrName		name;
	StoreOp		op;
	bool		found;

	arg_key(fcinfo, &name);
	found = session_value(&name, KIND_PERMIT, &op);
	return show_number(fcinfo, found, op.total);
}

Datum
lockredis_permit_available(PG_FUNCTION_ARGS)
{
	LrName		name;
	StoreOp		op;
	bool		found;

	arg_key(fcinfo, &name);
	found = session_value(&name, KIND_PERMIT, &op);
	return show_number(fcinfo, found, op.available);
}

/* ----------
 * Of this session
 * ----------
 */

static bool
take_permit(FunctionCallInfo fcinfo, LockScope scope, WaitRule rule)
{
	LrName		name;
	AcquireRequest request;

	arg_key(fcinfo, &name);
	arg_take(fcinfo, KIND_PERMIT, scope, rule, 1, &request);
	return session_lock(&name, &request, NULL);
}

Datum
lockredis_permit_lock(PG_FUNCTION_ARGS)
{
	(void) take_permit(fcinfo, SCOPE_SESSION, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_permit_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_permit(fcinfo, SCOPE_SESSION, TRIES));
}

Datum
lockredis_permit_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take_permit(fcinfo, SCOPE_XACT, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_permit_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_permit(fcinfo, SCOPE_XACT, TRIES));
}

Datum
lockredis_permit_unlock(PG_FUNCTION_ARGS)
{
	LrName		name;

	arg_key(fcinfo, &name);
	require_unrestricted();
	PG_RETURN_BOOL(session_unlock(&name, KIND_PERMIT));
}

/* ----------
 * Of who knows its id
 * ----------
 */

static text *
id_to_text(const uint8 *id)
{
	static const char digits[] = "0123456789abcdef";
	char		shown[ID_DIGITS];

	for (int i = 0; i < LR_SECRET_ID_LEN; i++)
	{
		shown[2 * i] = digits[id[i] >> 4];
		shown[2 * i + 1] = digits[id[i] & 0x0f];
	}
	return cstring_to_text_with_len(shown, ID_DIGITS);
}

/*
 * id_digit --- the value of a hexadecimal digit, or -1
 */
static int
id_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/*
 * arg_id --- an id, which is not shown in what is raised
 */
static void
arg_id(FunctionCallInfo fcinfo, int argno, uint8 *id)
{
	text	   *shown;
	bool		good;

	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("id of a permit must not be null")));
	shown = PG_GETARG_TEXT_PP(argno);
	good = VARSIZE_ANY_EXHDR(shown) == ID_DIGITS;
	for (int i = 0; i < LR_SECRET_ID_LEN && good; i++)
	{
		int			high = id_digit(VARDATA_ANY(shown)[2 * i]);
		int			low = id_digit(VARDATA_ANY(shown)[2 * i + 1]);

		good = high >= 0 && low >= 0;
		if (good)
			id[i] = (uint8) (high << 4 | low);
	}
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("id of a permit must have %d hexadecimal digits", ID_DIGITS)));
}

/*
 * acquire_permit --- one that no session has, until the end of its lease; its id
 */
static Datum
acquire_permit(FunctionCallInfo fcinfo, WaitRule rule)
{
	LrName		name;
	AcquireRequest request;
	uint8		id[LR_SECRET_ID_LEN];

	arg_key(fcinfo, &name);
	arg_require_lease(fcinfo, rule == WAITS ? 1 : 2);
	arg_request(fcinfo, KIND_PERMIT, SCOPE_SESSION, rule, 1, &request);

	/* Nobody passes one on to him, and the table keeps it after a crash. */
	request.terms.keep_until = lr_now() + request.terms.lease_ms * LR_US_PER_MS;
	request.terms.guard = GUARD_OFF;
	request.terms.on_lost = ON_LOST_MARK;
	if (!session_acquire(&name, &request, id))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(id_to_text(id));
}

Datum
lockredis_permit_acquire(PG_FUNCTION_ARGS)
{
	return acquire_permit(fcinfo, WAITS);
}

Datum
lockredis_try_permit_acquire(PG_FUNCTION_ARGS)
{
	return acquire_permit(fcinfo, TRIES);
}

Datum
lockredis_permit_release(PG_FUNCTION_ARGS)
{
	LrName		name;
	uint8		id[LR_SECRET_ID_LEN];

	arg_key(fcinfo, &name);
	arg_id(fcinfo, 1, id);
	PG_RETURN_BOOL(session_release_id(&name, KIND_PERMIT, id));
}

Datum
lockredis_permit_extend(PG_FUNCTION_ARGS)
{
	LrName		name;
	uint8		id[LR_SECRET_ID_LEN];
	bool		renewed;

	arg_key(fcinfo, &name);
	arg_id(fcinfo, 1, id);
	arg_require_lease(fcinfo, 2);
	PG_RETURN_BOOL(session_extend_id(&name, KIND_PERMIT, id,
									 arg_lease_ms(fcinfo, 2, &renewed)));
}
