/*-------------------------------------------------------------------------
 *
 * verbs.c
 *	  The SQL functions of locks, permits, semaphores, latches and conditions.
 *
 * A shape is what several functions have in common: it reads the arguments, calls the
 * session, and returns the result.  At the end is a row for each function.
 *
 * This file has no state and calls no store: session/ does the work.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/verbs.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "names.h"
#include "report.h"
#include "session/session.h"
#include "settings.h"
#include "sql/arguments.h"
#include "store/stores.h"

/* ----------
 * Acquiring
 * ----------
 */

/*
 * taken_or_not --- the result: void of a function that waits without a limit, else
 * boolean
 */
static Datum
taken_or_not(const Verb *verb, bool taken)
{
	if (verb->wait == WAITS)
		return (Datum) 0;		/* void */
	return BoolGetDatum(taken);
}

/*
 * take --- (key [, wait], lease): a lock, or a permit
 */
static Datum
take(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	AcquireRequest request;

	arg_take(fcinfo, verb, &request);
	return taken_or_not(verb, session_lock(name, &request, NULL));
}

/*
 * take_keys --- (keys [, wait], lease): the locks of all the keys
 */
static Datum
take_keys(FunctionCallInfo fcinfo, const Verb *verb)
{
	AcquireRequest request;
	int			n;
	const LrName *names = arg_keys(fcinfo, &n);

	arg_take(fcinfo, verb, &request);
	return taken_or_not(verb, session_multi_lock(names, n, &request));
}

/*
 * take_fenced --- (key [, wait], lease): a lock; returns its fencing token, or null
 */
static Datum
take_fenced(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	AcquireRequest request;
	int64		token;

	arg_take(fcinfo, verb, &request);
	if (!fence_take(name, &request, fcinfo->flinfo->fn_oid, &token))
		PG_RETURN_NULL();
	PG_RETURN_INT64(token);
}

/*
 * take_token --- (key [, wait], lease, token): a token lock; returns its token, or null
 */
static Datum
take_token(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	AcquireRequest request;
	LockToken	token;
	text	   *value;

	arg_request(fcinfo, verb, 1, &request);
	value = arg_new_token(fcinfo, PG_NARGS() - 1, &token);
	track_warn_snapshot(SCOPE_SESSION);
	if (!session_token_lock(name, &request, &token))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(value);
}

/*
 * take_id --- (key [, wait], lease): a permit that no session holds; returns its id, or
 * null
 */
static Datum
take_id(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	AcquireRequest request;
	uint8		id[LR_SECRET_ID_LEN];

	arg_request(fcinfo, verb, 1, &request);

	/*
	 * Keep it until its lease ends: it never passes to a session of this server, and
	 * the table keeps it after a crash.
	 */
	request.terms.keep_until = lr_now() + request.terms.lease_ms * LR_US_PER_MS;
	request.terms.guard = GUARD_OFF;
	request.terms.on_lost = ON_LOST_MARK;
	request.unowned = true;
	if (!session_acquire(name, &request, id))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(id_to_text(id));
}

/* ----------
 * Releasing and extending
 * ----------
 */

/*
 * release --- (key): release a session-level hold; false if there was none
 */
static Datum
release(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	require_unrestricted();
	PG_RETURN_BOOL(session_unlock(name, verb->kind));
}

/*
 * release_keys --- (keys): the same for each of the keys
 */
static Datum
release_keys(FunctionCallInfo fcinfo, const Verb *verb)
{
	int			n;
	const LrName *names = arg_keys(fcinfo, &n);

	require_unrestricted();
	PG_RETURN_BOOL(session_multi_unlock(names, n, verb->kind));
}

/*
 * release_all --- (): release the session-level holds of all kinds; returns how many
 * keys
 */
static Datum
release_all(FunctionCallInfo fcinfo, const Verb *verb)
{
	lr_require_preload();
	require_unrestricted();
	PG_RETURN_INT64(session_unlock_all());
}

