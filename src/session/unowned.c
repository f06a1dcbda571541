/*-------------------------------------------------------------------------
 *
 * unowned.c
 *	  What belongs to no session: locks with a token, permits with an id, and the
 *	  numbers of semaphores and latches.
 *
 * To take a token lock or a permit is an acquire like any other (waiting.c), after which
 * this server forgets it.  All later requests act on the token or the id that they name.
 * The id of a permit is derived from its owner number: without the id, nobody can do
 * anything to the permit.
 *
 * Tokens are credentials.  They appear in no message, view or log, nor in shared
 * memory: the lock table and the table worker have digests of them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/unowned.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/sha.h>

#include "access/xact.h"
#include "common/int.h"
#include "executor/execdesc.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "tcop/dest.h"
#include "tcop/pquery.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/portal.h"

#include "locktable/watch.h"
#include "names.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"

/* ----------
 * What a statement has taken, and has not returned yet
 *
 * Token locks, and permits with an id, belong to whoever knows the token or the id;
 * those of a semaphore to the client that has counted them.  If the statement that took
 * them fails, no client knows of them, so they are released.
 *
 * Permits of a semaphore are released by a request of their own.  The answer to the
 * request that took them was read, so its ticket is not needed any more.
 * ----------
 */

/*
 * These live as long as the portal of their statement.
 *
 * That alone does not tell a statement that fails from one that has ended.  A portal
 * may outlive what it ran: an unnamed one lives until the next, a cursor until it is
 * closed.  And a procedure that rolls back goes on.
 *
 * A query whose rows go to a function, as in a loop of PL/pgSQL, has a portal of its
 * own.  When that ends, the statement goes on in the portal that runs the function.
 *
 * Nor does a statement outside of a transaction block end with its portal: its commit
 * may fail.  Until the transaction ends, it goes on without a portal.  The same is true
 * for what a deferred trigger takes at the commit.
 */
typedef struct Unreturned
{
	dlist_node	link;			/* in one of the lists below */
	MemoryContextCallback ends;
	Portal		portal;			/* NULL: the commit is under way */
	bool		to_function;	/* the rows of the portal go to a function */
	bool		taken;			/* in the list "unreturned" */
	TimestampTz statement;		/* start of the statement */
	LrName		name;
	LockTerms	terms;
	uint64		owner;			/* 0: the store knows it by terms.id or terms.amount */
} Unreturned;

static dlist_head unreturned = DLIST_STATIC_INIT(unreturned);	/* taken, not returned yet */
static dlist_head spare = DLIST_STATIC_INIT(spare); /* for what their portal takes next */

static void
unreturned_move(Unreturned *u, dlist_head *to)
{
	dlist_delete(&u->link);
	dlist_push_head(to, &u->link);
	u->taken = to == &unreturned;
}

/*
 * portal_feeds_function --- do the rows of the portal go to a function?
 *
 * A loop pins its portal.  The rows of a query that writes reach it through a tuplestore.
 */
static bool
portal_feeds_function(Portal portal)
{
	if (portal == NULL)
		return false;
	return portal->portalPinned ||
		(portal->queryDesc != NULL && portal->queryDesc->dest->mydest == DestSPI);
}

/*
 * unreturned_bind --- the record lives as long as the active portal or, during a commit, as the
 * transaction
 */
static void
unreturned_bind(Unreturned *u)
{
	u->portal = ActivePortal;
	u->to_function = portal_feeds_function(ActivePortal);
	MemoryContextRegisterResetCallback(ActivePortal != NULL ? PortalContext : TopTransactionContext,
									   &u->ends);
}

/*
 * unreturned_goes_on --- does the statement go on though its portal ends?
 *
 * It goes on in the portal that is active now or, while it commits, in none.
 */
