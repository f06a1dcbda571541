/*-------------------------------------------------------------------------
 *
 * table_shares.c
 *	  Locks that several have together: the row that they share, and theirs.
 *
 * Whoever has a key has its row in redis_lock_rows, which keeps all others from it.
 * Readers share one: its owner is "readers", its hold_count
 * their number, and it counts for as long as the longest of their leases.  Each of
 * them has a row in redis_lock_shares beside it, by which it is known whose lock is
 * still there.  A session that has the write lock may read too: then there is its
 * share, and the row is the writer's.
 *
 * A share counts only together with the row.  That may have gone, and somebody else have
 * taken the key: who makes the row anew takes away all shares that are left, so a
 * reader of before finds that its lock is gone.
 *
 * Both tables are written in one transaction.  What can be in the way is looked for
 * before anything is written; if somebody is at the second row after all, an error
 * undoes the first.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_shares.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"
#include "kinds/kind.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store/table/table_int.h"

/* ----------
 * Rows
 * ----------
 */

bool
share_is_permit(TupleTableSlot *row)
{
	return keyed_is_text(row, COL_SHARE_KIND, permit_kind.name);
}

KeyedFound
share_find(LockTables *tables, const StoreOp *op, Datum owner)
{
	Datum		keys[SHARE_KEYS];

	keys[COL_SHARE_KEY - 1] = row_key(op);
	keys[COL_SHARE_KIND - 1] = CStringGetTextDatum(lr_kind(op->lock_kind)->name);
	keys[COL_SHARE_OWNER - 1] = owner;
	return sound_share(tables, keys);
}

void
share_insert(LockTables *tables, const StoreOp *op, Datum owner, bool keep)
{
	Datum		values[KEYED_MAX_COLUMNS] = {
		[COL_SHARE_KEY - 1] = row_key(op),
		[COL_SHARE_KIND - 1] = CStringGetTextDatum(lr_kind(op->lock_kind)->name),
		[COL_SHARE_OWNER - 1] = owner,
		[COL_SHARE_LEASE - 1] = row_lease(op->lease_ms),
		[COL_SHARE_ACQUIRED_AT - 1] = row_time_after(0),
		[COL_SHARE_EXPIRES_AT - 1] = row_time_after(op->lease_ms),
		[COL_SHARE_INSTANCE - 1] = lifetime_instance()
	};
	bool		nulls[KEYED_MAX_COLUMNS] = {[COL_SHARE_INSTANCE - 1] = keep};

	(void) row_put(&tables->shares, KEYED_NOTHING, SHARE_COLUMNS, values, nulls);
}

static void
delete_share(LockTables *tables)
{
	if (!keyed_delete(&tables->shares))
		rows_undo_blocked();
}

bool
share_lengthen(LockTables *tables, const StoreOp *op)
{
	static const int columns[] = {COL_SHARE_LEASE, COL_SHARE_EXPIRES_AT};
	Datum		values[] = {row_lease(op->lease_ms), row_time_after(op->lease_ms)};
	bool		nulls[] = {false, false};
	bool		isnull;
	Datum		until = keyed_column(&tables->shares, COL_SHARE_EXPIRES_AT, &isnull);

	return op->lease_ms == 0 ||
		DatumGetTimestampTz(until) >= DatumGetTimestampTz(values[1]) ||
		keyed_update(&tables->shares, lengthof(columns), columns, values, nulls);
}

/*
 * next_reader --- the next share of the key, after keyed_begin_group(); permits, which
 * keep nobody from it, are none
 */
static bool
next_reader(LockTables *tables)
{
	while (sound_next_share(tables))
		if (!share_is_permit(tables->shares.row))
			return true;
	return false;
}

void
shares_drop(LockTables *tables, const StoreOp *op)
{
	keyed_begin_group(&tables->shares, row_key(op));
	while (next_reader(tables))
		delete_share(tables);
}

/*
 * shares_digest --- see table_int.h
 */
void
shares_digest(LockTables *tables, const StoreOp *op, char *out, Size size)
{
	char		owner[LR_OWNER_MAX];
	uint64		sum;
	int			n = 0;

	row_tell_owner(tables, owner);
	sum = hash_bytes_extended((const unsigned char *) owner, strlen(owner), 0);
	keyed_begin_group(&tables->shares, row_key(op));
	while (next_reader(tables))
	{
		bool		isnull;
		text	   *sharer = DatumGetTextPP(keyed_column(&tables->shares,
														 COL_SHARE_OWNER, &isnull));

		sum += hash_bytes_extended((const unsigned char *) VARDATA_ANY(sharer),
								   VARSIZE_ANY_EXHDR(sharer), 0);
		n++;
	}
	if (n > 0)
		snprintf(out, size, "shares %016llx", (unsigned long long) sum);
	else
		out[0] = '\0';
}

/*
 * share_has_ended --- a permit counts by itself, the share of a reader as long as the row of
 * the key
 */
static bool
share_has_ended(TupleTableSlot *row)
{
	bool		isnull;
	Datum		instance = slot_getattr(row, COL_SHARE_INSTANCE, &isnull);

	return share_is_permit(row) ? lifetime_share_left_ms(row) == 0 :
		!lifetime_is_own_instance(instance, isnull);
}

void
shares_sweep(LockTables *tables)
{
	sound_sweep(&tables->shares, &sound_shares, share_has_ended);
}

/* ----------
 * The row that is shared
 * ----------
 */

