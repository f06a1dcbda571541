/*-------------------------------------------------------------------------
 *
 * table_rows.c
 *	  The tables of table mode, and what each operation does to them.
 *
 * redis_lock_rows has a row for each lock that somebody has.  Whose row it is
 * and how long it counts is decided by its instance:
 *
 * - ours: taken by a session of this server.  It counts on lr_now()'s clock,
 *	 which never jumps, for one lease from the moment it was last written.  This
 *	 process remembers that moment; a row it does not remember (it may have been
 *	 started anew) counts for one lease from when it is first seen.
 * - null: taken by somebody who needs no server to be there: a program with SQL
 *	 and no functions, or one of our locks that is to outlive us
 *	 (hold_at_least).  It counts until expires_at, on the wall clock.
 * - another one: of an instance that has ended, and its locks with it.
 *
 * A row that does not count any more may be overwritten by the next owner, and
 * is deleted by the sweep.
 *
 * redis_lock_counters has the last fencing token of each key.
 *
 * With synchronous_commit off a crash may undo what was committed last.  That
 * does not matter to locks that die with the server, but a token must not come
 * twice, and a key that is to stay locked must: such transactions are flushed.
 *
 * The code runs as the owner of the tables, who could have put a function into
 * an index of theirs.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "store/table/keyed_table.h"
#include "instance.h"
#include "store/table/table_rows.h"

#define ROWS_TABLE			"redis_lock_rows"
#define COUNTERS_TABLE		"redis_lock_counters"

/* Appended to the owner of a key that stays locked after its release. */
#define KEPT_SUFFIX			"/kept"

enum RowColumn
{
	COL_KEY = 1, COL_OWNER, COL_HOLD_COUNT, COL_FENCE, COL_LEASE,
	COL_ACQUIRED_AT, COL_EXPIRES_AT, COL_INSTANCE, COL_COMMENT
};

#define ROW_COLUMNS			COL_COMMENT

static const Oid row_types[ROW_COLUMNS] = {
	TEXTOID, TEXTOID, INT4OID, INT8OID, INTERVALOID, TIMESTAMPTZOID,
	TIMESTAMPTZOID, UUIDOID, TEXTOID
};

enum CounterColumn
{
	COL_COUNTER_KEY = 1, COL_TOKEN
};

#define COUNTER_COLUMNS		COL_TOKEN

static const Oid counter_types[COUNTER_COLUMNS] = {TEXTOID, INT8OID};

/* Until when an own row counts. */
typedef struct Live
{
	uint64		owner;
	int64		until;			/* lr_now() time */
} Live;

static HTAB *live = NULL;
static pg_uuid_t instance;

/* What was found last; looked up anew when they are gone. */
static Oid	rows_oid = InvalidOid;
static Oid	counters_oid = InvalidOid;
static bool tables_known = false;

/* The tables are locked by somebody: not waited for a second time. */
static bool locked_out = false;

/* Between rows_begin and rows_end. */
static KeyedTable rows;
static KeyedTable counters;
static Oid	save_user;
static int	save_context;
static bool must_flush;

