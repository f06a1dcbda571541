/*-------------------------------------------------------------------------
 *
 * waiting.c
 *	  One acquire, from the request to the lock.
 *
 * The session queues for the key in the lock table.  While it is the head and
 * no session of this server has the key it asks the store.  A foreign holder
 * is waited for as Redisson does: have the key's channel subscribed, ask once
 * more, then sleep until the release is told or the holder's lease ends.
 *
 * An acquire can end at any moment by an error, and FATAL does not even pass
 * PG_CATCH, so what has to be cleaned up stands in one static structure, which
 * wait_abandon() brings to an end wherever it was.  Three things must not be
 * left: a place in the queue, a hold record, and a lock in the store whose
 * reply nobody read.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/waiting.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"

#include "instance.h"
#include "locktable/wait.h"
#include "report.h"
#include "session/ask.h"
#include "session/long_wait.h"
#include "session/waiting.h"
#include "settings.h"
#include "stats.h"
#include "store/current.h"
#include "store/node.h"
#include "store/silence.h"
#include "store/stores.h"
#include "wait_events.h"

/* Token locks of other clients tell nobody: look again after 50 to 500 ms. */
#define POLL_MIN			(50 * LR_US_PER_MS)
#define POLL_MAX			(500 * LR_US_PER_MS)

/* Until the subscription stands, and for a holder whose lease never ends. */
#define POLL_UNTOLD			LR_US_PER_S
#define POLL_ENDLESS		(30 * LR_US_PER_S)

/* A store that never tells of a release. */
#define POLL_TABLE			(500 * LR_US_PER_MS)

/* A store that failed, unless there is news of it. */
#define POLL_STORE			LR_US_PER_S

/* What is told of a key that may be had elsewhere for ever (ms). */
#define HOLD_OFF_TTL_MAX	(24 * 60 * 60 * INT64CONST(1000))

/* How long a create that wants renewal waits for a watchdog. */
#define WATCHDOG_PATIENCE	(5 * LR_US_PER_S)
#define WATCHDOG_POLL_MS	50

/* The acquire in progress. */
typedef struct Acquire
{
	bool		active;
	bool		asking;			/* op is with the store */
	bool		handed;			/* hold is held, but not yet told to anybody */
	bool		slept;
	int64		began;			/* when the first of its sleeps began */
	StoreOutcome failure;		/* of the last request, if a waiting call outlives
								 * it; else STORE_PENDING */
	int			refusals;
	uint32		epoch;			/* current_epoch() then */
	LrIndex		hold;
	const LrName *name;
	const AcquireRequest *request;
	int64		asked_at;		/* head: when the store was asked last */
	int64		retry_at;		/* and when to ask again unless woken */
	int64		poll;			/* present interval for token locks */
	StoreOp		op;
} Acquire;

static Acquire acq;

/* ----------
 * Asking the store
 * ----------
 */

/*
 * require_watchdog --- a lock that is to be renewed needs somebody who does it
 */
static void
require_watchdog(void)
{
	int64		until = lr_now() + WATCHDOG_PATIENCE;

	while (!lr_watchdog_running())
	{
		if (lr_now() >= until)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the lockredis watchdog is not running"),
					 errdetail("The lease of the lock could not be renewed."),
					 errhint("Check the server log and \"%s\", or pass a lease.",
							 "max_worker_processes")));
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WATCHDOG_POLL_MS, LR_WAIT_ACQUIRE);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * is_left_behind --- does lockredis.url mean another place to the watchdog?
 *
 * A session reads changed settings between statements only, so one that waits,
 * or takes locks in a long DO or CALL, would go on where nobody renews or
 * listens any more.
 */
static bool
is_left_behind(void)
{
	uint32		place = node_get_place();

	return ConfigReloadPending && place != 0 && place != lr_place;
}

static void
report_left_behind(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("the lock store has another place now"),
			 errdetail("\"%s\" was changed during this statement.", "lockredis.url"),
			 errhint("Start the statement again.")));
}

static void
ask_once(StoreId store)
{
	StoreOp    *op = &acq.op;

	memset(op, 0, sizeof(StoreOp));
	op->kind = STORE_CREATE;
	op->store = store;
	op->name = acq.name->data;
	op->name_len = acq.name->len;
	op->owner = lr_new_owner();
	op->lease_ms = request_ttl_ms(&acq.request->terms);
	op->fenced = acq.request->fenced;
	op->keep_ms = acq.request->terms.keep_until != 0 ? op->lease_ms : 0;

	acq.asking = true;
	ask_run(op, STORE_WAIT);
	acq.asking = false;
	if (op->outcome == STORE_BUSY && op->store == STORE_REDIS)
		silence_saw_ttl(acq.name->hash, op->ttl_ms);
}

