/*-------------------------------------------------------------------------
 *
 * permits.c
 *	  The numbers of semaphores and latches, and permits that belong to no session.
 *
 * A permit with an id is acquired like any other, so that it is released if anything
 * ends the call before the caller has the id.  After that this server forgets the
 * permit.  The id is derived from its owner number: without the id, nobody can do
 * anything to the permit.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/permits.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "miscadmin.h"

#include "locktable/hold.h"
#include "locktable/wait.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "store/stores.h"

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
		op->change = wanted.change;
		op->amount = wanted.amount;
		op->lease_ms = wanted.lease_ms;
		ask_run(op, STORE_WAIT);
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
		counts_tell(op);
	return op->outcome == STORE_OK;
}

/* Permits are released if the statement fails, as then no client has them. */
bool
session_wait_for_number(const LrName *name, AcquireRequest *request)
{
	Untold	   *u = NULL;

	request->terms.lease_ms = TICKET_LIFE_MS;
	session_enter();
	request_require_number(request->terms.kind, name);
	if (lr_leaves_something(request->terms.kind))
		u = untold_make(name, &request->terms);
	return session_take(name, request, u);
}

/*
 * permits_look_for_cancel --- process an interrupt that came with the answer
 *
 * It has to be processed now: with a later error, the id would be lost.  Until then the
 * permit is in the index, so the end of the session releases it.
 */
static void
permits_look_for_cancel(const LrName *name, KindId kind, LrIndex hold)
{
	uint64		owner = lt_owner(hold);

	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
	}
	PG_CATCH();
	{
		held_delete(held_find_owner(name, kind, owner));
		lt_pass_on(hold);
		PG_RE_THROW();
	}
	PG_END_TRY();
	held_delete(held_find_owner(name, kind, owner));
}

/*
 * session_acquire --- see session.h
 */
bool
session_acquire(const LrName *name, const AcquireRequest *request, uint8 *id)
{
	LrIndex		hold;
	uint64		owner;
	Untold	   *u;

	session_enter();
	if (held_count() > 0)
		session_require_beside(name, request->terms.kind);
	request_require_store(request->terms.kind, current_store());
	u = untold_make(name, &request->terms);
	release_reserve(held_count() + 1);
	held_reserve(name, request->terms.kind);
	if (!wait_for_lock(name, request, &hold))
	{
		held_forget_reserved();
		return false;
	}
	(void) held_complete(hold, request->terms.guard);
	owner = lt_owner(hold);
	permits_look_for_cancel(name, request->terms.kind, hold);
	if (!lt_let_stay(hold))
		wait_report_too_late(&request->terms);
	untold_begin(u, owner);
	lr_secret_id(owner, id);
	long_wait_acquired(name);
	return true;
}

static void
permits_ask_by_id(const LrName *name, StoreOpKind what, KindId kind, const uint8 *id,
				  int64 lease_ms, StoreOp *op)
{
	HeldKey		key = held_key(name, kind);

	session_enter();
	request_require_number(kind, name);
	ask_prepare(op, what, &key, current_store());
	memcpy(op->id, id, LR_SECRET_ID_LEN);
	op->lease_ms = lease_ms;
	op->min_replicas = lease_ms > 0 ? lr_min_replicas : 0;
	ask_run(op, STORE_WAIT);
	ask_distrust(op);
	if (op->outcome != STORE_OK && !ask_says_lost(op))
		ask_report_failure(ERROR, op->outcome);
}

bool
session_release_id(const LrName *name, KindId kind, const uint8 *id)
{
	StoreOp		op;

	permits_ask_by_id(name, STORE_RELEASE, kind, id, 0, &op);
	untold_forget(name, kind, id);
	return op.outcome == STORE_OK;
}

bool
session_extend_id(const LrName *name, KindId kind, const uint8 *id, int64 lease_ms)
{
	StoreOp		op;

	permits_ask_by_id(name, STORE_SET, kind, id, lease_ms, &op);
	return op.outcome == STORE_OK;
}