void
rows_start(void)
{
	HASHCTL		ctl;

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(Live);
	ctl.hcxt = TopMemoryContext;
	live = hash_create("lockredis rows", 1024, &ctl,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	instance = *DatumGetUUIDP(DirectFunctionCall1(uuid_in,
												  CStringGetDatum(lr_instance_uuid())));
}

/* ----------
 * Finding and opening the tables
 * ----------
 */

static void
set_trouble(TableTrouble *trouble, TableFault fault, int sqlstate,
			const char *format,...) pg_attribute_printf(4, 5);

static void
set_trouble(TableTrouble *trouble, TableFault fault, int sqlstate,
			const char *format,...)
{
	va_list		args;

	trouble->fault = fault;
	trouble->sqlstate = sqlstate;
	va_start(args, format);
	vsnprintf(trouble->detail, sizeof(trouble->detail), format, args);
	va_end(args);
}

static void
trouble_blocked(TableTrouble *trouble, const char *detail)
{
	set_trouble(trouble, TABLE_BLOCKED, ERRCODE_LOCK_NOT_AVAILABLE, "%s", detail);
}

static Oid
extension_schema(void)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	Oid			schema = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("lockredis"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return schema;
}

static bool
find_tables(TableTrouble *trouble)
{
	Oid			schema = extension_schema();

	if (!OidIsValid(schema))
	{
		set_trouble(trouble, TABLE_NO_EXTENSION,
					ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					"Extension \"lockredis\" does not exist in database \"%s\".",
					get_database_name(MyDatabaseId));
		return false;
	}
	rows_oid = get_relname_relid(ROWS_TABLE, schema);
	counters_oid = get_relname_relid(COUNTERS_TABLE, schema);
	if (OidIsValid(rows_oid) && OidIsValid(counters_oid))
		return true;
	set_trouble(trouble, TABLE_WRONG_FORM,
				ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				"The extension in database \"%s\" has no table \"%s\".",
				get_database_name(MyDatabaseId),
				OidIsValid(rows_oid) ? COUNTERS_TABLE : ROWS_TABLE);
	return false;
}

/*
 * lock_table --- without standing in a queue for long
 *
 * Somebody who locks the table out keeps all keys from us, so for once we wait
 * (lock_timeout raises); after that we only try.
 */
static bool
lock_table(Oid relid)
{
	if (ConditionalLockRelationOid(relid, RowExclusiveLock))
		return true;
	if (locked_out)
		return false;
	locked_out = true;
	LockRelationOid(relid, RowExclusiveLock);
	return true;
}

/*
 * open_table --- NULL: it is gone, or somebody has locked it
 */
static Relation
open_table(Oid relid, TableTrouble *trouble)
{
	Relation	rel;

	if (!lock_table(relid))
	{
		trouble_blocked(trouble, "Another session has locked the table of locks.");
		return NULL;
	}
	rel = try_table_open(relid, NoLock);
	if (rel == NULL)
	{
		/* Dropped, and perhaps made again: look for it anew. */
		tables_known = false;
		set_trouble(trouble, TABLE_WRONG_FORM,
					ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					"The tables of the extension have been dropped.");
	}
	return rel;
}

static bool
has_form(Relation rel, const Oid *types, int ncolumns)
{
	TupleDesc	desc = RelationGetDescr(rel);

	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		desc->natts < ncolumns || desc->natts > KEYED_MAX_COLUMNS)
		return false;
	for (int i = 0; i < ncolumns; i++)
		if (TupleDescAttr(desc, i)->atttypid != types[i])
			return false;
	return true;
}

static bool
open_keyed(KeyedTable *table, Oid relid, const char *name, const Oid *types,
		   int ncolumns, TableTrouble *trouble)
{
	Relation	rel = open_table(relid, trouble);

	if (rel == NULL)
		return false;

	/* Programs with SQL know it by its name. */
	if (strcmp(RelationGetRelationName(rel), name) != 0)
	{
		tables_known = false;
		set_trouble(trouble, TABLE_WRONG_FORM,
					ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					"Table \"%s\" of the extension has another name now.", name);
		return false;
	}
	if (!has_form(rel, types, ncolumns) || !keyed_begin(table, rel))
	{
		set_trouble(trouble, TABLE_WRONG_FORM,
					ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					"Table \"%s\" is not as the script of the extension makes it.",
					RelationGetRelationName(rel));
		return false;
	}
	return true;
}

static bool
open_both(TableTrouble *trouble)
{
	return open_keyed(&rows, rows_oid, ROWS_TABLE, row_types, ROW_COLUMNS,
					  trouble) &&
		open_keyed(&counters, counters_oid, COUNTERS_TABLE, counter_types,
				   COUNTER_COLUMNS, trouble);
}

static bool
has_good_encoding(TableTrouble *trouble)
{
	if (GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII)
		return true;
	set_trouble(trouble, TABLE_WRONG_FORM,
				ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
				"Database \"%s\" has encoding %s; keys are UTF8.",
				get_database_name(MyDatabaseId), GetDatabaseEncodingName());
	return false;
}

bool
rows_begin(TableTrouble *trouble)
{
	memset(trouble, 0, sizeof(TableTrouble));
	if (!has_good_encoding(trouble) ||
		(!tables_known && !find_tables(trouble)) ||
		!open_both(trouble))
		return false;
	if (!tables_known)
		requests_new_epoch();
	tables_known = true;
	locked_out = false;
	must_flush = false;
	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(rows.rel->rd_rel->relowner,
						   save_context | SECURITY_RESTRICTED_OPERATION);
	return true;
}

