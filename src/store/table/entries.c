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
#include "common/sha2.h"
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

/* Digits of the largest owner number. */
#define OWNER_DIGITS		20

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

/*
 * entry_blocked --- raise an error: another transaction is changing the row
 */
static void
entry_blocked(LockTables *tables)
{
	table_trouble_set(&tables->trouble, TABLE_BLOCKED,
					  "Another transaction is changing the row of the key.");
	tables_fail(tables);
}

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
	if (tables->trouble.fault == TABLE_BLOCKED)
		tables_fail(tables);
	tables->trouble.fault = TABLE_FAULT_NONE;
	return false;
}

/* ----------
 * Reading
 * ----------
 */

/*
 * take_text --- copy a text value into "out"; false: it does not fit
 */
static bool
take_text(Datum value, char *out, Size size)
{
	text	   *t;

	if (toast_raw_datum_size(value) - VARHDRSZ >= size)
		return false;
	t = DatumGetTextPP(value);
	memcpy(out, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	out[VARSIZE_ANY_EXHDR(t)] = '\0';
	return true;
}

/*
 * is_owner_of_session --- is the text the uuid of an instance, ":", a number and the suffix?
 */
static bool
is_owner_of_session(const char *text, const char *suffix)
{
	Size		ndigits;

	if (strspn(text, "0123456789abcdef-") != LR_UUID_LEN || text[LR_UUID_LEN] != ':')
		return false;
	text += LR_UUID_LEN + 1;
	ndigits = strspn(text, "0123456789");
	return ndigits >= 1 && ndigits <= OWNER_DIGITS && strcmp(text + ndigits, suffix) == 0;
}

/*
 * is_owner_by_digest --- is the text the prefix and a SHA-256 in hexadecimal?
 */
static bool
is_owner_by_digest(const char *text, const char *prefix)
{
	Size		len = strlen(prefix);

	return strncmp(text, prefix, len) == 0 &&
		strspn(text + len, "0123456789abcdef") == 2 * PG_SHA256_DIGEST_LENGTH &&
		text[len + 2 * PG_SHA256_DIGEST_LENGTH] == '\0';
}

/*
 * has_good_owner --- can lockredis have written this owner into this table?
 *
 * Rows with an instance belong to its sessions.  Rows without one outlive the server: token
 * locks, permits taken by id, and keys that stay locked for hold_at_least.
 */
static bool
has_good_owner(const Entry *e, TableId in)
{
	if (e->of != OF_NOBODY)
		return is_owner_of_session(e->owner, "") ||
			(in == IN_ROWS && strcmp(e->owner, SHARED_OWNER) == 0);
	if (in == IN_SHARES)
		return e->kind == KIND_PERMIT && is_owner_by_digest(e->owner, PERMIT_OWNER);
	return is_owner_of_session(e->owner, "") || is_owner_of_session(e->owner, KEPT_SUFFIX) ||
		is_owner_by_digest(e->owner, TOKEN_OWNER);
}

/*
 * take_kind --- read the kind of a share, one that several sessions can have together; false: any
 * other text
 */
static bool
take_kind(Datum value, Entry *e)
{
	char		name[LR_OWNER_MAX];

	if (!take_text(value, name, sizeof(name)))
		return false;
	for (e->kind = 0; lr_kind(e->kind) != NULL; e->kind++)
		if (lr_kind(e->kind)->shared && !lr_kinds_conflict(e->kind, e->kind) &&
			strcmp(name, lr_kind(e->kind)->name) == 0)
			return true;
	return false;
}

/*
 * take_column --- copy a column that is not null into the entry
 *
 * False: lockredis does not write such a value.
 */
static bool
take_column(Entry *e, TableId in, Field field, Datum value)
{
	Interval   *lease;

	switch (field)
	{
		case FIELD_KIND:
			return in != IN_SHARES || take_kind(value, e);
		case FIELD_OWNER:
			return take_text(value, e->owner, sizeof(e->owner));
		case FIELD_HOLDS:
			e->holds = DatumGetInt32(value);
			return e->holds >= 1 && e->holds < PG_INT32_MAX;
		case FIELD_NUMBER:
		case FIELD_FENCE:
			e->number = DatumGetInt64(value);
			break;
		case FIELD_LEASE:
			lease = DatumGetIntervalP(value);
			e->lease_ms = lease->time / LR_US_PER_MS;
			return lease->month == 0 && lease->day == 0 && lease->time > 0 &&
				lease->time <= LR_LEASE_MAX_MS * LR_US_PER_MS;
		case FIELD_UNTIL:
		case FIELD_END:
			e->until = DatumGetTimestampTz(value);
			break;
		case FIELD_INSTANCE:
			e->of = memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) == 0 ?
				OF_US : OF_OTHERS;
			break;
		case FIELD_KEY:
		case FIELD_SINCE:
		case FIELD_COMMENT:
			break;
	}
	return true;
}

