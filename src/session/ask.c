/*-------------------------------------------------------------------------
 *
 * ask.c
 *	  Requests of this backend to the stores, on which terms, and over which connections.
 *
 * There is one handle for each store, through which all requests of the session go, one
 * batch at a time.  A request on a held lock goes to the store where the lock is, and
 * is repeated if the lock was moved to another store meanwhile.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/ask.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/timeout.h"

#include "kinds/kind.h"
#include "names.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"

/* ----------
 * How a lock is asked for, and what follows from it for the store
 * ----------
 */

/*
 * request_ttl_ms --- see session.h
 *
 * A key that has to stay locked for a time does so even if this server crashes right
 * after.
 */
int64
request_ttl_ms(const LockTerms *terms)
{
	if (terms->keep_until == 0)
		return terms->lease_ms;
	return lr_later(terms->lease_ms, lr_ms_up(terms->keep_until - lr_now()));
}

/*
 * request_lacks_counter --- are tokens of this store useless for the request?
 *
 * In fallback mode the table does not continue the tokens of Redis.  At transaction
 * level the fence table takes care of that.
 */
static bool
request_lacks_counter(const AcquireRequest *request, StoreId store)
{
	return request->fenced && request->terms.scope == SCOPE_SESSION &&
		lr_store_can(store, STORE_SERVER_ONLY) && lr_has_fallback();
}

void
request_require_counter(const AcquireRequest *request, StoreId store)
{
	if (!request_lacks_counter(request, store))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("session-level fencing tokens are not available while Redis is out of reach"),
			 errdetail("Locks are kept in the table, which does not know the counters in Redis."),
			 errhint("Use redis_fenced_xact_lock.")));
}

/*
 * Locks of a kind that does not fall back may still be held elsewhere, and only Redis
 * knows.
 */
void
request_require_store(KindId kind, StoreId store)
{
	const StoreRoutine *routine = lr_store(store);

	if (routine->takes_kind != NULL && !routine->takes_kind(kind))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the kind \"%s\" is not available with several masters",
						lr_kind(kind)->name),
				 errdetail("Masters that know nothing of each other cannot agree on it."),
				 errhint("Let \"%s\" name one master, Sentinels, or a cluster.",
						 "lockredis.url")));
	if (lr_kind(kind)->falls_back || !lr_has_fallback() ||
		!lr_store_can(store, STORE_SERVER_ONLY))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_STORE_UNREACHABLE),
			 errmsg("the kind \"%s\" is not available while Redis is out of reach",
					lr_kind(kind)->name),
			 errdetail("The table that stands in for Redis has no locks of this kind."),
			 errhint("Try again when redis_lock_status shows that Redis is in use.")));
}

void
request_require_name(const LrName *name, StoreId store)
{
	const StoreRoutine *routine = lr_store(store);

	if (routine->group_of == NULL ||
		routine->group_of(name->data, name->len) != STORE_NO_GROUP)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("lock key cannot be used in a Redis Cluster"),
			 errdetail("The keys that are made of it would not be in one slot."),
			 errhint("Use a name without braces, or with one non-empty {tag}.")));
}

void
request_require_number(KindId kind, const LrName *name)
{
	StoreId		store = current_store();

	request_require_store(kind, store);
	request_require_name(name, store);
	if (!lr_kind(kind)->untagged || !cluster_is_on() ||
		!lr_store_can(store, STORE_HAS_PLACE) || memchr(name->data, '{', name->len) == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("name of a %s must not contain a brace in a Redis Cluster",
					lr_kind(kind)->name),
			 errdetail("Its channel would be in another slot."),
			 errhint("Use a name without braces.")));
}

/*
 * request_is_met_by --- see session.h
 *
 * A token that a transaction got from the table is of no use at session level, even
 * when the lock is in Redis again.
 */
bool
request_is_met_by(const AcquireRequest *request, const HoldView *view)
{
	return view->fence != 0 && !request_lacks_counter(request, view->fence_store);
}

