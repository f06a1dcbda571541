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

#include "common/hashfn.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"

#include "instance.h"
#include "keyname.h"
#include "locktable/graph.h"
#include "locktable/wait.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "wait_events.h"

/* Token locks of other clients tell nobody: look again after up to 50, then 500 ms. */
#define POLL_MIN			(50 * LR_US_PER_MS)
#define POLL_MAX			(500 * LR_US_PER_MS)

/* Until the subscription stands, and for a holder whose lease never ends. */
#define POLL_UNTOLD			LR_US_PER_S
#define POLL_ENDLESS		(30 * LR_US_PER_S)

/* A store that never tells of a release. */
#define POLL_TABLE			(500 * LR_US_PER_MS)

/* A store that failed, unless there is news of it; a master that will have a
 * successor soon. */
#define POLL_STORE			LR_US_PER_S
#define POLL_MASTER			(100 * LR_US_PER_MS)

/* What is told of a key that may be had elsewhere for ever (ms). */
#define HOLD_OFF_TTL_MAX	(24 * 60 * 60 * INT64CONST(1000))

/* How long a create that wants renewal waits for a watchdog. */
#define WATCHDOG_PATIENCE	(5 * LR_US_PER_S)
#define WATCHDOG_POLL_MS	50

/*
 * Who has got a lock in its turn that another session here has lost and does not know
 * keeps it so long, and looks so often.
 */
#define CONFLICT_PATIENCE	LR_US_PER_S
#define CONFLICT_POLL_MS	10

/* The acquire in progress. */
typedef struct Acquire
{
	bool		active;
	bool		asking;			/* op is with the store */
	bool		handed;			/* hold is held, but not yet told to anybody */
	bool		again;			/* ask once more, even if the time is over */
	bool		slept;
	int64		began;			/* when the first of its sleeps began */
	StoreOutcome failure;		/* of the last request, if a waiting call outlives
								 * it; else STORE_PENDING */
	int			refusals;
	int64		failed_since;	/* each request has failed since then, one after the
								 * other; 0 = none */
	bool		unreplicated;	/* too few replicas have confirmed it */
	uint32		epoch;			/* current_epoch() then, */
	uint32		news;			/* and topology_news() */
	LrIndex		hold;
	const LrName *name;
	HeldKey		key;			/* the same, with its kind */
	const AcquireRequest *request;
	int64		judged_at;		/* of a store that excludes this server only: before it
								 * was seen that nobody elsewhere can have the key */
	int64		asked_at;		/* head: when the store was asked last */
	int64		retry_at;		/* and when to ask again unless woken */
	int64		poll;			/* present interval for token locks */
	StoreId		turn;			/* of which store it is our turn to be asked */

	/* Kinds that are announced, if the store was asked and has answered so far: */
	uint64		owner;			/* who is, with whom it is asked again; else 0 */
	StoreId		owner_store;	/* and where */
	uint32		owner_topology;
	int64		since_ms;		/* by the store's clock: when it was asked first */

	/* Kinds that are passing: */
	bool		gave_back;		/* the first create has gone out */
	bool		giving_back;	/* and its outcome has not been dealt with */
	bool		last;			/* the time is over: asks, and leaves */
	StoreOp		op;				/* from here on nothing is zeroed by each acquire */
	WaitBlocker blocker;		/* as far as is known, for wait_context() */
} Acquire;

static Acquire acq;

/* ----------
 * Asking the store
 * ----------
 */

/*
 * wait_require_watchdog --- a lock that is to be renewed needs somebody who does it
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
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WATCHDOG_POLL_MS, LR_WAIT_ACQUIRE);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * wait_is_left_behind --- does lockredis.url mean another place to the watchdog?
 *
 * A session reads changed settings between statements only, so one that waits,
 * or takes locks in a long DO or CALL, would go on where nobody renews or
 * listens any more.
 */
static bool
wait_is_left_behind(void)
{
	uint32		place = node_get_place();

	return ConfigReloadPending && place != 0 && place != lr_place;
}

