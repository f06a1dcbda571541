/*-------------------------------------------------------------------------
 *
 * counts.c
 *	  The SQL functions of semaphores and latches.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "fmgr.h"

#include "report.h"
#include "session/ask.h"
#include "session/counts.h"
#include "session/session.h"
#include "session/untold.h"
#include "session/waiting.h"
#include "sql/arguments.h"
#include "store/current.h"

PG_FUNCTION_INFO_V1(lockredis_semaphore_init);
PG_FUNCTION_INFO_V1(lockredis_semaphore_set);
PG_FUNCTION_INFO_V1(lockredis_semaphore_acquire);
PG_FUNCTION_INFO_V1(lockredis_try_semaphore_acquire);
PG_FUNCTION_INFO_V1(lockredis_semaphore_release);
PG_FUNCTION_INFO_V1(lockredis_semaphore_xact_release);
PG_FUNCTION_INFO_V1(lockredis_semaphore_add);
PG_FUNCTION_INFO_V1(lockredis_semaphore_drain);
PG_FUNCTION_INFO_V1(lockredis_semaphore_available);
PG_FUNCTION_INFO_V1(lockredis_latch_init);
PG_FUNCTION_INFO_V1(lockredis_latch_set);
PG_FUNCTION_INFO_V1(lockredis_latch_count_down);
PG_FUNCTION_INFO_V1(lockredis_latch_xact_count_down);
PG_FUNCTION_INFO_V1(lockredis_latch_count);
PG_FUNCTION_INFO_V1(lockredis_latch_wait);
PG_FUNCTION_INFO_V1(lockredis_latch_delete);

/*
 * What the store remembers of a request lasts so long, and with it what can be done
 * about one that was not answered (ms).
 */
#define TICKET_LIFE_MS		(60 * 60 * INT64CONST(1000))

/* ----------
 * Arguments
 * ----------
 */

/*
 * arg_permits --- a number of permits, "least" at least
 */
static int64
arg_permits(FunctionCallInfo fcinfo, int argno, int32 least)
{
	int32		permits;

	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("number of permits must not be null")));
	permits = PG_GETARG_INT32(argno);
	if (permits < least)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of permits must be at least %d", least)));
	return permits;
}

static int64
arg_latch_count(FunctionCallInfo fcinfo, int argno)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("count must not be null")));
	if (PG_GETARG_INT64(argno) < 1 || PG_GETARG_INT64(argno) > STORE_TOKEN_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be between 1 and 2^53 - 1")));
	return PG_GETARG_INT64(argno);
}

/* ----------
 * Asking the store
 * ----------
 */

/*
 * ask_number --- one request about the number of a name
 *
 * Refused as too late, it is asked once more: the reply brought the right time.
 */
static void
ask_number(const LrName *name, KindId kind, StoreOp *wanted)
{
	HeldKey		key = held_key(name, kind);
	StoreOp		op;

	session_enter();
	request_require_number(kind, name);
	wait_require_place();
	for (int i = 0; i < 2; i++)
	{
		ask_prepare(&op, wanted->kind, &key, current_store());
		op.change = wanted->change;
		op.amount = wanted->amount;
		op.lease_ms = wanted->lease_ms;
		ask_run(&op, STORE_WAIT);
		if (op.outcome != STORE_LATE)
			break;
	}
	ask_distrust(&op);
	if (op.outcome == STORE_WRONG_TYPE)
		report_wrong_type(name, &op);
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	if (op.kind == STORE_DEFINE)
		counts_tell(&op);
	*wanted = op;
}

static void
change_number(const LrName *name, KindId kind, StoreChange change, int64 amount,
			  StoreOp *op)
{
	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_DEFINE;
	op->change = change;
	op->amount = amount;
	ask_number(name, kind, op);
}

static int64
read_number(FunctionCallInfo fcinfo, KindId kind)
{
	LrName		name;
	StoreOp		op = {.kind = STORE_VALUE};

	arg_key(fcinfo, &name);
	ask_number(&name, kind, &op);
	return op.available;
}

/*
 * wait_for --- permits, which are given back if the statement fails, or a latch
 */
static bool
wait_for(FunctionCallInfo fcinfo, KindId kind, int64 amount, WaitRule rule, int wait_arg)
{
	LrName		name;
	AcquireRequest request;
	Untold	   *u = NULL;

	arg_key(fcinfo, &name);
	arg_wait(fcinfo, kind, rule, wait_arg, &request);
	request.terms.amount = amount;
	request.terms.lease_ms = TICKET_LIFE_MS;
	session_enter();
	request_require_number(kind, &name);
	if (lr_leaves_something(kind))
		u = untold_make(&name, &request.terms);
	return session_take(&name, &request, u);
}

/* ----------
 * Semaphores
 * ----------
 */

/*
 * define_semaphore --- so many permits, for good or for a time; false: nothing was done
 */