static bool
unreturned_goes_on(const Unreturned *u)
{
	if (!u->taken || u->portal == NULL || u->statement != GetCurrentStatementStartTimestamp())
		return false;
	if (ActivePortal == NULL)
		return IsTransactionState() && (u->to_function || !IsTransactionBlock());
	return ActivePortal != u->portal && ActivePortal->status == PORTAL_ACTIVE;
}

static void
unreturned_portal_ends(void *arg)
{
	Unreturned *u = arg;

	if (unreturned_goes_on(u))
	{
		unreturned_bind(u);
		return;
	}
	dlist_delete(&u->link);
	pfree(u);
}

/*
 * unreturned_room --- a spare record of the active portal
 *
 * If its rows go to a function, the record may be of the portal that runs that: there it would
 * be bound in the end.  So a loop in a procedure does not make one for each of its rounds.
 */
static Unreturned *
unreturned_room(void)
{
	bool		inner = portal_feeds_function(ActivePortal);
	Unreturned *u;
	dlist_iter	at;

	dlist_foreach(at, &spare)
	{
		u = dlist_container(Unreturned, link, at.cur);
		if (u->portal != ActivePortal &&
			!(inner && u->portal != NULL && u->portal->status == PORTAL_ACTIVE))
			continue;
		u->to_function = portal_feeds_function(u->portal);
		return u;
	}
	u = MemoryContextAllocZero(TopMemoryContext, sizeof(Unreturned));
	u->ends.func = unreturned_portal_ends;
	u->ends.arg = u;
	dlist_push_head(&spare, &u->link);
	unreturned_bind(u);
	return u;
}

/*
 * unreturned_runs_on --- does the transaction end within a statement that goes on?
 */
static bool
unreturned_runs_on(const Unreturned *u)
{
	return ActivePortal != NULL && ActivePortal->status != PORTAL_FAILED &&
		u->statement == GetCurrentStatementStartTimestamp();
}

/*
 * unreturned_has_failed --- has the statement failed before its end?
 *
 * In a transaction block, the client has the results of all statements that have ended,
 * so only the present one can have failed.
 */
static bool
unreturned_has_failed(const Unreturned *u)
{
	if (unreturned_runs_on(u) || u->statement != GetCurrentStatementStartTimestamp())
		return false;
	return u->portal == NULL || !IsTransactionBlock() ||
		(u->portal->status == PORTAL_FAILED &&
		 (u->portal->strategy == PORTAL_MULTI_QUERY || u->to_function || !u->portal->atEnd));
}

/*
 * unreturned_give_back --- have the watchdog release it
 *
 * If there is no room for a record, a lock ends with its lease; permits of a semaphore
 * stay taken, and a message says so.
 */
static void
unreturned_give_back(const Unreturned *u)
{
	StoreOp		op = {.store = lr_first_store(),.owner = u->owner};
	LrIndex		hold;

	if (!lr_is_number(u->terms.kind))
	{
		if (op.owner == 0)
			op.owner = lr_new_owner();
		if (lt_stock_rows(1))
			lt_orphan_unqueued(&u->name, &u->terms, &op);
	}
	else if (lt_owe(&u->name, u->terms.kind, SCOPE_SESSION, u->terms.amount, &hold))
	{
		op.owner = lt_owner(hold);
		lt_leave_owed(hold, &op);
	}
	else
		report_not_given_back(u->terms.kind, u->terms.amount);
}

/*
 * unreturned_end --- see session_int.h
 *
 * What is committed stays, even if the rest of a procedure fails.  A procedure that has
 * rolled back may still fail later, so its records are kept.
 *
 * If a subtransaction aborts, a statement after a savepoint may have failed, and the
 * transaction goes on.  Records without a portal, during a commit, are those of functions
 * that go on.
 */
void
unreturned_end(bool commit, bool sub)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &unreturned)
	{
		Unreturned *u = dlist_container(Unreturned, link, at.cur);
		bool		failed = !commit && unreturned_has_failed(u);

		if (sub ? !failed || u->portal == NULL : !commit && unreturned_runs_on(u))
			continue;
		unreturned_move(u, &spare);
		if (failed)
			unreturned_give_back(u);
	}
}

