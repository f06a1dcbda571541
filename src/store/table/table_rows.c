/*-------------------------------------------------------------------------
 *
 * table_rows.c
 *	  What each operation does to the rows of the tables.
 *
 * An operation finds the row of its key, sees whether it counts (lifetime.c) and
 * whose it is, and writes it without waiting for anybody's transaction
 * (keyed_table.c).  What a kind of lock means by an operation is in one table
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
#include "utils/timestamp.h"

#include "instance.h"
#include "store/table/table_int.h"

typedef void (*RowOperation) (LockTables *tables, StoreOp *op,
							  TableTrouble *trouble);

/* ----------
 * Counters
 * ----------
 */

/*
 * take_token --- count the key's counter up, to above "floor", by one token and as many
 * as the operation wants more; else the outcome is set
 */
static bool
take_token(LockTables *tables, StoreOp *op, int64 floor, TableTrouble *trouble)
{
	Datum		values[KEYED_MAX_COLUMNS] = {[COL_COUNTER_KEY - 1] = row_key(op)};
	bool		nulls[KEYED_MAX_COLUMNS] = {false};
	KeyedFound	found = keyed_find(&tables->counters, row_key(op));
	bool		isnull;
	int64		token = 0;

	if (found == KEYED_BLOCKED)
		return rows_blocked(op, trouble);
	if (found == KEYED_ROW)
		token = DatumGetInt64(keyed_column(&tables->counters, COL_TOKEN, &isnull));
	token = Max(Max(token, floor), 0);
	if (token++ >= STORE_TOKEN_MAX)
	{
		op->outcome = STORE_REFUSED;
		table_trouble_set(trouble, TABLE_ERROR,
						  "The counter of fencing tokens is used up.");
		trouble->sqlstate = ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
		return false;
	}
	values[COL_TOKEN - 1] = Int64GetDatum(store_last_token(token, op->amount));
	if (!row_put(&tables->counters, found, COUNTER_COLUMNS, values, nulls))
		return rows_blocked(op, trouble);
	op->fence = token;
	tables->must_flush = true;
	return true;
}

/* ----------
 * Operations of the reentrant lock
 * ----------
 */

/*
 * create_row --- if there is no row of the key that still counts
 *
 * One that does not is overwritten, and all of it.
 */
static void
create_row(LockTables *tables, StoreOp *op, Datum owner, bool keep,
		   TableTrouble *trouble)
{
	KeyedFound	found = sound_row(tables, row_key(op));
	int64		left_ms = found == KEYED_ROW ? lifetime_left_ms(tables->rows.row) : 0;

	if (found == KEYED_BLOCKED)
	{
		rows_blocked(op, trouble);
		return;
	}
	if (left_ms != 0)
	{
		row_is_taken(tables, op, left_ms);
		return;
	}
	if (op->fenced && !take_token(tables, op, 0, trouble))
		return;

	if (!row_make(tables, op, found, owner, 1, op->lease_ms, keep))
	{
		rows_blocked(op, trouble);
		return;
	}
	if (keep)
		tables->must_flush = true;
	op->outcome = STORE_OK;
}

static void
reentrant_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	create_row(tables, op, row_owner(op->owner, ""), op->keep_ms > 0, trouble);
	if (op->outcome == STORE_OK)
		lifetime_remember(op->owner, op->lease_ms);
}

/*
 * reentrant_renew --- also by its session, which may want it kept even if this server
 * crashes
 */
static void
reentrant_renew(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!row_find_own(tables, op, trouble))
		return;
	row_change_lease(tables, op, &change);
	if (op->keep_ms > 0)
		row_change_to_no_instance(tables, &change);
	row_write_change(tables, op, &change, trouble);
}

/*
 * keep_locked --- released, but the key stays locked for a time
 *
 * Under another name: a renewal that is late must not lengthen it.
 */
static void
keep_locked(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	row_change_column(&change, COL_OWNER, row_owner(op->owner, KEPT_SUFFIX), false);
	row_change_column(&change, COL_LEASE, row_lease(op->keep_ms), false);
	row_change_column(&change, COL_EXPIRES_AT, row_time_after(op->keep_ms), false);
	row_change_to_no_instance(tables, &change);
	row_write_change(tables, op, &change, trouble);
}

/*
 * reentrant_release --- delete the row, or have it kept
 *
 * Whatever is not there any more is forgotten too, but not what is blocked: it
 * still counts.
 */
static void
reentrant_release(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (row_find_own(tables, op, trouble))
	{
		if (op->keep_ms > 0)
			keep_locked(tables, op, trouble);
		else
			row_delete(tables, op, trouble);
	}
	if (op->outcome == STORE_OK || op->outcome == STORE_GONE)
		lifetime_forget(op->owner);
}

