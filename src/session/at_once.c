/*-------------------------------------------------------------------------
 *
 * at_once.c
 *	  Several locks by one request, all of them or none.
 *
 * The session does not queue here.  It looks in the lock table whether a session of
 * this server holds or awaits one of the keys.  The lock table knows nothing of the
 * request while that is under way: other sessions may ask for the same keys, and the
 * store decides.  When it has answered, each lock is entered into the lock table at
 * once, or left to the watchdog.
 *
 * As with one acquire (waiting.c), the state that needs cleaning up is in a static
 * structure.  Its arrays belong to the statement: if the session ends in the middle,
 * the abort cleans up before they are freed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/at_once.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/wait.h"
#include "names.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/stores.h"

typedef struct AtOnce
{
	bool		active;
	bool		asking;			/* ops are with the store */
	int			n;
	const LrName *const *names;
	const AcquireRequest *request;
	StoreOp    *ops;			/* one for each name; STORE_PENDING: done with */
} AtOnce;

static AtOnce once;

/*
 * once_is_free --- does no session of this server hold or await any of the keys?
 *
 * *sent: a session that asks for one of them alone would wait for the answer to a
 * release.
 */
static bool
once_is_free(const LrName *const *names, int n, KindId kind, bool *sent)
{
	KindId		other;

	*sent = false;
	for (int i = 0; i < n; i++)
	{
		bool		its_sent;
		EnqueueResult result = lt_may_take(names[i], kind, &other, &its_sent);

		if (result == ENQUEUE_OTHER)
			report_held_otherwise(names[i], kind, other);
		if (result != ENQUEUED)
			return false;
		*sent = *sent || its_sent;
	}
	return true;
}

/*
 * once_prepare --- prepare one create for each key, with an owner number of its own
 */
static void
once_prepare(const LrName *const *names, int n, const AcquireRequest *request,
			 StoreId store)
{
	once.ops = palloc(sizeof(StoreOp) * n);
	for (int i = 0; i < n; i++)
	{
		HeldKey		key = held_key(names[i], request->terms.kind);
		StoreOp    *op = &once.ops[i];

		ask_prepare(op, STORE_CREATE, &key, store);
		op->owner = lr_new_owner();
		op->lease_ms = request->terms.lease_ms;
		op->min_replicas = request->terms.min_replicas;
		op->together = n;
	}
	held_reserve_all(names, n, request->terms.kind);
	once.n = n;
	once.names = names;
	once.request = request;
	once.active = true;
}

