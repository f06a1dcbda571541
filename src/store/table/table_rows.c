/*-------------------------------------------------------------------------
 *
 * table_rows.c
 *	  What each operation does to the rows of the tables.
 *
 * An operation finds the row of its key, sees whether it counts (lifetime.h) and
 * whose it is, and writes it without waiting for anybody's transaction
 * (keyed_table.h).  What a kind of lock means by an operation is in one table
 * at the end.
 *
 * With synchronous_commit off a crash may undo what was committed last.  That
 * does not matter to locks that die with the server, but a token must not come
 * twice, and a key that is to stay locked must: such transactions are flushed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/tableam.h"
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "instance.h"
#include "store/table/keyed_table.h"
#include "store/table/lifetime.h"
#include "store/table/table_rows.h"

/* Whoever meets what is blocked by a transaction looks again after (ms). */
#define BLOCKED_TTL_MS		100

/* Appended to the owner of a key that stays locked after its release. */
#define KEPT_SUFFIX			"/kept"

/* Of an owner that is too long to be told, so many bytes are, and a hash. */
#define CUT_OWNER_BYTES		40

/* A change of the row that was found, collected column by column. */
typedef struct RowChange
{
	int			n;
	int			columns[ROW_COLUMNS];
	Datum		values[ROW_COLUMNS];
	bool		nulls[ROW_COLUMNS];
} RowChange;

typedef void (*RowOperation) (LockTables *tables, TableOp *op,
							  TableTrouble *trouble);

/* ----------
 * Outcomes
 * ----------
 */

/*
 * rows_refuse --- see table_rows.h
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
 * row_is_blocked --- somebody's open transaction is at the row
 */
static void
row_is_blocked(TableOp *op, TableTrouble *trouble)
{
	table_trouble_set(trouble, TABLE_BLOCKED,
					  "Another transaction is changing the row of the key.");
	rows_refuse(op, trouble);
}

/*
 * tell_owner --- the owner of the row that was found, as it is told
 *
 * One that is too long is told as its beginning and a hash, so that
 * redis_force_unlock takes away only what was seen.
 */
static void
tell_owner(LockTables *tables, char *out)
{
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_OWNER, &isnull);
	text	   *owner;
	const char *bytes;
	int			len;

	out[0] = '\0';
	if (isnull)
		return;
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

static Datum
row_key(const TableOp *op)
{
	return PointerGetDatum(cstring_to_text_with_len(op->name, op->name_len));
}

static Datum
row_owner(uint64 owner, const char *suffix)
{
	char		text[LR_OWNER_MAX];
	int			len = lr_owner_text(owner, text);

	strlcpy(text + len, suffix, sizeof(text) - len);
	return CStringGetTextDatum(text);
}

static Datum
row_lease(int64 ms)
{
	Interval   *lease = palloc0(sizeof(Interval));

	lease->time = ms * LR_US_PER_MS;
	return IntervalPGetDatum(lease);
}

/* On the wall clock, which is for others: programs, and after a crash. */
static Datum
row_time_after(int64 ms)
{
	return TimestampTzGetDatum(TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms));
}

/*
 * row_belongs_to --- is the row that was found this owner's?
 */
static bool
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
 * find_own_row --- the row of a lock that the caller believes to have; else the
 * outcome is set
 */
static bool
find_own_row(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	switch (keyed_find(&tables->rows, row_key(op)))
	{
		case KEYED_NOTHING:
			op->outcome = STORE_GONE;
			return false;
		case KEYED_BLOCKED:
			row_is_blocked(op, trouble);
			return false;
		case KEYED_ROW:
			break;
	}
	if (row_belongs_to(tables, op->owner))
		return true;
	op->outcome = STORE_GONE;
	if (lifetime_left_ms(tables->rows.row) != 0)
		tell_owner(tables, op->holder);
	return false;
}

static void
change_column(RowChange *change, int column, Datum value, bool isnull)
{
	change->columns[change->n] = column;
	change->values[change->n] = value;
	change->nulls[change->n++] = isnull;
}