void
rows_end(void)
{
	SetUserIdAndSecContext(save_user, save_context);
	keyed_end(&counters);
	table_close(counters.rel, NoLock);
	keyed_end(&rows);
	table_close(rows.rel, NoLock);
}

bool
rows_must_flush(void)
{
	return must_flush;
}

/* ----------
 * A row
 * ----------
 */

static void
remember(uint64 owner, int64 lease_ms)
{
	bool		found;
	Live	   *entry = hash_search(live, &owner, HASH_ENTER, &found);
	int64		until = lr_now() + lease_ms * LR_US_PER_MS;

	entry->until = found ? Max(entry->until, until) : until;
}

static void
forget(uint64 owner)
{
	hash_search(live, &owner, HASH_REMOVE, NULL);
}

/* The number in an owner of this instance; 0 if there is none. */
static uint64
owner_number(const char *text, int len)
{
	char		digits[24];

	if (len <= LR_UUID_LEN + 1 || len - LR_UUID_LEN > sizeof(digits) ||
		strncmp(text, lr_instance_uuid(), LR_UUID_LEN) != 0 ||
		text[LR_UUID_LEN] != ':')
		return 0;
	memcpy(digits, text + LR_UUID_LEN + 1, len - LR_UUID_LEN - 1);
	digits[len - LR_UUID_LEN - 1] = '\0';
	return strtou64(digits, NULL, 10);
}

static int64
interval_ms(const Interval *lease)
{
	int64		days = lease->day + (int64) lease->month * DAYS_PER_MONTH;

	return (lease->time + days * USECS_PER_DAY) / LR_US_PER_MS;
}

static Datum
ms_interval(int64 ms)
{
	Interval   *result = palloc0(sizeof(Interval));

	result->time = ms * LR_US_PER_MS;
	return IntervalPGetDatum(result);
}

/*
 * own_left_ms --- how long a row of this instance still counts
 */
static int64
own_left_ms(const char *owner, int len, int64 lease_ms)
{
	uint64		number = owner_number(owner, len);
	Live	   *entry;
	int64		left;

	if (number == 0)
		return 0;
	entry = hash_search(live, &number, HASH_FIND, NULL);
	if (entry == NULL)
	{
		remember(number, lease_ms);
		return lease_ms;
	}
	left = entry->until - lr_now();
	return left <= 0 ? 0 : lr_ms_up(left);
}

static int64
wall_left_ms(TimestampTz expires_at)
{
	TimestampTz now = GetCurrentTimestamp();

	if (TIMESTAMP_IS_NOEND(expires_at))
		return STORE_NO_TTL;
	if (expires_at <= now)
		return 0;
	return Min(lr_ms_up(expires_at - now), STORE_TTL_MAX);
}

/*
 * left_ms --- how long the row in a slot still counts: 0 = not any more,
 * STORE_NO_TTL = for ever
 */
static int64
left_ms(TupleTableSlot *slot)
{
	bool		isnull;
	bool		lease_isnull;
	Datum		value = slot_getattr(slot, COL_INSTANCE, &isnull);
	Datum		lease = slot_getattr(slot, COL_LEASE, &lease_isnull);
	text	   *owner;

	if (isnull)
	{
		value = slot_getattr(slot, COL_EXPIRES_AT, &isnull);
		return isnull ? STORE_NO_TTL : wall_left_ms(DatumGetTimestampTz(value));
	}
	if (memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) != 0)
		return 0;
	value = slot_getattr(slot, COL_OWNER, &isnull);
	if (isnull || lease_isnull)
		return 0;
	owner = DatumGetTextPP(value);
	return own_left_ms(VARDATA_ANY(owner), VARSIZE_ANY_EXHDR(owner),
					   interval_ms(DatumGetIntervalP(lease)));
}

/*
 * show_owner --- the owner of the row that was found, as it is told
 *
 * One that is too long is told as its beginning and a hash, so that
 * redis_force_unlock takes away only what was seen.
 */
static void
show_owner(char *out)
{
	bool		isnull;
	Datum		value = keyed_column(&rows, COL_OWNER, &isnull);
	text	   *owner;
	int			len;

	out[0] = '\0';
	if (isnull)
		return;
	owner = DatumGetTextPP(value);
	len = VARSIZE_ANY_EXHDR(owner);
	if (len < LR_OWNER_MAX)
	{
		memcpy(out, VARDATA_ANY(owner), len);
		out[len] = '\0';
		return;
	}
	snprintf(out, LR_OWNER_MAX, "%.*s...%016llx",
			 pg_mbcliplen(VARDATA_ANY(owner), len, 40), VARDATA_ANY(owner),
			 (unsigned long long) hash_bytes_extended((const unsigned char *) VARDATA_ANY(owner), len, 0));
}

