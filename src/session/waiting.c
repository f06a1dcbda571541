/*-------------------------------------------------------------------------
 *
 * waiting.c
 *	  One acquire, from the request to the lock.
 *
 * The session queues for the key in the lock table.  While it is the head and
 * no session of this server has the key, it asks the store.  If another client has
 * the key, the session waits as Redisson does: it has the key's channel subscribed,
 * asks once more, then sleeps until it is notified or the holder's lease ends.
 *
 * An acquire can end at any moment by an error, and a FATAL error does not even pass
 * PG_CATCH.  So its operation is pending (ask.c) all the time, and wait_give_up() ends the
 * acquire in any state.  Three things must not remain: a place in the queue, a hold record,
 * and a lock in the store whose reply nobody has read.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/waiting.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/proc.h"

#include "names.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"

/*
 * How often to poll a token lock of another client, whose release sends no message: after up
 * to 50 ms first, and after up to 500 ms later.
 */
#define POLL_MIN			(50 * LR_US_PER_MS)
#define POLL_MAX			(500 * LR_US_PER_MS)

/* How often to poll without a subscription, and a holder whose lease never ends. */
#define POLL_UNTOLD			LR_US_PER_S
#define POLL_ENDLESS		(30 * LR_US_PER_S)

/* How often to poll a store that never sends messages. */
#define POLL_TABLE			(500 * LR_US_PER_MS)

/* How often to ask a store that failed, and a master that may have a successor soon. */
#define POLL_STORE			LR_US_PER_S
#define POLL_MASTER			(100 * LR_US_PER_MS)

/* The time to live that is reported for a key that may be held elsewhere for ever (ms). */
#define HOLD_OFF_TTL_MAX	(24 * 60 * 60 * INT64CONST(1000))

/* How long to wait for a watchdog before a create whose lease it has to renew. */
#define WATCHDOG_PATIENCE	(5 * LR_US_PER_S)
#define WATCHDOG_POLL_MS	50

/*
 * The store may give a session the lock in its turn while another session here does not know
 * yet that it has lost it.  How long to wait until it does, and how often to check.
 */
#define CONFLICT_PATIENCE	LR_US_PER_S
#define CONFLICT_POLL_MS	10

/* The acquire in progress. */
typedef struct Acquire
{
	bool		asking;			/* op has been sent to the store */
	bool		handed;			/* hold is held, but not returned to the caller
								 * yet */
	bool		again;			/* ask once more, even after the time limit */
	bool		slept;
	int64		began;			/* when its first sleep began */
	StoreOutcome failure;		/* of the last request, if the call waits on
								 * nevertheless; else STORE_PENDING */
	int			refusals;
	int64		failed_since;	/* all requests since then have failed; 0 = the
								 * last has not */
	bool		unreplicated;	/* too few replicas have confirmed it */
	uint32		news;			/* topology_news() when the store was asked last */
	LrIndex		hold;
	const LrName *name;
	HeldKey		key;			/* the same, with its kind */
	const AcquireRequest *request;
	int64		judged_at;		/* with a store that excludes this server only: a time
								 * before the check that nobody elsewhere can have
								 * the key */
	int64		asked_at;		/* head: when the store was asked last */
	int64		retry_at;		/* and when to ask again unless woken */
	int64		poll;			/* current interval for token locks */
	StoreId		turn;			/* the store that it is our turn to ask */

	/* For announced kinds, while the store has answered all requests: */
	uint64		owner;			/* the announced owner, to be used again; else 0 */
	int64		since_ms;		/* the store's time when it was asked first */

	/* For passing kinds: */
	bool		gave_back;		/* the first create has been sent */
	bool		giving_back;	/* and its outcome has not been handled yet */
	bool		last;			/* past the time limit: the last request, which also
								 * ends the wait in the store */
	StoreOp    *op;				/* pending.ops[0] */
	WaitBlocker blocker;		/* the holder as last known, for wait_context();
								 * wait_for_lock() does not clear all of it */
} Acquire;

static Acquire acq;

/* ----------
 * Asking the store
 * ----------
 */

/*
 * wait_nap --- sleep for that long, or until the latch is set
 */
void
wait_nap(int64 ms, uint32 event)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) ms, event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * wait_for_rows --- see session_int.h
 *
 *	 S has all rows, and loses all locks
 *	 S: redis_unlock_all(): what may be left of them is the watchdog's
 *	 S: takes one again: no row is free
 *									watchdog: releases what is left
 */