/*
 * change_lease --- a lease from now on, if it is longer than what is there
 *
 * The lease in the row is the one that expires_at was counted with: that is how
 * long a worker that was started anew takes the row to count at most.
 */
static void
change_lease(LockTables *tables, const TableOp *op, RowChange *change)
{
	Datum		until = row_time_after(op->lease_ms);
	bool		isnull;
	Datum		value = keyed_column(&tables->rows, COL_EXPIRES_AT, &isnull);

	if (isnull || DatumGetTimestampTz(value) < DatumGetTimestampTz(until))
	{
		change_column(change, COL_EXPIRES_AT, until, false);
		change_column(change, COL_LEASE, row_lease(op->lease_ms), false);
	}
	lifetime_remember(op->owner, op->lease_ms);
}

/*
 * change_to_no_instance --- the row counts whatever becomes of this server
 */
static void
change_to_no_instance(LockTables *tables, RowChange *change)
{
	change_column(change, COL_INSTANCE, (Datum) 0, true);
	tables->must_flush = true;
}

/*
 * write_change --- to the row that was found; sets the outcome
 */
static void
write_change(LockTables *tables, TableOp *op, const RowChange *change,
			 TableTrouble *trouble)
{
	if (change->n == 0 ||
		keyed_update(&tables->rows, change->n, change->columns, change->values,
					 change->nulls))
		op->outcome = STORE_OK;
	else
		row_is_blocked(op, trouble);
}

/*
 * delete_row --- that was found; sets the outcome
 */
static void
delete_row(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	if (keyed_delete(&tables->rows))
		op->outcome = STORE_OK;
	else
		row_is_blocked(op, trouble);
}

/* ----------
 * Counters
 * ----------
 */

/*
 * write_counter --- the token of a key; false: somebody's transaction is at it
 */
static bool
write_counter(LockTables *tables, const TableOp *op, KeyedFound found,
			  int64 token)
{
	static const int columns[] = {COL_TOKEN};
	Datum		values[KEYED_MAX_COLUMNS] = {0};
	bool		nulls[KEYED_MAX_COLUMNS];

	if (found == KEYED_ROW)
	{
		values[0] = Int64GetDatum(token);
		nulls[0] = false;
		return keyed_update(&tables->counters, lengthof(columns), columns, values,
							nulls);
	}
	memset(nulls, true, sizeof(nulls));
	values[COL_COUNTER_KEY - 1] = row_key(op);
	values[COL_TOKEN - 1] = Int64GetDatum(token);
	nulls[COL_COUNTER_KEY - 1] = nulls[COL_TOKEN - 1] = false;
	keyed_insert(&tables->counters, values, nulls);
	return true;
}

/*
 * take_token --- count the key's counter up, to above "floor"; else the outcome
 * is set
 */
static bool
take_token(LockTables *tables, TableOp *op, int64 floor, TableTrouble *trouble)
{
	KeyedFound	found = keyed_find(&tables->counters, row_key(op));
	bool		isnull;
	int64		token = 0;

	if (found == KEYED_BLOCKED)
	{
		row_is_blocked(op, trouble);
		return false;
	}
	if (found == KEYED_ROW)
		token = DatumGetInt64(keyed_column(&tables->counters, COL_TOKEN, &isnull));
	token = Max(token, floor) + 1;
	if (token < 1 || token > STORE_TOKEN_MAX)
	{
		op->outcome = STORE_REFUSED;
		table_trouble_set(trouble, TABLE_ERROR,
						  "The counter of fencing tokens is used up.");
		trouble->sqlstate = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
		return false;
	}
	if (!write_counter(tables, op, found, token))
	{
		row_is_blocked(op, trouble);
		return false;
	}
	tables->must_flush = true;
	op->fence = token;
	return true;
}

/* ----------
 * Operations of the reentrant lock
 * ----------
 */

/*
 * fill_new_row --- the row of a new lock; one that is to be kept whatever
 * becomes of this server belongs to no instance
 */