/* The row that was found is this owner's. */
static bool
is_owner(uint64 owner)
{
	char		expected[LR_OWNER_MAX];
	int			expected_len = lr_owner_text(owner, expected);
	bool		isnull;
	Datum		value = keyed_column(&rows, COL_OWNER, &isnull);
	text	   *found;

	if (isnull)
		return false;
	found = DatumGetTextPP(value);
	return VARSIZE_ANY_EXHDR(found) == expected_len &&
		memcmp(VARDATA_ANY(found), expected, expected_len) == 0;
}

static TimestampTz
wall_after(int64 ms)
{
	return TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
}

/* ----------
 * Operations
 * ----------
 */

static Datum
op_key(const TableOp *op)
{
	return PointerGetDatum(cstring_to_text_with_len(op->name, op->name_len));
}

static void
blocked(TableOp *op, TableTrouble *trouble)
{
	op->outcome = STORE_BUSY;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = BLOCKED_TTL_MS;
	trouble_blocked(trouble, "Another transaction is changing the row of the key.");
}

/*
 * next_token --- count the key's counter up, to above "floor"
 */
static bool
next_token(TableOp *op, int64 floor, TableTrouble *trouble)
{
	Datum		key = op_key(op);
	Datum		values[KEYED_MAX_COLUMNS] = {0};
	bool		nulls[KEYED_MAX_COLUMNS];
	static const int columns[1] = {COL_TOKEN};
	bool		isnull;
	int64		token = 0;
	KeyedFound	found = keyed_find(&counters, key);

	if (found == KEYED_BLOCKED)
	{
		blocked(op, trouble);
		return false;
	}
	if (found == KEYED_ROW)
		token = DatumGetInt64(keyed_column(&counters, COL_TOKEN, &isnull));
	token = Max(token, floor) + 1;
	if (token < 1 || token > STORE_TOKEN_MAX)
	{
		op->outcome = STORE_REFUSED;
		set_trouble(trouble, TABLE_ERROR, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
					"The counter of fencing tokens is used up.");
		return false;
	}

	memset(nulls, true, sizeof(nulls));
	if (found == KEYED_ROW)
	{
		values[0] = Int64GetDatum(token);
		nulls[0] = false;
		if (!keyed_update(&counters, 1, columns, values, nulls))
		{
			blocked(op, trouble);
			return false;
		}
	}
	else
	{
		values[COL_COUNTER_KEY - 1] = key;
		values[COL_TOKEN - 1] = Int64GetDatum(token);
		nulls[COL_COUNTER_KEY - 1] = nulls[COL_TOKEN - 1] = false;
		keyed_insert(&counters, values, nulls);
	}
	must_flush = true;
	op->fence = token;
	return true;
}

/*
 * fill_row --- the row of a new lock; one that is to be kept whatever becomes
 * of this server belongs to no instance
 */
static void
fill_row(const TableOp *op, Datum *values, bool *nulls)
{
	char		owner[LR_OWNER_MAX];

	memset(values, 0, sizeof(Datum) * KEYED_MAX_COLUMNS);
	memset(nulls, false, sizeof(bool) * KEYED_MAX_COLUMNS);
	for (int i = ROW_COLUMNS; i < KEYED_MAX_COLUMNS; i++)
		nulls[i] = true;

	lr_owner_text(op->owner, owner);
	values[COL_KEY - 1] = op_key(op);
	values[COL_OWNER - 1] = CStringGetTextDatum(owner);
	values[COL_HOLD_COUNT - 1] = Int32GetDatum(1);
	values[COL_FENCE - 1] = Int64GetDatum(op->fence);
	nulls[COL_FENCE - 1] = op->fence == 0;
	values[COL_LEASE - 1] = ms_interval(op->lease_ms);
	values[COL_ACQUIRED_AT - 1] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_EXPIRES_AT - 1] = TimestampTzGetDatum(wall_after(op->lease_ms));
	values[COL_INSTANCE - 1] = UUIDPGetDatum(&instance);
	nulls[COL_INSTANCE - 1] = op->keep_ms > 0;
	nulls[COL_COMMENT - 1] = true;
}