void
wait_for_rows(int n)
{
	int64		until = 0;

	while (!lt_stock_rows(n))
	{
		lt_return_rows();
		if (until == 0)
			until = lr_now() + lr_call_budget();
		if (!lt_any_left() || lr_now() >= until || !lr_watchdog_running())
			report_table_full();
		wait_nap(CONFLICT_POLL_MS, LR_WAIT_ACQUIRE);
	}
}

/*
 * wait_require_watchdog --- raise an error if there is no watchdog to renew the lock
 */
void
wait_require_watchdog(const LockTerms *terms)
{
	int64		until = 0;

	while (terms->renewed && !lr_watchdog_running())
	{
		int64		now = lr_now();

		if (until == 0)
			until = now + WATCHDOG_PATIENCE;
		if (now >= until)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the lockredis watchdog is not running"),
					 errdetail("The lease of the lock could not be renewed."),
					 errhint("Check the server log and \"%s\", or pass a lease.",
							 "max_worker_processes")));
		wait_nap(WATCHDOG_POLL_MS, LR_WAIT_ACQUIRE);
	}
}

/*
 * wait_require_place --- raise an error if the watchdog has moved to another lockredis.url
 *
 * A session reads changed settings between statements only.  A session that waits, or
 * takes locks in a long DO or CALL, would go on at the old URL, where the watchdog
 * no longer renews locks or receives messages.
 */
void
wait_require_place(void)
{
	uint32		place = node_get_place();

	if (ConfigReloadPending && place != 0 && place != lr_place)
		ereport(ERROR,
				(errcode(ERRCODE_STORE_FAILED),
				 errmsg("the lock store has been changed"),
				 errdetail("\"%s\" was changed during this statement.", "lockredis.url"),
				 errhint("Run the statement again.")));
}

/*
 * wait_announcement --- for how long the store is to announce that we wait (ms); 0: not at all
 *
 * If only this server uses the store, its own queue suffices, except for a condition.
 */
static int64
wait_announcement(StoreId store)
{
	return lr_kind(acq.key.kind)->announced && acq.request->wait_us != 0 &&
		(lr_kind(acq.key.kind)->passing || !lr_store_can(store, STORE_SERVER_ONLY)) ?
		lr_wait_lease : 0;
}

/*
 * wait_note_announced --- note that the store has announced us and has not given us the lock
 */
static void
wait_note_announced(void)
{
	const StoreOp *op = acq.op;

	if (acq.since_ms == 0)
		acq.since_ms = op->answer.store_ms;
	if (op->args.wait_ms == 0)
	{
		/* That request has ended the wait in the store. */
		if (acq.last)
			acq.owner = 0;
		return;
	}
	acq.owner = op->answer.unplaced ? 0 : op->owner;
}

/*
 * wait_start_anew --- forget the announced owner: the watchdog will remove it from the store
 */
static void
wait_start_anew(void)
{
	acq.owner = 0;
	acq.since_ms = 0;
}

/*
 * wait_owner --- the owner number of the next create
 *
 * Each create has a new one, so that a late create is not taken for the next.  An announced
 * wait keeps its number: all its requests so far have been answered.
 */
static uint64
wait_owner(StoreId store, int64 until, uint64 *here)
{
	uint64		owner;
	bool		anew;

	if (wait_announcement(store) == 0)
		return lr_new_owner();
	owner = lt_ask_as(acq.hold, store, acq.owner, until, &anew, here);
	if (anew)
		wait_start_anew();
	return owner;
}

/*
 * wait_report_gone --- report that the lock to be released had already been lost
 */
static void
wait_report_gone(void)
{
	HoldView	view;

	lt_look(acq.request->gives_back, &view);
	report_lost_used(acq.name, &view, LOSS_OF_SESSION);
}

/*
 * wait_begin_giving_back --- let the first create also release the session's lock
 */
static void
wait_begin_giving_back(StoreOp *op)
{
	LrIndex		lock = acq.request->gives_back;
	HoldView	view;

	if (acq.gave_back && !acq.giving_back)
		return;
	if (!acq.gave_back)
	{
		lt_look(lock, &view);
		request_require_store(acq.key.kind, view.store);
		if (lt_begin_release(lock, true, &view) == RELEASE_LOST)
			wait_report_gone();
	}
	acq.gave_back = acq.giving_back = true;
	op->args.gives_back = lt_owner(lock);
}

/*
 * wait_end_giving_back --- note what the create has done to the session's lock
 *
 * If the outcome is unknown the session has lost the lock, and the watchdog releases it.
 */
static void
wait_end_giving_back(void)
{
	if (!acq.giving_back)
		return;
	acq.giving_back = false;
	lt_end_aside(acq.request->gives_back, acq.op);
}

