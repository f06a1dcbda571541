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

#include "access/tableam.h"
#include "kinds/kind.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "store/table/row_changes.h"
#include "store/table/sound_rows.h"
#include "store/table/table_values.h"

static bool
value_has_ended(TupleTableSlot *row)
{
	bool		isnull;
	Datum		until = slot_getattr(row, COL_VALUE_EXPIRES_AT, &isnull);

	return !isnull && DatumGetTimestampTz(until) <= GetCurrentTimestamp();
}

bool
value_find(LockTables *tables, TableOp *op, FoundValue *found, TableTrouble *trouble)
{
	Datum		keys[VALUE_KEYS];
	bool		isnull;

	keys[COL_VALUE_KEY - 1] = row_key(op);
	keys[COL_VALUE_KIND - 1] = CStringGetTextDatum(lr_kind(op->lock_kind)->name);
	found->row = sound_value(tables, keys);
	found->counts = false;
	found->value = 0;
	if (found->row == KEYED_BLOCKED)
	{
		rows_blocked(op, trouble);
		return false;
	}
	if (found->row == KEYED_NOTHING || value_has_ended(tables->values.row))
		return true;
	found->counts = true;
	found->value = DatumGetInt64(keyed_column(&tables->values, COL_VALUE, &isnull));
	return true;
}

bool
value_write(LockTables *tables, TableOp *op, const FoundValue *found, int64 value,
			TableTrouble *trouble)
{
	static const int columns[] = {COL_VALUE, COL_VALUE_EXPIRES_AT};
	Datum		values[KEYED_MAX_COLUMNS] = {0};
	bool		nulls[KEYED_MAX_COLUMNS];
	bool		ends = op->lease_ms > 0;
	Datum		until = ends ? row_time_after(op->lease_ms) : (Datum) 0;

	tables->must_flush = true;
	if (found->row == KEYED_ROW)
	{
		Datum		changed[] = {Int64GetDatum(value), until};
		bool		changed_nulls[] = {false, !ends};

		if (keyed_update(&tables->values, found->counts ? 1 : 2, columns, changed,
						 changed_nulls))
			return true;
		rows_blocked(op, trouble);
		return false;
	}
	memset(nulls, true, sizeof(nulls));
	memset(nulls, false, sizeof(bool) * VALUE_COLUMNS);
	values[COL_VALUE_KEY - 1] = row_key(op);
	values[COL_VALUE_KIND - 1] = CStringGetTextDatum(lr_kind(op->lock_kind)->name);
	values[COL_VALUE - 1] = Int64GetDatum(value);
	values[COL_VALUE_EXPIRES_AT - 1] = until;
	nulls[COL_VALUE_EXPIRES_AT - 1] = !ends;
	keyed_insert(&tables->values, values, nulls);
	return true;
}

bool
value_delete(LockTables *tables, TableOp *op, const FoundValue *found,
			 TableTrouble *trouble)
{
	if (found->row != KEYED_ROW)
		return true;
	tables->must_flush = true;
	if (keyed_delete(&tables->values))
		return true;
	rows_blocked(op, trouble);
	return false;
}

bool
value_change(TableOp *op, const FoundValue *found, int64 had, int64 *value)
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

/*
 * values_sweep --- as rows_sweep()
 */
void
values_sweep(LockTables *tables)
{
	Relation	rel = tables->values.rel;
	TupleTableSlot *row = tables->values.row;
	TableScanDesc scan = LrBeginScan(rel, GetActiveSnapshot());

	while (table_scan_getnextslot(scan, ForwardScanDirection, row))
	{
		CHECK_FOR_INTERRUPTS();
		if (sound_swept_value(tables) && value_has_ended(row))
			(void) keyed_delete_at(rel, &row->tts_tid);
	}
	table_endscan(scan);
}
