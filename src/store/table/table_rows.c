/*-------------------------------------------------------------------------
 *
 * table_rows.c
 *	  What each operation does to the rows of the tables.
 *
 * An operation finds the entry of its key, sees whether it counts (lifetime.c) and
 * whose it is, and writes it without waiting for anybody's transaction
 * (entries.c).  What a kind of lock means by an operation is in one table
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

#include "utils/builtins.h"

#include "instance.h"
#include "store/table/table_int.h"

typedef void (*RowOperation) (LockTables *tables, StoreOp *op);

/*
 * find_of --- the row of a lock that the owner is believed to have; NULL: the outcome is set
 */
static Entry *
find_of(LockTables *tables, StoreOp *op, uint64 owner)
{
	Entry	   *row = row_find(tables, op);

	if (row == NULL || row_is_of(row, owner))
		return row;
	op->outcome = STORE_GONE;
	if (row->left_ms != 0)
		row_tell_owner(row, op->holder);
	return NULL;
}

/* ----------
 * Counters
 * ----------
 */

/*
 * take_token --- count the key's counter up, to above "floor", by one token and as many
 * as the operation wants more; else the outcome is set
 *
 * A token that was counted, and that nobody gets, is no harm: nothing has to be undone.
 */
static bool
take_token(LockTables *tables, StoreOp *op, int64 floor)
{
	Entry	   *counter = entry_find(tables, IN_COUNTERS, op, op->lock_kind, "");
	int64		token;

	if (counter == NULL)
		return false;
	token = Max(Max(counter->number, floor), 0);
	if (token++ >= STORE_TOKEN_MAX)
	{
		op->outcome = STORE_REFUSED;
		table_trouble_set(&tables->trouble, TABLE_ERROR,
						  "The counter of fencing tokens is used up.");
		tables->trouble.sqlstate = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
		return false;
	}
	counter->number = store_last_token(token, op->amount);
	if (!entry_put(tables, IN_COUNTERS, op))
		return false;
	tables->wrote = false;
	op->fence = token;
	return true;
}

/* ----------
 * Operations of locks that exclude everybody
 * ----------
 */

/*
 * create_row --- if there is no row of the key that still counts
 *
 * One that does not is overwritten, and all of it.
 */
static void
create_row(LockTables *tables, StoreOp *op, const char *owner, bool keep)
{
	Entry	   *row = row_find(tables, op);

	if (row == NULL)
		return;
	if (row->left_ms != 0)
	{
		row_is_taken(row, op);
		return;
	}
	if (op->fenced && !take_token(tables, op, 0))
		return;
	entry_renew(row, owner, op->lease_ms, keep);
	row->number = op->fence;
	(void) entry_put(tables, IN_ROWS, op);
}

/*
 * exclusive_create --- shares that are left belong to readers of before
 */
static void
exclusive_create(LockTables *tables, StoreOp *op)
{
	char		owner[LR_OWNER_MAX];

	(void) lr_owner_text(op->owner, owner);
	create_row(tables, op, owner, op->keep_ms > 0);
	if (op->outcome != STORE_OK)
		return;
	lifetime_remember(op->owner, op->lease_ms);
	if (op->lock_kind == KIND_WRITE)
		shares_drop(tables, op);
}

/*
 * exclusive_renew --- also by its session, which may want it kept even if this server
 * crashes
 */
static void
exclusive_renew(LockTables *tables, StoreOp *op)
{
	Entry	   *row = find_of(tables, op, op->owner);
	bool		changed;

	if (row == NULL)
		return;
	changed = entry_lengthen(row, op->lease_ms);
	if (op->keep_ms > 0)
		row->of = OF_NOBODY;
	op->outcome = STORE_OK;
	if (changed || op->keep_ms > 0)
		(void) entry_put(tables, IN_ROWS, op);
}

/*
 * keep_locked --- released, but the key stays locked for a time
 *
 * Under another name: a renewal that is late must not lengthen it.
 */
static void
keep_locked(LockTables *tables, StoreOp *op, Entry *row)
{
	Size		len = strlen(row->owner);

	strlcpy(row->owner + len, KEPT_SUFFIX, sizeof(row->owner) - len);
	row->of = OF_NOBODY;
	row->lease_ms = op->keep_ms;
	row->until = entry_time_after(op->keep_ms);
	(void) entry_put(tables, IN_ROWS, op);
}

/*
 * forget_released --- whatever is not there any more is forgotten too, but not what is
 * blocked: it still counts
 */
static void
forget_released(const StoreOp *op, uint64 owner)
{
	if (op->outcome == STORE_OK || op->outcome == STORE_GONE)
		lifetime_forget(owner);
}

/*
 * exclusive_release --- delete the row, or have it kept; that of a writer stays if its
 * session reads too
 */