/* ----------
 * Idle connections
 *
 * The handler of a timeout does so, after lockredis.idle_timeout: the session may run a
 * query for hours, or wait for its client, and is not interrupted.  The handler only
 * shuts down the socket.  The next request notices that, as if the peer had closed the
 * connection, and connects again.  The handler frees no memory, since the session may
 * be using it.
 *
 * The handler may interrupt any instruction of this process:
 *
 * - A request is under way.  Its batch is active from before it checks the connection
 *	 until after its last reply, and the handler leaves an active batch alone.  So the
 *	 connection is shut down before that check, which notices, or not at all.
 * - A batch has ended, but the node still waits for replicas: left alone.
 * - Releases that were left have no answer yet: the next request takes them for lost.
 * - A lock call is between two requests: left alone (idle_keep), as it needs the
 *	 connection soon.
 * - The socket is being opened or closed: the connection is not ready then, or its
 *	 number refers to no socket; no other socket is made meanwhile.
 *
 * To arm a timeout for each request would cost a system call for each.  So it is armed
 * once, and the handler arms it again for the time that is left.  An error disables all
 * timeouts of a session; the abort of the transaction or subtransaction arms ours
 * again.  In a failed transaction, a statement that is refused is an error without an
 * abort: then the ROLLBACK arms it.
 *
 * A reload of the setting takes effect before the next statement, like PostgreSQL's
 * idle_session_timeout: it does not wake an idle session.
 * ----------
 */

static const StoreRoutine *idle_store = NULL;
static StoreHandle *idle_handle;
static TimeoutId idle_timeout_id;
static int	armed_for = 0;		/* lr_idle_timeout when the timeout was armed */
static volatile sig_atomic_t kept = false;

static void
idle_arm(int64 us)
{
	enable_timeout_after(idle_timeout_id, (int) Max(lr_ms_up(us), 1));
}

/*
 * idle_handler --- runs in a signal handler: only async-signal-safe code
 */
static void
idle_handler(void)
{
	int64		limit = lr_idle_timeout * LR_US_PER_MS;
	int64		now = lr_now();
	int64		used;

	if (limit == 0 || kept)
		return;
	used = idle_store->let_go(idle_handle, now - limit);
	if (used == STORE_LET_GO)
		lr_count(STAT_IDLE_CLOSES);
	else if (used != STORE_NOT_CONNECTED)
		idle_arm(used + limit - now);
}

static void
idle_open(const StoreRoutine *store, StoreHandle *handle)
{
	if (store->let_go == NULL)
		return;
	idle_timeout_id = RegisterTimeout(USER_TIMEOUT, idle_handler);
	idle_handle = handle;
	idle_store = store;
}

void
idle_mind(void)
{
	if (idle_store == NULL || lr_idle_timeout == 0 || proc_exit_inprogress ||
		!idle_store->connected(idle_handle))
		return;
	if (armed_for == lr_idle_timeout && get_timeout_active(idle_timeout_id))
		return;
	armed_for = lr_idle_timeout;
	idle_arm(lr_idle_timeout * LR_US_PER_MS);
}

/* During the call the timeout may have fired, and is not armed any more. */
void
idle_keep(bool keep)
{
	kept = keep;
	if (!keep)
		idle_mind();
}

/* ----------
 * Handles
 * ----------
 */

static StoreHandle *store_handle[STORE_COUNT];
static StoreId failed_store;	/* ask_error() is the error of this store, */
static bool was_former;			/* but if this is set, it is: */

static const StoreError former_master = {
	.sqlstate = ERRCODE_STORE_FAILED,
	.detail = "The node that answered is not the master any more."
};

static bool is_open = false;

void
ask_open(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (store_handle[i] == NULL && lr_has_store(i))
		{
			store_handle[i] = lr_store(i)->open("session", STORE_NO_PART);
			idle_open(lr_store(i), store_handle[i]);
		}
	failed_store = current_store();
	is_open = true;
}