static bool
define_semaphore(FunctionCallInfo fcinfo, StoreChange change)
{
	LrName		name;
	StoreOp		op = {.kind = STORE_DEFINE,.change = change};

	arg_key(fcinfo, &name);
	op.amount = arg_permits(fcinfo, 1, 0);
	op.lease_ms = arg_ttl_ms(fcinfo, 2);
	ask_number(&name, KIND_SEMAPHORE, &op);
	return op.changed;
}

Datum
lockredis_semaphore_init(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(define_semaphore(fcinfo, CHANGE_INIT));
}

Datum
lockredis_semaphore_set(PG_FUNCTION_ARGS)
{
	(void) define_semaphore(fcinfo, CHANGE_SET);
	PG_RETURN_VOID();
}

Datum
lockredis_semaphore_acquire(PG_FUNCTION_ARGS)
{
	(void) wait_for(fcinfo, KIND_SEMAPHORE, arg_permits(fcinfo, 1, 1), WAITS, 2);
	PG_RETURN_VOID();
}

Datum
lockredis_try_semaphore_acquire(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_for(fcinfo, KIND_SEMAPHORE, arg_permits(fcinfo, 1, 1), TRIES, 2));
}

Datum
lockredis_semaphore_release(PG_FUNCTION_ARGS)
{
	LrName		name;
	int64		permits;
	int64		free;

	arg_key(fcinfo, &name);
	permits = arg_permits(fcinfo, 1, 1);
	session_enter();
	(void) counts_now(&name, KIND_SEMAPHORE, permits, &free);
	PG_RETURN_VOID();
}

Datum
lockredis_semaphore_xact_release(PG_FUNCTION_ARGS)
{
	LrName		name;
	int64		permits;

	arg_key(fcinfo, &name);
	permits = arg_permits(fcinfo, 1, 1);
	session_enter();
	counts_at_commit(&name, KIND_SEMAPHORE, permits);
	PG_RETURN_VOID();
}

Datum
lockredis_semaphore_add(PG_FUNCTION_ARGS)
{
	LrName		name;
	StoreOp		op;

	arg_key(fcinfo, &name);
	change_number(&name, KIND_SEMAPHORE, CHANGE_ADD, arg_permits(fcinfo, 1, PG_INT32_MIN),
				  &op);
	PG_RETURN_VOID();
}

Datum
lockredis_semaphore_drain(PG_FUNCTION_ARGS)
{
	LrName		name;
	LockTerms	terms = {.kind = KIND_SEMAPHORE};
	Untold	   *u;
	StoreOp		op;
	int32		permits;

	arg_key(fcinfo, &name);
	u = untold_make(&name, &terms);
	change_number(&name, KIND_SEMAPHORE, CHANGE_DRAIN, 0, &op);
	permits = int_result(op.available);
	if (permits > 0)
		untold_begin_some(u, permits);
	PG_RETURN_INT32(permits);
}

Datum
lockredis_semaphore_available(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(int_result(read_number(fcinfo, KIND_SEMAPHORE)));
}

/* ----------
 * Latches
 * ----------
 */

static bool
define_latch(FunctionCallInfo fcinfo, StoreChange change)
{
	LrName		name;
	StoreOp		op;

	arg_key(fcinfo, &name);
	change_number(&name, KIND_LATCH, change, arg_latch_count(fcinfo, 1), &op);
	return op.changed;
}

Datum
lockredis_latch_init(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(define_latch(fcinfo, CHANGE_INIT));
}

Datum
lockredis_latch_set(PG_FUNCTION_ARGS)
{
	(void) define_latch(fcinfo, CHANGE_SET);
	PG_RETURN_VOID();
}

Datum
lockredis_latch_count_down(PG_FUNCTION_ARGS)
{
	LrName		name;
	int64		left;

	arg_key(fcinfo, &name);
	session_enter();
	if (!counts_now(&name, KIND_LATCH, 1, &left))
		PG_RETURN_NULL();
	PG_RETURN_INT64(left);
}

Datum
lockredis_latch_xact_count_down(PG_FUNCTION_ARGS)
{
	LrName		name;

	arg_key(fcinfo, &name);
	session_enter();
	counts_at_commit(&name, KIND_LATCH, 1);
	PG_RETURN_VOID();
}

Datum
lockredis_latch_count(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(read_number(fcinfo, KIND_LATCH));
}

Datum
lockredis_latch_wait(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(wait_for(fcinfo, KIND_LATCH, 1, TRIES_OR_WAITS, 1));
}

Datum
lockredis_latch_delete(PG_FUNCTION_ARGS)
{
	LrName		name;
	StoreOp		op;

	arg_key(fcinfo, &name);
	change_number(&name, KIND_LATCH, CHANGE_DELETE, 0, &op);
	PG_RETURN_BOOL(op.changed);
}
