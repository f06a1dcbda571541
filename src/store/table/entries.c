/*-------------------------------------------------------------------------
 *
 * entries.c
 *	  Rows of the tables, read and written as entries, and until when they count; see
 *	  table_int.h.
 *
 * Only table_fields knows which column has which field.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/entries.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "common/hashfn.h"
#include "kinds/kind.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "names.h"
#include "store/op.h"
#include "store/table/table_int.h"

static pg_uuid_t instance;

void
entries_start(void)
{
	instance = *DatumGetUUIDP(DirectFunctionCall1(uuid_in,
												  CStringGetDatum(lr_instance_uuid())));
}

/* ----------
 * Until when an entry counts
 * ----------
 */

/*
 * clock_of --- the time by which the end of the entry is judged
 */
static TimestampTz
clock_of(const Entry *e)
{
	return e->of == OF_US ? requests_clock() : GetCurrentTimestamp();
}

TimestampTz
entry_time_after(const Entry *e, int64 ms)
{
	return TimestampTzPlusMilliseconds(clock_of(e), ms);
}

int64
entry_left_ms(const Entry *e)
{
	TimestampTz now = clock_of(e);

	if (e->of == OF_OTHERS || e->until <= now)
		return 0;
	return TIMESTAMP_IS_NOEND(e->until) ? e->lease_ms :
		Min(lr_ms_up(e->until - now), e->lease_ms);
}

/* ----------
 * Outcomes
 * ----------
 */

void
entry_busy(StoreOp *op, int64 ttl_ms)
{
	op->outcome = STORE_BUSY;
	op->answer.value = STORE_VALUE_LOCK;
	op->answer.ttl_ms = ttl_ms;
}

bool
entry_may_look(LockTables *tables, TableId in)
{
	if (tables_have(tables, in))
		return true;
	if (tables->trouble.sqlstate == ERRCODE_LOCK_NOT_AVAILABLE)
		tables_fail(tables);
	tables->trouble.sqlstate = 0;
	return false;
}

/* ----------
 * Reading
 * ----------
 */

/*
 * take_column --- copy a column that is not null into the entry
 *
 * An owner that is too long is none that lockredis looks for.  Nothing is allocated for others: the
 * sweep reads all rows in one transaction.
 */
static void
take_column(Entry *e, Field field, Datum value)
{
	switch (field)
	{
		case FIELD_OWNER:
			if (toast_raw_datum_size(value) < VARHDRSZ + LR_OWNER_MAX)
				text_to_cstring_buffer(DatumGetTextPP(value), e->owner, LR_OWNER_MAX);
			break;
		case FIELD_HOLDS:
			e->holds = Max(1, Min(DatumGetInt32(value), PG_INT32_MAX - 1));
			break;
		case FIELD_NUMBER:
		case FIELD_FENCE:
			e->number = DatumGetInt64(value);
			break;
		case FIELD_LEASE:
			e->lease_ms = Min(DatumGetIntervalP(value)->time / LR_US_PER_MS, LR_LEASE_MAX_MS);
			break;
		case FIELD_UNTIL:
			e->until = DatumGetTimestampTz(value);
			break;
		case FIELD_INSTANCE:
			e->of = memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) == 0 ?
				OF_US : OF_OTHERS;
			break;
		case FIELD_KEY:
		case FIELD_KIND:
		case FIELD_SINCE:
		case FIELD_COMMENT:
			break;
	}
}

/*
 * entry_read --- make an entry of the row in the slot
 *
 * A row of a table without leases counts until its end, and for ever if it has none.
 */
static void
entry_read(LockTables *tables, TableId in)
{
	const TableFields *fields = &table_fields[in];
	TupleTableSlot *row = tables->table[in].row;
	Entry	   *e = &tables->entry[in];
	bool		complete = true;

	*e = (Entry) {.there = true, .lease_ms = STORE_TTL_MAX, .until = DT_NOEND};
	slot_getsomeattrs(row, fields->ncolumns);
	for (int i = 0; i < fields->ncolumns; i++)
	{
		Field		field = fields->column[i];
		bool		isnull;
		Datum		value = slot_getattr(row, i + 1, &isnull);

		if (!isnull)
			take_column(e, field, value);
		else if (field < FIELD_FENCE)
			complete = false;
	}
	if (!complete || e->lease_ms <= 0)
		e->of = OF_OTHERS;
	e->left_ms = entry_left_ms(e);
}

/* ----------
 * Columns
 * ----------
 */

static Datum
key_of(const StoreOp *op)
{
	return PointerGetDatum(cstring_to_text_with_len(op->name, op->name_len));
}

/*
 * column_of --- the value that the entry has in a column
 */