bool
ask_is_open(void)
{
	return is_open;
}

void
ask_prepare(StoreOp *op, StoreOpKind kind, const HeldKey *key, StoreId store)
{
	memset(op, 0, sizeof(StoreOp));
	op->kind = kind;
	op->lock_kind = key->kind;
	op->store = store;
	op->name = key->data;
	op->name_len = key->len;
}

void
ask_prepare_held(StoreOp *op, StoreOpKind kind, const HeldKey *key,
				 const HoldView *view)
{
	ask_prepare(op, kind, key, view->store);
	op->lock_kind = view->kind;
	op->moves = view->moves;
	op->owner = view->owner;
	memcpy(op->id, view->id, STORE_ID_LEN);
	op->is_held = lt_is_held;
}

/* ----------
 * Running operations
 * ----------
 */

/*
 * ask_has_failed --- does the outcome say nothing of the lock?
 */
static bool
ask_has_failed(const StoreOp *op)
{
	return op->outcome >= STORE_REFUSED;
}

/*
 * ask_shows_lock --- does the answer show a lock of somebody else?
 *
 * A value of another type than a lock of the wanted kind may be a lock, if it expires.
 * Permits are no locks.  The lock table knows the locks of this server.
 */
static bool
ask_shows_lock(const StoreOp *op)
{
	const char *uuid = lr_instance_uuid();

	if (op->kind == STORE_CREATE)
		return lr_is_lock(op->lock_kind) &&
			(op->outcome == STORE_BUSY ||
			 (op->outcome == STORE_WRONG_TYPE && op->answer.ttl_ms != STORE_NO_TTL));
	if (op->kind != STORE_INSPECT || op->outcome != STORE_OK)
		return false;
	if (op->answer.value == STORE_VALUE_LOCK)
		return strcmp(op->answer.type_name, "hash") == 0 &&
			(op->answer.digest[0] != '\0' || strncmp(op->answer.holder, uuid, strlen(uuid)) != 0);
	return (op->answer.value == STORE_VALUE_TOKEN || op->answer.value == STORE_VALUE_OTHER) &&
		op->answer.ttl_ms != STORE_NO_TTL;
}

/*
 * ask_note_lease --- remember the lease of a foreign lock
 *
 * If the store goes away, that lease still has to be waited for.
 */
static void
ask_note_lease(const StoreOp *op)
{
	if (!lr_store_can(op->store, STORE_SERVER_ONLY) && ask_shows_lock(op))
		silence_saw_ttl(lr_name_hash(op->name, op->name_len), op->answer.ttl_ms);
}

/*
 * ask_one_store --- run operations in one store until each has an outcome
 *
 * With STORE_WAIT an interrupt can end this early.  Returns true only with "answered":
 * the operations were sent, and have no outcome yet.
 */
static bool
ask_one_store(StoreId id, StoreOp *ops, int nops, int64 deadline, StoreStep how,
			  StoreAnswered answered, AskProgress progress)
{
	const StoreRoutine *store = lr_store(id);
	StoreHandle *handle = store_handle[id];

	store->start(handle, ops, nops, deadline);
	if (answered != NULL && store->leave != NULL && store->leave(handle, answered))
	{
		idle_mind();
		return true;
	}
	while (!store->step(handle, how))
		if (progress != NULL)
			progress();
	idle_mind();
	for (int i = 0; i < nops; i++)
	{
		if (ask_has_failed(&ops[i]))
			failed_store = id;
		if (ops[i].outcome != STORE_OK || ops[i].kind == STORE_INSPECT)
			ask_note_lease(&ops[i]);
	}
	return false;
}

/*
 * ask_stores --- run operations, adjacent ones of the same store together
 *
 * If this raises while one store is asked, operations of later stores were not sent: they
 * keep the outcome STORE_DOWN.
 */
