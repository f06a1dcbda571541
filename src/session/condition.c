/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  Wait for, and notify, the conditions of locks that this backend holds.
 *
 * This file checks the preconditions; the wait itself is in monitor.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/condition.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/wait.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "store/stores.h"

/*
 * condition_require_lock --- raise unless the session holds the lock
 */
static HeldEntry *
condition_require_lock(const LrName *name, HoldView *view)
{
	HeldEntry  *entry;
	KindId		has;

	session_enter();
	entry = held_find(name, KIND_REENTRANT);
	if (entry == NULL)
	{
		has = held_kind_of(name, KIND_REENTRANT);
		if (has != KIND_REENTRANT)
			report_not_held_so(ERROR, name, KIND_REENTRANT, has);
		report_not_held(ERROR, name);
	}
	lt_look(entry->hold, view);
	if (view->state == HOLD_LOST)
		session_refuse_lost(name, view);
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

bool
session_condition_wait(const LrName *name, const uint8 *id, int64 wait_us)
{
	HeldEntry  *entry;
	HoldView	view;

	entry = condition_require_lock(name, &view);
	condition_require_own(name, entry, &view);
	request_require_store(KIND_CONDITION, view.store);
	xact_warn_snapshot(SCOPE_SESSION);
	xact_warn_early_unlock();
	return monitor_wait(name, entry, &view, id, wait_us);
}

/* The store checks, too, that the session holds the lock. */
int64
session_condition_notify(const LrName *name, const uint8 *id, int most)
{
	HeldKey		key = held_key(name, KIND_CONDITION);
	HeldEntry  *entry;
	HoldView	view;
	StoreOp		op;

	entry = condition_require_lock(name, &view);
	request_require_store(KIND_CONDITION, view.store);
	ask_prepare_held(&op, STORE_NOTIFY, &key, &view);
	op.lock_kind = KIND_CONDITION;
	memcpy(op.id, id, STORE_ID_LEN);
	op.count = most;
	if (ask_held(entry->hold, &op))
	{
		lt_look(entry->hold, &view);
		session_refuse_lost(name, &view);
	}
	if (op.outcome != STORE_OK)
		ask_report_failure(ERROR, op.outcome);
	if (!lr_store_can(op.store, STORE_HAS_PUSH))
		lt_wake_passing(name);
	return op.receivers;
}