static void
reentrant_mint(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!row_find_own(tables, op, trouble) ||
		!take_token(tables, op, op->floor, trouble))
		return;
	row_change_column(&change, COL_FENCE, Int64GetDatum(op->fence), false);
	row_write_change(tables, op, &change, trouble);
}

/*
 * told_digest --- of all who have the row that was found, if they are several or may be,
 * or of its token; else empty
 *
 * redis_force_unlock takes away what has the same one then.  False: somebody has locked
 * the table that says who they are, and the outcome is set.
 */
static bool
told_digest(LockTables *tables, StoreOp *op, char *out, Size size, TableTrouble *trouble)
{
	TableTrouble found;

	out[0] = '\0';
	if (row_is_token(tables))
		row_tell_token(tables, out);
	else if (!row_is_own(tables))
		return true;
	else if (tables_open_shares(tables, &found))
		shares_digest(tables, op, out, size);
	else if (found.fault == TABLE_BLOCKED)
	{
		*trouble = found;
		rows_refuse(op, trouble);
		return false;
	}
	return true;
}

/*
 * any_force --- delete the row if its owner is still the one that was told
 */
static void
any_force(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	char		owner[LR_OWNER_MAX];

	op->outcome = STORE_GONE;
	switch (sound_row(tables, row_key(op)))
	{
		case KEYED_NOTHING:
			permits_force(tables, op, trouble);
			break;
		case KEYED_BLOCKED:
			rows_blocked(op, trouble);
			break;
		case KEYED_ROW:
			if (!told_digest(tables, op, owner, sizeof(owner), trouble))
				break;
			if (owner[0] == '\0')
				row_tell_owner(tables, owner);
			if (strlen(owner) != op->owner_text_len ||
				memcmp(owner, op->owner_text, op->owner_text_len) != 0)
				break;
			row_delete(tables, op, trouble);
			if (op->outcome == STORE_OK && tables->has_shares)
				shares_drop(tables, op);
			break;
	}
}

/*
 * any_inspect --- what there is; a row that is about to be inserted is not there yet
 */
static void
any_inspect(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	op->outcome = STORE_OK;
	op->value = STORE_VALUE_NONE;
	if (sound_row(tables, row_key(op)) == KEYED_ROW)
		op->ttl_ms = lifetime_left_ms(tables->rows.row);
	if (op->ttl_ms == 0)
	{
		permits_inspect(tables, op, trouble);
		return;
	}
	if (!told_digest(tables, op, op->digest, sizeof(op->digest), trouble))
		return;
	if (row_is_token(tables))
	{
		op->value = STORE_VALUE_TOKEN;
		return;
	}
	op->value = STORE_VALUE_LOCK;
	op->hold_count = row_hold_count(tables);
	row_tell_owner(tables, op->holder);
}

/* ----------
 * Operations of the write lock
 * ----------
 */

/*
 * write_create --- as any lock that excludes everybody; shares that are left belong to
 * readers of before
 */
static void
write_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	reentrant_create(tables, op, trouble);
	if (op->outcome == STORE_OK)
		shares_drop(tables, op);
}

/*
 * write_release --- the row stays if its session reads too
 */
static void
write_release(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (row_find_own(tables, op, trouble) && !shares_keep(tables, op, trouble))
		row_delete(tables, op, trouble);
	if (op->outcome == STORE_OK || op->outcome == STORE_GONE)
		lifetime_forget(op->owner);
}

/* ----------
 * Operations of the token lock
 *
 * Its row belongs to no instance: it counts until its lease ends, whatever becomes of
 * this server.
 * ----------
 */

static void
token_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	char		owner[LR_OWNER_MAX];

	snprintf(owner, sizeof(owner), TOKEN_OWNER "%.*s", op->token_len, op->token);
	create_row(tables, op, CStringGetTextDatum(owner), true, trouble);
}

/*
 * token_find --- the row of the key, if the token has it; else the outcome is set
 */
static bool
token_find(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	KeyedFound	found = sound_row(tables, row_key(op));

	if (found == KEYED_BLOCKED)
		return rows_blocked(op, trouble);
	op->outcome = STORE_GONE;
	return found == KEYED_ROW && row_is_of_token(tables, op->id) &&
		lifetime_left_ms(tables->rows.row) != 0;
}

/*
 * token_set --- lengthen its lease, or only look
 */
static void
token_set(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	RowChange	change = {0};

	if (!token_find(tables, op, trouble))
		return;
	if (op->lease_ms > 0)
		row_change_end(tables, op, &change);
	if (change.n > 0)
		tables->must_flush = true;
	row_write_change(tables, op, &change, trouble);
}