bool
unreturned_is_empty(void)
{
	return dlist_is_empty(&unreturned);
}

/*
 * unreturned_make --- make a record of what is about to be taken, before the store is asked
 *
 * NULL outside of any statement, when nobody would notice its end.  The record stays spare
 * until something is taken, so a loop that asks in vain needs only one.
 */
static Unreturned *
unreturned_make(const LrName *name, const LockTerms *terms)
{
	Unreturned *u;

	if (ActivePortal == NULL && TopTransactionContext == NULL)
		return NULL;
	u = unreturned_room();
	u->name = *name;
	u->terms = *terms;
	u->statement = GetCurrentStatementStartTimestamp();
	return u;
}

/*
 * unreturned_begin --- it was taken: from now on it is released if the statement fails
 *
 * "owner" is 0 unless the store knows it by that.
 */
static void
unreturned_begin(Unreturned *u, uint64 owner)
{
	if (u == NULL)
		return;
	u->owner = owner;
	unreturned_move(u, &unreturned);
}

/*
 * unreturned_has_id --- does the store know it by this id?
 */
static bool
unreturned_has_id(const Unreturned *u, const uint8 *id)
{
	uint8		own[STORE_ID_LEN] = {0};

	if (u->owner == 0)
		return memcmp(u->terms.id, id, STORE_ID_LEN) == 0;
	lr_secret_id(u->owner, own);
	return memcmp(own, id, LR_SECRET_ID_LEN) == 0;
}

static bool
unreturned_is_of(const Unreturned *u, const char *name, int len, KindId kind)
{
	return u->terms.kind == kind && u->name.len == len && memcmp(u->name.data, name, len) == 0;
}

/*
 * unreturned_forget --- the lock or permit with this id was released before the statement ended
 */
static void
unreturned_forget(const LrName *name, KindId kind, const uint8 *id)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &unreturned)
	{
		Unreturned *u = dlist_container(Unreturned, link, at.cur);

		if (unreturned_is_of(u, name->data, name->len, kind) && unreturned_has_id(u, id))
			unreturned_move(u, &spare);
	}
}

/*
 * unreturned_forget_some --- that many permits were released before the statement ended
 *
 * Those that were taken last are released first, as in a function that does both.
 */
static void
unreturned_forget_some(const char *name, int len, KindId kind, int64 amount)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &unreturned)
	{
		Unreturned *u = dlist_container(Unreturned, link, at.cur);
		int64		n = Min(amount, u->terms.amount);

		if (amount == 0)
			break;
		if (!unreturned_is_of(u, name, len, kind))
			continue;
		amount -= n;
		u->terms.amount -= n;
		if (u->terms.amount == 0)
			unreturned_move(u, &spare);
	}
}

/* ----------
 * Changes of the numbers of semaphores and latches: permits that are released, and
 * latches that are counted down
 *
 * No hold stands for such a change, so the request itself must not get lost.  It has a
 * record in the lock table (owed.c), with which the watchdog repeats a request that was
 * not answered.  The store knows the request by its ticket, the owner number of the
 * record, and counts it once.
 *
 *	 session: counts down, and the connection breaks, or the session is cancelled
 *									store: has counted, or has not
 *	 watchdog: sends the same request with the same ticket
 *									store: answers that it has, or counts now
 *
 * What is to be counted at the commit of the transaction has one record for each name
 * from the first call on, and entries in the transaction's list (track.c): a
 * subtransaction that aborts subtracts its own.  The requests are sent with the releases of
 * the transaction's locks (release.c): its changes are visible then.
 * ----------
 */

/*
 * counts_is_open --- may the request have run unanswered, or may it still run?
 *
 * If it was refused when it was sent a second time, the first may have run.
 */