/*
 * wait_send_create --- ask for the lock
 */
static void
wait_send_create(StoreId store)
{
	StoreOp    *op = acq.op;
	int64		until = lr_now() + lr_call_budget();

	ask_prepare(op, STORE_CREATE, &acq.key, store);
	op->owner = wait_owner(store, until, &op->args.here);
	op->args.wait_ms = acq.last && acq.gave_back ? 0 : wait_announcement(store);
	op->args.since_ms = acq.since_ms;
	op->args.beside = lr_kind(acq.key.kind)->shared ? lt_owner_beside(acq.hold) : 0;
	op->lease_ms = request_ttl_ms(&acq.request->terms);
	op->args.fenced = acq.request->fenced;
	op->keep_ms = acq.request->terms.keep_until != 0 ? op->lease_ms : 0;
	op->min_replicas = acq.request->terms.min_replicas;
	op->amount = acq.request->terms.amount;
	memcpy(op->id, acq.request->terms.id, STORE_ID_LEN);
	op->text = acq.request->token;
	op->text_len = acq.request->token_len;
	if (acq.request->fenced)
		lt_ask_for_reserve(acq.hold, op);

	/* If this raises an error, wait_give_up() cleans up. */
	if (lr_kind(acq.key.kind)->passing)
		wait_begin_giving_back(op);
	acq.asking = true;
	ask_run_until(op, 1, until, STORE_WAIT, NULL);
	acq.asking = false;
	if (op->outcome != STORE_LATE)
		wait_end_giving_back();
	if (op->outcome == STORE_BUSY &&
		(lr_kind(acq.key.kind)->shared || lr_kind(acq.key.kind)->announced))
		wait_note_announced();
}

/*
 * wait_must_hold_off --- may another server still have the key?
 *
 * Then the outcome is set as if it had.
 */
static bool
wait_must_hold_off(StoreId store)
{
	StoreOp    *op = acq.op;
	int64		left;

	if (!lr_store_can(store, STORE_SERVER_ONLY))
		return false;
	acq.judged_at = lr_now();
	left = silence_hold_off(acq.name->hash);
	if (left == 0 || lt_key_stayed_here(acq.hold))
		return false;
	ask_prepare(op, STORE_CREATE, &acq.key, store);
	op->outcome = STORE_BUSY;
	op->answer.value = STORE_VALUE_LOCK;
	op->answer.ttl_ms = Min(left / LR_US_PER_MS + 1, HOLD_OFF_TTL_MAX);
	return true;
}

/*
 * wait_ask_store --- try once to create the lock, in the store that it is our turn to ask
 *
 * If new locks are not taken there any more, lt_grant() refuses what it grants.
 *
 * If the create is refused as too late, our estimate of the store's clock was wrong.  The reply
 * has corrected it, so the create is sent once more, with a new owner.
 */
static void
wait_ask_store(void)
{
	wait_require_watchdog(&acq.request->terms);
	acq.news = topology_news();
	request_require_store(acq.key.kind, acq.turn);
	request_require_counter(acq.request, acq.turn);
	if (wait_must_hold_off(acq.turn))
		return;
	wait_send_create(acq.turn);
	if (acq.op->outcome == STORE_LATE)
		wait_send_create(acq.turn);
}

/*
 * wait_leave_granted --- leave what the store has given us to the watchdog, which releases it,
 * and plan the next attempt
 *
 * It may be from a store that is not in use any more, or from a former master; then the
 * present one may have it, too.  The create has run, so nobody has to wait until it cannot
 * run any more.
 */
static void
wait_leave_granted(int64 retry_at)
{
	if (lr_leaves_something(acq.key.kind) && !lt_leave_orphan(acq.op))
		report_table_full();
	acq.op->outcome = STORE_PENDING;
	acq.owner = 0;				/* an owner is used once */
	acq.retry_at = retry_at;
}

void
wait_report_too_late(const LockTerms *terms)
{
	ereport(ERROR,
			(errcode(ERRCODE_STORE_FAILED),
			 errmsg("the lock store answered after the lease had ended"),
			 errdetail("The lease is %lld ms.", (long long) terms->lease_ms),
			 errhint("Use a longer lease.")));
}

/*
 * wait_grant --- make the lock ours, unless another session of this server still has it
 *
 * With a kind that waits in the store's order, a session that released the lock because of such
 * a conflict would lose its place, and so would the next one.  So it waits until the watchdog,
 * which asks the store at once, has found that the other session has lost the lock.
 */
