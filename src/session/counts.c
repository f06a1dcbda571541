/*-------------------------------------------------------------------------
 *
 * counts.c
 *	  Changes of the numbers of semaphores and latches: permits that are released,
 *	  and latches that are counted down.
 *
 * No hold stands for such a change, so the request itself must not get lost.  It has a
 * record in the lock table (owed.h), with which the watchdog repeats a request that was
 * not answered.  The store knows the request by its ticket, the owner number of the
 * record, and counts it once.
 *
 *	 session: counts down, and the connection breaks, or the session is cancelled
 *									store: has counted, or has not
 *	 watchdog: sends the same request with the same ticket
 *									store: answers that it has, or counts now
 *
 * What is to be counted at the commit of the transaction has one record for each name
 * from the first call on, and entries on the transaction's stack (track.c): a
 * subtransaction that aborts subtracts its own.  The requests are sent after the
 * releases of the transaction's locks: its changes are visible then.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/int.h"
#include "utils/memutils.h"

#include "locktable/owed.h"
#include "locktable/watch.h"
#include "report.h"
#include "session/session.h"
#include "session/session_int.h"
#include "settings.h"
#include "stats.h"
#include "store/stores.h"

/* The request of counts_now() that is under way. */
static struct
{
	bool		active;
	LrIndex		hold;
	int64		sent_at;		/* when the first request that may have run was sent; 0 =
								 * there is none */
	StoreOp		op;
}			now;

/* Requests to be sent at the end of the transaction; room is reserved before. */
static struct
{
	int			npending;		/* records of this transaction */
	int			n;
	int			size;
	StoreOp    *ops;
	LrIndex    *holds;			/* for each operation */
}			at_end;

/*
 * counts_prepare --- prepare the request for a record, in the store that counts now
 */
static void
counts_prepare(StoreOp *op, const HeldKey *key, LrIndex hold)
{
	ask_prepare(op, STORE_TALLY, key, lr_first_store());
	op->owner = lt_owner(hold);
	op->amount = lt_owed_amount(hold);
}

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
		(refused && op->resent);
}

/*
 * counts_tell --- see session.h
 *
 * A store with messages notifies the sessions of this server, too.
 */
void
counts_tell(const StoreOp *op)
{
	if (!lr_store_can(op->store, STORE_HAS_PUSH))
		lt_wake_waiter(0, op->name, op->name_len);
}

/*
 * counts_settle --- apply an outcome to its record; false: the watchdog goes on
 *
 * A refusal is an error for the caller.  After a commit no error can be raised, so the
 * watchdog tries again.
 *
 * Permits that are released now, or will be, must not be released a second time if the
 * statement that took them fails.
 */
static bool
counts_settle(LrIndex hold, const StoreOp *op, bool committed)
{
	if (!committed && (counts_is_open(op) || op->outcome == STORE_OK))
		untold_forget_some(op->name, op->name_len, op->lock_kind, op->amount);
	if (counts_is_open(op) || (committed && op->outcome != STORE_OK))
	{
		lt_leave_owed(hold, op->store, op->topology, op->sent_at);
		return false;
	}
	if (op->outcome == STORE_OK)
	{
		ask_forget(op);
		counts_tell(op);
	}
	lt_owed_done(hold);
	return true;
}

/* ----------
 * Now
 * ----------
 */

/*
 * counts_note_first --- take an earlier request into account that may have run
 *
 * It may have run whatever becomes of the request that repeats it.
 */
static void
counts_note_first(StoreOp *op)
{
	if (now.sent_at == 0)
		return;
	op->sent_at = now.sent_at;
	if (op->outcome != STORE_OK && op->outcome != STORE_WRONG_TYPE)
		op->outcome = STORE_UNKNOWN;
}

void
counts_abandon(void)
{
	if (!now.active)
		return;
	now.active = false;
	ask_abandon();
	counts_note_first(&now.op);
	(void) counts_settle(now.hold, &now.op, false);
}

/*
 * counts_ask --- run the request, and repeat it if a former master has answered
 *
 * If the present master has not got the change from the former one, it counts now, by
 * the same ticket.
 */
static void
counts_ask(void)
{
	StoreOp    *op = &now.op;
	bool		answered;

	ask_run(op, STORE_WAIT);
	answered = op->outcome != STORE_UNKNOWN;
	ask_distrust(op);
	if (!answered || op->outcome != STORE_UNKNOWN)
		return;
	now.sent_at = op->sent_at;
	ask_run(op, STORE_WAIT);
	ask_distrust(op);
	if (op->outcome == STORE_OK || op->outcome == STORE_WRONG_TYPE)
		return;
	op->outcome = STORE_UNKNOWN;
	op->sent_at = now.sent_at;
}