/*
 * release_id --- (key, token or id): release a token lock or a permit; false if it has
 * ended
 */
static Datum
release_id(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	uint8		id[STORE_ID_LEN];

	arg_id(fcinfo, 1, verb->kind, id);
	PG_RETURN_BOOL(session_release_id(name, verb->kind, id));
}

/*
 * extend --- (key, lease [, kind]): set the lease of a hold; false if the hold was lost
 */
static Datum
extend(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	KindId		kind;
	bool		renewed;
	int64		lease_ms;

	lease_ms = arg_lease_ms(fcinfo, 1, &renewed);
	kind = arg_kind(fcinfo, 2, name, verb->kind);
	require_unrestricted();
	PG_RETURN_BOOL(session_extend(name, kind, lease_ms, renewed));
}

/*
 * extend_id --- (key, token or id [, lease]): likewise, or only look; false if it has ended
 */
static Datum
extend_id(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	uint8		id[STORE_ID_LEN];
	int64		lease_ms;

	arg_id(fcinfo, 1, verb->kind, id);
	lease_ms = PG_NARGS() > 2 ? arg_lease_ms(fcinfo, 2, NULL) : 0;
	PG_RETURN_BOOL(session_extend_id(name, verb->kind, id, lease_ms));
}

/*
 * force --- (key): release the lock, whoever holds it; false if nobody does
 */
static Datum
force(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	PG_RETURN_BOOL(session_force(name, verb->kind));
}

/* ----------
 * Numbers: permits, semaphores, latches
 * ----------
 */

/*
 * define --- (key [, amount [, ttl]]): change the number; init returns false if there is
 * one, delete if there is none
 */
static Datum
define(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name, int64 amount)
{
	StoreOp		op = {.kind = STORE_DEFINE,.args.change = verb->change,.amount = amount};

	if (PG_NARGS() > 2)
		op.lease_ms = arg_ttl_ms(fcinfo, 2);
	(void) session_number(name, verb->kind, &op);
	if (verb->change == CHANGE_INIT || verb->change == CHANGE_DELETE)
		PG_RETURN_BOOL(op.answer.changed);
	PG_RETURN_VOID();
}

static Datum
define_permits(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	return define(fcinfo, verb, name,
				  arg_permits(fcinfo, 1, verb->change == CHANGE_ADD ? PG_INT32_MIN : 0));
}

static Datum
define_latch(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	return define(fcinfo, verb, name, arg_latch_count(fcinfo, 1));
}

static Datum
delete_latch(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	return define(fcinfo, verb, name, 0);
}

/*
 * drain --- (key): take all free permits; returns how many
 */
static Datum
drain(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	PG_RETURN_DATUM(int_result(session_drain(name, verb->kind)));
}

/*
 * number --- (key): ask the store for the number; null if there is none
 */
static Datum
number(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	StoreOp		op = {.kind = STORE_VALUE};

	if (!session_number(name, verb->kind, &op))
		PG_RETURN_NULL();
	PG_RETURN_DATUM(int_result(verb->total ? op.answer.total : op.answer.available));
}

/*
 * latch_count --- (key): how often a latch is still to be counted down; 0 if there is
 * none
 */
static Datum
latch_count(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	StoreOp		op = {.kind = STORE_VALUE};

	(void) session_number(name, verb->kind, &op);
	PG_RETURN_INT64(op.answer.available);
}

/*
 * wait_for_number --- (key [, how many] [, wait]): take so many permits, or wait for a
 * latch
 */
static Datum
wait_for_number(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name, int64 amount, int wait_arg)
{
	AcquireRequest request;

	arg_request(fcinfo, verb, wait_arg, &request);
	request.terms.amount = amount;
	return taken_or_not(verb, session_wait_for_number(name, &request));
}

static Datum
acquire_permits(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	return wait_for_number(fcinfo, verb, name, arg_permits(fcinfo, 1, 1), 2);
}

