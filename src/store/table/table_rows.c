/*-------------------------------------------------------------------------
 *
 * table_rows.c
 *	  What each operation does to the rows of the tables.
 *
 * An operation finds the entry of its key, checks whether it counts and who owns it, and
 * writes it without waiting for other transactions (entries.c).  The table at the end says
 * which function carries out each operation of each kind of lock.
 *
 * With synchronous_commit off a crash may undo the last commits.  That does not matter for
 * locks that end with the server.  But no fencing token may be given out twice, and a key that
 * is to stay locked has to: such commits are flushed.
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
 * Both tables are written in one transaction.  If another transaction is changing one of the
 * rows, an error undoes all of the operation.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/builtins.h"

#include "names.h"
#include "store/table/table_int.h"

/*
 * has_token --- is the row that of the token with the operation's id?
 */
static bool
has_token(const Entry *row, const StoreOp *op)
{
	char		digits[2 * STORE_ID_LEN];

	(void) hex_encode((const char *) op->id, STORE_ID_LEN, digits);
	return row->left_ms != 0 && row_is_token(row) &&
		memcmp(row->owner + strlen(TOKEN_OWNER), digits, sizeof(digits)) == 0;
}

/*
 * find_of --- the row of the key, if this owner or the operation's token has it; else NULL, and
 * the outcome is set
 */
static Entry *
find_of(LockTables *tables, StoreOp *op, uint64 owner)
{
	Entry	   *row = row_find(tables, op);
	bool		by_token = op->lock_kind == KIND_TOKEN;

	if (by_token ? has_token(row, op) : row_is_of(row, owner))
		return row;
	op->outcome = STORE_GONE;
	if (row->left_ms != 0 && !by_token)
		row_tell_owner(row, op->answer.holder);
	return NULL;
}

/* ----------
 * Counters
 * ----------
 */

/*
 * take_token --- take the key's next fencing token, above "floor", and as many more as the
 * operation reserves
 */
static void
take_token(LockTables *tables, StoreOp *op, int64 floor)
{
	Entry	   *counter = entry_find(tables, IN_COUNTERS, op, op->lock_kind, "");
	int64		token = Max(Max(counter->number, floor), 0);

	if (token++ >= STORE_TOKEN_MAX)
	{
		table_trouble_set(&tables->trouble, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "",
						  "The counter of fencing tokens is used up.");
		tables_fail(tables);
	}
	counter->number = store_last_token(token, op->amount);
	entry_put(tables, IN_COUNTERS, op);
	op->answer.fence = token;
}

/* ----------
 * Readers
 * ----------
 */

/*
 * make_shared --- make the key's row that of so many readers
 */
static void
make_shared(LockTables *tables, StoreOp *op, int readers, int64 lease_ms)
{
	Entry	   *row = &tables->entry[IN_ROWS];

	entry_renew(row, SHARED_OWNER, lease_ms, false);
	row->holds = readers;
	entry_put(tables, IN_ROWS, op);
}

/*
 * change_readers --- add to the number of readers, and lengthen the lease to that of a new one
 *
 * If the row belongs to the reading session's own write lock, only its lease is lengthened, as
 * in Redis.
 */
static void
change_readers(LockTables *tables, StoreOp *op, int by)
{
	Entry	   *row = &tables->entry[IN_ROWS];
	bool		changed = by > 0 && entry_lengthen(row, op->lease_ms);

	if (entry_is_shared(row))
		row->holds += by;
	else if (!changed)
		return;
	entry_put(tables, IN_ROWS, op);
}

/*
 * read_create --- take a read lock: beside other readers, under the session's own write lock,
 * or as the first
 */
static void
read_create(LockTables *tables, StoreOp *op)
{
	const Entry *row = row_find(tables, op);
	char		owner[LR_OWNER_MAX];

	if (row->left_ms == 0)
	{
		make_shared(tables, op, 1, op->lease_ms);
		shares_drop(tables, op, KIND_READ);
	}
	else if (entry_is_shared(row) ||
			 (op->args.beside != 0 && row_is_of(row, op->args.beside)))
		change_readers(tables, op, 1);
	else
	{
		row_is_taken(row, op);
		return;
	}
	(void) lr_owner_text(op->owner, owner);
	share_insert(tables, op, KIND_READ, owner, false);
}

/*
 * find_both --- the row of the key, and this reader's share of it; else NULL, and the outcome is
 * set
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
	row = row_find(tables, op);
	if (share->of == OF_US && row->of == OF_US)
		return row;
	if (share->there)
		entry_delete(tables, IN_SHARES, op);
	op->outcome = STORE_GONE;
	if (!entry_is_shared(row) && row->left_ms != 0)
		row_tell_owner(row, op->answer.holder);
	return NULL;
}

/*
 * read_renew --- lengthen the lease of the shared row, and that of the reader's share
 */