static GrantResult
wait_grant(void)
{
	int64		until = 0;

	for (;;)
	{
		GrantResult result = lt_grant(acq.hold, acq.op, acq.judged_at,
									  &acq.request->terms);

		if (result != GRANT_CONFLICT || !lr_kind(acq.key.kind)->placed)
			return result;
		if (until == 0)
			until = lr_now() + CONFLICT_PATIENCE;
		else if (lr_now() >= until)
			return result;
		wait_nap(CONFLICT_POLL_MS, LR_WAIT_ACQUIRE);
	}
}

/*
 * wait_take_granted --- the store has given us the lock; true: it is ours
 */
static bool
wait_take_granted(LrIndex *hold)
{
	const AcquireRequest *r = acq.request;

	/* No session will have it: cancel now, while wait_give_up() can still release the lock. */
	if (lr_kind(acq.key.kind)->ownerless || r->unowned)
		CHECK_FOR_INTERRUPTS();

	wait_require_place();
	switch (wait_grant())
	{
		case GRANTED:
			if (lr_is_number(acq.key.kind))
				ask_forget(acq.op);
			else if (lr_kind(acq.key.kind)->ownerless)
				silence_saw_ttl(acq.name->hash, r->terms.lease_ms);
			*hold = acq.hold;
			pending_end();
			if (!lr_kind(acq.key.kind)->passing)
				lr_count(STAT_ACQUIRES);
			return true;
		case GRANT_CONFLICT:
			wait_leave_granted(lr_now() +
							   (lr_kind(acq.key.kind)->placed ? POLL_UNTOLD : POLL_MIN));
			return false;
		case GRANT_STALE:
			acq.again = true;
			wait_leave_granted(0);
			return false;
		case GRANT_DISOWNED:
			acq.op->outcome = STORE_PENDING;
			acq.again = true;
			acq.retry_at = 0;
			wait_start_anew();
			return false;
		case GRANT_TOO_LATE:
			break;
	}
	wait_report_too_late(&r->terms);
	return false;				/* keep compiler quiet */
}

/*
 * wait_poll_token --- when to poll a token lock of another client again
 *
 * Half of the interval is random, so that sessions that began together do not stay in step.
 */
static int64
wait_poll_token(int64 now, int64 ttl)
{
	int64		half;

	acq.poll = Max(POLL_MIN, Min(acq.poll * 2, POLL_MAX));
	half = acq.poll / 2;
	return now + Min(ttl, half + murmurhash32((uint32) now ^ (uint32) MyProcPid) % half);
}

/*
 * wait_plan_retry --- decide when to ask again for a key that another owner has
 *
 * The session may be woken earlier: by a message if the channel was subscribed to before it
 * asked, otherwise by the confirmation of the subscription.
 */
static void
wait_plan_retry(void)
{
	int64		now = lr_now();
	int64		ttl = acq.op->answer.ttl_ms == STORE_NO_TTL ? POLL_ENDLESS :
		(acq.op->answer.ttl_ms + 1) * LR_US_PER_MS;

	if (acq.op->answer.value == STORE_VALUE_TOKEN)
	{
		/* A token lock that lockredis releases sends a message, too. */
		if (lr_store_can(acq.op->store, STORE_HAS_PUSH))
			(void) lt_want_subscription(acq.hold);
		acq.retry_at = wait_poll_token(now, ttl);
		return;
	}
	if (acq.op->answer.unplaced)
		 /* it is woken here */ ;
	else if (!lr_store_can(acq.op->store, STORE_HAS_PUSH))
		ttl = Min(ttl, POLL_TABLE);
	else if (!lt_want_subscription(acq.hold))
		ttl = Min(ttl, POLL_UNTOLD);

	/* The channel cannot be subscribed to on the node that has, or will have, the key. */
	if (acq.op->sent.asking || cluster_may_be_moving(acq.name->data, acq.name->len))
		ttl = Min(ttl, POLL_UNTOLD);

	/* Asking again renews an announcement or a place in the store's queue. */
	if (acq.owner != 0)
		ttl = Min(ttl, lr_wait_lease * LR_US_PER_MS / 3);
	acq.retry_at = now + Min(ttl, Max(POLL_ENDLESS, lr_lease * LR_US_PER_MS));
}

/* ----------
 * Who holds it: the CONTEXT of errors
 * ----------
 */

/*
 * wait_owner_found --- the owner of the key, as the store has named it
 *
 * The text of a token lock is a secret, which no store tells.
 */
static const char *
wait_owner_found(void)
{
	return acq.op->answer.value == STORE_VALUE_TOKEN ? "token" : acq.op->answer.holder;
}