static void
wait_report_left_behind(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_STORE_FAILED),
			 errmsg("the lock store has been changed"),
			 errdetail("\"%s\" was changed during this statement.", "lockredis.url"),
			 errhint("Start the statement again.")));
}

void
wait_require_place(void)
{
	if (wait_is_left_behind())
		wait_report_left_behind();
}

/*
 * wait_announcement --- for how long is the store to say that we wait?
 *
 * Where all who ask it are of this server their queue says that, but of a condition.
 */
static int64
wait_announcement(StoreId store)
{
	return lr_kind(acq.key.kind)->announced && acq.request->wait_us != 0 &&
		(lr_kind(acq.key.kind)->passing || !lr_store_can(store, STORE_SERVER_ONLY)) ?
		lr_wait_lease : 0;
}

/*
 * wait_note_announced --- the store knows now that we wait, and has surely not given us
 * the lock
 */
static void
wait_note_announced(void)
{
	const StoreOp *op = &acq.op;

	if (acq.since_ms == 0)
		acq.since_ms = op->store_ms;
	if (op->wait_ms == 0)
	{
		/* It has left by that. */
		if (acq.last)
			acq.owner = 0;
		return;
	}
	acq.owner = op->owner;
	acq.owner_store = op->store;
	acq.owner_topology = op->topology;
}

/*
 * wait_start_anew --- what the store has had of us is the watchdog's
 */
static void
wait_start_anew(void)
{
	acq.owner = 0;
	acq.since_ms = 0;
}

/*
 * wait_owner --- each create has one of its own, so that one that is late can be told
 * from the next
 *
 * Who is announced keeps his: all before was answered.
 */
static uint64
wait_owner(StoreId store, int64 until)
{
	uint64		owner;
	bool		anew;

	if (wait_announcement(store) == 0)
		return lr_new_owner();
	owner = lt_ask_as(acq.hold, store, acq.owner, until, &anew);
	if (anew)
		wait_start_anew();
	return owner;
}

/*
 * wait_report_gone --- the lock that was to be given back had been lost before
 */
static void
wait_report_gone(void)
{
	HoldView	view;

	lt_look(acq.request->gives_back, &view);
	report_lost_used(acq.name, &view, LOSS_OF_SESSION);
}

/*
 * wait_begin_giving_back --- the first create takes the lock of this session along
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
		if (!lt_begin_aside(lock))
			wait_report_gone();
	}
	acq.gave_back = acq.giving_back = true;
	op->gives_back = lt_owner(lock);
}

/*
 * wait_end_giving_back --- is it gone?  If that is not known it is lost all the same, and
 * the watchdog's
 */
static void
wait_end_giving_back(void)
{
	const StoreOp *op = &acq.op;
	LrIndex		lock = acq.request->gives_back;

	if (!acq.giving_back)
		return;
	acq.giving_back = false;
	if (op->outcome == STORE_GONE)
		lt_lose_aside(lock, op->store, op->holder);
	else
		lt_end_aside(lock, op->store, op->topology,
					 op->outcome == STORE_BUSY || op->outcome == STORE_OK);
}

/*
 * wait_send_create --- ask for the lock
 */
static void
wait_send_create(StoreId store)
{
	StoreOp    *op = &acq.op;
	int64		until = lr_now() + lr_call_budget();

	ask_prepare(op, STORE_CREATE, &acq.key, store);
	op->owner = wait_owner(store, until);
	op->wait_ms = acq.last && acq.gave_back ? 0 : wait_announcement(store);
	op->since_ms = acq.since_ms;
	op->beside = lr_kind(acq.key.kind)->shared ? lt_owner_beside(acq.hold) : 0;
	op->lease_ms = request_ttl_ms(&acq.request->terms);
	op->fenced = acq.request->fenced;
	op->keep_ms = acq.request->terms.keep_until != 0 ? op->lease_ms : 0;
	op->min_replicas = acq.request->terms.min_replicas;
	op->amount = acq.request->terms.amount;
	memcpy(op->id, acq.request->terms.id, STORE_ID_LEN);
	op->token = acq.request->token;
	op->token_len = acq.request->token_len;

	/* If that raises, wait_abandon() sees to it. */
	if (lr_kind(acq.key.kind)->passing)
		wait_begin_giving_back(op);
	acq.asking = true;
	ask_run_until(op, 1, until, STORE_WAIT);
	acq.asking = false;
	if (op->outcome != STORE_LATE)
		wait_end_giving_back();
	if (op->outcome == STORE_BUSY &&
		(lr_kind(acq.key.kind)->shared || lr_kind(acq.key.kind)->announced))
		wait_note_announced();
}