static void
once_ask(void)
{
	PG_TRY();
	{
		once.asking = true;
		ask_run_many(once.ops, once.n, STORE_WAIT);
		once.asking = false;
	}
	PG_CATCH();
	{
		at_once_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * once_find_obstacle --- index of the lock that is not free
 */
static int
once_find_obstacle(void)
{
	for (int i = 0; i < once.n; i++)
		if (once.ops[i].value != STORE_VALUE_NONE)
			return i;
	return 0;
}

/*
 * once_keep_granted --- enter the locks into the lock table and the index
 *
 * Returns true if all of them were granted.  Nothing may raise between the answer and
 * the entries in the index.  If a former master has granted a lock, its owner may be in
 * the way of a new request until the watchdog has released it.  So a call that does not
 * wait raises for it, rather than return that the lock is busy.
 */
static bool
once_keep_granted(void)
{
	const LockTerms *terms = &once.request->terms;
	int			had = 0;
	bool		too_late = false;
	bool		stale = false;

	for (int i = 0; i < once.n; i++)
	{
		StoreOp    *op = &once.ops[i];
		LrIndex		hold;
		GrantResult result;
		HeldEntry  *entry;

		result = lt_grant_unqueued(once.names[i], op->store, op->owner, op->topology,
								   op->sent_at, terms, &hold);
		if (result == GRANT_STALE)
		{
			ask_distrust(op);	/* for the error, if the master has changed */
			stale |= op->outcome == STORE_UNKNOWN;
		}
		op->outcome = STORE_PENDING;
		too_late |= result == GRANT_TOO_LATE;
		if (result != GRANTED)
			continue;
		had++;
		if (op->without != 0)
			lt_note_without(hold, op->owner, op->without);
		if (op->nodes != 0)
			lt_note_nodes(hold, op->owner, op->nodes);
		entry = held_complete_one(once.names[i], terms->kind, hold, terms->guard);
		if (terms->scope == SCOPE_XACT)
			track_hold(&entry->key, hold);
		else
			track_taken(entry);
	}
	lr_count_many(STAT_ACQUIRES, had);
	once.active = false;
	held_forget_reserved();

	if (too_late)
		wait_report_too_late(terms);
	if (stale && once.request->wait_us == 0)
		ask_report_failure(ERROR, STORE_UNKNOWN);
	wait_require_place();
	return had == once.n;
}

/*
 * once_may_go_on --- may the call go on after this failure?
 *
 * Only calls that wait do.  waiting.c decides for how long.
 */
static bool
once_may_go_on(StoreOutcome outcome)
{
	return once.request->wait_us != 0 &&
		(lr_has_fallback() || (lr_follows_master() && outcome != STORE_DENIED));
}

/*
 * once_fail --- clean up, and raise unless the call may go on
 */
static void
once_fail(StoreOutcome outcome)
{
	at_once_abandon();
	if (outcome == STORE_UNCONFIRMED || !once_may_go_on(outcome))
		ask_report_failure(ERROR, outcome);
	lr_count(STAT_ERRORS);
}

/*
 * once_is_one_group --- can one request take all of them?
 */
static bool
once_is_one_group(const LrName *const *names, int n, StoreId store)
{
	const StoreRoutine *routine = lr_store(store);

	for (int i = 1; i < n && routine->group_of != NULL; i++)
		if (routine->group_of(names[i]->data, names[i]->len) !=
			routine->group_of(names[0]->data, names[0]->len))
			return false;
	return true;
}

/*
 * STORE_LATE corrects our idea of the store's clock, so the next request will not be
 * late.
 */
AtOnceResult
at_once_take(const LrName *const *names, int n, const AcquireRequest *request)
{
	StoreId		store;
	StoreOp    *op;
	int			which;
	bool		sent;

	wait_require_watchdog(&request->terms);
	wait_require_place();
	store = current_store();
	for (int i = 0; i < n; i++)
		request_require_name(names[i], store);
	if (!lr_store_can(store, STORE_HAS_TOGETHER) || !once_is_one_group(names, n, store))
		return AT_ONCE_NOT;
	if (!once_is_free(names, n, request->terms.kind, &sent))
		return AT_ONCE_BUSY;
	if (sent)
		return AT_ONCE_NOT;
	once_prepare(names, n, request, store);
	once_ask();

	which = once_find_obstacle();
	op = &once.ops[which];
	switch (op->outcome)
	{
		case STORE_OK:
			return once_keep_granted() ? AT_ONCE_HAD : AT_ONCE_NOT;
		case STORE_BUSY:
			at_once_abandon();
			return AT_ONCE_BUSY;
		case STORE_LATE:
			at_once_abandon();
			return AT_ONCE_NOT;
		case STORE_WRONG_TYPE:
			at_once_abandon();
			report_wrong_type(names[which], op);
			break;
		default:
			once_fail(op->outcome);
	}
	return AT_ONCE_NOT;
}

/*
 * The watchdog releases locks whose request was not answered, and those that were
 * granted but cannot be kept.
 */
void
at_once_abandon(void)
{
	if (!once.active)
		return;
	once.active = false;
	if (once.asking)
		ask_abandon();
	once.asking = false;
	for (int i = 0; i < once.n; i++)
	{
		StoreOp    *op = &once.ops[i];

		if (op->outcome == STORE_OK || op->outcome == STORE_UNKNOWN ||
			op->outcome == STORE_UNCONFIRMED)
			lt_orphan_unqueued(once.names[i], &once.request->terms, op->store,
							   op->owner, op->topology,
							   op->outcome == STORE_UNKNOWN ? op->not_after : 0);
	}
	held_forget_reserved();
}