/*
 * wait_note_busy --- note the owner for redis_locks, and for an error that ends this wait
 */
static void
wait_note_busy(void)
{
	acq.blocker.pid = 0;
	strlcpy(acq.blocker.owner, wait_owner_found(), LR_OWNER_MAX);
	lt_found_busy(acq.hold, acq.op, acq.blocker.owner);
}

/*
 * wait_note_blocker --- note the current holder, as the wait may end without the lock
 *
 * Called only then, so that a session that gets the lock does not pay for it.
 */
static void
wait_note_blocker(void)
{
	(void) lt_find_blocker(LrMyProcNumber, &acq.blocker);
}

/*
 * wait_context_blocker --- the part of the CONTEXT that names the holder
 *
 * A store that keeps an order may name the next owner, which does not hold the key yet.
 */
static const char *
wait_context_blocker(void)
{
	const char *owner = acq.blocker.owner;
	const LockKind *kind = lr_kind(acq.key.kind);

	if (acq.blocker.pid != 0)
		return psprintf(_(", held by process %d"), acq.blocker.pid);
	if (owner[0] == '\0')
		return "";
	if (strcmp(owner, "token") == 0)
		return _(", held by a token");
	if (strcmp(owner, "read") == 0 || strstr(owner, " readers") != NULL)
		return _(", held by readers");
	return psprintf(kind->shared || kind->announced ?
					_(", blocked by owner \"%s\"") : _(", held by owner \"%s\""),
					lr_owner_to_show_plainly(owner));
}

/*
 * wait_context --- the CONTEXT of an error that ends a wait
 *
 * It uses only what was noted before: it takes no lock, reads no catalog and asks no store.
 * Memory comes from ErrorContext, as for the line itself.  An acquire whose first request
 * fails has not waited, unless an interrupt ended that request.  Messages that go to the log
 * only name the wait themselves; they have no error code.
 */
static void
wait_context(void *arg)
{
	const LockKind *kind = lr_kind(acq.key.kind);
	const char *name;

	if (!(acq.slept || acq.asking || acq.asked_at != 0) ||
		geterrcode() == ERRCODE_SUCCESSFUL_COMPLETION)
		return;
	name = lr_name_to_show_plainly(acq.name->data, acq.name->len);
	if (kind->passing)
		errcontext("while waiting for a condition of Redis lock \"%s\"", name);
	else if (lr_is_number(acq.key.kind) || kind->each_own)
		errcontext("while waiting for Redis %s \"%s\"", kind->name, name);
	else
		errcontext("while waiting for Redis lock \"%s\"%s", name,
				   wait_context_blocker());
}

/* ----------
 * The loop
 * ----------
 */

/*
 * wait_raise_timeout --- 55P03 in PostgreSQL's own words
 */
static void
wait_raise_timeout(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("canceling statement due to lock timeout")));
}

/*
 * wait_is_for_lock --- is this a wait for a lock?  Waits for conditions are counted separately.
 */
static bool
wait_is_for_lock(void)
{
	return !lr_kind(acq.key.kind)->passing;
}

/*
 * wait_sleep --- sleep until that time, or until the latch is set
 */
static void
wait_sleep(int64 until)
{
	if (!acq.slept)
	{
		acq.slept = true;
		acq.began = lr_now();
		lr_count(wait_is_for_lock() ? STAT_WAITS : STAT_CONDITION_WAITS);
		if (wait_is_for_lock())
			long_wait_begin();
	}
	until = Min(until, long_wait_look_at());
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 lr_ms_until(until, lr_now()), LR_WAIT_ACQUIRE);
	ResetLatch(MyLatch);
	if (INTERRUPTS_PENDING_CONDITION())
		wait_note_blocker();
	CHECK_FOR_INTERRUPTS();
	long_wait_look(acq.name);
}

/*
 * wait_store_failed --- has the store itself failed, and not only this request or process?
 */
static bool
wait_store_failed(StoreOutcome outcome)
{
	int			sqlstate;

	if (outcome < STORE_REFUSED)
		return false;
	sqlstate = ask_error()->sqlstate;
	return sqlstate == 0 || store_has_failed(sqlstate);
}

/*
 * wait_failure_is_shared --- would the other sessions in the queue fail, too?
 *
 * Not if the store has denied a command that perhaps only we need.
 */
static bool
wait_failure_is_shared(void)
{
	return wait_store_failed(acq.op->outcome) &&
		!(acq.op->outcome == STORE_DENIED && acq.op->answer.own_fault);
}

/*
 * wait_may_change --- will a store serve us after a while?
 *
 * In fallback mode one of the two stores will, unless Redis refuses us a second time although
 * it answers the watchdog: then it will go on to refuse us.
 */