/*
 * must_hold_off --- may somebody elsewhere still have the key?
 *
 * Then it is as if he did.
 */
static bool
must_hold_off(StoreId store)
{
	StoreOp    *op = &acq.op;
	int64		left;

	if (store != STORE_TABLE)
		return false;
	left = silence_hold_off(acq.name->hash);
	if (left == 0 || lt_key_stayed_here(acq.hold))
		return false;
	memset(op, 0, sizeof(StoreOp));
	op->store = store;
	op->outcome = STORE_BUSY;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = Min(left / LR_US_PER_MS + 1, HOLD_OFF_TTL_MAX);
	return true;
}

/*
 * ask --- one attempt to create the lock
 *
 * Refused as too late (our idea of the store's clock was wrong): the reply
 * brought the right time, so once more, with a new owner.
 */
static void
ask(void)
{
	StoreId		store;

	if (acq.request->terms.renewed)
		require_watchdog();
	acq.epoch = current_epoch();
	store = current_store();
	request_require_counter(acq.request, store);
	if (must_hold_off(store))
		return;
	ask_once(store);
	if (acq.op.outcome == STORE_LATE)
		ask_once(store);
}

/*
 * give_back --- the store gave us what another session here still has, or has
 * given up to give locks at all
 *
 * See lt_grant.  The outcome does not matter: should it fail, wait_abandon
 * hands the owner to the watchdog, so pretend that nothing was taken only
 * after it has worked.
 */
static void
give_back(int64 retry_at)
{
	StoreOp		release;

	memset(&release, 0, sizeof(release));
	release.kind = STORE_RELEASE;
	release.store = acq.op.store;
	release.name = acq.name->data;
	release.name_len = acq.name->len;
	release.owner = acq.op.owner;
	ask_run(&release, STORE_WAIT);
	if (release.outcome != STORE_OK && release.outcome != STORE_GONE)
		ask_report_failure(ERROR, release.outcome);
	acq.op.outcome = STORE_PENDING;
	acq.retry_at = retry_at;
}

/*
 * take --- the store said yes; true if the lock is ours
 */
static bool
take(LrIndex *hold)
{
	const AcquireRequest *r = acq.request;
	int64		deadline = acq.op.sent_at + r->terms.lease_ms * LR_US_PER_MS;

	/* The watchdog could not give it back there. */
	if (is_left_behind())
	{
		give_back(0);
		report_left_behind();
	}
	switch (lt_grant(acq.hold, acq.op.store, acq.op.owner, deadline, &r->terms,
					 acq.op.fence))
	{
		case GRANTED:
			*hold = acq.hold;
			acq.active = false;
			lr_count(STAT_ACQUIRES);
			return true;
		case GRANT_CONFLICT:
			give_back(lr_now() + POLL_MIN);
			return false;
		case GRANT_STALE:
			give_back(0);
			return false;
		case GRANT_TOO_LATE:
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("the lock store answered after the lease had ended"),
			 errdetail("The lease is %lld ms.", (long long) r->terms.lease_ms),
			 errhint("Use a longer lease.")));
	return false;				/* keep compiler quiet */
}

/*
 * mint_for_handed --- a fencing token for a lock that came without one
 *
 * False: the store says that the lock is gone.
 */
static bool
mint_for_handed(StoreId *where)
{
	StoreOp		op;

	memset(&op, 0, sizeof(op));
	op.kind = STORE_MINT;
	op.name = acq.name->data;
	op.name_len = acq.name->len;
	op.owner = lt_owner(acq.hold);
	ask_run_held(acq.hold, &op);
	request_require_counter(acq.request, op.store);
	*where = op.store;
	if (ask_says_lost(&op))
		return false;
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	lt_set_fence(acq.hold, op.fence);
	return true;
}

/*
 * take_handed --- a session of this server has passed the lock on to us
 *
 * False: it turned out to be gone before anybody was told that we have it, so
 * this is no loss, and we wait on as the first.
 */
static bool
take_handed(LrIndex *hold)
{
	StoreId		where;

	acq.handed = true;
	if (acq.request->fenced && !mint_for_handed(&where))
	{
		acq.handed = false;
		lt_wait_again(&acq.hold, where);
		return false;
	}
	*hold = acq.hold;
	acq.active = false;
	acq.handed = false;
	lr_count(STAT_ACQUIRES);
	lr_count(STAT_HANDOFFS);
	return true;
}