static bool
counts_is_open(const StoreOp *op)
{
	bool		refused = op->outcome == STORE_REFUSED || op->outcome == STORE_DENIED;

	return op->outcome == STORE_DOWN || op->outcome == STORE_UNKNOWN ||
		op->outcome == STORE_PENDING || op->outcome == STORE_BLOCKED ||
		(refused && op->sent.again);
}

/*
 * counts_settle --- apply an outcome to its record; if it is open, the watchdog goes on
 *
 * A refusal is an error for the caller.
 *
 * Permits that are released now, or will be, must not be released a second time if the
 * statement that took them fails.
 */
static void
counts_settle(StoreOp *op)
{
	if (counts_is_open(op) || op->outcome == STORE_OK)
		unreturned_forget_some(op->name, op->name_len, op->lock_kind, op->amount);
	if (counts_is_open(op))
		lt_leave_owed(op->hold, op);
	else
		count_done(op);
}

/* ----------
 * Now
 * ----------
 */

/*
 * If a former master has answered, the present one may not have got the change from it: the
 * watchdog asks that, by the same ticket.
 */
bool
counts_now(const LrName *name, KindId kind, int64 amount, int64 *left)
{
	HeldKey		key = held_key(name, kind);
	StoreOp    *op = pending.ops;
	LrIndex		hold;

	request_require_number(kind, name);
	wait_require_place();
	if (!lt_owe(name, kind, SCOPE_SESSION, amount, &hold))
		report_table_full();
	key.data = lt_hold_name(hold);
	count_prepare(op, &key, hold);
	pending_begin(1, counts_settle);
	ask_run(op);
	ask_distrust(op);
	pending_end();

	*left = op->answer.available;
	counts_settle(op);
	if (counts_is_open(op))
	{
		ask_report_failure(WARNING, op->outcome);
		return false;
	}
	if (op->outcome == STORE_WRONG_TYPE)
		report_wrong_type(name, op);
	if (op->outcome != STORE_OK)
		ask_report_failure(ERROR, op->outcome);
	return true;
}

/* ----------
 * When the transaction has committed
 * ----------
 */

void
counts_at_commit(const LrName *name, KindId kind, int64 amount)
{
	HeldKey		key = held_key(name, kind);
	LrIndex		hold;
	int64		sum;
	Track	   *track;

	request_require_number(kind, name);
	hold = counts_pending > 0 ? lt_find_owed(name, kind) : LR_NONE;
	track = track_for_count(hold);
	if (hold == LR_NONE)
	{
		release_reserve(held_count() + 1);
		if (!lt_owe(name, kind, SCOPE_XACT, amount, &hold))
			report_table_full();
		counts_pending++;
		track->first = true;
	}
	else if (pg_add_s64_overflow(lt_owed_amount(hold), amount, &sum))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	else
		lt_owe_more(hold, amount);
	key.data = lt_hold_name(hold);
	track_count_later(track, &key, hold, amount);
}

/*
 * counts_undo --- subtract an entry of a transaction or subtransaction that aborts
 */
void
counts_undo(const Track *t)
{
	if (t->first)
		counts_pending--;
	lt_owe_more(t->hold, -t->amount);
}

/* A request that has failed at once is repeated after this time. */
#define REPEAT_MS			100

/* ----------
 * What a token is to a store
 * ----------
 */

/*
 * token_make --- see session.h
 *
 * Redis keeps the token itself; later requests have its SHA-1, which scripts can
 * compute.  The table, which others may read, keeps only the SHA-256, and later
 * requests have the beginning of that.  OpenSSL may be configured not to have a digest.
 */