static bool
wait_may_change(void)
{
	bool		refused = acq.op->outcome == STORE_REFUSED ||
		acq.op->outcome == STORE_DENIED;

	if (!lr_has_fallback())
		return false;
	return !refused || ++acq.refusals <= 1 || !lr_store_is_up(lr_first_store());
}

/*
 * wait_forget_failures --- forget former failures if the last request is long ago
 *
 * Another session of this server has had the key since then.
 */
static void
wait_forget_failures(void)
{
	if (acq.failed_since != 0 && lr_now() - acq.asked_at > lr_call_budget())
		acq.failed_since = 0;
}

/*
 * wait_may_fail_over --- may another node be the master soon?
 *
 * Not once the failures have lasted for as long as a request may take.
 */
static bool
wait_may_fail_over(StoreOutcome outcome)
{
	int64		now = lr_now();

	if (!lr_follows_master() || outcome == STORE_DENIED)
		return false;
	if (acq.failed_since == 0)
		acq.failed_since = now;
	return now - acq.failed_since < lr_call_budget();
}

/*
 * wait_outlive_failure --- prepare to wait on after a failure of the store; false: the acquire
 * has to fail
 *
 * If the request may have taken the lock, the watchdog releases it: an orphan record of its
 * own has the owner.
 */
static bool
wait_outlive_failure(void)
{
	bool		change;

	if (acq.request->wait_us == 0 || !wait_store_failed(acq.op->outcome))
		return false;
	change = wait_may_change();
	if (!change && !wait_may_fail_over(acq.op->outcome))
		return false;
	if (acq.op->outcome == STORE_UNKNOWN && lr_leaves_something(acq.key.kind) &&
		!lt_leave_orphan(acq.op))
		return false;
	if (acq.op->outcome == STORE_UNKNOWN)
		acq.owner = 0;			/* the orphan has it */
	lr_count(STAT_ERRORS);
	acq.failure = acq.op->outcome;
	acq.op->outcome = STORE_PENDING;
	acq.retry_at = lr_now() + (lr_follows_master() ? POLL_MASTER : POLL_STORE);
	return true;
}

/*
 * wait_mint_for_handed --- get a fencing token for a lock that was handed to us without one
 *
 * It reserves "more" tokens for sessions to which the lock may be handed after us.
 *
 * False: the store says that the lock is gone.  If too few replicas confirm, wait_give_up()
 * also fails the sessions behind us, as each of them would fail on its own.  While another node
 * may become the master soon we ask again, like a call that waits for the lock.  We stop at
 * "limit", and shortly before the lease ends, which cannot be renewed meanwhile: the lock has
 * not been returned to our caller, so it must not be reported as lost.
 */
static bool
wait_mint_for_handed(StoreOp *op, int64 more, int64 limit)
{
	int64		until = lr_earlier(limit, lt_lease_end(acq.hold) - POLL_MASTER);

	wait_forget_failures();
	for (;;)
	{
		ask_prepare(op, STORE_MINT, &acq.key, acq.op->store);
		op->owner = lt_owner(acq.hold);
		op->amount = more;
		op->min_replicas = acq.request->terms.min_replicas;
		ask_run_held(acq.hold, op);
		request_require_counter(acq.request, op->store);
		if (ask_says_lost(op))
			return false;
		acq.unreplicated = op->outcome == STORE_UNCONFIRMED;
		if (op->outcome == STORE_OK)
			break;
		if (acq.unreplicated || acq.request->wait_us == 0 || lr_now() >= until ||
			!wait_store_failed(op->outcome) || !wait_may_fail_over(op->outcome))
			ask_report_failure(ERROR, op->outcome);
		lr_count(STAT_ERRORS);
		wait_nap(POLL_MASTER / LR_US_PER_MS, LR_WAIT_ACQUIRE);
	}
	lt_set_fence(acq.hold, op);
	return true;
}

/*
 * wait_take_token --- take the next reserved token, or a new one; false: the lock is gone
 */
static bool
wait_take_token(StoreOp *mint, int64 limit)
{
	StoreId		store;
	int64		more;

	if (!lt_take_reserved(acq.hold, &store, &more))
		return wait_mint_for_handed(mint, more, limit);
	request_require_counter(acq.request, store);
	return true;
}

/*
 * wait_take_handed --- take a lock that another session of this server has handed to us
 *
 * False: the store says that the lock is gone.  It has not been returned to our caller, so
 * this is no loss, and we wait on as the first in the queue.
 */