static void
read_renew(LockTables *tables, StoreOp *op)
{
	const Entry *row = find_both(tables, op);

	if (row == NULL)
		return;
	op->answer.ttl_ms = row->left_ms;
	entry_extend(tables, IN_ROWS, op);
	entry_extend(tables, IN_SHARES, op);
}

/*
 * read_release --- delete the share, and with the last one the row
 */
static void
read_release(LockTables *tables, StoreOp *op)
{
	const Entry *row = find_both(tables, op);

	if (row == NULL)
		return;
	if (entry_is_shared(row) && row->holds == 1)
		entry_delete(tables, IN_ROWS, op);
	else
		change_readers(tables, op, -1);
	entry_delete(tables, IN_SHARES, op);
}

/* ----------
 * Operations of locks that exclude everybody
 *
 * The row of a token lock has no instance: it counts until its lease ends, even if this server
 * ends before.
 * ----------
 */

/*
 * exclusive_create --- take the key for one owner, if it has no row that still counts
 *
 * A row that no longer counts is overwritten.  Any remaining shares are those of readers whose
 * row no longer counts.
 */
static void
exclusive_create(LockTables *tables, StoreOp *op)
{
	Entry	   *row = row_find(tables, op);
	bool		by_token = op->lock_kind == KIND_TOKEN;
	char		owner[LR_OWNER_MAX];

	if (row->left_ms != 0)
	{
		row_is_taken(row, op);
		return;
	}
	if (op->args.fenced)
		take_token(tables, op, 0);
	if (by_token)
		snprintf(owner, sizeof(owner), TOKEN_OWNER "%.*s", op->text_len, op->text);
	else
		(void) lr_owner_text(op->owner, owner);
	entry_renew(row, owner, op->lease_ms, by_token || op->keep_ms > 0);
	row->number = op->answer.fence;
	entry_put(tables, IN_ROWS, op);
	if (op->lock_kind == KIND_WRITE)
		shares_drop(tables, op, KIND_READ);
}

/*
 * exclusive_renew --- lengthen the lease, for the watchdog or the session; with a lease of 0 only
 * look whether the row is there
 *
 * With keep_ms the key is to stay locked even if this server crashes.
 */
static void
exclusive_renew(LockTables *tables, StoreOp *op)
{
	Entry	   *row = find_of(tables, op, op->owner);

	if (row == NULL)
		return;
	if (op->keep_ms > 0)
		entry_outlives(row);
	op->outcome = STORE_OK;
	if (entry_lengthen(row, op->lease_ms) || op->keep_ms > 0)
		entry_put(tables, IN_ROWS, op);
}

/*
 * keep_locked --- release the row, but keep the key locked for a time
 *
 * The owner is changed, so that a late renewal does not lengthen that time.
 */
static void
keep_locked(LockTables *tables, StoreOp *op, Entry *row)
{
	Size		len = strlen(row->owner);

	strlcpy(row->owner + len, KEPT_SUFFIX, sizeof(row->owner) - len);
	row->of = OF_NOBODY;
	row->lease_ms = op->keep_ms;
	row->until = entry_time_after(row, op->keep_ms);
	entry_put(tables, IN_ROWS, op);
}

/*
 * exclusive_release --- delete the row, or keep the key locked
 *
 * If the session of a writer also reads, the row becomes a reader's.
 */
static void
exclusive_release(LockTables *tables, StoreOp *op)
{
	Entry	   *row = find_of(tables, op, op->owner);
	Shares		read = {0};

	if (row == NULL)
		return;
	if (op->lock_kind == KIND_WRITE)
		read = shares_look(tables, op, KIND_READ);
	if (op->keep_ms > 0)
		keep_locked(tables, op, row);
	else if (read.n > 0)
		make_shared(tables, op, read.n, read.lease_ms);
	else
		entry_delete(tables, IN_ROWS, op);
}

static void
exclusive_mint(LockTables *tables, StoreOp *op)
{
	Entry	   *row = find_of(tables, op, op->owner);

	if (row == NULL)
		return;
	take_token(tables, op, op->args.floor);
	row->number = op->answer.fence;
	entry_put(tables, IN_ROWS, op);
}

/*
 * owners_digest --- a text that changes whenever the owners of the row and of the key's shares do;
 * not set if the row is not a token's and has no shares
 *
 * redis_force_unlock deletes the row only if the digest is still the same.
 */
static void
owners_digest(LockTables *tables, const StoreOp *op, const Entry *row, char *out, Size size)
{
	char		owner[LR_OWNER_MAX];
	Shares		read = {0};

	if (row_is_token(row))
		strlcpy(out, row->owner + strlen(TOKEN_OWNER), 2 * STORE_ID_LEN + 1);
	else if (row->of == OF_US && entry_may_look(tables, IN_SHARES))
		read = shares_look(tables, op, KIND_READ);
	row_tell_owner(row, owner);
	if (read.n > 0)
		snprintf(out, size, "shares %016llx",
				 (unsigned long long) (read.sum + shares_hash(owner)));
}