static void
create(TableOp *op, TableTrouble *trouble)
{
	static const int columns[ROW_COLUMNS] = {
		COL_KEY, COL_OWNER, COL_HOLD_COUNT, COL_FENCE, COL_LEASE,
		COL_ACQUIRED_AT, COL_EXPIRES_AT, COL_INSTANCE, COL_COMMENT
	};
	Datum		values[KEYED_MAX_COLUMNS];
	bool		nulls[KEYED_MAX_COLUMNS];
	KeyedFound	found = keyed_find(&rows, op_key(op));

	if (found == KEYED_BLOCKED)
	{
		blocked(op, trouble);
		return;
	}
	if (found == KEYED_ROW && (op->ttl_ms = left_ms(rows.row)) != 0)
	{
		op->outcome = STORE_BUSY;
		op->value = STORE_VALUE_LOCK;
		show_owner(op->holder);
		return;
	}
	if (op->fenced && !next_token(op, 0, trouble))
		return;

	fill_row(op, values, nulls);
	if (found == KEYED_NOTHING)
		keyed_insert(&rows, values, nulls);
	else if (!keyed_update(&rows, ROW_COLUMNS, columns, values, nulls))
	{
		blocked(op, trouble);
		return;
	}
	remember(op->owner, op->lease_ms);
	must_flush = must_flush || op->keep_ms > 0;
	op->outcome = STORE_OK;
}

/*
 * find_own --- the row of a lock that the caller believes to have
 */
static bool
find_own(TableOp *op, TableTrouble *trouble)
{
	switch (keyed_find(&rows, op_key(op)))
	{
		case KEYED_NOTHING:
			op->outcome = STORE_GONE;
			return false;
		case KEYED_BLOCKED:
			blocked(op, trouble);
			return false;
		case KEYED_ROW:
			break;
	}
	if (is_owner(op->owner))
		return true;
	op->outcome = STORE_GONE;
	if (left_ms(rows.row) != 0)
		show_owner(op->holder);
	return false;
}

/* A change of an own row, collected column by column. */
typedef struct RowChange
{
	int			n;
	int			columns[ROW_COLUMNS];
	Datum		values[ROW_COLUMNS];
	bool		nulls[ROW_COLUMNS];
} RowChange;

static void
change_column(RowChange *change, int column, Datum value, bool isnull)
{
	change->columns[change->n] = column;
	change->values[change->n] = value;
	change->nulls[change->n++] = isnull;
}

static void
write_change(TableOp *op, const RowChange *change, TableTrouble *trouble)
{
	if (change->n == 0 ||
		keyed_update(&rows, change->n, change->columns, change->values,
					 change->nulls))
		op->outcome = STORE_OK;
	else
		blocked(op, trouble);
}

/*
 * lengthen --- a lease from now on, if it is longer than what is there
 *
 * The lease in the row is the one that expires_at was counted with: that is how
 * long a worker that was started anew takes the row to count at most.
 */
static void
lengthen(TableOp *op, RowChange *change)
{
	bool		isnull;
	TimestampTz until = wall_after(op->lease_ms);
	Datum		value;

	value = keyed_column(&rows, COL_EXPIRES_AT, &isnull);
	if (isnull || DatumGetTimestampTz(value) < until)
	{
		change_column(change, COL_EXPIRES_AT, TimestampTzGetDatum(until), false);
		change_column(change, COL_LEASE, ms_interval(op->lease_ms), false);
	}
	remember(op->owner, op->lease_ms);
}

static void
set(TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!find_own(op, trouble))
		return;
	change_column(&change, COL_HOLD_COUNT, Int32GetDatum(op->count), false);
	if (op->lease_ms > 0)
		lengthen(op, &change);
	if (op->keep_ms > 0)
	{
		change_column(&change, COL_INSTANCE, (Datum) 0, true);
		must_flush = true;
	}
	write_change(op, &change, trouble);
}

static void
renew(TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!find_own(op, trouble))
		return;
	lengthen(op, &change);
	write_change(op, &change, trouble);
}

/*
 * keep --- released, but the key stays locked for a time
 *
 * Under another name: a renewal that is late must not lengthen it.
 */