/*
 * wait_must_hold_off --- may somebody elsewhere still have the key?
 *
 * Then it is as if he did.
 */
static bool
wait_must_hold_off(StoreId store)
{
	StoreOp    *op = &acq.op;
	int64		left;

	if (!lr_store_can(store, STORE_SERVER_ONLY))
		return false;
	acq.judged_at = lr_now();
	left = silence_hold_off(acq.name->hash);
	if (left == 0 || lt_key_stayed_here(acq.hold))
		return false;
	ask_prepare(op, STORE_CREATE, &acq.key, store);
	op->outcome = STORE_BUSY;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = Min(left / LR_US_PER_MS + 1, HOLD_OFF_TTL_MAX);
	return true;
}

/*
 * wait_ask_store --- one attempt to create the lock; false: another store is in use
 * by now, and whose turn it is there has to be seen first
 *
 * Refused as too late (our idea of the store's clock was wrong): the reply
 * brought the right time, so once more, with a new owner.
 */
static bool
wait_ask_store(void)
{
	StoreId		store;

	wait_require_watchdog(&acq.request->terms);
	acq.epoch = current_epoch();
	acq.news = topology_news();
	store = current_store();
	if (store != acq.turn)
		return false;
	request_require_store(acq.key.kind, store);
	request_require_counter(acq.request, store);
	if (wait_must_hold_off(store))
		return true;
	wait_send_create(store);
	if (acq.op.outcome == STORE_LATE)
		wait_send_create(store);
	return true;
}

/*
 * wait_release --- give back what the store gave us
 *
 * Should it fail, wait_abandon hands the owner to the watchdog, so pretend that
 * nothing was taken only after it has worked.  A former master's word says nothing of
 * what the present one has.
 */
static StoreOutcome
wait_release(void)
{
	StoreOp		release;

	if (!lr_leaves_something(acq.key.kind))
	{
		acq.op.outcome = STORE_PENDING;
		return STORE_GONE;
	}
	ask_prepare(&release, STORE_RELEASE, &acq.key, acq.op.store);
	release.owner = acq.op.owner;
	release.amount = acq.op.amount;
	memcpy(release.id, acq.op.id, STORE_ID_LEN);
	ask_run(&release, STORE_WAIT);
	ask_distrust(&release);
	if (release.outcome == STORE_OK || release.outcome == STORE_GONE)
	{
		acq.op.outcome = STORE_PENDING;
		acq.owner = 0;			/* an owner is used once */
	}
	return release.outcome;
}

static bool wait_outlive_failure(void);

/*
 * wait_give_back --- another session here still has it, or the store has given up
 * to give locks at all, or has given it as a master that it is not any more
 *
 * See lt_grant.  If it cannot be given back, it has run all the same: what may be
 * there is not to be waited for.
 */
static void
wait_give_back(int64 retry_at)
{
	StoreOutcome outcome = wait_release();

	if (acq.op.outcome == STORE_PENDING)
	{
		acq.retry_at = retry_at;
		return;
	}
	acq.op.outcome = STORE_UNKNOWN;
	acq.op.not_after = 0;
	if (wait_outlive_failure())
		return;
	acq.op.outcome = STORE_OK;
	ask_report_failure(ERROR, outcome);
}

/*
 * wait_refuse_unreplicated --- too few replicas have it
 *
 * It may be lost with its master, so we do not have it; nor is it asked for again,
 * or the key would be locked and free by turns for as long as replicas are away.
 */