bool
counts_now(const LrName *name, KindId kind, int64 amount, int64 *left)
{
	HeldKey		key = held_key(name, kind);
	StoreOutcome outcome;

	request_require_number(kind, name);
	wait_require_place();
	if (!lt_owe(name, kind, SCOPE_SESSION, amount, &now.hold))
		report_table_full();
	counts_prepare(&now.op, &key, now.hold);
	now.sent_at = 0;
	now.active = true;
	PG_TRY();
	{
		counts_ask();
	}
	PG_CATCH();
	{
		counts_abandon();
		PG_RE_THROW();
	}
	PG_END_TRY();
	now.active = false;

	outcome = now.op.outcome;
	*left = now.op.available;
	if (!counts_settle(now.hold, &now.op, false))
	{
		ask_report_failure(WARNING, outcome);
		return false;
	}
	if (outcome == STORE_WRONG_TYPE)
		report_wrong_type(name, &now.op);
	if (outcome != STORE_OK)
		ask_report_failure(ERROR, outcome);
	return true;
}

/* ----------
 * When the transaction has committed
 * ----------
 */

bool
counts_pending(void)
{
	return at_end.npending > 0;
}

/*
 * counts_reserve --- reserve room to send n requests without raising
 */
static void
counts_reserve(int n)
{
	int			size = Max(at_end.size, 8);

	if (n <= at_end.size)
		return;
	while (size < n)
		size *= 2;
	at_end.size = 0;
	at_end.ops = at_end.ops == NULL ?
		MemoryContextAllocHuge(TopMemoryContext, sizeof(StoreOp) * (Size) size) :
		repalloc_huge(at_end.ops, sizeof(StoreOp) * (Size) size);
	at_end.holds = at_end.holds == NULL ?
		MemoryContextAllocHuge(TopMemoryContext, sizeof(LrIndex) * (Size) size) :
		repalloc_huge(at_end.holds, sizeof(LrIndex) * (Size) size);
	ask_reserve(size);
	at_end.size = size;
}

void
counts_at_commit(const LrName *name, KindId kind, int64 amount)
{
	HeldKey		key = held_key(name, kind);
	LrIndex		hold;
	int64		sum;
	bool		first;

	request_require_number(kind, name);
	track_reserve();
	hold = counts_pending() ? lt_find_owed(name, kind) : LR_NONE;
	first = hold == LR_NONE;
	if (first)
	{
		counts_reserve(at_end.npending + 1);
		if (!lt_owe(name, kind, SCOPE_XACT, amount, &hold))
			report_table_full();
		at_end.npending++;
	}
	else if (pg_add_s64_overflow(lt_owed_amount(hold), amount, &sum))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range")));
	else
		lt_owe_more(hold, amount);
	key.data = lt_hold_name(hold);
	track_count_later(&key, hold, amount, first);
}

/*
 * counts_undo --- subtract an entry of a transaction or subtransaction that aborts
 */
void
counts_undo(const Track *t)
{
	if (t->first)
		at_end.npending--;
	lt_owe_more(t->hold, -t->amount);
}

/*
 * counts_add --- the transaction has committed: add its request to those to be sent
 *
 * There is one for each record, added with the entry that made the record: the amount
 * includes that of later entries.
 */
void
counts_add(const Track *t)
{
	if (!t->first)
		return;
	Assert(at_end.n < at_end.size);
	at_end.holds[at_end.n] = t->hold;
	counts_prepare(&at_end.ops[at_end.n++], &t->key, t->hold);
}

/*
 * counts_run_at_end --- send the requests of a transaction that has committed
 *
 * See release_run_at_end() for how long that may take.
 */
void
counts_run_at_end(void)
{
	at_end.npending = 0;
	if (at_end.n == 0)
		return;
	ask_run_until(at_end.ops, at_end.n, lr_now() + release_patience(at_end.n),
				  STORE_POLL);
	for (int i = 0; i < at_end.n; i++)
	{
		StoreOp    *op = &at_end.ops[i];

		ask_distrust(op);
		(void) counts_settle(at_end.holds[i], op, true);
	}
	at_end.n = 0;
}