static void
exclusive_release(LockTables *tables, StoreOp *op)
{
	Entry	   *row = find_of(tables, op, op->owner);

	if (row != NULL && op->keep_ms > 0)
		keep_locked(tables, op, row);
	else if (row != NULL && !(op->lock_kind == KIND_WRITE && shares_keep(tables, op)))
		(void) entry_delete(tables, IN_ROWS, op);
	forget_released(op, op->owner);
}

static void
exclusive_mint(LockTables *tables, StoreOp *op)
{
	Entry	   *row = find_of(tables, op, op->owner);

	if (row == NULL || !take_token(tables, op, op->floor))
		return;
	row->number = op->fence;
	(void) entry_put(tables, IN_ROWS, op);
}

/*
 * told_digest --- of all who have the row, if they are several or may be, or of its token;
 * else empty
 *
 * redis_force_unlock takes away what has the same one then.  False: somebody has locked
 * the table that says who they are, and the outcome is set.
 */
static bool
told_digest(LockTables *tables, StoreOp *op, const Entry *row, char *out, Size size)
{
	out[0] = '\0';
	if (row_is_token(row))
		strlcpy(out, row->owner + strlen(TOKEN_OWNER), 2 * STORE_ID_LEN + 1);
	else if (row->of == OF_US && entry_may_look(tables, IN_SHARES, op))
		shares_digest(tables, op, out, size);
	return op->outcome != STORE_BLOCKED;
}

/*
 * any_force --- delete the row if its owner is still the one that was told
 */
static void
any_force(LockTables *tables, StoreOp *op)
{
	char		owner[LR_OWNER_MAX];
	const Entry *row = row_find(tables, op);

	if (row == NULL)
		return;
	op->outcome = STORE_GONE;
	if (!row->there)
	{
		permits_force(tables, op);
		return;
	}
	if (!told_digest(tables, op, row, owner, sizeof(owner)))
		return;
	if (owner[0] == '\0')
		row_tell_owner(row, owner);
	if (strlen(owner) == op->owner_text_len &&
		memcmp(owner, op->owner_text, op->owner_text_len) == 0 &&
		entry_delete(tables, IN_ROWS, op) && tables->is_open[IN_SHARES])
		shares_drop(tables, op);
}

/*
 * any_inspect --- what there is; a row that is about to be inserted is not there yet
 */
static void
any_inspect(LockTables *tables, StoreOp *op)
{
	const Entry *row = row_find(tables, op);

	tables->trouble.fault = TABLE_FAULT_NONE;
	op->outcome = STORE_OK;
	op->value = STORE_VALUE_NONE;
	if (row == NULL || row->left_ms == 0)
	{
		permits_inspect(tables, op);
		return;
	}
	op->ttl_ms = row->left_ms;
	if (!told_digest(tables, op, row, op->digest, sizeof(op->digest)))
		return;
	op->value = row_is_token(row) ? STORE_VALUE_TOKEN : STORE_VALUE_LOCK;
	if (row_is_token(row))
		return;
	op->hold_count = row->holds;
	row_tell_owner(row, op->holder);
}

/* ----------
 * Operations of the token lock
 *
 * Its row belongs to no instance: it counts until its lease ends, whatever becomes of
 * this server.
 * ----------
 */

static void
token_create(LockTables *tables, StoreOp *op)
{
	char		owner[LR_OWNER_MAX];

	snprintf(owner, sizeof(owner), TOKEN_OWNER "%.*s", op->token_len, op->token);
	create_row(tables, op, owner, true);
}

/*
 * token_find --- the row of the key, if the token has it; else the outcome is set
 */
static Entry *
token_find(LockTables *tables, StoreOp *op)
{
	char		digits[2 * STORE_ID_LEN];
	Entry	   *row = row_find(tables, op);

	if (row == NULL)
		return NULL;
	(void) hex_encode((const char *) op->id, STORE_ID_LEN, digits);
	if (row->left_ms != 0 && row_is_token(row) &&
		memcmp(row->owner + strlen(TOKEN_OWNER), digits, sizeof(digits)) == 0)
		return row;
	op->outcome = STORE_GONE;
	return NULL;
}

/*
 * token_set --- lengthen its lease, or only look
 */
static void
token_set(LockTables *tables, StoreOp *op)
{
	Entry	   *row = token_find(tables, op);

	if (row == NULL)
		return;
	op->outcome = STORE_OK;
	if (entry_lengthen(row, op->lease_ms))
		(void) entry_put(tables, IN_ROWS, op);
}

static void
token_release(LockTables *tables, StoreOp *op)
{
	if (token_find(tables, op) != NULL)
		(void) entry_delete(tables, IN_ROWS, op);
}