static void
wait_refuse_unreplicated(void)
{
	StoreError	error = *ask_error();

	acq.unreplicated = true;
	(void) wait_release();
	report_store_failure(ERROR, STORE_UNCONFIRMED, &error);
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
 * wait_grant --- the lock is ours, unless a session of this server still has it
 *
 * One that waited in the order of the store would lose its place if it gave the lock
 * back for that, and the next one after it.  So it stays until the watchdog, which asks
 * at once, has found that the other one has lost it.
 */
static GrantResult
wait_grant(void)
{
	const AcquireRequest *r = acq.request;
	int64		until = 0;

	for (;;)
	{
		GrantResult result = lt_grant(acq.hold, acq.op.store, acq.op.owner,
									  acq.op.topology, acq.judged_at, acq.op.sent_at,
									  &r->terms, acq.op.fence);

		if (result != GRANT_CONFLICT || !lr_kind(acq.key.kind)->placed)
			return result;
		if (until == 0)
			until = lr_now() + CONFLICT_PATIENCE;
		else if (lr_now() >= until)
			return result;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 CONFLICT_POLL_MS, LR_WAIT_ACQUIRE);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * wait_take_granted --- the store said yes; true if the lock is ours
 */
static bool
wait_take_granted(LrIndex *hold)
{
	const AcquireRequest *r = acq.request;

	/* A cancel that has come with the answer would take it along: nobody has a record. */
	if (lr_kind(acq.key.kind)->ownerless)
		CHECK_FOR_INTERRUPTS();

	/* The watchdog could not give it back there. */
	if (wait_is_left_behind())
	{
		wait_give_back(0);
		wait_report_left_behind();
	}
	switch (wait_grant())
	{
		case GRANTED:
			if (lr_is_number(acq.key.kind))
				ask_forget(&acq.op);
			else if (lr_kind(acq.key.kind)->ownerless)
				silence_saw_ttl(acq.name->hash, r->terms.lease_ms);
			else
			{
				if (acq.op.without != 0)
					lt_note_without(acq.hold, acq.op.owner, acq.op.without);
				if (acq.op.nodes != 0)
					lt_note_nodes(acq.hold, acq.op.owner, acq.op.nodes);
			}
			*hold = acq.hold;
			acq.active = false;
			if (!lr_kind(acq.key.kind)->passing)
				lr_count(STAT_ACQUIRES);
			return true;
		case GRANT_CONFLICT:
			wait_give_back(lr_now() +
						   (lr_kind(acq.key.kind)->placed ? POLL_UNTOLD : POLL_MIN));
			return false;
		case GRANT_STALE:
			acq.again = true;
			wait_give_back(0);
			return false;
		case GRANT_DISOWNED:
			acq.op.outcome = STORE_PENDING;
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
 * wait_poll_token --- when to look again at a token lock of another client
 *
 * Half of the time by chance, so that those who have begun together part.
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
 * wait_plan_retry --- somebody else has the key: when to ask again
 *
 * Unless woken: by a message if the subscription stood before we asked, by its
 * confirmation if it did not.
 */
static void
wait_plan_retry(bool subscribed)
{
	int64		now = lr_now();
	int64		ttl = acq.op.ttl_ms == STORE_NO_TTL ? POLL_ENDLESS :
		(acq.op.ttl_ms + 1) * LR_US_PER_MS;

	if (acq.op.value == STORE_VALUE_TOKEN)
	{
		/* Ours tell, too. */
		if (lr_store_can(acq.op.store, STORE_HAS_PUSH) && !subscribed)
			(void) lt_want_subscription(acq.hold);
		acq.retry_at = wait_poll_token(now, ttl);
		return;
	}
	if (!lr_store_can(acq.op.store, STORE_HAS_PUSH))
		ttl = Min(ttl, POLL_TABLE);
	else if (!subscribed && !lt_want_subscription(acq.hold))
		ttl = Min(ttl, POLL_UNTOLD);

	/* Nobody can subscribe where the lock is, or is to be soon. */
	if (acq.op.asking || cluster_is_half_moved(acq.name->data, acq.name->len))
		ttl = Min(ttl, POLL_UNTOLD);

	/* An announcement, or a place, is renewed by asking again. */
	if (acq.owner != 0)
		ttl = Min(ttl, lr_wait_lease * LR_US_PER_MS / 3);
	acq.retry_at = now + Min(ttl, Max(POLL_ENDLESS, lr_lease * LR_US_PER_MS));
}

/* ----------
 * Who holds it: the CONTEXT of errors
 * ----------
 */

/*
 * wait_owner_found --- by which owner somebody else holds the key, as the store said
 *
 * The text of a token lock is a secret, and no store says it.
 */
static const char *
wait_owner_found(void)
{
	return acq.op.value == STORE_VALUE_TOKEN ? "token" : acq.op.holder;
}

/*
 * wait_note_busy --- for those who look at redis_locks, and for an error of this wait
 */
static void
wait_note_busy(void)
{
	acq.blocker.pid = 0;
	strlcpy(acq.blocker.owner, wait_owner_found(), LR_OWNER_MAX);
	lt_found_busy(acq.hold, acq.request->wait_us != 0, acq.blocker.owner);
}

/*
 * wait_note_blocker --- the wait is about to end without the lock: who holds it now?
 *
 * Not earlier: nobody has to pay for it who gets the lock.
 */
static void
wait_note_blocker(void)
{
	(void) lt_find_blocker(LrMyProcNumber, &acq.blocker);
}

/*
 * wait_context_blocker --- the end of the line, which begins with a comma
 *
 * What a store that keeps an order names may be the next one, who holds nothing yet.
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
 * What it says was noted before: it takes no lock, reads no catalog and asks no store.
 * Memory comes from ErrorContext, as for the line itself.  What fails with its first
 * request has not waited, unless an interrupt ended that.  Lines for the log alone, which
 * name the wait themselves, have no error code.
 */
static void
wait_context(void *arg)
{
	const LockKind *kind = lr_kind(acq.key.kind);
	const char *name;

	if (!acq.active || !(acq.slept || acq.asking || acq.asked_at != 0) ||
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
 * wait_is_for_lock --- or for a condition, which counts by itself?
 */
static bool
wait_is_for_lock(void)
{
	return !lr_kind(acq.key.kind)->passing;
}

/*
 * wait_sleep --- until then, or until somebody has news for us
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
 * wait_store_failed --- as such, not for this request or this process only
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
 * wait_failure_is_shared --- would it fail the others in the queue too?
 *
 * Not that a right is missing, perhaps to what only we have asked for.
 */
static bool
wait_failure_is_shared(void)
{
	return wait_store_failed(acq.op.outcome) &&
		!(acq.op.outcome == STORE_DENIED && acq.op.own_fault);
}

/*
 * wait_may_change --- will the store serve us after a while?
 *
 * In fallback mode one store or the other will.  One that refuses us and does
 * answer the watchdog will go on to do so.
 */
static bool
wait_may_change(void)
{
	bool		refused = acq.op.outcome == STORE_REFUSED ||
		acq.op.outcome == STORE_DENIED;

	if (!lr_has_fallback())
		return false;
	return !refused || ++acq.refusals <= 1 || !lr_store_is_up(lr_first_store());
}

/*
 * wait_forget_failures --- who has not asked for as long as a request may take, since
 * another session had the key meanwhile, begins anew
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
 * For as long as a request may take, in all.
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
 * wait_outlive_failure --- wait on although the store has failed, if this is a
 * failure that a waiting call outlives; false: it is not
 *
 * What the request may have taken is left to the watchdog, under its own record.
 */
static bool
wait_outlive_failure(void)
{
	bool		change;

	if (acq.request->wait_us == 0 || !wait_store_failed(acq.op.outcome))
		return false;
	change = wait_may_change();
	if (!change && !wait_may_fail_over(acq.op.outcome))
		return false;
	if (acq.op.outcome == STORE_UNKNOWN && lr_leaves_something(acq.key.kind) &&
		!lt_leave_orphan(&acq.hold, acq.op.store, acq.op.owner, acq.op.topology,
						 acq.op.not_after))
		return false;
	if (acq.op.outcome == STORE_UNKNOWN)
		acq.owner = 0;			/* the orphan has it */
	lr_count(STAT_ERRORS);
	acq.failure = acq.op.outcome;
	acq.op.outcome = STORE_PENDING;
	acq.retry_at = lr_now() + (lr_follows_master() ? POLL_MASTER : POLL_STORE);
	return true;
}

/*
 * wait_mint_for_handed --- a fencing token for a lock that came without one
 *
 * It takes so many "more" for those to whom the lock may be handed after us.
 *
 * False: the store says that the lock is gone.  For want of replicas it fails those
 * behind us, too, or each of them would find that out for itself.  While another node
 * may be the master soon it is asked again, as any call that waits: one that was handed
 * the lock just then is no worse off than one that asked for it.  Not behind "limit", nor
 * until the lease ends, which nobody can renew now: nobody was told that we have it, so it
 * is not to be lost by us.
 */
static bool
wait_mint_for_handed(StoreOp *op, int64 more, int64 limit)
{
	int64		until = lr_earlier(limit, lt_lease_end(acq.hold) - POLL_MASTER);

	wait_forget_failures();
	for (;;)
	{
		ask_prepare(op, STORE_MINT, &acq.key, acq.op.store);
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
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 POLL_MASTER / LR_US_PER_MS, LR_WAIT_ACQUIRE);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	lt_set_fence(acq.hold, op);
	return true;
}

/*
 * wait_take_token --- the next token in reserve, or a new one; false: as above
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
 * wait_take_handed --- a session of this server has passed the lock on to us
 *
 * False: it turned out to be gone before anybody was told that we have it, so
 * this is no loss, and we wait on as the first.
 */
static bool
wait_take_handed(LrIndex *hold, int64 limit)
{
	StoreOp		mint;

	acq.handed = true;
	if (acq.request->fenced && !wait_take_token(&mint, limit))
	{
		acq.handed = false;
		lt_wait_again(&acq.hold, mint.store, mint.moves);
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
 * wait_ask_as_head --- our turn; true if the lock is ours
 */
static bool
wait_ask_as_head(bool subscribed, LrIndex *hold)
{
	wait_forget_failures();
	if (!wait_ask_store())
	{
		acq.again = true;
		acq.retry_at = 0;
		return false;
	}
	acq.failure = STORE_PENDING;
	if (!wait_store_failed(acq.op.outcome))
		acq.failed_since = 0;
	switch (acq.op.outcome)
	{
		case STORE_OK:
			return wait_take_granted(hold);
		case STORE_BUSY:
			wait_note_busy();
			if (acq.request->wait_us != 0)
				wait_plan_retry(subscribed);
			return false;
		case STORE_UNCONFIRMED:
			wait_refuse_unreplicated();
			break;
		case STORE_GONE:
			wait_report_gone();
			break;
		case STORE_WRONG_TYPE:
			report_wrong_type(acq.name, &acq.op);
			break;
		case STORE_MISSING:
			report_missing(acq.name, acq.key.kind);
			break;
		case STORE_LATE:
			report_late();
			break;
		default:
			if (!wait_outlive_failure())
				ask_report_failure(ERROR, acq.op.outcome);
	}
	return false;
}

/*
 * wait_end_at_limit --- the time is over: false, or an error
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

	/* That somebody else has the lock is not known. */
	if (acq.failure != STORE_PENDING)
		ask_report_failure(ERROR, acq.failure);
}

/*
 * wait_limit --- until when to wait for a holder
 *
 * Both lock_timeout and the caller's limit bound it; the shorter one decides
 * between an error and false.  Who waits for what is no lock has no lock_timeout.
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
 * wait_until_had --- queue, ask, sleep, until the lock is had or the time is over
 *
 * A request in flight is not bounded by the limit, but by the store's budget; nor is a
 * release that is (TURN_SENT), which is answered soon.
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
		bool		subscribed;
		TurnResult	turn;

		wait_require_place();
		request_require_store(acq.key.kind, current_store());

		/* Nobody tells of a release now, whatever was told to be awaited. */
		if (!lr_watchdog_running())
			acq.retry_at = Min(acq.retry_at, acq.asked_at + POLL_UNTOLD);
		if (acq.epoch != current_epoch() || acq.news != topology_news())
			acq.retry_at = 0;
		turn = lt_turn(&acq.hold, acq.retry_at, &look_again, &subscribed, &acq.turn);

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
			asked = false;		/* it was before that answer */
		if ((asked || turn == TURN_WAIT) && lr_now() >= limit)
		{
			if (!lr_kind(acq.key.kind)->passing || acq.last)
			{
				wait_end_at_limit(limit_raises);
				return false;
			}

			/* It may have been told in this moment, and has to leave. */
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
			if (wait_ask_as_head(subscribed, hold))
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
 * wait_count_time --- the acquire has ended: for how long did it wait?
 */
static void
wait_count_time(void)
{
	if (acq.slept)
		lr_count_many(wait_is_for_lock() ? STAT_WAITED : STAT_CONDITION_WAITED,
					  lr_now() - acq.began);
}

/*
 * wait_for_lock --- see session_int.h
 *
 * Here and in wait_abandon() begins and ends all that must not be left behind.
 */
bool
wait_for_lock(const LrName *name, const AcquireRequest *request, LrIndex *hold)
{
	bool		taken = false;
	KindId		other;
	ErrorContextCallback context;

	Assert(!acq.active);
	request_require_name(name, current_store());
	memset(&acq, 0, offsetof(Acquire, op));
	acq.op.outcome = STORE_PENDING;
	acq.blocker.pid = 0;
	acq.blocker.owner[0] = '\0';
	long_wait_reset();
	acq.name = name;
	acq.key = held_key(name, request->terms.kind);
	acq.request = request;
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
		case ENQUEUE_FULL:
			report_table_full();
	}
	acq.active = true;
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
		wait_abandon();
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
		wait_abandon();
	}
	return taken;
}

/*
 * wait_may_be_taken --- may the store have given us the lock?
 */
static bool
wait_may_be_taken(void)
{
	if (!lr_leaves_something(acq.key.kind))
		return false;
	return acq.op.outcome == STORE_OK || acq.op.outcome == STORE_UNKNOWN ||
		acq.op.outcome == STORE_UNCONFIRMED;
}

/*
 * wait_abandon --- see session_int.h
 *
 * Whoever is behind us in the queue is failed, too, if the store has failed us as
 * it would fail him: so a whole queue takes no longer than its head.  Not by a try
 * at a failover, which those who wait outlive.
 */
void
wait_abandon(void)
{
	if (!acq.active)
		return;
	acq.active = false;
	idle_keep(false);
	wait_count_time();

	if (acq.handed)
	{
		acq.handed = false;
		if (acq.unreplicated)
			lt_fail_waiters(acq.hold, acq.request->terms.min_replicas);
		lt_pass_on(acq.hold);
		return;
	}
	if (acq.asking)
	{
		/* Left in the middle of a request by an interrupt. */
		ask_abandon();
		acq.asking = false;
	}
	else if (acq.unreplicated)
		lt_fail_waiters(acq.hold, acq.request->terms.min_replicas);
	else if (!lr_has_fallback() && wait_failure_is_shared() &&
			 !(lr_follows_master() && acq.request->wait_us == 0))
		lt_fail_waiters(acq.hold, 0);

	wait_end_giving_back();
	if (wait_may_be_taken())
		lt_give_up_orphan(acq.hold, acq.op.store, acq.op.owner, acq.op.topology,
						  acq.op.outcome == STORE_UNKNOWN ? acq.op.not_after : 0);
	else if (acq.owner != 0)
		lt_give_up_announced(acq.hold, acq.owner_store, acq.owner,
							 acq.owner_topology);
	else
		lt_give_up(acq.hold);
}
