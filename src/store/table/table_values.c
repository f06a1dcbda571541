/*-------------------------------------------------------------------------
 *
 * table_values.c
 *	  Numbers that somebody has set: how many permits there are, and the like.
 *
 * One row in redis_lock_values for each key and kind.  They belong to no server, and
 * what was set must be there after a crash: whoever writes one has his transaction
 * flushed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_values.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "store/table/table_int.h"

static bool
value_has_ended(TupleTableSlot *row)
{
	bool		isnull;
	Datum		until = slot_getattr(row, COL_VALUE_EXPIRES_AT, &isnull);

	return !isnull && DatumGetTimestampTz(until) <= GetCurrentTimestamp();
}

bool
value_find(LockTables *tables, StoreOp *op, FoundValue *found, TableTrouble *trouble)
{
	Datum		keys[VALUE_KEYS];
	bool		isnull;

	keys[COL_VALUE_KEY - 1] = row_key(op);
	keys[COL_VALUE_KIND - 1] = CStringGetTextDatum(lr_kind(op->lock_kind)->name);
	found->row = sound_value(tables, keys);
	found->counts = false;
	found->value = 0;
	if (found->row == KEYED_BLOCKED)
		return rows_blocked(op, trouble);
	if (found->row == KEYED_NOTHING || value_has_ended(tables->values.row))
		return true;
	found->counts = true;
	found->value = DatumGetInt64(keyed_column(&tables->values, COL_VALUE, &isnull));
	return true;
}

bool
value_write(LockTables *tables, StoreOp *op, const FoundValue *found, int64 value,
			TableTrouble *trouble)
{
	bool		ends = op->lease_ms > 0;
	Datum		values[KEYED_MAX_COLUMNS] = {
		[COL_VALUE_KEY - 1] = row_key(op),
		[COL_VALUE_KIND - 1] = CStringGetTextDatum(lr_kind(op->lock_kind)->name),
		[COL_VALUE - 1] = Int64GetDatum(value),
		[COL_VALUE_EXPIRES_AT - 1] = ends ? row_time_after(op->lease_ms) : (Datum) 0
	};
	bool		nulls[KEYED_MAX_COLUMNS] = {[COL_VALUE_EXPIRES_AT - 1] = !ends};

	tables->must_flush = true;
	return row_put(&tables->values, found->row,
				   found->counts ? COL_VALUE : VALUE_COLUMNS, values, nulls) ||
		rows_blocked(op, trouble);
}

bool
value_delete(LockTables *tables, StoreOp *op, const FoundValue *found,
			 TableTrouble *trouble)
{
	if (found->row != KEYED_ROW)
		return true;
	tables->must_flush = true;
	return keyed_delete(&tables->values) || rows_blocked(op, trouble);
}

bool
value_change(StoreOp *op, const FoundValue *found, int64 had, int64 *value)
{
	bool		write = true;

	*value = op->amount;
	op->outcome = STORE_OK;
	switch (op->change)
	{
		case CHANGE_SET:
			write = !found->counts || found->value != op->amount;
			break;
		case CHANGE_INIT:
			write = !found->counts;
			break;
		case CHANGE_ADD:
			*value = found->value + op->amount;
			write = found->counts;
			if (!write)
				op->outcome = STORE_MISSING;
			break;
		case CHANGE_DRAIN:
			*value = had;
			write = found->counts && found->value > had;
			break;
		case CHANGE_DELETE:
			write = found->counts;
			break;
	}
	if (!write && op->change != CHANGE_SET)
		*value = found->value;
	op->changed = write;
	op->total = *value;
	op->available = (op->change == CHANGE_DRAIN ? found->value : *value) - had;
	return write;
}

void
values_sweep(LockTables *tables)
{
	sound_sweep(&tables->values, &sound_values, value_has_ended);
}
