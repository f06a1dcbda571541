/*-------------------------------------------------------------------------
 *
 * table_shares.c
 *	  Read locks: the row that the readers of a key share, and their own rows.
 *
 * A locked key has one row in redis_lock_rows, which excludes all other owners.  The readers of
 * a key share that row: its owner is "readers", its hold_count is their number, and it
 * counts for as long as the longest of their leases.  Each reader also has a row in
 * redis_lock_shares, which says that it still has its lock.  If a session has the write
 * lock and also reads, it has a share, and the row is the writer's.
 *
 * A share counts only while the row does.  When the row expires, another owner can take the
 * key.  Whoever creates the row again deletes the remaining shares, so the
 * former readers find that they have lost their locks.
 *
 * Both tables are written in one transaction.  An operation looks for both rows before it
 * writes one.  If another transaction is changing the second row nevertheless, an error undoes
 * the change of the first.
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

#include "names.h"
#include "store/table/table_int.h"

/* ----------
 * Shares
 * ----------
 */

void
share_insert(LockTables *tables, StoreOp *op, KindId kind, const char *owner, bool keep)
{
	Entry	   *share = &tables->entry[IN_SHARES];

	memset(share, 0, sizeof(Entry));
	share->kind = kind;
	entry_renew(share, owner, op->lease_ms, keep);
	(void) entry_put(tables, IN_SHARES, op);
}

void
shares_drop(LockTables *tables, StoreOp *op, KindId kind)
{
	shares_begin(tables, op);
	while (shares_next(tables, kind) != NULL && entry_delete(tables, IN_SHARES, op))
		 /* the next one */ ;
}

uint64
shares_hash(const char *owner)
{
	return hash_bytes_extended((const unsigned char *) owner, strlen(owner), 0);
}

/*
 * shares_digest --- see table_int.h
 */
void
shares_digest(LockTables *tables, const StoreOp *op, char *out, Size size)
{
	char		owner[LR_OWNER_MAX];
	const Entry *share;
	uint64		sum;
	int			n = 0;

	row_tell_owner(&tables->entry[IN_ROWS], owner);
	sum = shares_hash(owner);
	shares_begin(tables, op);
	for (; (share = shares_next(tables, KIND_READ)) != NULL; n++)
		sum += shares_hash(share->owner);
	if (n > 0)
		snprintf(out, size, "shares %016llx", (unsigned long long) sum);
	else
		out[0] = '\0';
}

/* ----------
 * The row that is shared
 * ----------
 */

static uint64
shared_number(const StoreOp *op)
{
	return lifetime_shared_number(op->name, op->name_len);
}

/*
 * make_shared --- make the key's row that of so many readers
 *
 * False: another transaction is changing the row; the outcome is set.
 */
static bool
make_shared(LockTables *tables, StoreOp *op, int readers, int64 lease_ms)
{
	Entry	   *row = &tables->entry[IN_ROWS];

	entry_renew(row, SHARED_OWNER, lease_ms, false);
	row->holds = readers;
	if (!entry_put(tables, IN_ROWS, op))
		return false;
	lifetime_forget(shared_number(op));
	return true;
}

/*
 * change_readers --- add to the number of readers, and lengthen the lease to that of a new one
 *
 * If the row belongs to the reading session's own write lock, only its lease is lengthened, as
 * in Redis.  False: another transaction is changing the row; the outcome is set.
 */
static bool
change_readers(LockTables *tables, StoreOp *op, int by)
{
	Entry	   *row = &tables->entry[IN_ROWS];
	bool		changed = by > 0 && entry_lengthen(row, op->lease_ms);

	if (entry_is_shared(row))
	{
		row->holds += by;
		changed = true;
	}
	return !changed || entry_put(tables, IN_ROWS, op);
}

bool
shares_keep(LockTables *tables, StoreOp *op)
{
	const Entry *share;
	int64		lease_ms = 0;
	int			readers = 0;

	shares_begin(tables, op);
	for (; (share = shares_next(tables, KIND_READ)) != NULL; readers++)
		lease_ms = Max(lease_ms, share->lease_ms);

	/* It counts for the longest lease from when it is read next, as after a restart. */
	if (readers > 0)
		(void) make_shared(tables, op, readers, lease_ms);
	return readers > 0;
}

/* ----------
 * Operations of the read lock
 * ----------
 */

/*
 * read_create --- take a read lock: beside other readers, under the session's own write lock,
 * or as the first
 */
void
read_create(LockTables *tables, StoreOp *op)
{
	const Entry *row = row_find(tables, op);
	char		owner[LR_OWNER_MAX];

	if (row == NULL)
		return;
	if (row->left_ms != 0 && !entry_is_shared(row) &&
		(op->beside == 0 || !row_is_of(row, op->beside)))
	{
		row_is_taken(row, op);
		return;
	}
	if (row->left_ms != 0)
	{
		if (!change_readers(tables, op, 1))
			return;
	}
	else
	{
		if (!make_shared(tables, op, 1, op->lease_ms))
			return;
		shares_drop(tables, op, KIND_READ);
		lifetime_remember(shared_number(op), op->lease_ms);
	}
	(void) lr_owner_text(op->owner, owner);
	share_insert(tables, op, KIND_READ, owner, false);
}

/*
 * find_both --- the row of the key, and this reader's share of it; NULL: the outcome is set
 *
 * If this server has no row of the key, a remaining share is deleted.  If it has one that
 * readers do not share, that belongs to the writer in the same session: no other owner can take
 * the key before the reader's lease has ended.
 */
static const Entry *
find_both(LockTables *tables, StoreOp *op)
{
	char		owner[LR_OWNER_MAX];
	const Entry *share;
	const Entry *row;

	(void) lr_owner_text(op->owner, owner);
	share = entry_find(tables, IN_SHARES, op, KIND_READ, owner);
	row = share != NULL ? row_find(tables, op) : NULL;
	if (row == NULL || (share->there && row->of == OF_US))
		return row;
	if (share->there && !entry_delete(tables, IN_SHARES, op))
		return NULL;
	op->outcome = STORE_GONE;
	if (!entry_is_shared(row) && row->left_ms != 0)
		row_tell_owner(row, op->holder);
	return NULL;
}

/*
 * read_renew --- lengthen the lease of the shared row, and that of the reader's share
 */
void
read_renew(LockTables *tables, StoreOp *op)
{
	const Entry *row = find_both(tables, op);

	if (row == NULL)
		return;
	op->watch_ms = row->left_ms;
	if (entry_extend(tables, IN_ROWS, op))
		(void) entry_extend(tables, IN_SHARES, op);
}

/*
 * read_release --- delete the share, and with the last one the row
 */
void
read_release(LockTables *tables, StoreOp *op)
{
	const Entry *row = find_both(tables, op);

	if (row == NULL)
		return;
	if (entry_is_shared(row) && row->holds == 1)
	{
		if (!entry_delete(tables, IN_ROWS, op))
			return;
		lifetime_forget(shared_number(op));
	}
	else if (!change_readers(tables, op, -1))
		return;
	(void) entry_delete(tables, IN_SHARES, op);
}