/*
 * plan_retry --- somebody else has the key: when to ask again
 *
 * Unless woken: by a message if the subscription stood before we asked, by its
 * confirmation if it did not.
 */
static void
plan_retry(bool subscribed)
{
	int64		now = lr_now();
	int64		ttl = acq.op.ttl_ms == STORE_NO_TTL ? POLL_ENDLESS :
		(acq.op.ttl_ms + 1) * LR_US_PER_MS;

	if (acq.op.value == STORE_VALUE_TOKEN)
	{
		acq.poll = Max(POLL_MIN, Min(acq.poll * 2, POLL_MAX));
		acq.retry_at = now + Min(ttl, acq.poll);
		return;
	}
	if (!(lr_store(acq.op.store)->features & STORE_HAS_PUSH))
		ttl = Min(ttl, POLL_TABLE);
	else if (!subscribed)
	{
		(void) lt_want_subscription(acq.hold);
		ttl = Min(ttl, POLL_UNTOLD);
	}
	acq.retry_at = now + Min(ttl, Max(POLL_ENDLESS, lr_lease * LR_US_PER_MS));
}

/* ----------
 * The loop
 * ----------
 */

/*
 * raise_timeout --- 55P03 in PostgreSQL's own words
 */
static void
raise_timeout(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("canceling statement due to lock timeout")));
}

static void
sleep_until(int64 until)
{
	if (!acq.slept)
	{
		acq.slept = true;
		acq.began = lr_now();
		lr_count(STAT_WAITS);
		long_wait_begin();
	}
	until = Min(until, long_wait_look_at());
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 lr_ms_until(until, lr_now()), LR_WAIT_ACQUIRE);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	long_wait_look(acq.name);
}

/*
 * store_failed --- as such, not for this request or this process only
 */
static bool
store_failed(void)
{
	int			sqlstate;

	if (acq.op.outcome < STORE_REFUSED)
		return false;
	sqlstate = ask_error()->sqlstate;
	return sqlstate == 0 ||
		ERRCODE_TO_CATEGORY(sqlstate) == ERRCODE_CONNECTION_EXCEPTION;
}

/*
 * is_shared_failure --- would it fail the others in the queue too?
 *
 * Not that a right is missing, perhaps to what only we have asked for.
 */
static bool
is_shared_failure(void)
{
	return store_failed() &&
		!(acq.op.outcome == STORE_DENIED && acq.op.own_fault);
}

/*
 * waits_for_store --- is this a failure that a waiting call outlives?
 *
 * In fallback mode one store or the other is there after a while.  What the
 * request may have taken is left to the watchdog, under its own record.  One
 * that refuses us and does answer the watchdog will go on to do so.
 */
static bool
waits_for_store(void)
{
	bool		refused = acq.op.outcome == STORE_REFUSED ||
		acq.op.outcome == STORE_DENIED;

	if (acq.request->wait_us == 0 || lr_mode != MODE_FALLBACK || !store_failed())
		return false;
	if (refused && ++acq.refusals > 1 && lr_store_is_up(lr_first_store()))
		return false;
	if (acq.op.outcome == STORE_UNKNOWN &&
		!lt_leave_orphan(&acq.hold, acq.op.store, acq.op.owner, acq.op.not_after))
		return false;
	lr_count(STAT_ERRORS);
	acq.failure = acq.op.outcome;
	acq.op.outcome = STORE_PENDING;
	acq.retry_at = lr_now() + POLL_STORE;
	return true;
}

/*
 * ask_as_head --- our turn; true if the lock is ours
 */
static bool
ask_as_head(bool subscribed, LrIndex *hold)
{
	ask();
	acq.failure = STORE_PENDING;
	switch (acq.op.outcome)
	{
		case STORE_OK:
			return take(hold);
		case STORE_BUSY:
			lt_found_busy(acq.hold);
			if (acq.request->wait_us != 0)
				plan_retry(subscribed);
			return false;
		case STORE_WRONG_TYPE:
			report_wrong_type(acq.name, &acq.op);
			break;
		case STORE_LATE:
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("the lock store refused the request as too late"),
					 errhint("Its clock may be unsteady.")));
			break;
		default:
			if (!waits_for_store())
				ask_report_failure(ERROR, acq.op.outcome);
	}
	return false;
}

/*
 * end_at_limit --- the time is over: false, or an error
 */
