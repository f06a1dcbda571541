/*-------------------------------------------------------------------------
 *
 * table_counts.c
 *	  Numbers that are set from SQL: how many permits there are, semaphores and latches.
 *
 * redis_lock_values has one row for each key and kind, which belongs to no instance.  Each
 * operation of semaphores and latches does what the script of its kind does in Redis.
 *
 * If a session does not read the answer to a request, the watchdog soon asks the worker to undo
 * it.  Whether the request was carried out is then the status of its transaction.  So
 * the last requests are kept in shared memory, each with its transaction: the worker may end
 * between its commit and that question.
 *
 *	 session: takes two permits, is cancelled
 *									worker: commits that, and ends
 *	 watchdog: asks to undo it
 *									next worker: it was committed; returns two permits
 *
 * Only the last TABLE_TICKETS requests are kept.  An older one is treated as if it had not
 * run.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/transam.h"
#include "access/xact.h"
#include "common/int.h"

#include "store/table/table_int.h"

/* ----------
 * Tickets: which requests have changed a count, in case nobody reads the answer
 * ----------
 */

/*
 * ticket_add --- note that the current transaction carries out the request of this owner
 */
static void
ticket_add(uint64 owner)
{
	TableTickets *tickets = requests_tickets();
	TableTicket *t = &tickets->ticket[tickets->next];

	tickets->next = (tickets->next + 1) % TABLE_TICKETS;
	t->owner = owner;
	t->done_by = GetTopTransactionId();
	t->undone_by = InvalidTransactionId;
}

static bool
ticket_is_done(TransactionId xid)
{
	return TransactionIdIsValid(xid) &&
		(TransactionIdIsCurrentTransactionId(xid) || TransactionIdDidCommit(xid));
}

/*
 * ticket_find --- the ticket of a request that was carried out and not undone, or NULL
 *
 * An owner has several tickets if the request was tried again after its transaction failed.
 * At most one of these transactions has been committed.
 */
static TableTicket *
ticket_find(uint64 owner)
{
	TableTickets *tickets = requests_tickets();

	for (int i = 0; i < TABLE_TICKETS; i++)
	{
		TableTicket *t = &tickets->ticket[i];

		if (t->owner == owner && ticket_is_done(t->done_by) &&
			!ticket_is_done(t->undone_by))
			return t;
	}
	return NULL;
}

/* ----------
 * Numbers
 * ----------
 */

Entry *
value_find(LockTables *tables, StoreOp *op, KindId kind)
{
	Entry	   *value = entry_find(tables, IN_VALUES, op, kind, "");

	if (value != NULL && value->left_ms == 0)
		value->number = 0;
	return value;
}

bool
value_write(LockTables *tables, StoreOp *op, int64 number)
{
	Entry	   *value = &tables->entry[IN_VALUES];

	if (value->left_ms == 0)
		value->until = op->lease_ms > 0 ? entry_time_after(op->lease_ms) : DT_NOEND;
	value->number = number;
	return entry_put(tables, IN_VALUES, op);
}

/*
 * value_delete --- delete the number that was found last; it must be there
 */
static bool
value_delete(LockTables *tables, StoreOp *op)
{
	tables->must_flush = true;
	return entry_delete(tables, IN_VALUES, op);
}

/*
 * count_find --- find the number of the operation's kind, and answer with it
 *
 * NULL: another transaction blocks it, and the outcome is set.
 */
static Entry *
count_find(LockTables *tables, StoreOp *op)
{
	Entry	   *value = value_find(tables, op, op->lock_kind);

	if (value == NULL)
		return NULL;
	op->outcome = STORE_OK;
	op->available = op->total = value->number;
	return value;
}

/*
 * count_add --- add to the number that was found last
 *
 * False: it would overflow, or another transaction blocks it; the outcome is set.
 */
