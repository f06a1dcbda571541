/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  Wait for, and notify, the conditions of locks that this backend holds.
 *
 * The wait for the condition is an acquire like any other (waiting.c), of a kind whose
 * first request releases the lock of this session, and ends when a client notifies.
 * What it acquires is the notification.  The watchdog keeps that while we wait for the
 * lock; if we do not get the lock, the notification passes to the next client that
 * waits for the condition.
 *
 *	 lock          HELD ──► LOST, as it waits ────────────────────────────► dropped
 *	 notification           WAITING ──► HELD ─────────────────────► released, acted on
 *	 again                              WAITING ──► HELD ────────────────► in the index
 *
 * If anything raises on the way, the lock stays as it is then: lost.  The notification
 * and the new hold are pending, and pending_abandon() passes them on.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/condition.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "store/stores.h"

/* ----------
 * Preconditions
 * ----------
 */

/*
 * condition_require_lock --- raise unless the session holds the lock
 */
static HeldEntry *
condition_require_lock(const LrName *name, KindId lock, HoldView *view)
{
	HeldEntry  *entry;

	session_enter();
	entry = held_find(name, lock);
	if (entry == NULL)
		report_not_held(ERROR, name, lock, held_kind_of(name, lock));
	session_look_held(name, entry->hold, view);
	return entry;
}

/*
 * condition_require_own --- raise if the lock must not be released by a wait
 *
 * If a job waited without its lock, it could be run a second time.
 */
static void
condition_require_own(const LrName *name, const HeldEntry *entry, const HoldView *view)
{
	char	   *shown = lr_name_to_show(name->data, name->len);

	if (view->scope[SCOPE_XACT].count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot wait for a condition of the transaction-level lock \"%s\"",
						shown),
				 errdetail("The wait would release it before the end of the transaction."),
				 errhint("Use redis_lock.")));
	if (entry->job_count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot wait for a condition of the lock \"%s\"", shown),
				 errdetail("It is the lock of a job, which could be run again during the wait."),
				 errhint("Use the condition of another lock.")));
	if (view->keep_until > lr_now())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot wait for a condition of the lock \"%s\"", shown),
				 errdetail("It has to be held for the time that hold_at_least says.")));
}

/* ----------
 * The wait
 * ----------
 */

/* Rows needed once the lock is released: for the wait, and for the lock again. */
#define MONITOR_ROWS		2

/*
 * monitor_take_again --- acquire the lock again on its former terms
 */
static void
monitor_take_again(const LrName *name, const HoldView *before)
{
	const ScopeHold *part = &before->scope[SCOPE_SESSION];
	AcquireRequest request;

	memset(&request, 0, sizeof(request));
	request.terms.kind = before->kind;
	request.terms.scope = SCOPE_SESSION;
	request.terms.lease_ms = part->lease_ms;
	request.terms.renewed = part->renewed;
	request.terms.guard = part->guard;
	request.terms.on_lost = part->on_lost;
	request.terms.min_replicas = part->min_replicas;
	request.wait_us = WAIT_FOREVER;
	(void) wait_for_lock(name, &request, &pending.lock);
	request.fenced = before->fence != 0;
	if (request.fenced)
		(void) session_mint(name, pending.lock, &request, 0);
	if (part->count > 1)
	{
		HoldView	view;

		lt_look(pending.lock, &view);
		view.scope[SCOPE_SESSION].count = part->count;
		(void) lt_set_scope(pending.lock, SCOPE_SESSION, &view.scope[SCOPE_SESSION], 0, 0);
	}
}

/*
 * monitor_end_notification --- release the notification, which has served its purpose
 *
 * This is not interruptible, since we hold the lock.  If it is not answered, the
 * watchdog passes the notification on, and the next waiter wakes up for nothing.
 */
static void
monitor_end_notification(const LrName *name, KindId kind)
{
	HeldKey		key = held_key(name, kind);
	LrIndex		notification = pending.notification;
	HoldView	view;
	StoreOp		op;

	if (notification == LR_NONE)
		return;
	if (lt_begin_release(notification, false, &view) == RELEASE_LOST)
	{
		pending.notification = LR_NONE;
		lt_drop_lost(notification);
		return;
	}
	ask_prepare_held(&op, STORE_RELEASE, &key, &view);
	op.args.acted = true;
	ask_run_until(&op, 1, lr_now() + lr_call_budget(), STORE_POLL, NULL);
	pending.notification = LR_NONE;
	if (op.outcome == STORE_OK || op.outcome == STORE_GONE)
		lt_end_release(notification, &op);
	else
		lt_orphan(notification, op.sent.at);
}

/*
 * monitor_wait --- release the lock, wait for its condition, and acquire the lock again
 *
 * False: the time was over first; true: notified, or the store cannot tell.  When this
 * raises, the session has lost the lock, and the abort does the rest (xact_clean_up).
 */
static bool
monitor_wait(const LrName *name, const HeldEntry *entry, const HoldView *view,
			 const AcquireRequest *sleep)
{
	KindId		kind = entry->key.kind;
	LrIndex		before = entry->hold;
	HeldEntry  *now;
	bool		notified;

	wait_for_rows(MONITOR_ROWS);
	notified = wait_for_lock(name, sleep, &pending.notification);
	monitor_take_again(name, view);
	monitor_end_notification(name, sleep->terms.kind);
	lt_return_rows();
	now = held_find(name, kind);
	held_replace(now, pending.lock);
	pending.lock = LR_NONE;
	lt_drop_lost(before);
	return notified;
}

/* ----------
 * What the user wants
 * ----------
 */

bool
session_condition_wait(const LrName *name, KindId kind, const uint8 *id, int64 wait_us)
{
	HeldEntry  *entry;
	HoldView	view;
	AcquireRequest sleep;

	entry = condition_require_lock(name, lr_kind(kind)->condition_of, &view);
	condition_require_own(name, entry, &view);
	request_require_store(kind, view.store);
	track_warn_snapshot(SCOPE_SESSION);
	track_warn_early_unlock();

	memset(&sleep, 0, sizeof(sleep));
	sleep.terms.kind = kind;
	sleep.terms.scope = SCOPE_SESSION;
	sleep.terms.lease_ms = lr_wait_lease;
	sleep.terms.renewed = true;
	memcpy(sleep.terms.id, id, STORE_ID_LEN);
	sleep.wait_us = wait_us == WAIT_FOREVER ? WAIT_FOREVER : Max(wait_us, 1);
	sleep.gives_back = entry->hold;
	return monitor_wait(name, entry, &view, &sleep);
}

/* The store checks, too, that the session holds the lock. */
int64
session_condition_notify(const LrName *name, KindId kind, const uint8 *id, int most)
{
	HeldKey		key = held_key(name, kind);
	HeldEntry  *entry;
	HoldView	view;
	StoreOp		op;

	entry = condition_require_lock(name, lr_kind(kind)->condition_of, &view);
	request_require_store(kind, view.store);
	ask_prepare_held(&op, STORE_NOTIFY, &key, &view);
	op.lock_kind = kind;
	memcpy(op.id, id, STORE_ID_LEN);
	op.amount = most;
	if (ask_held(entry->hold, &op))
		session_look_held(name, entry->hold, &view);
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	if (!lr_store_can(op.store, STORE_HAS_PUSH))
		lt_wake_passing(name);
	return op.answer.count;
}