/*
 * make_shared --- the row of the key is that of so many readers
 *
 * "found" is what there is of it.  False: somebody's transaction is at it.
 */
static bool
make_shared(LockTables *tables, const StoreOp *op, KeyedFound found, int readers,
			int64 lease_ms)
{
	if (!row_make(tables, op, found, CStringGetTextDatum(SHARED_OWNER), readers, lease_ms,
				  false))
		return false;
	lifetime_forget(lifetime_shared_number(op->name, op->name_len));
	return true;
}

/*
 * change_readers --- one more or less, with a lease that may be longer; false: somebody's
 * transaction is at the row
 *
 * If the row is that of the writer in the session that reads, it is to count as long as
 * that reads, as in Redis: whoever has the key next drops the shares.
 */
static bool
change_readers(LockTables *tables, const StoreOp *op, int by)
{
	RowChange	change = {0};

	if (by != 0 && row_is_of_readers(tables))
		row_change_column(&change, COL_HOLD_COUNT,
						  Int32GetDatum(row_hold_count(tables) + by), false);
	if (by >= 0 && op->lease_ms > 0)
	{
		row_change_end(tables, op, &change);
		lifetime_remember_row(tables->rows.row, op->lease_ms);
	}
	return change.n == 0 ||
		keyed_update(&tables->rows, change.n, change.columns, change.values, change.nulls);
}

bool
shares_keep(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	int64		lease_ms = 0;
	int			readers = 0;

	keyed_begin_group(&tables->shares, row_key(op));
	for (; next_reader(tables); readers++)
	{
		bool		isnull;
		Datum		lease = keyed_column(&tables->shares, COL_SHARE_LEASE, &isnull);

		lease_ms = Max(lease_ms, DatumGetIntervalP(lease)->time / LR_US_PER_MS);
	}
	if (readers == 0)
		return false;

	/* It counts for the longest lease from when it is looked at next, as after a restart. */
	if (make_shared(tables, op, KEYED_ROW, readers, lease_ms))
	{
		lifetime_forget(op->owner);
		op->outcome = STORE_OK;
	}
	else
		rows_blocked(op, trouble);
	return true;
}

/* ----------
 * Operations of the read lock
 * ----------
 */

/*
 * read_create --- with other readers, under the session's own write lock, or as the
 * first
 */
void
read_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	KeyedFound	found = sound_row(tables, row_key(op));
	int64		left_ms = found == KEYED_ROW ? lifetime_left_ms(tables->rows.row) : 0;
	bool		done = true;

	if (found == KEYED_BLOCKED)
	{
		rows_blocked(op, trouble);
		return;
	}
	if (left_ms != 0 && !row_is_of_readers(tables) &&
		(op->beside == 0 || !row_belongs_to(tables, op->beside)))
	{
		row_is_taken(tables, op, left_ms);
		return;
	}
	if (left_ms != 0)
		done = change_readers(tables, op, 1);
	else
	{
		done = make_shared(tables, op, found, 1, op->lease_ms);
		if (done)
		{
			shares_drop(tables, op);
			lifetime_remember(lifetime_shared_number(op->name, op->name_len),
							  op->lease_ms);
		}
	}
	if (!done)
	{
		rows_blocked(op, trouble);
		return;
	}
	share_insert(tables, op, row_owner(op->owner, ""), false);
	op->outcome = STORE_OK;
}

/*
 * find_both --- the row of the key and this reader's share of it; false: the outcome is
 * set
 *
 * If the key is somebody else's, or nobody's, a share that is left goes.  A row of this
 * server that readers do not share is that of the writer in the same session: another one
 * could not get the key meanwhile.
 */
static bool
find_both(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	KeyedFound	share = share_find(tables, op, row_owner(op->owner, ""));
	KeyedFound	row = sound_row(tables, row_key(op));

	if (row == KEYED_BLOCKED || share == KEYED_BLOCKED)
		return rows_blocked(op, trouble);
	if (share == KEYED_ROW && row == KEYED_ROW && row_is_own(tables))
		return true;
	op->outcome = STORE_GONE;
	if (row == KEYED_ROW && !row_is_of_readers(tables) &&
		lifetime_left_ms(tables->rows.row) != 0)
		row_tell_owner(tables, op->holder);
	if (share == KEYED_ROW)
		delete_share(tables);
	return false;
}

/*
 * read_renew --- lengthen what readers share, and the own part
 */
void
read_renew(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (!find_both(tables, op, trouble))
		return;
	op->watch_ms = lifetime_left_ms(tables->rows.row);
	if (!change_readers(tables, op, 0))
	{
		rows_blocked(op, trouble);
		return;
	}
	if (!share_lengthen(tables, op))
		rows_undo_blocked();
	op->outcome = STORE_OK;
}

/*
 * leave_readers --- one less, or nobody; false: somebody's transaction is at the row
 */
static bool
leave_readers(LockTables *tables, StoreOp *op)
{
	if (row_hold_count(tables) > 1)
		return change_readers(tables, op, -1);
	if (!keyed_delete(&tables->rows))
		return false;
	lifetime_forget(lifetime_shared_number(op->name, op->name_len));
	return true;
}

void
read_release(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (!find_both(tables, op, trouble))
		return;
	if (row_is_of_readers(tables) && !leave_readers(tables, op))
	{
		rows_blocked(op, trouble);
		return;
	}
	delete_share(tables);
	op->outcome = STORE_OK;
}
