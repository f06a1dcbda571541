/*-------------------------------------------------------------------------
 *
 * row_changes.c
 *	  The row of a key in redis_lock_rows: whose it is, and changes of it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/row_changes.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/sha2.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "instance.h"
#include "store/table/table_int.h"

/* ----------
 * Outcomes
 * ----------
 */

void
rows_refuse(StoreOp *op, const TableTrouble *trouble)
{
	memset(STORE_RESULTS(op), 0, STORE_RESULTS_SIZE);
	op->outcome = trouble->fault == TABLE_BLOCKED ? STORE_BLOCKED : STORE_REFUSED;
}

/*
 * rows_blocked --- somebody's open transaction is at the row; false, for the caller
 */
bool
rows_blocked(StoreOp *op, TableTrouble *trouble)
{
	table_trouble_set(trouble, TABLE_BLOCKED,
					  "Another transaction is changing the row of the key.");
	rows_refuse(op, trouble);
	return false;
}

/*
 * rows_undo_blocked --- the same when something was written already; see
 * trouble_of_error()
 */
void
rows_undo_blocked(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("a row of the key is being changed")));
}

/*
 * row_tell_owner --- the owner of the row that was found, as it is told
 *
 * Readers and tokens are told as they are of Redis.
 */
void
row_tell_owner(LockTables *tables, char *out)
{
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_OWNER, &isnull);

	if (row_is_of_readers(tables))
	{
		int			n = row_hold_count(tables);

		snprintf(out, LR_OWNER_MAX, n > 1 ? "%d readers" : "read", n);
	}
	else if (row_is_token(tables))
		strlcpy(out, "token", LR_OWNER_MAX);
	else
		text_to_cstring_buffer(DatumGetTextPP(value), out, LR_OWNER_MAX);
}

void
row_is_taken(LockTables *tables, StoreOp *op, int64 left_ms)
{
	op->outcome = STORE_BUSY;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = left_ms;
	row_tell_owner(tables, op->holder);
}

/* ----------
 * Rows
 * ----------
 */

Datum
row_key(const StoreOp *op)
{
	return PointerGetDatum(cstring_to_text_with_len(op->name, op->name_len));
}

Datum
row_owner(uint64 owner, const char *suffix)
{
	char		text[LR_OWNER_MAX];
	int			len = lr_owner_text(owner, text);

	strlcpy(text + len, suffix, sizeof(text) - len);
	return CStringGetTextDatum(text);
}

Datum
row_lease(int64 ms)
{
	Interval   *lease = palloc0(sizeof(Interval));

	lease->time = ms * LR_US_PER_MS;
	return IntervalPGetDatum(lease);
}

/* On the wall clock, which is for what outlives the server, and for those who look. */
Datum
row_time_after(int64 ms)
{
	return TimestampTzGetDatum(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms));
}

/*
 * row_put --- see table_int.h
 */
bool
row_put(KeyedTable *table, KeyedFound found, int n, Datum *values, bool *nulls)
{
	int			columns[KEYED_MAX_COLUMNS];

	for (int i = 0; i < n; i++)
		columns[i] = i + 1;
	if (found == KEYED_ROW)
		return keyed_update(table, n, columns, values, nulls);
	memset(nulls + n, true, sizeof(bool) * (KEYED_MAX_COLUMNS - n));
	keyed_insert(table, values, nulls);
	return true;
}

/*
 * row_make --- see table_int.h
 */
bool
row_make(LockTables *tables, const StoreOp *op, KeyedFound found, Datum owner,
		 int holds, int64 lease_ms, bool keep)
{
	Datum		values[KEYED_MAX_COLUMNS] = {
		[COL_KEY - 1] = row_key(op),
		[COL_OWNER - 1] = owner,
		[COL_HOLD_COUNT - 1] = Int32GetDatum(holds),
		[COL_FENCE - 1] = Int64GetDatum(op->fence),
		[COL_LEASE - 1] = row_lease(lease_ms),
		[COL_ACQUIRED_AT - 1] = row_time_after(0),
		[COL_EXPIRES_AT - 1] = row_time_after(lease_ms),
		[COL_INSTANCE - 1] = lifetime_instance()
	};
	bool		nulls[KEYED_MAX_COLUMNS] = {
		[COL_FENCE - 1] = op->fence == 0,
		[COL_INSTANCE - 1] = keep,
		[COL_COMMENT - 1] = true
	};

	return row_put(&tables->rows, found, ROW_COLUMNS, values, nulls);
}

/*
 * row_is_of_readers --- is the row that was found one that readers of this server share?
 */
bool
row_is_of_readers(LockTables *tables)
{
	return lifetime_is_shared(tables->rows.row);
}

bool
row_is_own(LockTables *tables)
{
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_INSTANCE, &isnull);

	return lifetime_is_own_instance(value, isnull);
}

int
row_hold_count(LockTables *tables)
{
	bool		isnull;

	return DatumGetInt32(keyed_column(&tables->rows, COL_HOLD_COUNT, &isnull));
}

