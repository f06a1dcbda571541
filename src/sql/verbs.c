/*-------------------------------------------------------------------------
 *
 * verbs.c
 *	  The shapes of the SQL functions of verbs.h: arguments in, results out.
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
#include "sql/fence.h"
#include "store/stores.h"

/* The parameters of a shape.  A row of verbs.h sets only those that its shape uses. */
typedef struct Verb
{
	KindId		kind;			/* kind of lock */
	LockScope	scope;			/* level of the lock */
	WaitRule	wait;			/* how long it waits */
	StoreChange change;			/* how it changes a number */
} Verb;

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
take(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	AcquireRequest request;

	arg_key(fcinfo, &name);
	arg_take(fcinfo, verb->kind, verb->scope, verb->wait, 1, &request);
	return taken_or_not(verb, session_lock(&name, &request, NULL));
}

/*
 * take_keys --- (keys [, wait], lease): the locks of all the keys
 */
static Datum
take_keys(FunctionCallInfo fcinfo, const Verb *verb)
{
	AcquireRequest request;
	int			n;
	const LrName *const *names = arg_keys(fcinfo, &n);

	arg_take(fcinfo, verb->kind, verb->scope, verb->wait, 1, &request);
	return taken_or_not(verb, session_multi_lock(names, n, &request));
}

/*
 * take_fenced --- (key [, wait], lease): a lock; returns its fencing token, or null
 */
static Datum
take_fenced(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	AcquireRequest request;
	int64		token;

	arg_key(fcinfo, &name);
	arg_take(fcinfo, verb->kind, verb->scope, verb->wait, 1, &request);
	if (!fence_take(&name, &request, fcinfo->flinfo->fn_oid, &token))
		PG_RETURN_NULL();
	PG_RETURN_INT64(token);
}

/*
 * take_token --- (key [, wait], lease, token): a token lock; returns its token, or null
 */
static Datum
take_token(FunctionCallInfo fcinfo, const Verb *verb)
{
	int			lease_arg = verb->wait == WAITS ? 1 : 2;
	LrName		name;
	AcquireRequest request;
	LockToken	token;
	text	   *value;

	arg_key(fcinfo, &name);
	arg_require_lease(fcinfo, lease_arg);
	arg_request(fcinfo, verb->kind, verb->scope, verb->wait, 1, &request);
	value = arg_new_token(fcinfo, lease_arg + 1, &token);
	xact_warn_snapshot(SCOPE_SESSION);
	if (!session_token_lock(&name, &request, &token))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(value);
}

/*
 * take_id --- (key [, wait], lease): a permit that no session holds; returns its id, or
 * null
 */