/*
 * entry_read --- make an entry of the row in the slot; false: lockredis did not write it
 *
 * A row without a lease counts until its end, and for ever if it has none.
 */
static bool
entry_read(LockTables *tables, TableId in)
{
	const TableFields *fields = &table_fields[in];
	TupleTableSlot *row = tables->table[in].row;
	Entry	   *e = &tables->entry[in];

	*e = (Entry) {.there = true, .lease_ms = STORE_TTL_MAX, .until = DT_NOEND};
	slot_getsomeattrs(row, fields->ncolumns);
	for (int i = 0; i < fields->ncolumns; i++)
	{
		Field		field = fields->column[i];
		bool		isnull;
		Datum		value = slot_getattr(row, i + 1, &isnull);

		if (isnull ? field < FIELD_FENCE : !take_column(e, in, field, value))
			return false;
	}
	if ((in == IN_ROWS || in == IN_SHARES) && !has_good_owner(e, in))
		return false;
	e->left_ms = entry_left_ms(e);
	return true;
}

/*
 * discard --- delete a row that lockredis did not write, and log that
 *
 * Its key, too, may be anything.  False: another transaction is changing the row.
 */
static bool
discard(KeyedTable *table)
{
	char		key[LR_NAME_MAX + 1];
	bool		isnull;
	Datum		value;

	if (!keyed_delete(table))
		return false;
	value = slot_getattr(table->row, 1, &isnull);
	if (isnull || !take_text(value, key, sizeof(key)))
		strlcpy(key, "?", sizeof(key));
	ereport(LOG,
			(errmsg("lockredis: a row of table \"%s\" with key \"%s\" was not written by lockredis, and is deleted",
					RelationGetRelationName(table->rel),
					lr_name_to_show(key, strlen(key)))));
	return true;
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
		case FIELD_END:
			*isnull = TIMESTAMP_IS_NOEND(e->until);
			return TimestampTzGetDatum(e->until);
		case FIELD_UNTIL:
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
	KeyedTable *table = &tables->table[in];
	Entry	   *e = &tables->entry[in];
	Datum		keys[KEYED_MAX_KEYS];
	KeyedFound	found;
	bool		isnull;

	e->kind = kind;
	strlcpy(e->owner, owner, sizeof(e->owner));
	for (int i = 0; i < table_fields[in].nkeys; i++)
		keys[i] = column_of(e, op, table_fields[in].column[i], &isnull);
	found = keyed_find(table, keys);
	if (found == KEYED_ROW && !entry_read(tables, in))
		found = discard(table) ? KEYED_NOTHING : KEYED_BLOCKED;
	if (found == KEYED_BLOCKED)
		entry_blocked(tables);
	if (found == KEYED_NOTHING)
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
	if (e->of == OF_NOBODY)
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
		entry_blocked(tables);
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
		entry_blocked(tables);
	op->outcome = STORE_OK;
}

/* ----------
 * Shares of a key
 * ----------
 */

/*
 * shares_next --- the next share of the key of that kind, after keyed_begin_group(); NULL: no more
 */
static Entry *
shares_next(LockTables *tables, KindId kind)
{
	while (keyed_next_of_group(&tables->table[IN_SHARES]))
	{
		if (!entry_read(tables, IN_SHARES))
			(void) discard(&tables->table[IN_SHARES]);
		else if (tables->entry[IN_SHARES].kind == kind)
			return &tables->entry[IN_SHARES];
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

	keyed_begin_group(&tables->table[IN_SHARES], key_of(op));
	while ((share = shares_next(tables, kind)) != NULL)
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
	keyed_begin_group(&tables->table[IN_SHARES], key_of(op));
	while (shares_next(tables, kind) != NULL)
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
 * sweep_table --- delete the rows that lockredis did not write, and those that no longer count
 *
 * The scan uses a snapshot: the next sweep sees a row whose insert has not been committed, and
 * a row that was changed since the snapshot is not deleted.  A reader's share counts
 * as long as the row: the sweep deletes it only if its instance has ended.
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
		if (!entry_read(tables, in))
		{
			(void) discard(table);
			continue;
		}
		if (in == IN_SHARES && e->kind == KIND_READ ? e->of == OF_OTHERS : e->left_ms == 0)
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
		tables->trouble.fault = TABLE_FAULT_NONE;
	}
}