static void
fill_new_row(const TableOp *op, Datum *values, bool *nulls)
{
	memset(values, 0, sizeof(Datum) * KEYED_MAX_COLUMNS);
	memset(nulls, false, sizeof(bool) * KEYED_MAX_COLUMNS);
	for (int i = ROW_COLUMNS; i < KEYED_MAX_COLUMNS; i++)
		nulls[i] = true;

	values[COL_KEY - 1] = row_key(op);
	values[COL_OWNER - 1] = row_owner(op->owner, "");
	values[COL_HOLD_COUNT - 1] = Int32GetDatum(1);
	values[COL_FENCE - 1] = Int64GetDatum(op->fence);
	nulls[COL_FENCE - 1] = op->fence == 0;
	values[COL_LEASE - 1] = row_lease(op->lease_ms);
	values[COL_ACQUIRED_AT - 1] = row_time_after(0);
	values[COL_EXPIRES_AT - 1] = row_time_after(op->lease_ms);
	values[COL_INSTANCE - 1] = lifetime_instance();
	nulls[COL_INSTANCE - 1] = op->keep_ms > 0;
	nulls[COL_COMMENT - 1] = true;
}

/*
 * reentrant_create --- if there is no row of the key that still counts
 *
 * One that does not is overwritten, and all of it.
 */
static void
reentrant_create(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	static const int all_columns[ROW_COLUMNS] = {
		COL_KEY, COL_OWNER, COL_HOLD_COUNT, COL_FENCE, COL_LEASE,
		COL_ACQUIRED_AT, COL_EXPIRES_AT, COL_INSTANCE, COL_COMMENT
	};
	Datum		values[KEYED_MAX_COLUMNS];
	bool		nulls[KEYED_MAX_COLUMNS];
	KeyedFound	found = keyed_find(&tables->rows, row_key(op));

	if (found == KEYED_BLOCKED)
	{
		row_is_blocked(op, trouble);
		return;
	}
	if (found == KEYED_ROW &&
		(op->ttl_ms = lifetime_left_ms(tables->rows.row)) != 0)
	{
		op->outcome = STORE_BUSY;
		op->value = STORE_VALUE_LOCK;
		tell_owner(tables, op->holder);
		return;
	}
	if (op->fenced && !take_token(tables, op, 0, trouble))
		return;

	fill_new_row(op, values, nulls);
	if (found == KEYED_NOTHING)
		keyed_insert(&tables->rows, values, nulls);
	else if (!keyed_update(&tables->rows, ROW_COLUMNS, all_columns, values, nulls))
	{
		row_is_blocked(op, trouble);
		return;
	}
	lifetime_remember(op->owner, op->lease_ms);
	if (op->keep_ms > 0)
		tables->must_flush = true;
	op->outcome = STORE_OK;
}

static void
reentrant_set(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!find_own_row(tables, op, trouble))
		return;
	change_column(&change, COL_HOLD_COUNT, Int32GetDatum(op->count), false);
	if (op->lease_ms > 0)
		change_lease(tables, op, &change);
	if (op->keep_ms > 0)
		change_to_no_instance(tables, &change);
	write_change(tables, op, &change, trouble);
}

static void
reentrant_renew(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!find_own_row(tables, op, trouble))
		return;
	change_lease(tables, op, &change);
	write_change(tables, op, &change, trouble);
}

/*
 * keep_locked --- released, but the key stays locked for a time
 *
 * Under another name: a renewal that is late must not lengthen it.
 */
static void
keep_locked(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	change_column(&change, COL_OWNER, row_owner(op->owner, KEPT_SUFFIX), false);
	change_column(&change, COL_EXPIRES_AT, row_time_after(op->keep_ms), false);
	change_to_no_instance(tables, &change);
	write_change(tables, op, &change, trouble);
}

/*
 * reentrant_release --- delete the row, or have it kept
 *
 * Whatever is not there any more is forgotten too, but not what is blocked: it
 * still counts.
 */