static void
end_at_limit(bool limit_raises)
{
	if (limit_raises)
	{
		lr_count(STAT_TIMEOUTS);
		raise_timeout();
	}

	/* That somebody else has the lock is not known. */
	if (acq.failure != STORE_PENDING)
		ask_report_failure(ERROR, acq.failure);
}

/*
 * acquire --- queue, ask, sleep, until the lock is had or the time is over
 *
 * Both limits bound the waiting for a holder; the shorter one decides between
 * false and an error.  A request in flight is bounded by the store's budget.
 */
static bool
acquire(LrIndex *hold)
{
	int64		start = lr_now();
	int64		wait = acq.request->wait_us;
	bool		limit_raises = LockTimeout > 0 &&
		(wait == WAIT_FOREVER || LockTimeout * LR_US_PER_MS < wait);
	int64		limit = LR_NEVER;
	bool		asked = false;

	if (limit_raises)
		limit = start + LockTimeout * LR_US_PER_MS;
	else if (wait != WAIT_FOREVER)
		limit = start + wait;

	for (;;)
	{
		int64		look_again;
		bool		subscribed;
		TurnResult	turn;

		if (is_left_behind())
			report_left_behind();

		/* Nobody tells of a release now, whatever was told to be awaited. */
		if (!lr_watchdog_running())
			acq.retry_at = Min(acq.retry_at, acq.asked_at + POLL_UNTOLD);
		if (acq.epoch != current_epoch())
			acq.retry_at = 0;
		turn = lt_turn(&acq.hold, acq.retry_at, &look_again, &subscribed);

		if (turn == TURN_HANDED)
		{
			if (take_handed(hold))
				return true;
			continue;
		}
		if (turn == TURN_FAILED)
			ereport(ERROR,
					(errcode(ERRCODE_CONNECTION_FAILURE),
					 errmsg("could not reach the lock store"),
					 errdetail("It failed the session of this server that was first in the queue for the same key.")));

		if (lr_now() >= limit && (asked || turn == TURN_WAIT))
		{
			end_at_limit(limit_raises);
			return false;
		}
		if (turn == TURN_TRY)
		{
			asked = true;
			acq.asked_at = lr_now();
			if (ask_as_head(subscribed, hold))
				return true;
		}
		else
			sleep_until(Min(look_again, limit));
	}
}

/*
 * count_wait --- the acquire has ended: for how long did it wait?
 */
static void
count_wait(void)
{
	if (acq.slept)
		lr_count_many(STAT_WAITED, lr_now() - acq.began);
}

bool
wait_for_lock(const LrName *name, const AcquireRequest *request, LrIndex *hold)
{
	bool		taken = false;

	Assert(!acq.active);
	memset(&acq, 0, offsetof(Acquire, op));
	acq.op.outcome = STORE_PENDING;
	long_wait_reset();
	acq.name = name;
	acq.request = request;
	switch (lt_enqueue(name, &request->terms, request->wait_us == 0, &acq.hold))
	{
		case ENQUEUED:
			break;
		case ENQUEUE_BUSY:
			lr_count(STAT_BUSY);
			return false;
		case ENQUEUE_FULL:
			report_table_full();
	}
	acq.active = true;

	PG_TRY();
	{
		taken = acquire(hold);
	}
	PG_CATCH();
	{
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			lr_count(STAT_CANCELS);
		wait_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();

	if (taken)
		count_wait();
	else
	{
		lr_count(acq.slept ? STAT_TIMEOUTS : STAT_BUSY);
		wait_abandon();
	}
	return taken;
}

/*
 * must_give_back --- may the store have given us the lock?
 */
static bool
must_give_back(void)
{
	return acq.op.outcome == STORE_OK || acq.op.outcome == STORE_UNKNOWN;
}

void
wait_abandon(void)
{
	if (!acq.active)
		return;
	acq.active = false;
	count_wait();

	if (acq.handed)
	{
		acq.handed = false;
		lt_pass_on(acq.hold);
		return;
	}
	if (acq.asking)
	{
		/* Left in the middle of a request by an interrupt. */
		ask_abandon();
		acq.asking = false;
	}
	else if (lr_mode != MODE_FALLBACK && is_shared_failure())
		lt_fail_waiters(acq.hold);

	if (must_give_back())
		lt_give_up_orphan(acq.hold, acq.op.store, acq.op.owner,
						  acq.op.outcome == STORE_UNKNOWN ? acq.op.not_after : 0);
	else
		lt_give_up(acq.hold);
}