/*
 * any_inspect --- who has the key?  Describe its lock or its permits
 */
static void
any_inspect(LockTables *tables, StoreOp *op)
{
	const Entry *row = row_find(tables, op);
	StoreAnswer *answer = &op->answer;

	op->outcome = STORE_OK;
	if (row->left_ms == 0)
	{
		permits_inspect(tables, op);
		return;
	}
	answer->ttl_ms = row->left_ms;
	owners_digest(tables, op, row, answer->digest, sizeof(answer->digest));
	answer->value = row_is_token(row) ? STORE_VALUE_TOKEN : STORE_VALUE_LOCK;
	if (row_is_token(row))
		return;
	answer->count = row->holds;
	row_tell_owner(row, answer->holder);
}

/*
 * any_force --- release the key if those still have it whom the operation names
 */
static void
any_force(LockTables *tables, StoreOp *op)
{
	const Entry *row = &tables->entry[IN_ROWS];
	StoreOp		seen = *op;

	any_inspect(tables, &seen);
	op->outcome = STORE_GONE;
	if (seen.answer.value == STORE_VALUE_NONE ||
		!store_names_owner(op, store_owners(&seen.answer)))
		return;
	if (row->left_ms == 0)
	{
		shares_drop(tables, op, KIND_PERMIT);
		return;
	}
	entry_delete(tables, IN_ROWS, op);
	if (tables->is_open[IN_SHARES])
		shares_drop(tables, op, KIND_READ);
}

/* ----------
 * Conditions
 * ----------
 */

/*
 * await_row --- what an operation does to the row of the lock before waits change, which are in
 * memory: see table_conditions.c
 *
 * To begin to wait releases the lock.  That and to notify is refused if the session does not have
 * it; all else needs no row.
 */
static void
await_row(LockTables *tables, StoreOp *op)
{
	uint64		owner = op->kind == STORE_NOTIFY ? op->owner : op->args.gives_back;

	op->outcome = STORE_OK;
	if (owner != 0 && find_of(tables, op, owner) != NULL && op->kind == STORE_CREATE)
		entry_delete(tables, IN_ROWS, op);
}

/* ----------
 * The operations of each kind of lock
 * ----------
 */

static const RowOperation exclusive_operations[STORE_CALLS] = {
	[STORE_CREATE] = exclusive_create,
	[STORE_RELEASE] = exclusive_release,
	[STORE_RENEW] = exclusive_renew,
	[STORE_MINT] = exclusive_mint
};

static const RowOperation *const lock_operations[] = {
	[KIND_REENTRANT] = exclusive_operations,
	[KIND_READ] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = read_create,
		[STORE_RELEASE] = read_release,
		[STORE_RENEW] = read_renew
	},
	[KIND_WRITE] = exclusive_operations,
	[KIND_FAIR] = exclusive_operations,
	[KIND_SEMAPHORE] = semaphore_operations,
	[KIND_LATCH] = latch_operations,
	[KIND_TOKEN] = exclusive_operations,
	[KIND_PERMIT] = permit_operations,
	[KIND_CONDITION] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = await_row,
		[STORE_RELEASE] = await_row,
		[STORE_RENEW] = await_row,
		[STORE_NOTIFY] = await_row
	}
};

StaticAssertDecl(lengthof(lock_operations) == KIND_COUNT,
				 "each kind of lock says what it does to the rows");

/*
 * rows_execute --- see table_int.h
 *
 * If the transaction fails, the operation is carried out again in another one.
 */
void
rows_execute(LockTables *tables, StoreOp *op)
{
	RowOperation operation;
	const LockKind *kind;

	op->outcome = STORE_PENDING;
	memset(&op->answer, 0, sizeof(StoreAnswer));
	if (op->kind >= STORE_CALLS)
	{
		/* It asks only whether the store answers. */
		op->outcome = STORE_OK;
		if (op->kind == STORE_TIME)
			op->answer.store_ms = lr_now() / LR_US_PER_MS;
		return;
	}
	operation = op->kind == STORE_INSPECT ? any_inspect : op->kind == STORE_FORCE ? any_force :
		lock_operations[op->lock_kind][op->kind == STORE_SET ? STORE_RENEW : op->kind];
	kind = lr_kind(op->lock_kind);
	op->outcome = STORE_REFUSED;
	if (operation == NULL)
		return;
	if (((op->args.fenced || op->kind == STORE_MINT) && !tables_have(tables, IN_COUNTERS)) ||
		(kind->shared && !tables_have(tables, IN_SHARES)) ||
		(kind->calls[STORE_VALUE].keys[0] != NULL && !tables_have(tables, IN_VALUES)))
		return;
	operation(tables, op);
}