static bool
count_add(LockTables *tables, StoreOp *op, int64 amount)
{
	int64		value;

	if (pg_add_s64_overflow(tables->entry[IN_VALUES].number, amount, &value))
	{
		table_trouble_set(&tables->trouble, TABLE_ERROR, "The number would be out of range.");
		entry_refuse(op, &tables->trouble);
		return false;
	}
	op->available = op->total = value;
	return value_write(tables, op, value);
}

/*
 * count_value --- read the number
 */
void
count_value(LockTables *tables, StoreOp *op)
{
	(void) count_find(tables, op);
}

/*
 * count_define --- set, create, add to, drain or delete the number
 *
 * A number that is set gets a new lifetime, whatever the old one's was.
 */
void
count_define(LockTables *tables, StoreOp *op)
{
	Entry	   *value = count_find(tables, op);
	bool		counts;

	if (value == NULL)
		return;
	counts = value->left_ms != 0;
	op->changed = (op->change != CHANGE_INIT || !counts) &&
		(op->change != CHANGE_DELETE || counts);
	if (!op->changed)
		return;
	switch (op->change)
	{
		case CHANGE_SET:
		case CHANGE_INIT:
			value->left_ms = 0;
			op->available = op->total = op->amount;
			(void) value_write(tables, op, op->amount);
			break;
		case CHANGE_ADD:
			(void) count_add(tables, op, op->amount);
			break;
		case CHANGE_DRAIN:
			if (value->number != 0 && value->number >= PG_INT32_MIN &&
				value->number <= PG_INT32_MAX)
				(void) value_write(tables, op, 0);
			break;
		case CHANGE_DELETE:
			(void) value_delete(tables, op);
			break;
	}
}

/* ----------
 * Semaphores
 * ----------
 */

/*
 * semaphore_create --- take permits from a semaphore, or find it busy
 */
void
semaphore_create(LockTables *tables, StoreOp *op)
{
	const Entry *value = count_find(tables, op);

	if (value == NULL)
		return;
	if (value->number < op->amount)
		entry_busy(op, STORE_NO_TTL);
	else if (count_add(tables, op, -op->amount))
		ticket_add(op->owner);
}

/*
 * semaphore_release --- undo a create whose answer nobody has read
 *
 * If the semaphore has been deleted or has expired meanwhile, it is not created again.
 */
void
semaphore_release(LockTables *tables, StoreOp *op)
{
	const Entry *value = count_find(tables, op);
	TableTicket *ticket;

	if (value == NULL)
		return;
	ticket = ticket_find(op->owner);
	if (ticket == NULL)
		op->outcome = STORE_GONE;
	else if (value->left_ms == 0 || count_add(tables, op, op->amount))
		ticket->undone_by = GetTopTransactionId();
}

/*
 * semaphore_count --- return permits, once for each request
 */
void
semaphore_count(LockTables *tables, StoreOp *op)
{
	if (count_find(tables, op) != NULL && ticket_find(op->owner) == NULL &&
		count_add(tables, op, op->amount))
		ticket_add(op->owner);
}

/* ----------
 * Latches
 * ----------
 */

/*
 * latch_create --- wait for a latch: busy while its number is above 0
 */
void
latch_create(LockTables *tables, StoreOp *op)
{
	const Entry *value = count_find(tables, op);

	if (value != NULL && value->number > 0)
		entry_busy(op, STORE_NO_TTL);
}

/*
 * latch_count --- count a latch down, once for each request, and delete it at 0
 *
 * The request gets a ticket even if there is no latch.  Otherwise, sent again, it would count
 * down a new latch that was set meanwhile.
 */
void
latch_count(LockTables *tables, StoreOp *op)
{
	const Entry *value = count_find(tables, op);
	bool		done;

	if (value == NULL || ticket_find(op->owner) != NULL)
		return;
	if (value->number > op->amount)
		done = count_add(tables, op, -op->amount);
	else
	{
		op->available = op->total = 0;
		done = value->left_ms == 0 || value_delete(tables, op);
	}
	if (done)
		ticket_add(op->owner);
}