static void
ask_stores(StoreOp *ops, int nops, int64 deadline, StoreStep how, AskProgress progress)
{
	int			n;

	was_former = false;
	for (int i = 0; i < nops; i++)
	{
		ops[i].outcome = STORE_DOWN;
		ops[i].sent.at = 0;
	}
	for (int i = 0; i < nops; i += n)
	{
		n = 1;
		while (i + n < nops && ops[i + n].store == ops[i].store)
			n++;
		(void) ask_one_store(ops[i].store, ops + i, n, deadline, how, NULL, progress);
		if (progress != NULL && i + n < nops)
			progress();
	}
}

bool
ask_send(StoreOp *ops, int nops, int64 deadline, StoreAnswered answered,
		 AskProgress progress)
{
	was_former = false;
	return ask_one_store(ops[0].store, ops, nops, deadline, STORE_POLL, answered, progress);
}

/*
 * ask_abandon --- give each unfinished operation an outcome
 */
static void
ask_abandon(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (store_handle[i] != NULL)
			lr_store(i)->abandon(store_handle[i]);
}

void
ask_run_until(StoreOp *ops, int nops, int64 deadline, StoreStep how, AskProgress progress)
{
	PG_TRY();
	{
		ask_stores(ops, nops, deadline, how, progress);
	}
	PG_CATCH();
	{
		ask_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
}

void
ask_run_many(StoreOp *ops, int nops)
{
	ask_run_until(ops, nops, lr_now() + lr_call_budget(), STORE_WAIT, NULL);
}

void
ask_run(StoreOp *op)
{
	ask_run_many(op, 1);
}

void
ask_distrust(StoreOp *op)
{
	if (op->sent.topology == 0 || op->sent.topology == cluster_epoch_of(op->name, op->name_len) ||
		ask_has_failed(op))
		return;
	op->outcome = STORE_UNKNOWN;
	was_former = true;
}

/*
 * The store must remember a request that was sent twice: the answer is that of the
 * second, and the first may still be in a buffer of the network.  A wait for a latch
 * has no ticket.
 */
void
ask_forget(const StoreOp *op)
{
	bool		noted = op->kind == STORE_TALLY || lr_leaves_something(op->lock_kind);

	if (noted && !op->sent.again)
		lr_store(op->store)->forget(store_handle[op->store], op);
}

/*
 * ask_close --- see session_int.h
 *
 * FATAL may have left a batch whose operations were freed with the memory of the transaction.
 * An empty batch drops that one without looking at them, and disconnect() does not see it.
 */
void
ask_close(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (store_handle[i] != NULL && lr_store(i)->disconnect != NULL)
		{
			lr_store(i)->start(store_handle[i], NULL, 0, 0);
			lr_store(i)->disconnect(store_handle[i]);
		}
}

/* ----------
 * What is pending
 *
 * FATAL does not even pass PG_CATCH, and by the time that the session cleans up, the abort
 * has freed the memory of its statement.  So this is static, and the operations are in
 * memory of their own.
 * ----------
 */

Pending		pending = {.notification = LR_NONE,.lock = LR_NONE};

void
pending_begin(int nops, void (*give_up) (StoreOp *op))
{
	Assert(pending.give_up == NULL);
	pending.nops = nops;
	pending.give_up = give_up;
}

void
pending_end(void)
{
	pending.give_up = NULL;
	pending.nops = 0;
}

/*
 * pending_abandon --- see session_int.h
 *
 * It is all forgotten first, so that nothing is given up twice.
 */
void
pending_abandon(void)
{
	Pending		was = pending;

	pending_end();
	pending.notification = pending.lock = LR_NONE;
	if (was.give_up != NULL)
		ask_abandon();
	for (int i = 0; i < was.nops; i++)
		was.give_up(&was.ops[i]);
	if (was.notification != LR_NONE)
		lt_pass_on(was.notification);
	if (was.lock != LR_NONE)
		lt_pass_on(was.lock);
}

/* ----------
 * Asking about a lock that we hold
 * ----------
 */

/* How often a request is repeated because its lock was moved meanwhile. */
#define MOVES_MAX			3

/*
 * ask_where_it_is --- run an operation in the store where the hold is now
 *
 * If that is a new master, a lease is at least as long as the former one has confirmed:
 * after this answer the watchdog does not ask the new master any more.
 */
static void
ask_where_it_is(LrIndex hold, StoreOp *op)
{
	HoldView	view;

	lt_look(hold, &view);
	op->store = view.store;
	op->moves = view.moves;
	if (op->lease_ms > 0)
		op->lease_ms = lr_later(op->lease_ms, view.promised_ms);
	ask_run(op);
}

static bool
ask_is_overtaken(LrIndex hold, const StoreOp *op)
{
	HoldView	view;

	lt_look(hold, &view);
	return view.moves != op->moves;
}

void
ask_run_held(LrIndex hold, StoreOp *op)
{
	for (int i = 0; i < MOVES_MAX; i++)
	{
		ask_where_it_is(hold, op);
		if (!ask_is_overtaken(hold, op))
			break;
	}
}

bool
ask_says_lost(const StoreOp *op)
{
	return op->outcome == STORE_GONE || op->outcome == STORE_WRONG_TYPE;
}

/*
 * ask_settle --- see session_int.h
 *
 * An answer counts only if the hold is still in the store that was asked.  It would not
 * be enough to check that before marking the hold lost, as the hold can move in
 * between.  So we check afterwards, and ask again where it is now.  If the hold moves
 * each time, we do not know whether it is lost, and do not return an outcome that says
 * so.
 */
bool
ask_settle(LrIndex hold, StoreOp *op)
{
	for (int i = 0; i <= MOVES_MAX; i++)
	{
		if (ask_says_lost(op))
			lt_lose(hold, op);
		if (!ask_is_overtaken(hold, op))
			return ask_says_lost(op);
		if (i < MOVES_MAX)
			ask_where_it_is(hold, op);
	}
	if (ask_says_lost(op))
		op->outcome = STORE_UNKNOWN;
	return false;
}

bool
ask_held(LrIndex hold, StoreOp *op)
{
	ask_where_it_is(hold, op);
	return ask_settle(hold, op);
}

void
ask_lengthen(const HeldEntry *entry, const HoldView *view, int64 lease_ms,
			 bool keep, StoreOp *op)
{
	ask_prepare_held(op, STORE_SET, &entry->key, view);
	op->lease_ms = lease_ms;
	op->min_replicas = ask_min_replicas(view);
	op->keep_ms = keep ? lease_ms : 0;
	lt_note_lease(entry->hold, lease_ms);
	(void) ask_held(entry->hold, op);
}

void
ask_prepare_renewal(StoreOp *op, const HeldEntry *entry, const HoldView *view)
{
	ask_prepare_held(op, STORE_RENEW, &entry->key, view);
	op->hold = entry->hold;
	op->lease_ms = lr_later(lt_longest_lease_ms(view->scope), view->promised_ms);
	op->min_replicas = ask_min_replicas(view);
}

bool
ask_apply_renewal(StoreOp *op)
{
	if (ask_settle(op->hold, op))
		return true;
	if (op->outcome == STORE_OK)
		lt_raise_deadline(op->hold, lr_lease_deadline(op->sent.at, op->lease_ms), op->moves);
	return op->outcome == STORE_OK;
}

/* ----------
 * What went wrong
 * ----------
 */

const StoreError *
ask_error(void)
{
	if (was_former)
		return &former_master;
	return lr_store(failed_store)->error(store_handle[failed_store]);
}

void
ask_report_failure(int elevel, StoreOutcome outcome)
{
	report_store_failure(elevel, outcome, ask_error());
}