static void
keep(TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};
	char		owner[LR_OWNER_MAX];
	int			len = lr_owner_text(op->owner, owner);

	strlcpy(owner + len, KEPT_SUFFIX, sizeof(owner) - len);
	change_column(&change, COL_OWNER, CStringGetTextDatum(owner), false);
	change_column(&change, COL_EXPIRES_AT,
				  TimestampTzGetDatum(wall_after(op->keep_ms)), false);
	change_column(&change, COL_INSTANCE, (Datum) 0, true);
	must_flush = true;
	write_change(op, &change, trouble);
}

static void
release(TableOp *op, TableTrouble *trouble)
{
	if (!find_own(op, trouble))
	{
		if (op->outcome == STORE_GONE)
			forget(op->owner);
		return;
	}
	if (op->keep_ms > 0)
		keep(op, trouble);
	else if (keyed_delete(&rows))
		op->outcome = STORE_OK;
	else
		blocked(op, trouble);
	if (op->outcome == STORE_OK)
		forget(op->owner);
}

static void
mint(TableOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!find_own(op, trouble) || !next_token(op, op->floor, trouble))
		return;
	change_column(&change, COL_FENCE, Int64GetDatum(op->fence), false);
	write_change(op, &change, trouble);
}

/*
 * force --- the owner seen before stays in the operation: it may be carried out
 * twice, if the first transaction fails
 */
static void
force(TableOp *op, TableTrouble *trouble)
{
	char		owner[LR_OWNER_MAX];

	op->outcome = STORE_GONE;
	switch (keyed_find(&rows, op_key(op)))
	{
		case KEYED_NOTHING:
			break;
		case KEYED_BLOCKED:
			blocked(op, trouble);
			break;
		case KEYED_ROW:
			show_owner(owner);
			if (strlen(owner) != op->owner_text_len ||
				memcmp(owner, op->holder, op->owner_text_len) != 0)
				break;
			if (keyed_delete(&rows))
				op->outcome = STORE_OK;
			else
				blocked(op, trouble);
	}
}

static void
inspect(TableOp *op)
{
	bool		isnull;
	Datum		value;

	op->outcome = STORE_OK;
	op->value = STORE_VALUE_NONE;
	if (keyed_find(&rows, op_key(op)) != KEYED_ROW)
		return;
	op->ttl_ms = left_ms(rows.row);
	if (op->ttl_ms == 0)
		return;
	op->value = STORE_VALUE_LOCK;
	value = keyed_column(&rows, COL_HOLD_COUNT, &isnull);
	op->hold_count = isnull ? 1 : DatumGetInt32(value);
	show_owner(op->holder);
}

void
rows_execute(TableOp *op, TableTrouble *trouble)
{
	switch (op->kind)
	{
		case STORE_CREATE:
			create(op, trouble);
			break;
		case STORE_SET:
			set(op, trouble);
			break;
		case STORE_RELEASE:
			release(op, trouble);
			break;
		case STORE_RENEW:
			renew(op, trouble);
			break;
		case STORE_MINT:
			mint(op, trouble);
			break;
		case STORE_FORCE:
			force(op, trouble);
			break;
		case STORE_INSPECT:
			inspect(op);
			break;
		case STORE_PROBE:
		case STORE_FACTS:
			op->outcome = STORE_OK;
			break;
		case STORE_TIME:
			op->store_ms = lr_now() / LR_US_PER_MS;
			op->outcome = STORE_OK;
			break;
	}
}

/* ----------
 * The sweep
 * ----------
 */

/*
 * forget_ended --- what is remembered of rows that are gone otherwise
 */
static void
forget_ended(void)
{
	HASH_SEQ_STATUS seq;
	Live	   *entry;
	int64		now = lr_now();

	hash_seq_init(&seq, live);
	while ((entry = hash_seq_search(&seq)) != NULL)
		if (entry->until <= now)
			hash_search(live, &entry->owner, HASH_REMOVE, NULL);
}

void
rows_sweep(void)
{
	TableScanDesc scan = table_beginscan(rows.rel, GetActiveSnapshot(), 0, NULL);

	while (table_scan_getnextslot(scan, ForwardScanDirection, rows.row))
	{
		CHECK_FOR_INTERRUPTS();
		if (left_ms(rows.row) == 0)
			(void) keyed_delete_at(rows.rel, &rows.row->tts_tid);
	}
	table_endscan(scan);
	forget_ended();
}