static Datum
column_of(const Entry *e, const StoreOp *op, Field field, bool *isnull)
{
	Interval   *lease;

	*isnull = false;
	switch (field)
	{
		case FIELD_KEY:
			return key_of(op);
		case FIELD_KIND:
			return CStringGetTextDatum(lr_kind(e->kind)->name);
		case FIELD_OWNER:
			return CStringGetTextDatum(e->owner);
		case FIELD_HOLDS:
			return Int32GetDatum(e->holds);
		case FIELD_FENCE:
			*isnull = e->number == 0;
			return Int64GetDatum(e->number);
		case FIELD_NUMBER:
			return Int64GetDatum(e->number);
		case FIELD_LEASE:
			lease = palloc0(sizeof(Interval));
			lease->time = e->lease_ms * LR_US_PER_MS;
			return IntervalPGetDatum(lease);
		case FIELD_SINCE:
			return TimestampTzGetDatum(GetCurrentTimestamp());
		case FIELD_UNTIL:
			*isnull = TIMESTAMP_IS_NOEND(e->until);
			return TimestampTzGetDatum(e->until);
		case FIELD_INSTANCE:
			*isnull = e->of == OF_NOBODY;
			return UUIDPGetDatum(&instance);
		case FIELD_COMMENT:
			break;
	}
	*isnull = true;
	return (Datum) 0;
}

/* ----------
 * Entries
 * ----------
 */

Entry *
entry_find(LockTables *tables, TableId in, const StoreOp *op, KindId kind, const char *owner)
{
	Entry	   *e = &tables->entry[in];
	Datum		keys[KEYED_MAX_KEYS];
	bool		isnull;

	e->kind = kind;
	strlcpy(e->owner, owner, sizeof(e->owner));
	for (int i = 0; i < table_fields[in].nkeys; i++)
		keys[i] = column_of(e, op, table_fields[in].column[i], &isnull);
	if (keyed_find(&tables->table[in], keys))
		entry_read(tables, in);
	else
		memset(e, 0, sizeof(Entry));
	e->kind = kind;
	return e;
}

void
entry_renew(Entry *e, const char *owner, int64 lease_ms, bool keep)
{
	e->anew = true;
	strlcpy(e->owner, owner, sizeof(e->owner));
	e->of = keep ? OF_NOBODY : OF_US;
	e->holds = 1;
	e->number = 0;
	e->lease_ms = lease_ms;
	e->until = entry_time_after(e, lease_ms);
}

bool
entry_lengthen(Entry *e, int64 lease_ms)
{
	TimestampTz until = entry_time_after(e, lease_ms);

	if (lease_ms == 0 || until <= e->until)
		return false;
	e->lease_ms = lease_ms;
	e->until = until;
	return true;
}

/*
 * entry_outlives --- make it an entry that outlives the server, until the same time
 */
void
entry_outlives(Entry *e)
{
	e->of = OF_NOBODY;
	e->until = entry_time_after(e, e->left_ms);
}

/*
 * entry_write --- insert the entry, or update its row; false: another transaction is changing it
 *
 * An update leaves the key, and unless the entry is a new one its start and comment, as they
 * are.  An entry that outlives the server must survive a crash, so its commit is flushed.
 */
static bool
entry_write(LockTables *tables, TableId in, const StoreOp *op)
{
	const TableFields *fields = &table_fields[in];
	const Entry *e = &tables->entry[in];
	Datum		values[KEYED_MAX_COLUMNS];
	bool		nulls[KEYED_MAX_COLUMNS];
	bool		changed[KEYED_MAX_COLUMNS] = {false};

	memset(nulls, true, sizeof(nulls));
	for (int i = e->there ? fields->nkeys : 0; i < fields->ncolumns; i++)
	{
		changed[i] = !e->there || e->anew || fields->column[i] < FIELD_SINCE;
		if (changed[i])
			values[i] = column_of(e, op, fields->column[i], &nulls[i]);
	}
	if (e->of != OF_US)
		tables->must_flush = true;
	if (e->there)
		return keyed_update(&tables->table[in], values, nulls, changed);
	keyed_insert(&tables->table[in], values, nulls);
	return true;
}

void
entry_put(LockTables *tables, TableId in, StoreOp *op)
{
	if (!entry_write(tables, in, op))
		keyed_blocked();
	op->outcome = STORE_OK;
}

void
entry_extend(LockTables *tables, TableId in, StoreOp *op)
{
	op->outcome = STORE_OK;
	if (entry_lengthen(&tables->entry[in], op->lease_ms))
		entry_put(tables, in, op);
}

void
entry_delete(LockTables *tables, TableId in, StoreOp *op)
{
	if (!keyed_delete(&tables->table[in]))
		keyed_blocked();
	op->outcome = STORE_OK;
}

/* ----------
 * Shares of a key
 * ----------
 */

static void
shares_begin(LockTables *tables, const StoreOp *op, KindId kind)
{
	Datum		keys[] = {key_of(op), CStringGetTextDatum(lr_kind(kind)->name)};

	keyed_begin_group(&tables->table[IN_SHARES], keys);
}

/*
 * shares_next --- the next share, after shares_begin(); NULL: no more
 */