static bool
wait_take_handed(LrIndex *hold, int64 limit)
{
	StoreOp		mint;

	acq.handed = true;
	if (acq.request->unowned)
		CHECK_FOR_INTERRUPTS();
	if (acq.request->fenced && !wait_take_token(&mint, limit))
	{
		acq.handed = false;
		lt_wait_again(&acq.hold);
		return false;
	}
	*hold = acq.hold;
	pending_end();
	lr_count(STAT_ACQUIRES);
	lr_count(STAT_HANDOFFS);
	return true;
}

/*
 * wait_ask_as_head --- ask the store in our turn; true: the lock is ours
 */
static bool
wait_ask_as_head(LrIndex *hold)
{
	wait_forget_failures();
	wait_ask_store();
	acq.failure = STORE_PENDING;
	if (!wait_store_failed(acq.op->outcome))
		acq.failed_since = 0;
	switch (acq.op->outcome)
	{
		case STORE_OK:
			return wait_take_granted(hold);
		case STORE_BUSY:
			if (acq.request->wait_us != 0)
			{
				wait_note_busy();
				wait_plan_retry();
			}
			return false;
		case STORE_UNCONFIRMED:
			/* The key would be locked repeatedly while replicas are missing. */
			acq.unreplicated = true;
			ask_report_failure(ERROR, acq.op->outcome);
			break;
		case STORE_GONE:
			wait_report_gone();
			break;
		case STORE_WRONG_TYPE:
			report_wrong_type(acq.name, acq.op);
			break;
		case STORE_MISSING:
			report_missing(acq.name, acq.key.kind);
			break;
		case STORE_LATE:
			report_late();
			break;
		default:
			if (!wait_outlive_failure())
				ask_report_failure(ERROR, acq.op->outcome);
	}
	return false;
}

/*
 * wait_end_at_limit --- raise an error at the time limit, unless the acquire returns false
 */
static void
wait_end_at_limit(bool limit_raises)
{
	if (limit_raises)
	{
		lr_count(STAT_TIMEOUTS);
		wait_note_blocker();
		wait_raise_timeout();
	}

	/* "False" would say that another owner has the lock, which is not known. */
	if (acq.failure != STORE_PENDING)
		ask_report_failure(ERROR, acq.failure);
}

/*
 * wait_limit --- until when to wait for a holder
 *
 * Both lock_timeout and the caller's limit apply; the shorter one decides
 * between an error and false.  A condition is not a lock, so lock_timeout does not apply to it.
 */
static int64
wait_limit(bool *raises)
{
	int64		wait = acq.request->wait_us;
	int64		began;

	*raises = LockTimeout > 0 && !lr_kind(acq.key.kind)->passing &&
		(wait == WAIT_FOREVER || LockTimeout * LR_US_PER_MS < wait);
	if (wait == WAIT_FOREVER && !*raises)
		return LR_NEVER;
	began = acq.request->began != 0 ? acq.request->began : lr_now();
	return began + (*raises ? LockTimeout * LR_US_PER_MS : wait);
}

/*
 * wait_until_had --- queue, ask and sleep until we have the lock or reach the time limit
 *
 * The limit does not end a request that has been sent, which has the store's time limit.  Nor
 * does it end the wait for a release that has been sent (TURN_SENT) and is answered soon.
 */
static bool
wait_until_had(LrIndex *hold)
{
	bool		limit_raises;
	int64		limit = wait_limit(&limit_raises);
	bool		asked = false;

	for (;;)
	{
		int64		look_again;
		TurnResult	turn;

		wait_require_place();
		request_require_store(acq.key.kind, current_store());

		/* Without a watchdog nobody receives messages: poll, even with a subscription. */
		if (!lr_watchdog_running())
			acq.retry_at = Min(acq.retry_at, acq.asked_at + POLL_UNTOLD);
		if (acq.news != topology_news())
			acq.retry_at = 0;
		turn = lt_turn(&acq.hold, acq.retry_at, &look_again, &acq.turn);

		if (turn == TURN_HANDED)
		{
			if (wait_take_handed(hold, limit))
				return true;
			continue;
		}
		if (turn == TURN_FAILED)
			ereport(ERROR,
					(errcode(ERRCODE_STORE_FAILED),
					 errmsg("could not reach the lock store"),
					 errdetail("The session of this server that was first in the queue for the key could not reach it.")));

		if (turn == TURN_UNREPLICATED)
			ereport(ERROR,
					(errcode(ERRCODE_STORE_FAILED),
					 errmsg("the lock could not be replicated"),
					 errdetail("The lock of the session of this server that was first in the queue for the key could not be replicated.")));

		if (turn == TURN_SENT)
			asked = false;		/* we asked before that release */
		if ((asked || turn == TURN_WAIT) && lr_now() >= limit)
		{
			if (!lr_kind(acq.key.kind)->passing || acq.last)
			{
				wait_end_at_limit(limit_raises);
				return false;
			}

			/* It may have been notified just now, and has to end its wait in the store. */
			acq.last = true;
			acq.retry_at = 0;
			asked = false;
			continue;
		}
		if (turn == TURN_TRY)
		{
			/* An interrupt may end the request. */
			if (acq.slept && acq.asked_at == 0)
				wait_note_blocker();
			if (wait_ask_as_head(hold))
				return true;
			acq.asked_at = lr_now();
			asked = !acq.again;
			acq.again = false;
		}
		else
			wait_sleep(turn == TURN_SENT ? look_again : Min(look_again, limit));
	}
}