void
token_make(const char *bytes, int len, LockToken *out)
{
	bool		hashed = lr_store_can(lr_first_store(), STORE_HAS_DIGESTS);
	uint8		digest[SHA256_DIGEST_LENGTH] = {0};
	char	   *hex;

	if ((hashed ? SHA256 : SHA1) ((const uint8 *) bytes, len, digest) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute the digest of a token")));
	memcpy(out->id, digest, STORE_ID_LEN);
	out->data = bytes;
	out->len = len;
	if (!hashed)
		return;
	hex = palloc(2 * sizeof(digest));
	(void) hex_encode((const char *) digest, sizeof(digest), hex);
	out->data = hex;
	out->len = 2 * sizeof(digest);
}

/* ----------
 * Taking
 * ----------
 */

/*
 * unowned_take --- acquire a lock or a permit that is not in the index; false: busy
 *
 * *hold is valid unless the kind is ownerless.  The caller calls unreturned_begin(), and then
 * long_wait_acquired(), which writes to the log: interrupts are processed after that.
 */
static bool
unowned_take(const LrName *name, const AcquireRequest *request, LrIndex *hold)
{
	session_enter();
	if (held_count() > 0)
		session_require_beside(name, request->terms.kind);
	request_require_store(request->terms.kind, current_store());
	return wait_for_lock(name, request, hold);
}

/*
 * unowned_take_unreturned --- acquire a lock of an ownerless kind, which is released if the
 * statement fails; false: busy
 */
static bool
unowned_take_unreturned(const LrName *name, const AcquireRequest *request)
{
	Unreturned *u = NULL;
	LrIndex		hold;

	if (lr_leaves_something(request->terms.kind))
		u = unreturned_make(name, &request->terms);
	if (!unowned_take(name, request, &hold))
		return false;
	unreturned_begin(u, 0);
	long_wait_acquired(name);
	return true;
}

bool
session_token_lock(const LrName *name, AcquireRequest *request, const LockToken *token)
{
	memcpy(request->terms.id, token->id, STORE_ID_LEN);
	request->token = token->data;
	request->token_len = token->len;
	return unowned_take_unreturned(name, request);
}

/* ----------
 * Asking for one that may be there
 * ----------
 */

/*
 * unowned_repeat --- repeat a request until it is answered
 *
 * This takes at most as long as a request may take.  If a release finds the lock gone,
 * it may have been released by an earlier attempt that was not answered.
 */
static void
unowned_repeat(StoreOp *op)
{
	int64		until = lr_now() + lr_call_budget();
	bool		unknown = false;

	for (;;)
	{
		ask_run_until(op, 1, until, STORE_WAIT, NULL);
		ask_distrust(op);
		if (op->outcome == STORE_GONE && op->kind == STORE_RELEASE && unknown)
			op->outcome = STORE_UNKNOWN;
		else if (op->outcome == STORE_UNKNOWN || op->outcome == STORE_DOWN)
		{
			unknown = unknown || op->outcome == STORE_UNKNOWN;
			if (lr_now() + REPEAT_MS * LR_US_PER_MS < until)
			{
				wait_nap(REPEAT_MS, LR_WAIT_REPLY);
				continue;
			}
		}
		return;
	}
}

/*
 * unowned_ask --- ask for the token lock, or the permit, with this id; false: it is gone
 */
static bool
unowned_ask(const LrName *name, StoreOpKind what, KindId kind, const uint8 *id,
			int64 lease_ms)
{
	HeldKey		key = held_key(name, kind);
	StoreOp		op;

	session_enter();
	request_require_number(kind, name);
	ask_prepare(&op, what, &key, lr_first_store());
	memcpy(op.id, id, STORE_ID_LEN);
	op.lease_ms = lease_ms;
	op.min_replicas = lease_ms > 0 ? lr_min_replicas : 0;
	unowned_repeat(&op);
	if (ask_says_lost(&op))
		return false;

	/* The lease may be longer now even if the store has not answered. */
	if (lease_ms > 0 && lr_kind(kind)->ownerless)
		silence_saw_ttl(name->hash, lease_ms);
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	return true;
}

/*
 * session_release_id --- see session.h
 *
 * Wake a session of this server that waits for the lock, since the store may not notify
 * anybody.
 */
bool
session_release_id(const LrName *name, KindId kind, const uint8 *id)
{
	bool		had = unowned_ask(name, STORE_RELEASE, kind, id, 0);

	unreturned_forget(name, kind, id);
	if (had && lr_kind(kind)->ownerless)
	{
		lt_wake_waiter(0, name->data, name->len);
		lr_count(STAT_RELEASES);
		track_warn_early_unlock();
	}
	return had;
}

bool
session_extend_id(const LrName *name, KindId kind, const uint8 *id, int64 lease_ms)
{
	return unowned_ask(name, STORE_SET, kind, id, lease_ms);
}

/* ----------
 * Numbers, and permits with an id
 * ----------
 */

/*
 * How long the store remembers the ticket of a request, and so how long a request that
 * was not answered can be repeated or undone (ms).
 */
#define TICKET_LIFE_MS		(60 * 60 * INT64CONST(1000))

/*
 * A request that is refused as too late is repeated once, as the reply has corrected
 * our idea of the store's clock.  An answer of a former master does not count.
 */
bool
session_number(const LrName *name, KindId kind, StoreOp *op)
{
	HeldKey		key = held_key(name, kind);
	StoreOp		wanted = *op;

	session_enter();
	request_require_number(kind, name);
	wait_require_place();
	for (int i = 0; i < 2; i++)
	{
		ask_prepare(op, wanted.kind, &key, current_store());
		op->args.change = wanted.args.change;
		op->amount = wanted.amount;
		op->lease_ms = wanted.lease_ms;
		ask_run(op);
		if (op->outcome != STORE_LATE)
			break;
	}
	ask_distrust(op);
	if (op->outcome == STORE_WRONG_TYPE)
		report_wrong_type(name, op);
	if (op->outcome == STORE_LATE)
		report_late();
	if (op->outcome != STORE_OK && op->outcome != STORE_MISSING)
		ask_report_failure(ERROR, op->outcome);
	if (wanted.kind == STORE_DEFINE)
		count_wake(op);
	return op->outcome == STORE_OK;
}

int64
session_drain(const LrName *name, KindId kind)
{
	LockTerms	terms = {.kind = kind};
	StoreOp		op = {.kind = STORE_DEFINE,.args.change = CHANGE_DRAIN};
	Unreturned *u = unreturned_make(name, &terms);

	(void) session_number(name, kind, &op);

	/* What is no integer cannot be returned, so the store has not taken it. */
	if (u != NULL && op.answer.available > 0 && op.answer.available <= PG_INT32_MAX)
	{
		u->terms.amount = op.answer.available;
		unreturned_begin(u, 0);
	}
	return op.answer.available;
}

/* Permits are released if the statement fails, as then no client has them. */
bool
session_wait_for_number(const LrName *name, AcquireRequest *request)
{
	request->terms.lease_ms = TICKET_LIFE_MS;
	session_enter();
	request_require_number(request->terms.kind, name);
	return unowned_take_unreturned(name, request);
}

/*
 * session_acquire --- see session.h
 *
 * An interrupt that came with the answer is processed in wait_for_lock(), which releases
 * the permit then.  Later its error could be caught within the statement, and nobody would
 * know the id.  From there to unreturned_begin() nothing raises.
 */
bool
session_acquire(const LrName *name, const AcquireRequest *request, uint8 *id)
{
	Unreturned *u;
	LrIndex		hold;
	uint64		owner;

	u = unreturned_make(name, &request->terms);
	if (!unowned_take(name, request, &hold))
		return false;
	owner = lt_owner(hold);
	if (!lt_let_stay(hold))
		wait_report_too_late(&request->terms);
	unreturned_begin(u, owner);
	lr_secret_id(owner, id);
	long_wait_acquired(name);
	return true;
}