/*
 * row_belongs_to --- is the row that was found this owner's?
 *
 * Not if it is that of another instance: it does not count.
 */
bool
row_belongs_to(LockTables *tables, uint64 owner)
{
	char		expected[LR_OWNER_MAX];
	bool		isnull;

	(void) lr_owner_text(owner, expected);
	(void) keyed_column(&tables->rows, COL_INSTANCE, &isnull);
	if (!isnull && !row_is_own(tables))
		return false;
	return keyed_is_text(tables->rows.row, COL_OWNER, expected);
}

/*
 * row_token_digest --- of the token lock whose row was found;
 * NULL: it is none
 */
static const char *
row_token_digest(LockTables *tables)
{
	bool		isnull;
	text	   *owner = DatumGetTextPP(keyed_column(&tables->rows, COL_OWNER, &isnull));

	if (VARSIZE_ANY_EXHDR(owner) != strlen(TOKEN_OWNER) + 2 * PG_SHA256_DIGEST_LENGTH ||
		memcmp(VARDATA_ANY(owner), TOKEN_OWNER, strlen(TOKEN_OWNER)) != 0)
		return NULL;
	return VARDATA_ANY(owner) + strlen(TOKEN_OWNER);
}

bool
row_is_token(LockTables *tables)
{
	return row_token_digest(tables) != NULL;
}

/*
 * row_tell_token --- as much of the digest as an id has
 */
void
row_tell_token(LockTables *tables, char *out)
{
	memcpy(out, row_token_digest(tables), 2 * STORE_ID_LEN);
	out[2 * STORE_ID_LEN] = '\0';
}

bool
row_is_of_token(LockTables *tables, const uint8 *id)
{
	char		digits[2 * STORE_ID_LEN];
	const char *digest = row_token_digest(tables);

	(void) hex_encode((const char *) id, STORE_ID_LEN, digits);
	return digest != NULL && memcmp(digest, digits, sizeof(digits)) == 0;
}

/*
 * row_find_of --- the row of the key, if it is that owner's; else the outcome is set
 */
bool
row_find_of(LockTables *tables, StoreOp *op, uint64 owner, TableTrouble *trouble)
{
	switch (sound_row(tables, row_key(op)))
	{
		case KEYED_NOTHING:
			op->outcome = STORE_GONE;
			return false;
		case KEYED_BLOCKED:
			return rows_blocked(op, trouble);
		case KEYED_ROW:
			break;
	}
	if (row_belongs_to(tables, owner))
		return true;
	op->outcome = STORE_GONE;
	if (lifetime_left_ms(tables->rows.row) != 0)
		row_tell_owner(tables, op->holder);
	return false;
}

/*
 * row_find_own --- that of a lock that the caller believes to have
 */
bool
row_find_own(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	return row_find_of(tables, op, op->owner, trouble);
}

void
row_change_column(RowChange *change, int column, Datum value, bool isnull)
{
	change->columns[change->n] = column;
	change->values[change->n] = value;
	change->nulls[change->n++] = isnull;
}

/*
 * row_change_end --- a lease from now on, if it is longer than what is there
 *
 * The lease in the row is the one that expires_at was counted with: that is how
 * long a worker that was started anew takes the row to count at most.
 */
void
row_change_end(LockTables *tables, const StoreOp *op, RowChange *change)
{
	Datum		until = row_time_after(op->lease_ms);
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_EXPIRES_AT, &isnull);

	if (DatumGetTimestampTz(value) < DatumGetTimestampTz(until))
	{
		row_change_column(change, COL_EXPIRES_AT, until, false);
		row_change_column(change, COL_LEASE, row_lease(op->lease_ms), false);
	}
}

/*
 * row_change_lease --- the same, of a row that is this owner's; no lease: leave it
 */
void
row_change_lease(LockTables *tables, const StoreOp *op, RowChange *change)
{
	if (op->lease_ms == 0)
		return;
	row_change_end(tables, op, change);
	lifetime_remember_row(tables->rows.row, op->lease_ms);
}

/*
 * row_change_to_no_instance --- the row counts whatever becomes of this server
 */
void
row_change_to_no_instance(LockTables *tables, RowChange *change)
{
	row_change_column(change, COL_INSTANCE, (Datum) 0, true);
	tables->must_flush = true;
}

/*
 * row_write_change --- to the row that was found; sets the outcome
 */
void
row_write_change(LockTables *tables, StoreOp *op, const RowChange *change,
				 TableTrouble *trouble)
{
	if (change->n == 0 ||
		keyed_update(&tables->rows, change->n, change->columns, change->values,
					 change->nulls))
		op->outcome = STORE_OK;
	else
		rows_blocked(op, trouble);
}

/*
 * row_delete --- that was found; sets the outcome
 */
void
row_delete(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (keyed_delete(&tables->rows))
		op->outcome = STORE_OK;
	else
		rows_blocked(op, trouble);
}