/* ----------
 * Conditions: the row is that of the lock, who waits is in memory, see rows_committed()
 * ----------
 */

/*
 * await_create --- the first one gives the lock back, and waits if it was there
 */
static void
await_create(LockTables *tables, StoreOp *op)
{
	op->outcome = STORE_OK;
	if (op->gives_back == 0)
		return;
	if (find_of(tables, op, op->gives_back) != NULL)
		(void) entry_delete(tables, IN_ROWS, op);
	forget_released(op, op->gives_back);
}

static void
await_notify(LockTables *tables, StoreOp *op)
{
	if (find_of(tables, op, op->owner) != NULL)
		op->outcome = STORE_OK;
}

/*
 * await_nothing --- of the row: it is all in memory
 */
static void
await_nothing(LockTables *tables, StoreOp *op)
{
	op->outcome = STORE_OK;
}

/* ----------
 * What each kind of lock means by an operation
 * ----------
 */

static const RowOperation exclusive_operations[STORE_CALLS] = {
	[STORE_CREATE] = exclusive_create,
	[STORE_SET] = exclusive_renew,
	[STORE_RELEASE] = exclusive_release,
	[STORE_RENEW] = exclusive_renew,
	[STORE_MINT] = exclusive_mint,
	[STORE_FORCE] = any_force,
	[STORE_INSPECT] = any_inspect
};

static const RowOperation *const lock_operations[] = {
	[KIND_REENTRANT] = exclusive_operations,
	[KIND_READ] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = read_create,
		[STORE_SET] = read_renew,
		[STORE_RELEASE] = read_release,
		[STORE_RENEW] = read_renew,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect
	},
	[KIND_WRITE] = exclusive_operations,
	[KIND_FAIR] = exclusive_operations,
	[KIND_SEMAPHORE] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = semaphore_create,
		[STORE_RELEASE] = semaphore_release,
		[STORE_TALLY] = semaphore_count,
		[STORE_DEFINE] = count_define,
		[STORE_VALUE] = count_value
	},
	[KIND_LATCH] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = latch_create,
		[STORE_TALLY] = latch_count,
		[STORE_DEFINE] = count_define,
		[STORE_VALUE] = count_value
	},
	[KIND_TOKEN] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = token_create,
		[STORE_SET] = token_set,
		[STORE_RELEASE] = token_release
	},
	[KIND_PERMIT] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = permit_create,
		[STORE_SET] = permit_renew,
		[STORE_RELEASE] = permit_release,
		[STORE_RENEW] = permit_renew,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect,
		[STORE_DEFINE] = permit_define,
		[STORE_VALUE] = permit_value
	},
	[KIND_CONDITION] = (const RowOperation[STORE_CALLS]) {
		[STORE_CREATE] = await_create,
		[STORE_RELEASE] = await_nothing,
		[STORE_RENEW] = await_nothing,
		[STORE_NOTIFY] = await_notify
	}
};

StaticAssertDecl(lengthof(lock_operations) == KIND_COUNT,
				 "each kind of lock says what it does to the rows");

/*
 * rows_execute --- see table_int.h
 *
 * It may be carried out more than once: again when the transaction of the first time has
 * failed.
 */
void
rows_execute(LockTables *tables, StoreOp *op)
{
	RowOperation operation;
	const LockKind *kind;

	memset(STORE_RESULTS(op), 0, STORE_RESULTS_SIZE);
	tables->trouble.fault = TABLE_FAULT_NONE;
	tables->wrote = false;
	if (op->kind >= STORE_CALLS)
	{
		/* To have got here is the answer. */
		op->outcome = STORE_OK;
		if (op->kind == STORE_TIME)
			op->store_ms = lr_now() / LR_US_PER_MS;
		return;
	}
	operation = lock_operations[op->lock_kind][op->kind];
	kind = lr_kind(op->lock_kind);
	op->outcome = STORE_REFUSED;
	if (operation == NULL)
		return;
	if ((kind->shared && !tables_have(tables, IN_SHARES)) ||
		(kind->calls[STORE_VALUE].keys[0] != NULL && !tables_have(tables, IN_VALUES)))
		entry_refuse(op, &tables->trouble);
	else
		operation(tables, op);
}

/*
 * rows_committed --- see table_int.h
 */
void
rows_committed(StoreOp *op)
{
	if (op->lock_kind == KIND_CONDITION && op->kind < STORE_CALLS &&
		op->outcome == STORE_OK)
		condition_carry_out(op);
}

/*
 * rows_sweep --- see table_int.h
 */
void
rows_sweep(LockTables *tables)
{
	entry_sweep(tables, IN_ROWS);
	for (TableId in = IN_SHARES; in < IN_COUNT; in++)
		if (tables_have(tables, in))
			entry_sweep(tables, in);
	lifetime_forget_ended();
}
