/*-------------------------------------------------------------------------
 *
 * sound_rows.c
 *	  Rows are found, and looked at whether they are as the table worker writes them;
 *	  see table_int.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/sound_rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/detoast.h"
#include "access/tableam.h"
#include "common/sha2.h"
#include "kinds/kind.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "keyname.h"
#include "lease.h"
#include "store/table/table_int.h"

/* Digits of the largest owner number. */
#define OWNER_DIGITS		20

/* ----------
 * Columns
 * ----------
 */

/*
 * take_text --- of a column, as much as fits; false: it is null or longer
 */
static bool
take_text(TupleTableSlot *row, int column, char *out, Size size)
{
	bool		isnull;
	Datum		value = slot_getattr(row, column, &isnull);
	text	   *t;

	if (isnull || toast_raw_datum_size(value) - VARHDRSZ >= size)
		return false;
	t = DatumGetTextPP(value);
	memcpy(out, VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
	out[VARSIZE_ANY_EXHDR(t)] = '\0';
	return true;
}

/*
 * is_owner_of_session --- the uuid of an instance, and a number of it
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
 * is_owner_by_digest --- "prefix" and a SHA-256
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
 * take_lease --- as row_lease() makes it; 0: it is not
 */
static int64
take_lease(TupleTableSlot *row, int column)
{
	bool		isnull;
	Datum		value = slot_getattr(row, column, &isnull);
	Interval   *lease;

	if (isnull)
		return 0;
	lease = DatumGetIntervalP(value);
	if (lease->month != 0 || lease->day != 0 || lease->time <= 0 ||
		lease->time > LR_LEASE_MAX_MS * LR_US_PER_MS)
		return 0;
	return lease->time;
}

static bool
is_null(TupleTableSlot *row, int column)
{
	bool		isnull;

	(void) slot_getattr(row, column, &isnull);
	return isnull;
}

/* ----------
 * Rows
 * ----------
 */

/*
 * is_sound_row --- of redis_lock_rows
 *
 * What an instance has ends with that; what counts without one is a lock that is to
 * outlive the server, that of a token or what is kept.
 */
static bool
is_sound_row(TupleTableSlot *row)
{
	char		owner[LR_OWNER_MAX];
	bool		isnull;
	Datum		count = slot_getattr(row, COL_HOLD_COUNT, &isnull);

	if (isnull || DatumGetInt32(count) < 1 || DatumGetInt32(count) == PG_INT32_MAX ||
		take_lease(row, COL_LEASE) == 0 || is_null(row, COL_EXPIRES_AT) ||
		is_null(row, COL_KEY) ||
		!take_text(row, COL_OWNER, owner, sizeof(owner)))
		return false;
	if (is_null(row, COL_INSTANCE))
		return is_owner_of_session(owner, "") || is_owner_of_session(owner, KEPT_SUFFIX) ||
			is_owner_by_digest(owner, TOKEN_OWNER);
	return is_owner_of_session(owner, "") || strcmp(owner, SHARED_OWNER) == 0;
}

/*
 * is_sound_share --- of redis_lock_shares
 */
static bool
is_sound_share(TupleTableSlot *row)
{
	char		owner[LR_OWNER_MAX];
	char		kind[LR_OWNER_MAX];
	bool		permit;

	if (take_lease(row, COL_SHARE_LEASE) == 0 || is_null(row, COL_SHARE_EXPIRES_AT) ||
		!take_text(row, COL_SHARE_KIND, kind, sizeof(kind)) ||
		!take_text(row, COL_SHARE_OWNER, owner, sizeof(owner)))
		return false;
	permit = strcmp(kind, permit_kind.name) == 0;
	if (is_null(row, COL_SHARE_INSTANCE))
		return permit && is_owner_by_digest(owner, PERMIT_OWNER);
	return (permit || strcmp(kind, read_kind.name) == 0) && is_owner_of_session(owner, "");
}

/*
 * is_sound_value --- of redis_lock_values
 */
static bool
is_sound_value(TupleTableSlot *row)
{
	return !is_null(row, COL_VALUE);
}

const SoundForm sound_rows = {is_sound_row, COL_LEASE, COL_EXPIRES_AT, COL_INSTANCE};
const SoundForm sound_shares = {
	is_sound_share, COL_SHARE_LEASE, COL_SHARE_EXPIRES_AT, COL_SHARE_INSTANCE
};
const SoundForm sound_values = {is_sound_value};

/* ----------
 * Those that are not
 * ----------
 */

/*
 * tell_unsound --- with its key, which may be anything, too
 */
static void
tell_unsound(KeyedTable *table)
{
	char		key[LR_NAME_MAX + 1];

	StaticAssertStmt(COL_KEY == 1 && COL_SHARE_KEY == 1 && COL_VALUE_KEY == 1,
					 "the key stands first");
	if (!take_text(table->row, COL_KEY, key, sizeof(key)))
		strlcpy(key, "?", sizeof(key));
	ereport(LOG,
			(errmsg("lockredis: a row of table \"%s\" with key \"%s\" was not written by lockredis, and is deleted",
					RelationGetRelationName(table->rel),
					lr_name_to_show(key, strlen(key)))));
}

/*
 * discard --- the row that was found; false: somebody's transaction is at it
 */
static bool
discard(KeyedTable *table)
{
	if (!keyed_delete(table))
		return false;
	tell_unsound(table);
	return true;
}

static KeyedFound
look_at(KeyedTable *table, KeyedFound found, bool (*is_sound) (TupleTableSlot *row))
{
	if (found != KEYED_ROW || is_sound(table->row))
		return found;
	return discard(table) ? KEYED_NOTHING : KEYED_BLOCKED;
}

KeyedFound
sound_row(LockTables *tables, Datum key)
{
	return look_at(&tables->rows, keyed_find(&tables->rows, key), is_sound_row);
}

KeyedFound
sound_share(LockTables *tables, const Datum *keys)
{
	return look_at(&tables->shares, keyed_find_exact(&tables->shares, keys),
				   is_sound_share);
}

KeyedFound
sound_value(LockTables *tables, const Datum *keys)
{
	return look_at(&tables->values, keyed_find_exact(&tables->values, keys),
				   is_sound_value);
}

bool
sound_next_share(LockTables *tables)
{
	while (keyed_next_of_group(&tables->shares))
	{
		if (is_sound_share(tables->shares.row))
			return true;
		(void) discard(&tables->shares);
	}
	return false;
}

/* ----------
 * The sweep
 * ----------
 */

/*
 * end_with_lease --- a row that counts by the wall clock, for longer than its lease
 *
 * Somebody has written that, or has set the clock back.
 */
static void
end_with_lease(KeyedTable *table, const SoundForm *form)
{
	TimestampTz until = GetCurrentTimestamp() + take_lease(table->row, form->lease_column);
	bool		isnull;
	Datum		value = keyed_column(table, form->expires_column, &isnull);
	bool		null = false;

	if (!is_null(table->row, form->instance_column) || DatumGetTimestampTz(value) <= until)
		return;
	value = TimestampTzGetDatum(until);
	(void) keyed_update(table, 1, &form->expires_column, &value, &null);
}

/*
 * sound_sweep --- see table_int.h
 *
 * As seen by a snapshot: a row that somebody is inserting is swept next time,
 * and one that somebody has changed since is not deleted.
 */
void
sound_sweep(KeyedTable *table, const SoundForm *form,
			bool (*has_ended) (TupleTableSlot *row))
{
	TableScanDesc scan = LrBeginScan(table->rel, GetActiveSnapshot());

	while (table_scan_getnextslot(scan, ForwardScanDirection, table->row))
	{
		CHECK_FOR_INTERRUPTS();
		if (!form->is_sound(table->row))
		{
			(void) discard(table);
			continue;
		}
		if (form->lease_column != 0)
			end_with_lease(table, form);
		if (has_ended(table->row))
			(void) keyed_delete(table);
	}
	table_endscan(scan);
}