static void
reentrant_release(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	if (find_own_row(tables, op, trouble))
	{
		if (op->keep_ms > 0)
			keep_locked(tables, op, trouble);
		else
			delete_row(tables, op, trouble);
	}
	if (op->outcome == STORE_OK || op->outcome == STORE_GONE)
		lifetime_forget(op->owner);
}

static void
reentrant_mint(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!find_own_row(tables, op, trouble) ||
		!take_token(tables, op, op->floor, trouble))
		return;
	change_column(&change, COL_FENCE, Int64GetDatum(op->fence), false);
	write_change(tables, op, &change, trouble);
}

/*
 * reentrant_force --- delete the row if its owner is still the one that was told
 */
static void
reentrant_force(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	char		owner[LR_OWNER_MAX];

	op->outcome = STORE_GONE;
	switch (keyed_find(&tables->rows, row_key(op)))
	{
		case KEYED_NOTHING:
			break;
		case KEYED_BLOCKED:
			row_is_blocked(op, trouble);
			break;
		case KEYED_ROW:
			tell_owner(tables, owner);
			if (strlen(owner) == op->owner_text_len &&
				memcmp(owner, op->owner_text, op->owner_text_len) == 0)
				delete_row(tables, op, trouble);
			break;
	}
}

/*
 * reentrant_inspect --- what there is; a row that is about to be inserted is not
 * there yet
 */
static void
reentrant_inspect(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	bool		isnull;
	Datum		value;

	op->outcome = STORE_OK;
	op->value = STORE_VALUE_NONE;
	if (keyed_find(&tables->rows, row_key(op)) != KEYED_ROW)
		return;
	op->ttl_ms = lifetime_left_ms(tables->rows.row);
	if (op->ttl_ms == 0)
		return;
	op->value = STORE_VALUE_LOCK;
	value = keyed_column(&tables->rows, COL_HOLD_COUNT, &isnull);
	op->hold_count = isnull ? 1 : DatumGetInt32(value);
	tell_owner(tables, op->holder);
}

/* ----------
 * What each kind of lock means by an operation
 * ----------
 */

static const RowOperation lock_operations[][STORE_CALLS] = {
	[KIND_REENTRANT] = {
		[STORE_CREATE] = reentrant_create,
		[STORE_SET] = reentrant_set,
		[STORE_RELEASE] = reentrant_release,
		[STORE_RENEW] = reentrant_renew,
		[STORE_MINT] = reentrant_mint,
		[STORE_FORCE] = reentrant_force,
		[STORE_INSPECT] = reentrant_inspect
	},

	/* There are none: see STORE_HAS_SHARED and STORE_HAS_ORDER. */
	[KIND_READ] = {NULL},
	[KIND_WRITE] = {NULL},
	[KIND_FAIR] = {NULL}
};

StaticAssertDecl(lengthof(lock_operations) == KIND_COUNT,
				 "each kind of lock says what it does to the rows");

/*
 * rows_execute --- see table_rows.h
 */
void
rows_execute(LockTables *tables, TableOp *op, TableTrouble *trouble)
{
	if (op->kind < STORE_CALLS)
	{
		RowOperation operation = lock_operations[op->lock_kind][op->kind];

		op->outcome = STORE_REFUSED;
		if (operation != NULL)
			operation(tables, op, trouble);
		return;
	}

	/* To have got here is the answer. */
	op->outcome = STORE_OK;
	if (op->kind == STORE_TIME)
		op->store_ms = lr_now() / LR_US_PER_MS;
}

/*
 * rows_sweep --- see table_rows.h
 *
 * As seen by a snapshot: a row that somebody is inserting is swept next time,
 * and one that somebody has changed since is not deleted.
 */
void
rows_sweep(LockTables *tables)
{
	Relation	rel = tables->rows.rel;
	TupleTableSlot *row = tables->rows.row;
	TableScanDesc scan = table_beginscan(rel, GetActiveSnapshot(), 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, row))
	{
		CHECK_FOR_INTERRUPTS();
		if (lifetime_left_ms(row) == 0)
			(void) keyed_delete_at(rel, &row->tts_tid);
	}
	table_endscan(scan);
	lifetime_forget_ended();
}