static Datum
wait_for_latch(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	return wait_for_number(fcinfo, verb, name, 1, 1);
}

/*
 * count_now --- (key [, how many]): return permits, or count down, at once; returns what is left
 * of a latch, or null without an answer
 */
static Datum
count_now(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	bool		down = PG_NARGS() == 1;
	int64		amount = down ? 1 : arg_permits(fcinfo, 1, 1);
	int64		left = 0;

	session_enter();
	if (!counts_now(name, verb->kind, amount, &left) && down)
		PG_RETURN_NULL();
	PG_RETURN_INT64(left);		/* a semaphore: void */
}

/*
 * count_at_commit --- (key [, how many]): return or count down when the transaction
 * commits
 */
static Datum
count_at_commit(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	int64		amount;

	amount = PG_NARGS() > 1 ? arg_permits(fcinfo, 1, 1) : 1;
	session_enter();
	counts_at_commit(name, verb->kind, amount);
	PG_RETURN_VOID();
}

/* ----------
 * Conditions
 * ----------
 */

/*
 * wait_for_condition --- (key, wait, condition): false if the time limit passed before
 */
static Datum
wait_for_condition(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	uint8		id[STORE_ID_LEN];
	int64		wait_us;

	wait_us = arg_wait_us(fcinfo, verb->wait, 1);
	arg_condition(fcinfo, 2, id);
	require_session_locks();
	PG_RETURN_BOOL(session_condition_wait(name, verb->kind, id, wait_us));
}

/*
 * notify --- (key, condition): notify at most so many waiting sessions; returns how
 * many
 */
static Datum
notify(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	uint8		id[STORE_ID_LEN];

	arg_condition(fcinfo, 1, id);
	require_unrestricted();
	PG_RETURN_INT64(session_condition_notify(name, verb->kind, id, verb->most));
}

/* ----------
 * Questions about this session's holds; no round trip
 * ----------
 */

/*
 * look_at_hold --- (key [, kind]): the hold of this session; false if there is none
 *
 * Without a kind it looks at whichever kind the session holds.
 */
static bool
look_at_hold(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name, HoldView *view)
{
	return session_look(name, arg_kind(fcinfo, 1, name, verb->kind), view);
}

static Datum
is_held(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	HoldView	view;

	PG_RETURN_BOOL(look_at_hold(fcinfo, verb, name, &view) && view.state == HOLD_HELD);
}

static Datum
hold_count(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	HoldView	view;

	if (!look_at_hold(fcinfo, verb, name, &view) || view.state != HOLD_HELD)
		PG_RETURN_INT32(0);
	PG_RETURN_INT32(view.scope[SCOPE_SESSION].count + view.scope[SCOPE_XACT].count);
}

static Datum
assert_held(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	HoldView	view;

	if (!look_at_hold(fcinfo, verb, name, &view))
		report_not_held(ERROR, name, verb->kind, verb->kind);
	if (view.state != HOLD_HELD)
		session_refuse_lost(name, &view);
	PG_RETURN_VOID();
}

/*
 * fence --- (key [, kind]): the fencing token, or null
 *
 * In fallback mode, a token from the table belongs to the transaction that got it: once
 * that has ended, the session has none.
 */
static Datum
fence(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	HoldView	view;

	if (!look_at_hold(fcinfo, verb, name, &view) || view.state != HOLD_HELD || view.fence == 0 ||
		(view.scope[SCOPE_XACT].count == 0 && lr_has_fallback() &&
		 lr_store_can(view.fence_store, STORE_SERVER_ONLY)))
		PG_RETURN_NULL();
	PG_RETURN_INT64(view.fence);
}

/* ----------
 * Questions to the store
 * ----------
 */

/*
 * inspect --- (key): ask the store for the holder; raises an error for other values
 */
static void
inspect(const Verb *verb, const LrName *name, StoreOp *op)
{
	session_inspect(name, verb->kind, op);
	if (op->answer.value == STORE_VALUE_OTHER)
		report_wrong_type(name, op);
}