/*
 * wait_count_time --- add the time that the acquire has waited to the statistics
 */
static void
wait_count_time(void)
{
	if (acq.slept)
		lr_count_many(wait_is_for_lock() ? STAT_WAITED : STAT_CONDITION_WAITED,
					  lr_now() - acq.began);
}

/*
 * wait_may_be_taken --- may the store have given us the lock?
 *
 * A wait for a latch takes nothing (lr_leaves_something), so nothing is left to the watchdog.
 */
static bool
wait_may_be_taken(void)
{
	if (!lr_leaves_something(acq.key.kind))
		return false;
	return acq.op->outcome == STORE_OK || acq.op->outcome == STORE_UNKNOWN ||
		acq.op->outcome == STORE_UNCONFIRMED;
}

/*
 * wait_give_up --- the acquire has ended without the lock
 *
 * If the store has failed us, and would fail the sessions behind us in the queue, too, they
 * fail with us.  So a whole queue takes no longer than its head.  A try does not fail them
 * during a failover, as calls that wait outlive that.
 */
static void
wait_give_up(StoreOp *op)
{
	idle_keep(false);
	wait_count_time();

	if (acq.handed)
	{
		if (acq.unreplicated)
			lt_fail_waiters(acq.hold, acq.request->terms.min_replicas);
		lt_pass_on(acq.hold);
		return;
	}

	/* A request that was interrupted before its reply says nothing of the store. */
	if (!acq.asking)
	{
		if (acq.unreplicated)
			lt_fail_waiters(acq.hold, acq.request->terms.min_replicas);
		else if (!lr_has_fallback() && wait_failure_is_shared() &&
				 !(lr_follows_master() && acq.request->wait_us == 0))
			lt_fail_waiters(acq.hold, 0);
	}

	wait_end_giving_back();
	lt_give_up(acq.hold, wait_may_be_taken() ? op : NULL, acq.owner);
}

/*
 * wait_for_lock --- see session_int.h
 *
 * Everything that wait_give_up() cleans up begins here.
 */
bool
wait_for_lock(const LrName *name, const AcquireRequest *request, LrIndex *hold)
{
	bool		taken = false;
	KindId		other;
	ErrorContextCallback context;

	request_require_name(name, current_store());
	memset(&acq, 0, offsetof(Acquire, blocker));
	acq.blocker.pid = 0;
	acq.blocker.owner[0] = '\0';
	long_wait_reset();
	acq.name = name;
	acq.key = held_key(name, request->terms.kind);
	acq.request = request;
	wait_for_rows(1);
	switch (lt_enqueue(name, &request->terms, request->wait_us == 0, &acq.hold, &other))
	{
		case ENQUEUED:
			break;
		case ENQUEUE_OTHER:
			report_held_otherwise(name, request->terms.kind, other);
			break;
		case ENQUEUE_BUSY:
			lr_count(STAT_BUSY);
			return false;
	}
	acq.op = &pending.ops[0];
	acq.op->outcome = STORE_PENDING;
	pending_begin(1, wait_give_up);
	idle_keep(true);

	context.callback = wait_context;
	context.arg = NULL;
	context.previous = error_context_stack;
	PG_TRY();
	{
		error_context_stack = &context;
		taken = wait_until_had(hold);
		error_context_stack = context.previous;
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_QUERY_CANCELED && wait_is_for_lock())
			lr_count(STAT_CANCELS);
		pending_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();

	idle_keep(false);
	if (taken)
		wait_count_time();
	else
	{
		if (wait_is_for_lock())
			lr_count(acq.slept ? STAT_TIMEOUTS : STAT_BUSY);
		pending_abandon();
	}
	return taken;
}