static const Entry *
shares_next(LockTables *tables)
{
	const Entry *share = &tables->entry[IN_SHARES];

	while (keyed_next_of_group(&tables->table[IN_SHARES]))
	{
		entry_read(tables, IN_SHARES);
		if (share->of != OF_OTHERS)
			return share;
		(void) keyed_delete(&tables->table[IN_SHARES]);
	}
	return NULL;
}

uint64
shares_hash(const char *owner)
{
	return hash_bytes_extended((const unsigned char *) owner, strlen(owner), 0);
}

Shares
shares_look(LockTables *tables, const StoreOp *op, KindId kind)
{
	Shares		all = {.first_ms = STORE_NO_TTL};
	const Entry *share;

	shares_begin(tables, op, kind);
	while ((share = shares_next(tables)) != NULL)
	{
		if (kind == KIND_PERMIT && share->left_ms == 0)
		{
			(void) keyed_delete(&tables->table[IN_SHARES]);
			continue;
		}
		if (all.n++ == 0 || share->left_ms < all.first_ms)
			all.first_ms = share->left_ms;
		all.lease_ms = Max(all.lease_ms, share->lease_ms);
		all.sum += shares_hash(share->owner);
	}
	return all;
}

void
share_insert(LockTables *tables, StoreOp *op, KindId kind, const char *owner, bool keep)
{
	Entry	   *share = &tables->entry[IN_SHARES];

	memset(share, 0, sizeof(Entry));
	share->kind = kind;
	entry_renew(share, owner, op->lease_ms, keep);
	entry_put(tables, IN_SHARES, op);
}

void
shares_drop(LockTables *tables, StoreOp *op, KindId kind)
{
	shares_begin(tables, op, kind);
	while (shares_next(tables) != NULL)
		entry_delete(tables, IN_SHARES, op);
}

/* ----------
 * The row of a key
 * ----------
 */

bool
row_is_token(const Entry *row)
{
	return strncmp(row->owner, TOKEN_OWNER, strlen(TOKEN_OWNER)) == 0;
}

/*
 * row_tell_owner --- describe the owner as the Redis store does: readers by their number, a
 * token without its digest
 */
void
row_tell_owner(const Entry *row, char *out)
{
	if (entry_is_shared(row))
		snprintf(out, LR_OWNER_MAX, row->holds > 1 ? "%d readers" : "read", row->holds);
	else
		strlcpy(out, row_is_token(row) ? "token" : row->owner, LR_OWNER_MAX);
}

void
row_is_taken(const Entry *row, StoreOp *op)
{
	entry_busy(op, row->left_ms);
	row_tell_owner(row, op->answer.holder);
}

Entry *
row_find(LockTables *tables, const StoreOp *op)
{
	return entry_find(tables, IN_ROWS, op, op->lock_kind, "");
}

/*
 * row_is_of --- does this owner have the row?
 *
 * A row of another instance does not count, so nobody has it.
 */
bool
row_is_of(const Entry *row, uint64 owner)
{
	char		expected[LR_OWNER_MAX];

	(void) lr_owner_text(owner, expected);
	return row->of != OF_OTHERS && strcmp(row->owner, expected) == 0;
}

/* ----------
 * The sweep
 * ----------
 */

/*
 * end_with_lease --- shorten a row that would count for longer than its lease
 *
 * Somebody else has written such a row, or the wall clock was set back.
 */
static void
end_with_lease(LockTables *tables, TableId in)
{
	Entry	   *e = &tables->entry[in];
	TimestampTz until = entry_time_after(e, e->lease_ms);

	if (e->until <= until)
		return;
	e->until = until;
	(void) entry_write(tables, in, NULL);
}

/*
 * sweep_table --- delete the rows that no longer count
 *
 * The scan uses a snapshot: the next sweep sees a row whose insert has not been committed, and
 * a row that was changed since the snapshot is not deleted.  A reader's share counts as long as the
 * row, and whoever asks for a permit deletes those that have ended: so shares of this instance stay.
 */
static void
sweep_table(LockTables *tables, TableId in)
{
	KeyedTable *table = &tables->table[in];
	const Entry *e = &tables->entry[in];
	TableScanDesc scan = LrBeginScan(table->rel, GetActiveSnapshot());

	while (table_scan_getnextslot(scan, ForwardScanDirection, table->row))
	{
		CHECK_FOR_INTERRUPTS();
		entry_read(tables, in);
		if (e->left_ms == 0 && (in != IN_SHARES || e->of != OF_US))
			(void) keyed_delete(table);
		else if (in != IN_VALUES)
			end_with_lease(tables, in);
	}
	table_endscan(scan);
}

void
entries_sweep(LockTables *tables)
{
	sweep_table(tables, IN_ROWS);
	for (TableId in = IN_SHARES; in < IN_COUNT; in++)
	{
		if (tables_have(tables, in))
			sweep_table(tables, in);
		tables->trouble.sqlstate = 0;
	}
}
