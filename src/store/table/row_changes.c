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

#include "common/hashfn.h"
#include "common/sha2.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "instance.h"
#include "store/table/keyed_table.h"
#include "store/table/lifetime.h"
#include "store/table/row_changes.h"

/* Whoever meets what is blocked by a transaction looks again after (ms). */
#define BLOCKED_TTL_MS		100

/* Of an owner that is too long to be told, so many bytes are, and a hash. */
#define CUT_OWNER_BYTES		40

/* ----------
 * Outcomes
 * ----------
 */

/*
 * rows_refuse --- see row_changes.h
 *
 * What is blocked counts as busy: somebody may be about to have the lock.
 */
void
rows_refuse(TableOp *op, const TableTrouble *trouble)
{
	op->outcome = trouble->fault == TABLE_BLOCKED ? STORE_BUSY : STORE_REFUSED;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = BLOCKED_TTL_MS;
	op->holder[0] = '\0';
}

/*
 * rows_blocked --- somebody's open transaction is at the row
 */
void
rows_blocked(TableOp *op, TableTrouble *trouble)
{
	table_trouble_set(trouble, TABLE_BLOCKED,
					  "Another transaction is changing the row of the key.");
	rows_refuse(op, trouble);
}

/*
 * row_tell_owner --- the owner of the row that was found, as it is told
 *
 * One that is too long is told as its beginning and a hash, so that
 * redis_force_unlock takes away only what was seen.  Readers and tokens are told as
 * they are of Redis.
 */
void
row_tell_owner(LockTables *tables, char *out)
{
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_OWNER, &isnull);
	text	   *owner;
	const char *bytes;
	int			len;

	out[0] = '\0';
	if (isnull)
		return;
	if (row_is_of_readers(tables))
	{
		int			n = row_hold_count(tables);

		snprintf(out, LR_OWNER_MAX, n > 1 ? "%d readers" : "read", n);
		return;
	}
	if (row_is_token(tables))
	{
		strlcpy(out, "token", LR_OWNER_MAX);
		return;
	}
	owner = DatumGetTextPP(value);
	bytes = VARDATA_ANY(owner);
	len = VARSIZE_ANY_EXHDR(owner);
	if (len < LR_OWNER_MAX)
	{
		memcpy(out, bytes, len);
		out[len] = '\0';
		return;
	}
	snprintf(out, LR_OWNER_MAX, "%.*s...%016llx",
			 pg_mbcliplen(bytes, len, CUT_OWNER_BYTES), bytes,
			 (unsigned long long) hash_bytes_extended((const unsigned char *) bytes, len, 0));
}

/* ----------
 * Rows
 * ----------
 */

Datum
row_key(const TableOp *op)
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

/* On the wall clock, which is for others: programs, and after a crash. */
Datum
row_time_after(int64 ms)
{
	return TimestampTzGetDatum(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms));
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
	Datum		value = keyed_column(&tables->rows, COL_HOLD_COUNT, &isnull);

	return isnull ? 1 : DatumGetInt32(value);
}

/*
 * row_belongs_to --- is the row that was found this owner's?
 */
bool
row_belongs_to(LockTables *tables, uint64 owner)
{
	char		expected[LR_OWNER_MAX];
	int			expected_len = lr_owner_text(owner, expected);
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_OWNER, &isnull);
	text	   *found;

	if (isnull)
		return false;
	found = DatumGetTextPP(value);
	return VARSIZE_ANY_EXHDR(found) == expected_len &&
		memcmp(VARDATA_ANY(found), expected, expected_len) == 0;
}

/*
 * row_token_digest --- of the token lock whose row was found;
 * NULL: it is none
 */
static const char *
row_token_digest(LockTables *tables)
{
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_OWNER, &isnull);
	text	   *owner;

	if (isnull)
		return NULL;
	owner = DatumGetTextPP(value);
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

bool
row_is_of_token(LockTables *tables, const uint8 *id)
{
	char		digits[2 * STORE_ID_LEN];
	const char *digest = row_token_digest(tables);

	(void) hex_encode((const char *) id, STORE_ID_LEN, digits);
	return digest != NULL && memcmp(digest, digits, sizeof(digits)) == 0;
}

/*
 * row_find_own --- the row of a lock that the caller believes to have; else the
 * outcome is set
 */
bool
row_find_own(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	switch (keyed_find(&tables->rows, row_key(op)))
	{
		case KEYED_NOTHING:
			op->outcome = STORE_GONE;
			return false;
		case KEYED_BLOCKED:
			rows_blocked(op, trouble);
			return false;
		case KEYED_ROW:
			break;
	}
	if (row_belongs_to(tables, op->owner))
		return true;
	op->outcome = STORE_GONE;
	if (lifetime_left_ms(tables->rows.row) != 0)
		row_tell_owner(tables, op->holder);
	return false;
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
row_change_end(LockTables *tables, const TableOp *op, RowChange *change)
{
	Datum		until = row_time_after(op->lease_ms);
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_EXPIRES_AT, &isnull);

	if (isnull || DatumGetTimestampTz(value) < DatumGetTimestampTz(until))
	{
		row_change_column(change, COL_EXPIRES_AT, until, false);
		row_change_column(change, COL_LEASE, row_lease(op->lease_ms), false);
	}
}

/*
 * row_change_lease --- the same, of a row that is this owner's
 */
void
row_change_lease(LockTables *tables, const TableOp *op, RowChange *change)
{
	row_change_end(tables, op, change);
	lifetime_remember(op->owner, op->lease_ms);
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
row_write_change(LockTables *tables, TableOp *op, const RowChange *change,
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
row_delete(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	if (keyed_delete(&tables->rows))
		op->outcome = STORE_OK;
	else
		rows_blocked(op, trouble);
}