static void
token_release(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (token_find(tables, op, trouble))
		row_delete(tables, op, trouble);
}

/* ----------
 * Conditions: the row is that of the lock, who waits is in memory, see rows_committed()
 * ----------
 */

/*
 * await_create --- the first one gives the lock back, and waits if it was there
 */
static void
await_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	op->outcome = STORE_OK;
	if (op->gives_back == 0)
		return;
	if (row_find_of(tables, op, op->gives_back, trouble))
		row_delete(tables, op, trouble);
	if (op->outcome == STORE_OK || op->outcome == STORE_GONE)
		lifetime_forget(op->gives_back);
}

static void
await_notify(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (row_find_own(tables, op, trouble))
		op->outcome = STORE_OK;
}

/*
 * await_nothing --- of the row: it is all in memory
 */
static void
await_nothing(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	op->outcome = STORE_OK;
}

/* ----------
 * What each kind of lock means by an operation
 * ----------
 */

static const RowOperation lock_operations[][STORE_CALLS] = {
	[KIND_REENTRANT] = {
		[STORE_CREATE] = reentrant_create,
		[STORE_SET] = reentrant_renew,
		[STORE_RELEASE] = reentrant_release,
		[STORE_RENEW] = reentrant_renew,
		[STORE_MINT] = reentrant_mint,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect
	},
	[KIND_READ] = {
		[STORE_CREATE] = read_create,
		[STORE_SET] = read_renew,
		[STORE_RELEASE] = read_release,
		[STORE_RENEW] = read_renew,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect
	},
	[KIND_WRITE] = {
		[STORE_CREATE] = write_create,
		[STORE_SET] = reentrant_renew,
		[STORE_RELEASE] = write_release,
		[STORE_RENEW] = reentrant_renew,
		[STORE_MINT] = reentrant_mint,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect
	},

	[KIND_FAIR] = {
		[STORE_CREATE] = reentrant_create,
		[STORE_SET] = reentrant_renew,
		[STORE_RELEASE] = reentrant_release,
		[STORE_RENEW] = reentrant_renew,
		[STORE_MINT] = reentrant_mint,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect
	},
	[KIND_SEMAPHORE] = {
		[STORE_CREATE] = semaphore_create,
		[STORE_RELEASE] = semaphore_release,
		[STORE_TALLY] = semaphore_count,
		[STORE_DEFINE] = semaphore_define,
		[STORE_VALUE] = count_value
	},
	[KIND_LATCH] = {
		[STORE_CREATE] = latch_create,
		[STORE_TALLY] = latch_count,
		[STORE_DEFINE] = latch_define,
		[STORE_VALUE] = count_value
	},

	[KIND_TOKEN] = {
		[STORE_CREATE] = token_create,
		[STORE_SET] = token_set,
		[STORE_RELEASE] = token_release
	},
	[KIND_PERMIT] = {
		[STORE_CREATE] = permit_create,
		[STORE_SET] = permit_renew,
		[STORE_RELEASE] = permit_release,
		[STORE_RENEW] = permit_renew,
		[STORE_FORCE] = any_force,
		[STORE_INSPECT] = any_inspect,
		[STORE_DEFINE] = permit_define,
		[STORE_VALUE] = permit_value
	},

	[KIND_CONDITION] = {
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
 */
void
rows_execute(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	memset(STORE_RESULTS(op), 0, STORE_RESULTS_SIZE);
	if (op->kind < STORE_CALLS)
	{
		RowOperation operation = lock_operations[op->lock_kind][op->kind];
		const LockKind *kind = lr_kind(op->lock_kind);
		bool		has_value = kind->calls[STORE_VALUE].keys[0] != NULL;

		op->outcome = STORE_REFUSED;
		if (operation == NULL)
			return;
		if ((kind->shared && !tables_open_shares(tables, trouble)) ||
			(has_value && !tables_open_values(tables, trouble)))
			rows_refuse(op, trouble);
		else
			operation(tables, op, trouble);
		return;
	}

	/* To have got here is the answer. */
	op->outcome = STORE_OK;
	if (op->kind == STORE_TIME)
		op->store_ms = lr_now() / LR_US_PER_MS;
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

static bool
row_has_ended(TupleTableSlot *row)
{
	return lifetime_left_ms(row) == 0;
}

/*
 * rows_sweep --- see table_int.h
 */
void
rows_sweep(LockTables *tables)
{
	TableTrouble trouble;

	sound_sweep(&tables->rows, &sound_rows, row_has_ended);
	if (tables_open_shares(tables, &trouble))
		shares_sweep(tables);
	if (tables_open_values(tables, &trouble))
		values_sweep(tables);
	lifetime_forget_ended();
}
