/*-------------------------------------------------------------------------
 *
 * monitor.c
 *	  Release a lock, wait for its condition, acquire the lock again.
 *
 * The wait for the condition is an acquire like any other (waiting.c), of a kind whose
 * first request releases the lock of this session, and ends when a client notifies.
 * What it acquires is the notification.  The watchdog keeps that while we wait for the
 * lock; if we do not get the lock, the notification passes to the next client that
 * waits for the condition.
 *
 *	 lock   HELD ──► LOST, as it waits ────────────────────────────► dropped
 *	 told            WAITING ──► HELD ─────────────────────► released, acted on
 *	 again                       WAITING ──► HELD ────────────────► in the index
 *
 * If anything raises on the way, the lock stays as it is then: lost.  The notification
 * and the new hold are in one static structure, since FATAL does not even pass
 * PG_CATCH.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/monitor.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/wait.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"

/* Rows needed once the lock is released: for the wait, and for the lock again. */
#define MONITOR_ROWS		2

/* The wait in progress. */
typedef struct Monitor
{
	bool		has_told;
	LrIndex		told;			/* the notification */
	bool		has_lock;
	LrIndex		lock;			/* the lock, acquired again, but not in the index yet */
} Monitor;

static Monitor monitor;

/*
 * monitor_sleep --- release the lock, and wait until a client notifies
 */
static bool
monitor_sleep(const LrName *name, LrIndex lock, const uint8 *id, int64 wait_us)
{
	AcquireRequest request;

	memset(&request, 0, sizeof(request));
	request.terms.kind = KIND_CONDITION;
	request.terms.scope = SCOPE_SESSION;
	request.terms.lease_ms = lr_wait_lease;
	request.terms.renewed = true;
	memcpy(request.terms.id, id, STORE_ID_LEN);
	request.wait_us = wait_us == WAIT_FOREVER ? WAIT_FOREVER : Max(wait_us, 1);
	request.gives_back = lock;
	monitor.has_told = wait_for_lock(name, &request, &monitor.told);
	return monitor.has_told;
}

/*
 * monitor_refuse_lost --- raise: the lock was lost before its session could use it
 */
static void
monitor_refuse_lost(const LrName *name)
{
	HoldView	view;

	lt_look(monitor.lock, &view);
	report_lost_used(name, &view, LOSS_OF_SESSION);
}

/*
 * monitor_take_token --- the lock had a fencing token: get a new one
 */
static void
monitor_take_token(const LrName *name, const HeldKey *key, const AcquireRequest *request)
{
	HoldView	view;
	StoreOp		op;

	lt_look(monitor.lock, &view);
	ask_prepare_held(&op, STORE_MINT, key, &view);
	op.min_replicas = request->terms.min_replicas;
	if (ask_held(monitor.lock, &op))
		monitor_refuse_lost(name);
	request_require_counter(request, op.store);
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	lt_set_fence(monitor.lock, &op);
}

/*
 * monitor_take_again --- acquire the lock again on its former terms
 */
static void
monitor_take_again(const LrName *name, const HoldView *before)
{
	const ScopeHold *part = &before->scope[SCOPE_SESSION];
	HeldKey		key = held_key(name, before->kind);
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
	monitor.has_lock = wait_for_lock(name, &request, &monitor.lock);
	request.fenced = before->fence != 0;
	if (request.fenced)
		monitor_take_token(name, &key, &request);
	if (part->count > 1)
	{
		HoldView	view;

		lt_look(monitor.lock, &view);
		view.scope[SCOPE_SESSION].count = part->count;
		(void) lt_set_scope(monitor.lock, SCOPE_SESSION, &view.scope[SCOPE_SESSION], 0, 0);
	}
}

/*
 * monitor_end_told --- release the notification, which has served its purpose
 *
 * This is not interruptible, since we hold the lock.  If it is not answered, the
 * watchdog passes the notification on, and the next waiter wakes up for nothing.
 */
static void
monitor_end_told(const LrName *name)
{
	HeldKey		key = held_key(name, KIND_CONDITION);
	LrIndex		told = monitor.told;
	HoldView	view;
	StoreOp		op;

	if (!monitor.has_told)
		return;
	if (lt_begin_release(told, &view) == RELEASE_LOST)
	{
		monitor.has_told = false;
		lt_drop_lost(told);
		return;
	}
	ask_prepare_held(&op, STORE_RELEASE, &key, &view);
	op.acted = true;
	ask_run(&op, STORE_POLL);
	monitor.has_told = false;
	if (op.outcome == STORE_OK || op.outcome == STORE_GONE)
		lt_end_release(told, op.store, op.topology, 0, op.nodes);
	else
		lt_orphan(told, op.sent_at);
}

/*
 * monitor_wait --- see session_int.h
 */
bool
monitor_wait(const LrName *name, const HeldEntry *entry, const HoldView *view,
			 const uint8 *id, int64 wait_us)
{
	KindId		kind = entry->key.kind;
	LrIndex		before = entry->hold;
	HeldEntry  *now;
	bool		told = false;

	if (!lt_stock_rows(MONITOR_ROWS))
		report_table_full();
	PG_TRY();
	{
		told = monitor_sleep(name, before, id, wait_us);
		monitor_take_again(name, view);
	}
	PG_CATCH();
	{
		monitor_abandon();
		lt_return_rows();
		PG_RE_THROW();
	}
	PG_END_TRY();

	monitor_end_told(name);
	monitor.has_lock = false;
	lt_return_rows();
	now = held_find(name, kind);
	track_retaken(before, monitor.lock);
	held_replace(now, monitor.lock);
	lt_drop_lost(before);
	return told;
}

void
monitor_abandon(void)
{
	if (monitor.has_told)
		lt_pass_on(monitor.told);
	monitor.has_told = false;
	if (monitor.has_lock)
		lt_pass_on(monitor.lock);
	monitor.has_lock = false;
}