static Datum
is_locked(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	StoreOp		op;

	inspect(verb, name, &op);
	PG_RETURN_BOOL(op.answer.value != STORE_VALUE_NONE && op.answer.value != STORE_VALUE_NUMBER &&
				   op.answer.available <= 0);
}

static Datum
lock_ttl(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	StoreOp		op;

	inspect(verb, name, &op);
	if (op.answer.value == STORE_VALUE_NONE || op.answer.ttl_ms == STORE_NO_TTL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(interval_from_us(op.answer.ttl_ms * LR_US_PER_MS));
}

/*
 * lock_owner --- (key): the owner, as the store shows it; null if nobody holds the lock
 */
static Datum
lock_owner(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	StoreOp		op;

	inspect(verb, name, &op);
	if (op.answer.value == STORE_VALUE_NONE || op.answer.value == STORE_VALUE_NUMBER)
		PG_RETURN_NULL();

	/* Several masters do not agree on one owner. */
	if (op.answer.value == STORE_VALUE_LOCK && op.answer.holder[0] == '\0' && op.answer.count == 0)
		PG_RETURN_NULL();

	/*
	 * The string of a token lock is a credential: whoever knows it can release the
	 * lock.
	 */
	if (op.answer.value == STORE_VALUE_TOKEN)
		PG_RETURN_TEXT_P(cstring_to_text("token"));
	PG_RETURN_TEXT_P(cstring_to_text(lr_owner_to_show(op.answer.holder)));
}

/* ----------
 * The functions
 *
 * Each has a row: its C symbol, its shape, and the parameters of the shape, which are the
 * fields of Verb.  Most rows name a kind, many a level, and whether the function waits.
 * So a new kind of lock is a few rows here.  The first argument of most is a key; that of
 * VERB_OF_KEYS is an array of keys, or there is none.
 * ----------
 */

#define VERB(symbol, shape, ...) \
PG_FUNCTION_INFO_V1(symbol); \
PGDLLEXPORT Datum \
symbol(PG_FUNCTION_ARGS) \
{ \
	static const Verb verb = {__VA_ARGS__}; \
	LrName		name; \
\
	arg_key(fcinfo, &name); \
	return shape(fcinfo, &verb, &name); \
}

#define VERB_OF_KEYS(symbol, shape, ...) \
PG_FUNCTION_INFO_V1(symbol); \
PGDLLEXPORT Datum \
symbol(PG_FUNCTION_ARGS) \
{ \
	static const Verb verb = {__VA_ARGS__}; \
\
	return shape(fcinfo, &verb); \
}

/* Reentrant locks; functions of 1.0 wait without a limit if "wait" is null */
VERB(lockredis_lock, take, KIND_REENTRANT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_lock, take, KIND_REENTRANT, SCOPE_SESSION, TRIES_OR_WAITS)
VERB(lockredis_xact_lock, take, KIND_REENTRANT, SCOPE_XACT, WAITS)
VERB(lockredis_try_xact_lock, take, KIND_REENTRANT, SCOPE_XACT, TRIES_OR_WAITS)
VERB(lockredis_fenced_lock, take_fenced, KIND_REENTRANT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_fenced_lock, take_fenced, KIND_REENTRANT, SCOPE_SESSION, TRIES_OR_WAITS)
VERB(lockredis_fenced_xact_lock, take_fenced, KIND_REENTRANT, SCOPE_XACT, WAITS)
VERB(lockredis_try_fenced_xact_lock, take_fenced, KIND_REENTRANT, SCOPE_XACT, TRIES_OR_WAITS)
VERB(lockredis_unlock, release, KIND_REENTRANT)
VERB_OF_KEYS(lockredis_unlock_all, release_all, KIND_REENTRANT)

/* Several keys at once */
VERB_OF_KEYS(lockredis_multi_lock, take_keys, KIND_REENTRANT, SCOPE_SESSION, WAITS)
VERB_OF_KEYS(lockredis_try_multi_lock, take_keys, KIND_REENTRANT, SCOPE_SESSION, TRIES)
VERB_OF_KEYS(lockredis_multi_xact_lock, take_keys, KIND_REENTRANT, SCOPE_XACT, WAITS)
VERB_OF_KEYS(lockredis_try_multi_xact_lock, take_keys, KIND_REENTRANT, SCOPE_XACT, TRIES)
VERB_OF_KEYS(lockredis_multi_unlock, release_keys, KIND_REENTRANT)

/* Fair locks, which are released as reentrant ones */
VERB(lockredis_fair_lock, take, KIND_FAIR, SCOPE_SESSION, WAITS)
VERB(lockredis_try_fair_lock, take, KIND_FAIR, SCOPE_SESSION, TRIES)
VERB(lockredis_fair_xact_lock, take, KIND_FAIR, SCOPE_XACT, WAITS)
VERB(lockredis_try_fair_xact_lock, take, KIND_FAIR, SCOPE_XACT, TRIES)

/* Read-write locks */
VERB(lockredis_read_lock, take, KIND_READ, SCOPE_SESSION, WAITS)
VERB(lockredis_try_read_lock, take, KIND_READ, SCOPE_SESSION, TRIES)
VERB(lockredis_read_xact_lock, take, KIND_READ, SCOPE_XACT, WAITS)
VERB(lockredis_try_read_xact_lock, take, KIND_READ, SCOPE_XACT, TRIES)
VERB(lockredis_read_unlock, release, KIND_READ)
VERB(lockredis_write_lock, take, KIND_WRITE, SCOPE_SESSION, WAITS)
VERB(lockredis_try_write_lock, take, KIND_WRITE, SCOPE_SESSION, TRIES)
VERB(lockredis_write_xact_lock, take, KIND_WRITE, SCOPE_XACT, WAITS)
VERB(lockredis_try_write_xact_lock, take, KIND_WRITE, SCOPE_XACT, TRIES)
VERB(lockredis_fenced_write_lock, take_fenced, KIND_WRITE, SCOPE_SESSION, WAITS)
VERB(lockredis_try_fenced_write_lock, take_fenced, KIND_WRITE, SCOPE_SESSION, TRIES)
VERB(lockredis_fenced_write_xact_lock, take_fenced, KIND_WRITE, SCOPE_XACT, WAITS)
VERB(lockredis_try_fenced_write_xact_lock, take_fenced, KIND_WRITE, SCOPE_XACT, TRIES)
VERB(lockredis_write_unlock, release, KIND_WRITE)

/* Permits held by sessions, and those identified by an id */
VERB(lockredis_permit_init, define_permits, KIND_PERMIT,.change = CHANGE_INIT)
VERB(lockredis_permit_set, define_permits, KIND_PERMIT,.change = CHANGE_SET)
VERB(lockredis_permit_total, number, KIND_PERMIT,.total = true)
VERB(lockredis_permit_available, number, KIND_PERMIT)
VERB(lockredis_permit_lock, take, KIND_PERMIT, SCOPE_SESSION, WAITS)
VERB(lockredis_try_permit_lock, take, KIND_PERMIT, SCOPE_SESSION, TRIES)
VERB(lockredis_permit_xact_lock, take, KIND_PERMIT, SCOPE_XACT, WAITS)
VERB(lockredis_try_permit_xact_lock, take, KIND_PERMIT, SCOPE_XACT, TRIES)
VERB(lockredis_permit_unlock, release, KIND_PERMIT)
VERB(lockredis_permit_acquire, take_id, KIND_PERMIT, SCOPE_SESSION, WAITS,.unowned = true)
VERB(lockredis_try_permit_acquire, take_id, KIND_PERMIT, SCOPE_SESSION, TRIES,.unowned = true)
VERB(lockredis_permit_release, release_id, KIND_PERMIT)
VERB(lockredis_permit_extend, extend_id, KIND_PERMIT)

/* Token locks */
VERB(lockredis_token_lock, take_token, KIND_TOKEN, SCOPE_SESSION, WAITS,.unowned = true)
VERB(lockredis_try_token_lock, take_token, KIND_TOKEN, SCOPE_SESSION, TRIES,.unowned = true)
VERB(lockredis_token_unlock, release_id, KIND_TOKEN)
VERB(lockredis_token_extend, extend_id, KIND_TOKEN)
VERB(lockredis_token_is_held, extend_id, KIND_TOKEN)

/* Semaphores */
VERB(lockredis_semaphore_init, define_permits, KIND_SEMAPHORE,.change = CHANGE_INIT)
VERB(lockredis_semaphore_set, define_permits, KIND_SEMAPHORE,.change = CHANGE_SET)
VERB(lockredis_semaphore_add, define_permits, KIND_SEMAPHORE,.change = CHANGE_ADD)
VERB(lockredis_semaphore_drain, drain, KIND_SEMAPHORE)
VERB(lockredis_semaphore_available, number, KIND_SEMAPHORE)
VERB(lockredis_semaphore_acquire, acquire_permits, KIND_SEMAPHORE,.wait = WAITS)
VERB(lockredis_try_semaphore_acquire, acquire_permits, KIND_SEMAPHORE,.wait = TRIES)
VERB(lockredis_semaphore_release, count_now, KIND_SEMAPHORE)
VERB(lockredis_semaphore_xact_release, count_at_commit, KIND_SEMAPHORE)

/* Latches */
VERB(lockredis_latch_init, define_latch, KIND_LATCH,.change = CHANGE_INIT)
VERB(lockredis_latch_set, define_latch, KIND_LATCH,.change = CHANGE_SET)
VERB(lockredis_latch_delete, delete_latch, KIND_LATCH,.change = CHANGE_DELETE)
VERB(lockredis_latch_count, latch_count, KIND_LATCH)
VERB(lockredis_latch_count_down, count_now, KIND_LATCH)
VERB(lockredis_latch_xact_count_down, count_at_commit, KIND_LATCH)
VERB(lockredis_latch_wait, wait_for_latch, KIND_LATCH,.wait = TRIES_OR_WAITS)

/* Conditions of locks */
VERB(lockredis_condition_wait, wait_for_condition, KIND_CONDITION,.wait = TRIES_OR_WAITS)
VERB(lockredis_condition_notify, notify, KIND_CONDITION,.most = 1)
VERB(lockredis_condition_notify_all, notify, KIND_CONDITION,.most = CONDITION_ALL)

/* Holds of this session, of the kind that an argument names or that it holds */
VERB(lockredis_extend, extend, KIND_REENTRANT)
VERB(lockredis_is_held, is_held, KIND_REENTRANT)
VERB(lockredis_hold_count, hold_count, KIND_REENTRANT)
VERB(lockredis_assert_held, assert_held, KIND_REENTRANT)
VERB(lockredis_fence, fence, KIND_REENTRANT)

/* Locks of any kind, whoever holds them */
VERB(lockredis_is_locked, is_locked, KIND_REENTRANT)
VERB(lockredis_lock_ttl, lock_ttl, KIND_REENTRANT)
VERB(lockredis_lock_owner, lock_owner, KIND_REENTRANT)
VERB(lockredis_force_unlock, force, KIND_REENTRANT)

/* Procedures, see job.c */
VERB(lockredis_with_lock, job_call, KIND_REENTRANT, SCOPE_SESSION, TRIES_OR_WAITS,
	 .procedure = "redis_with_lock")
VERB(lockredis_with_permit, job_call, KIND_PERMIT, SCOPE_SESSION, TRIES_OR_WAITS,
	 .procedure = "redis_with_permit")
VERB(lockredis_await_lock, job_await, KIND_REENTRANT, SCOPE_SESSION, WAITS,
	 .procedure = "redis_await_lock")
