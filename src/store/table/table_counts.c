/*-------------------------------------------------------------------------
 *
 * table_counts.c
 *	  Semaphores and latches in a table.
 *
 * A number each, in redis_lock_values.  Each operation does what the script of its kind
 * does in Redis; what has been counted is remembered in table_tickets.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/int.h"

#include "store/table/table_int.h"

/*
 * count_find --- the number, 0 if there is none; false: the outcome is set
 */
static bool
count_find(LockTables *tables, StoreOp *op, FoundValue *found, TableTrouble *trouble)
{
	if (!value_find(tables, op, found, trouble))
		return false;
	op->outcome = STORE_OK;
	op->available = op->total = found->value;
	return true;
}

/*
 * count_add --- so many more or less, if that is a number; false: the outcome is set
 */
static bool
count_add(LockTables *tables, StoreOp *op, const FoundValue *found, int64 amount,
		  TableTrouble *trouble)
{
	int64		value;

	if (pg_add_s64_overflow(found->value, amount, &value))
	{
		table_trouble_set(trouble, TABLE_ERROR, "The number would be out of range.");
		rows_refuse(op, trouble);
		return false;
	}
	op->available = op->total = value;
	return value_write(tables, op, found, value, trouble);
}

/*
 * count_set --- the number that is asked for, and how long it counts
 *
 * Of a row that counts already value_write() would keep the end.
 */
static void
count_set(LockTables *tables, StoreOp *op, FoundValue *found, TableTrouble *trouble)
{
	found->counts = false;
	op->available = op->total = op->amount;
	(void) value_write(tables, op, found, op->amount, trouble);
}

/* ----------
 * Semaphores
 * ----------
 */

/*
 * semaphore_create --- take so many permits of a semaphore, or find it busy
 */
void
semaphore_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	if (!count_find(tables, op, &found, trouble))
		return;
	if (found.value < op->amount)
	{
		op->outcome = STORE_BUSY;
		op->value = STORE_VALUE_LOCK;
		op->ttl_ms = STORE_NO_TTL;
	}
	else if (count_add(tables, op, &found, -op->amount, trouble))
		tickets_add(op->owner);
}

/*
 * semaphore_release --- undo a create whose answer nobody has read
 *
 * A semaphore that has gone meanwhile is not made anew.
 */
void
semaphore_release(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	if (!count_find(tables, op, &found, trouble))
		return;
	if (!tickets_has(op->owner))
		op->outcome = STORE_GONE;
	else if (!found.counts || count_add(tables, op, &found, op->amount, trouble))
		tickets_remove(op->owner);
}

/*
 * semaphore_count --- return permits, once for each ticket
 */
void
semaphore_count(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	if (count_find(tables, op, &found, trouble) && !tickets_has(op->owner) &&
		count_add(tables, op, &found, op->amount, trouble))
		tickets_add(op->owner);
}

/*
 * semaphore_define --- set, create, add to or drain a semaphore
 */
void
semaphore_define(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	if (!count_find(tables, op, &found, trouble))
		return;
	op->changed = true;
	if (op->change == CHANGE_ADD)
		(void) count_add(tables, op, &found, op->amount, trouble);
	else if (op->change == CHANGE_SET || (op->change == CHANGE_INIT && !found.counts))
		count_set(tables, op, &found, trouble);
	else if (op->change == CHANGE_DRAIN && found.value != 0 &&
			 found.value >= PG_INT32_MIN && found.value <= PG_INT32_MAX)
		(void) value_write(tables, op, &found, 0, trouble);
	else
		op->changed = op->change != CHANGE_INIT;
}

/* ----------
 * Latches
 * ----------
 */

/*
 * latch_create --- is it open?
 */
void
latch_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	if (!count_find(tables, op, &found, trouble) || found.value <= 0)
		return;
	op->outcome = STORE_BUSY;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = STORE_NO_TTL;
}

/*
 * latch_count --- noted also if there is no latch: one that is set before it is asked
 * again is another one
 */
void
latch_count(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;
	bool		done = true;

	if (!count_find(tables, op, &found, trouble) || tickets_has(op->owner))
		return;
	if (found.value > op->amount)
		done = count_add(tables, op, &found, -op->amount, trouble);
	else
	{
		op->available = op->total = 0;
		done = !found.counts || value_delete(tables, op, &found, trouble);
	}
	if (done)
		tickets_add(op->owner);
}

/*
 * latch_define --- set, create or delete a latch
 */
void
latch_define(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	if (!count_find(tables, op, &found, trouble))
		return;
	op->changed = op->change == CHANGE_SET || found.counts == (op->change == CHANGE_DELETE);
	if (!op->changed)
		return;
	if (op->change == CHANGE_DELETE)
		(void) value_delete(tables, op, &found, trouble);
	else
		count_set(tables, op, &found, trouble);
}

/* ----------
 * Both
 * ----------
 */

/*
 * count_value --- read the number
 */
void
count_value(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	found;

	(void) count_find(tables, op, &found, trouble);
}