static Datum
take_id(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	AcquireRequest request;
	uint8		id[LR_SECRET_ID_LEN];

	arg_key(fcinfo, &name);
	arg_require_lease(fcinfo, verb->wait == WAITS ? 1 : 2);
	arg_request(fcinfo, verb->kind, verb->scope, verb->wait, 1, &request);

	/*
	 * Keep it until its lease ends: it never passes to a session of this server, and
	 * the table keeps it after a crash.
	 */
	request.terms.keep_until = lr_now() + request.terms.lease_ms * LR_US_PER_MS;
	request.terms.guard = GUARD_OFF;
	request.terms.on_lost = ON_LOST_MARK;
	if (!session_acquire(&name, &request, id))
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
release(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;

	arg_key(fcinfo, &name);
	require_unrestricted();
	PG_RETURN_BOOL(session_unlock(&name, verb->kind));
}

/*
 * release_keys --- (keys): the same for each of the keys
 */
static Datum
release_keys(FunctionCallInfo fcinfo, const Verb *verb)
{
	int			n;
	const LrName *const *names = arg_keys(fcinfo, &n);

	require_unrestricted();
	PG_RETURN_BOOL(session_multi_unlock(names, n));
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
 * release_token --- (key, token): release a token lock; false if this token does not
 * hold it
 */
static Datum
release_token(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	LockToken	token;

	arg_key(fcinfo, &name);
	arg_token(fcinfo, 1, &token);
	PG_RETURN_BOOL(session_token_unlock(&name, &token));
}

/*
 * release_id --- (key, id): release a permit; false if it has ended
 */
static Datum
release_id(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	uint8		id[LR_SECRET_ID_LEN];

	arg_key(fcinfo, &name);
	arg_id(fcinfo, 1, id);
	PG_RETURN_BOOL(session_release_id(&name, verb->kind, id));
}

/*
 * extend --- (key, lease [, kind]): set the lease of a hold; false if the hold was lost
 */
static Datum
extend(FunctionCallInfo fcinfo, const Verb *verb)
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

/*
 * extend_token --- (key, token, lease): likewise; false if this token does not hold the
 * lock
 */
static Datum
extend_token(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	LockToken	token;
	bool		renewed;

	arg_key(fcinfo, &name);
	arg_token(fcinfo, 1, &token);
	arg_require_lease(fcinfo, 2);
	PG_RETURN_BOOL(session_token_extend(&name, &token, arg_lease_ms(fcinfo, 2, &renewed)));
}

/*
 * extend_id --- (key, id, lease): likewise; false if the permit has ended
 */
static Datum
extend_id(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	uint8		id[LR_SECRET_ID_LEN];
	bool		renewed;

	arg_key(fcinfo, &name);
	arg_id(fcinfo, 1, id);
	arg_require_lease(fcinfo, 2);
	PG_RETURN_BOOL(session_extend_id(&name, verb->kind, id,
									 arg_lease_ms(fcinfo, 2, &renewed)));
}

/*
 * force --- (key): release the lock, whoever holds it; false if nobody does
 */
static Datum
force(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;

	arg_key(fcinfo, &name);
	PG_RETURN_BOOL(session_force(&name, verb->kind));
}

/* ----------
 * Numbers: permits, semaphores, latches
 * ----------
 */

/*
 * define --- (key, amount [, ttl]): change the number; init returns false if there is
 * one
 */
static Datum
define(FunctionCallInfo fcinfo, const Verb *verb, int64 amount)
{
	LrName		name;
	StoreOp		op = {.kind = STORE_DEFINE,.change = verb->change,.amount = amount};

	arg_key(fcinfo, &name);
	if (PG_NARGS() > 2)
		op.lease_ms = arg_ttl_ms(fcinfo, 2);
	(void) session_number(&name, verb->kind, &op);
	if (verb->change != CHANGE_INIT)
		PG_RETURN_VOID();
	PG_RETURN_BOOL(op.changed);
}

static Datum
define_permits(FunctionCallInfo fcinfo, const Verb *verb)
{
	return define(fcinfo, verb,
				  arg_permits(fcinfo, 1, verb->change == CHANGE_ADD ? PG_INT32_MIN : 0));
}

static Datum
define_latch(FunctionCallInfo fcinfo, const Verb *verb)
{
	return define(fcinfo, verb, arg_latch_count(fcinfo, 1));
}

/*
 * delete_latch --- (key): delete a latch; false if there is none
 */
static Datum
delete_latch(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	StoreOp		op = {.kind = STORE_DEFINE,.change = CHANGE_DELETE};

	arg_key(fcinfo, &name);
	(void) session_number(&name, verb->kind, &op);
	PG_RETURN_BOOL(op.changed);
}

/*
 * drain --- (key): take all free permits; returns how many
 */
static Datum
drain(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	LockTerms	terms = {.kind = verb->kind};
	StoreOp		op = {.kind = STORE_DEFINE,.change = CHANGE_DRAIN};
	Untold	   *u;
	int32		permits;

	arg_key(fcinfo, &name);
	u = untold_make(&name, &terms);
	(void) session_number(&name, verb->kind, &op);
	permits = int_result(op.available);
	if (permits > 0)
		untold_begin_some(u, permits);
	PG_RETURN_INT32(permits);
}

/*
 * number_found --- (key): ask the store for the number; false if there is none
 */
static bool
number_found(FunctionCallInfo fcinfo, const Verb *verb, StoreOp *op)
{
	LrName		name;

	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_VALUE;
	arg_key(fcinfo, &name);
	return session_number(&name, verb->kind, op);
}

static Datum
total(FunctionCallInfo fcinfo, const Verb *verb)
{
	StoreOp		op;

	if (!number_found(fcinfo, verb, &op))
		PG_RETURN_NULL();
	PG_RETURN_INT32(int_result(op.total));
}

static Datum
available(FunctionCallInfo fcinfo, const Verb *verb)
{
	StoreOp		op;

	if (!number_found(fcinfo, verb, &op))
		PG_RETURN_NULL();
	PG_RETURN_INT32(int_result(op.available));
}

/*
 * latch_count --- (key): how often a latch is still to be counted down; 0 if there is
 * none
 */
static Datum
latch_count(FunctionCallInfo fcinfo, const Verb *verb)
{
	StoreOp		op;

	(void) number_found(fcinfo, verb, &op);
	PG_RETURN_INT64(op.available);
}

/*
 * wait_for_number --- (key [, how many] [, wait]): take so many permits, or wait for a
 * latch
 */
static Datum
wait_for_number(FunctionCallInfo fcinfo, const Verb *verb, int64 amount, int wait_arg)
{
	LrName		name;
	AcquireRequest request;

	arg_key(fcinfo, &name);
	arg_wait(fcinfo, verb->kind, verb->wait, wait_arg, &request);
	request.terms.amount = amount;
	return taken_or_not(verb, session_wait_for_number(&name, &request));
}

static Datum
acquire_permits(FunctionCallInfo fcinfo, const Verb *verb)
{
	return wait_for_number(fcinfo, verb, arg_permits(fcinfo, 1, 1), 2);
}

static Datum
wait_for_latch(FunctionCallInfo fcinfo, const Verb *verb)
{
	return wait_for_number(fcinfo, verb, 1, 1);
}

/*
 * give_permits --- (key, how many): return permits at once
 */
static Datum
give_permits(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	int64		permits;
	int64		free;

	arg_key(fcinfo, &name);
	permits = arg_permits(fcinfo, 1, 1);
	session_enter();
	(void) counts_now(&name, verb->kind, permits, &free);
	PG_RETURN_VOID();
}

/*
 * count_down --- (key): count down at once; returns what is left, or null without an
 * answer
 */
static Datum
count_down(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	int64		left;

	arg_key(fcinfo, &name);
	session_enter();
	if (!counts_now(&name, verb->kind, 1, &left))
		PG_RETURN_NULL();
	PG_RETURN_INT64(left);
}

/*
 * count_at_commit --- (key [, how many]): return or count down when the transaction
 * commits
 */
static Datum
count_at_commit(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	int64		amount;

	arg_key(fcinfo, &name);
	amount = PG_NARGS() > 1 ? arg_permits(fcinfo, 1, 1) : 1;
	session_enter();
	counts_at_commit(&name, verb->kind, amount);
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
wait_for_condition(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	uint8		id[STORE_ID_LEN];
	int64		wait_us;

	arg_key(fcinfo, &name);
	wait_us = arg_wait_us(fcinfo, verb->wait, 1);
	arg_condition(fcinfo, 2, id);
	require_session_locks();
	PG_RETURN_BOOL(session_condition_wait(&name, id, wait_us));
}

/*
 * notify --- (key, condition): notify at most so many waiting sessions; returns how
 * many
 */
static Datum
notify(FunctionCallInfo fcinfo, int most)
{
	LrName		name;
	uint8		id[STORE_ID_LEN];

	arg_key(fcinfo, &name);
	arg_condition(fcinfo, 1, id);
	require_unrestricted();
	PG_RETURN_INT64(session_condition_notify(&name, id, most));
}

static Datum
notify_one(FunctionCallInfo fcinfo, const Verb *verb)
{
	return notify(fcinfo, 1);
}

static Datum
notify_all(FunctionCallInfo fcinfo, const Verb *verb)
{
	return notify(fcinfo, CONDITION_ALL);
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
look_at_hold(FunctionCallInfo fcinfo, LrName *name, HoldView *view)
{
	arg_key(fcinfo, name);
	return session_look(name, arg_kind(fcinfo, 1, name), view);
}

static Datum
is_held(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	HoldView	view;

	PG_RETURN_BOOL(look_at_hold(fcinfo, &name, &view) && view.state == HOLD_HELD);
}

static Datum
hold_count(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	HoldView	view;

	if (!look_at_hold(fcinfo, &name, &view) || view.state != HOLD_HELD)
		PG_RETURN_INT32(0);
	PG_RETURN_INT32(view.scope[SCOPE_SESSION].count + view.scope[SCOPE_XACT].count);
}

static Datum
assert_held(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	HoldView	view;

	if (!look_at_hold(fcinfo, &name, &view))
		report_not_held(ERROR, &name);
	if (view.state != HOLD_HELD)
		session_refuse_lost(&name, &view);
	PG_RETURN_VOID();
}

/*
 * fence --- (key [, kind]): the fencing token, or null
 *
 * In fallback mode, a token from the table belongs to the transaction that got it: once
 * that has ended, the session has none.
 */
static Datum
fence(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	HoldView	view;

	if (!look_at_hold(fcinfo, &name, &view) || view.state != HOLD_HELD || view.fence == 0 ||
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
inspect(FunctionCallInfo fcinfo, const Verb *verb, StoreOp *op)
{
	LrName		name;

	arg_key(fcinfo, &name);
	session_inspect(&name, verb->kind, op);
	if (op->value == STORE_VALUE_OTHER)
		report_wrong_type(&name, op);
}

static Datum
is_locked(FunctionCallInfo fcinfo, const Verb *verb)
{
	StoreOp		op;

	inspect(fcinfo, verb, &op);
	PG_RETURN_BOOL(op.value != STORE_VALUE_NONE && op.value != STORE_VALUE_NUMBER &&
				   op.available <= 0);
}

static Datum
lock_ttl(FunctionCallInfo fcinfo, const Verb *verb)
{
	StoreOp		op;

	inspect(fcinfo, verb, &op);
	if (op.value == STORE_VALUE_NONE || op.ttl_ms == STORE_NO_TTL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(interval_from_us(op.ttl_ms * LR_US_PER_MS));
}

/*
 * lock_owner --- (key): the owner, as the store shows it; null if nobody holds the lock
 */
static Datum
lock_owner(FunctionCallInfo fcinfo, const Verb *verb)
{
	StoreOp		op;

	inspect(fcinfo, verb, &op);
	if (op.value == STORE_VALUE_NONE || op.value == STORE_VALUE_NUMBER)
		PG_RETURN_NULL();

	/* Several masters do not agree on one owner. */
	if (op.value == STORE_VALUE_LOCK && op.holder[0] == '\0' && op.hold_count == 0)
		PG_RETURN_NULL();

	/*
	 * The string of a token lock is a credential: whoever knows it can release the
	 * lock.
	 */
	if (op.value == STORE_VALUE_TOKEN)
		PG_RETURN_TEXT_P(cstring_to_text("token"));
	PG_RETURN_TEXT_P(cstring_to_text(lr_owner_to_show(op.holder)));
}

/*
 * token_is_held --- (key, token): does this token hold the lock?
 */
static Datum
token_is_held(FunctionCallInfo fcinfo, const Verb *verb)
{
	LrName		name;
	LockToken	token;

	arg_key(fcinfo, &name);
	arg_token(fcinfo, 1, &token);
	PG_RETURN_BOOL(session_token_is_held(&name, &token));
}

/* ----------
 * The functions
 * ----------
 */

#define VERB(symbol, shape, ...) \
PG_FUNCTION_INFO_V1(symbol); \
Datum \
symbol(PG_FUNCTION_ARGS) \
{ \
	static const Verb verb = {__VA_ARGS__}; \
	return shape(fcinfo, &verb); \
}

#include "sql/verbs.h"
