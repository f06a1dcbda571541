/*-------------------------------------------------------------------------
 *
 * table_int.h
 *	  The table worker's own: the tables, their rows, and what operations do to them.
 *
 * For its files alone, inside a transaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_INT_H
#define LR_TABLE_INT_H

#include "lockredis.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "utils/snapshot.h"

#include "store/table/requests.h"

/* ----------
 * keyed_table.c: A table with a unique key of text columns, read and written without waiting
 * for anybody's transaction.
 *
 * The table worker serves all sessions, so it must not stand in a queue
 * because somebody inserted the row of one key and went to lunch.  SQL has no
 * statement that inserts, or else says at once that another transaction is
 * about to; the table access functions have all that is needed.
 *
 * Used inside a transaction, with an active snapshot.  Rows are seen as they
 * are at this moment, not as of a snapshot.
 * ----------
 */

#define KEYED_MAX_COLUMNS	16

/* Columns of a key: the first ones of the table. */
#define KEYED_MAX_KEYS		3

typedef struct KeyedTable
{
	Relation	rel;
	ResultRelInfo *indexes;
	EState	   *estate;
	int			nkeys;
	IndexScanDesc scan;			/* of the key's index, with: */
	IndexScanDesc group_scan;	/* by the first of several columns */
	SnapshotData dirty;
	Oid			collation[KEYED_MAX_KEYS];
	TupleTableSlot *row;		/* what was found */
	TupleTableSlot *changed;	/* what is to be written */
} KeyedTable;

typedef enum KeyedFound
{
	KEYED_NOTHING,
	KEYED_ROW,
	KEYED_BLOCKED				/* somebody's open transaction inserts it */
} KeyedFound;

/*
 * The relation is open and locked; its first columns are the key.  False: it has
 * no unique index on just these.
 */
extern bool keyed_begin(KeyedTable *table, Relation rel, int nkeys);
extern void keyed_end(KeyedTable *table);

extern KeyedFound keyed_find(KeyedTable *table, Datum key);

/* The same by all columns of a key that has several. */
extern KeyedFound keyed_find_exact(KeyedTable *table, const Datum *keys);

/*
 * One after the other all rows with that first column; those that somebody is just
 * inserting are passed over.  What is found may be deleted.
 */
extern void keyed_begin_group(KeyedTable *table, Datum key);
extern bool keyed_next_of_group(KeyedTable *table);

/* A column of the row that was found; from 1. */
extern Datum keyed_column(KeyedTable *table, int column, bool *isnull);

/* Has a row that text in that column, which is not null? */
static inline bool
keyed_is_text(TupleTableSlot *row, int column, const char *expected)
{
	bool		isnull;
	text	   *found = DatumGetTextPP(slot_getattr(row, column, &isnull));
	Size		len = strlen(expected);

	return VARSIZE_ANY_EXHDR(found) == len && memcmp(VARDATA_ANY(found), expected, len) == 0;
}

/* Raises if somebody inserts the same key in this very moment. */
extern void keyed_insert(KeyedTable *table, const Datum *values,
						 const bool *nulls);

/*
 * Change or delete the row that was found.  False: somebody's transaction is
 * at it, or has just changed it.
 */
extern bool keyed_update(KeyedTable *table, int ncolumns, const int *columns,
						 const Datum *values, const bool *nulls);
extern bool keyed_delete(KeyedTable *table);

/* ----------
 * tables.c: The tables of table mode: finding them, checking them, opening them.
 *
 * redis_lock_rows has a row for each key that somebody has, redis_lock_shares one
 * for each of several who have a key together, redis_lock_counters the last fencing
 * token of each key, and redis_lock_values the number of permits and the like.  They are
 * made by the script of the extension, but they belong to somebody who may change them,
 * so their form is checked whenever they are opened.
 * ----------
 */

/* Columns of redis_lock_rows. */
enum RowColumn
{
	COL_KEY = 1, COL_OWNER, COL_HOLD_COUNT, COL_FENCE, COL_LEASE,
	COL_ACQUIRED_AT, COL_EXPIRES_AT, COL_INSTANCE, COL_COMMENT
};

#define ROW_COLUMNS			COL_COMMENT

/* Columns of redis_lock_counters. */
enum CounterColumn
{
	COL_COUNTER_KEY = 1, COL_TOKEN
};

#define COUNTER_COLUMNS		COL_TOKEN

/* Columns of redis_lock_shares. */
enum ShareColumn
{
	COL_SHARE_KEY = 1, COL_SHARE_KIND, COL_SHARE_OWNER, COL_SHARE_LEASE,
	COL_SHARE_ACQUIRED_AT, COL_SHARE_EXPIRES_AT, COL_SHARE_INSTANCE
};

#define SHARE_COLUMNS		COL_SHARE_INSTANCE
#define SHARE_KEYS			COL_SHARE_OWNER

/* Columns of redis_lock_values. */
enum ValueColumn
{
	COL_VALUE_KEY = 1, COL_VALUE_KIND, COL_VALUE, COL_VALUE_EXPIRES_AT
};

#define VALUE_COLUMNS		COL_VALUE_EXPIRES_AT
#define VALUE_KEYS			COL_VALUE_KIND

/* Open in this transaction. */
typedef struct LockTables
{
	KeyedTable	rows;
	KeyedTable	counters;
	KeyedTable	shares;
	bool		has_shares;		/* those are open, too */
	KeyedTable	values;
	bool		has_values;		/* likewise */
	bool		must_flush;		/* something was done that has to survive a
								 * crash */
} LockTables;

/*
 * Open them, and act as their owner from here on.  NULL: they cannot be used,
 * *trouble says why, and the transaction has to be aborted.
 */
extern LockTables *tables_open(TableTrouble *trouble);
extern void tables_close(LockTables *tables);

/*
 * Open redis_lock_shares or redis_lock_values, too, which few operations need.  False:
 * it cannot be used, *trouble says why; all else can be done.
 */
extern bool tables_open_shares(LockTables *tables, TableTrouble *trouble);
extern bool tables_open_values(LockTables *tables, TableTrouble *trouble);

/* ----------
 * lifetime.c: Until when a row of redis_lock_rows counts.
 *
 * That is decided by its instance:
 *
 * - ours: taken by a session of this server.  It counts on lr_now()'s clock,
 * 	 which never jumps, for one lease from the moment it was last written.  The
 * 	 table worker remembers that moment; a row it does not remember (it may have
 * 	 been started anew) counts for one lease from when it is first seen.
 * - null: it is to outlive the server: a key that stays locked (hold_at_least), a
 * 	 token lock, a permit that is had by its id.  It counts until expires_at, on the
 * 	 wall clock, and no longer than its lease.
 * - another one: of an instance that has ended, and its locks with it.
 *
 * A row that does not count any more may be overwritten by the next owner, and
 * is deleted by the sweep.
 *
 * For rows that are sound (sound_rows.c) only.
 * ----------
 */

/* Once, in the worker. */
extern void lifetime_start(void);

/* The instance of rows that are ours, as their column has it. */
extern Datum lifetime_instance(void);

/* The row with this number, its owner's, was written now, and counts for a lease. */
extern void lifetime_remember(uint64 number, int64 lease_ms);
extern void lifetime_forget(uint64 number);

/*
 * The number of the row that readers of a key share: it counts for as long as the lease
 * of any of them.
 */
extern uint64 lifetime_shared_number(const char *name, int len);

/* Likewise of the row in a slot, whichever of these it is: an older lease may be longer. */
extern void lifetime_remember_row(TupleTableSlot *slot, int64 lease_ms);

/* Is the row in a slot one that readers share, of this instance? */
extern bool lifetime_is_shared(TupleTableSlot *slot);

/* Is that this instance? */
extern bool lifetime_is_own_instance(Datum value, bool isnull);

/* Forget what is remembered of rows that do not count any more. */
extern void lifetime_forget_ended(void);

/*
 * How long the row in a slot still counts, in milliseconds: 0 = not any more.
 */
extern int64 lifetime_left_ms(TupleTableSlot *slot);

/* The same of a row of redis_lock_shares that counts by itself. */
extern int64 lifetime_share_left_ms(TupleTableSlot *slot);

/* ----------
 * sound_rows.c: Rows are found, and looked at whether they are as the table worker writes them.
 *
 * The tables are ours, but they have an owner, who can write anything into them.  A row
 * that is not as ours are is treated as none: it is deleted where it is met, and by the
 * sweep.  So what reads a row that was found here need not doubt it.
 * ----------
 */

/* Appended to the owner of a key that stays locked after its release. */
#define KEPT_SUFFIX			"/kept"

/* The owner of the row that readers of a key share. */
#define SHARED_OWNER		"readers"

/* Before the SHA-256 of a token, or of the id of a permit. */
#define TOKEN_OWNER			"token:"
#define PERMIT_OWNER		"permit:"

/* As keyed_find() and keyed_find_exact() of each table. */
extern KeyedFound sound_row(LockTables *tables, Datum key);
extern KeyedFound sound_share(LockTables *tables, const Datum *keys);
extern KeyedFound sound_value(LockTables *tables, const Datum *keys);

/* As keyed_next_of_group() of redis_lock_shares. */
extern bool sound_next_share(LockTables *tables);

/* What rows of a table are like, and which columns say until when one counts; 0: none. */
typedef struct SoundForm
{
	bool		(*is_sound) (TupleTableSlot *row);
	int			lease_column;
	int			expires_column;
	int			instance_column;
} SoundForm;

extern const SoundForm sound_rows;
extern const SoundForm sound_shares;
extern const SoundForm sound_values;

/*
 * Delete the rows of the table that are not sound, and those that do not count any more.
 * One that would count for longer than its lease is made to end with that.
 */
extern void sound_sweep(KeyedTable *table, const SoundForm *form,
						bool (*has_ended) (TupleTableSlot *row));

/* ----------
 * row_changes.c: The row of a key in redis_lock_rows: whose it is, and changes of it.
 *
 * For the operations of locks, in the table worker only.
 * ----------
 */

/* A change of the row that was found, collected column by column. */
typedef struct RowChange
{
	int			n;
	int			columns[ROW_COLUMNS];
	Datum		values[ROW_COLUMNS];
	bool		nulls[ROW_COLUMNS];
} RowChange;

/* The outcome of an operation that was not carried out, for this reason. */
extern void rows_refuse(StoreOp *op, const TableTrouble *trouble);

/* ... because somebody's open transaction is at the row.  Returns false. */
extern bool rows_blocked(StoreOp *op, TableTrouble *trouble);

/* ... and something was written already: raises, so that all of it is undone. */
extern void rows_undo_blocked(void);

/* ... because somebody has the row that was found, and for so long. */
extern void row_is_taken(LockTables *tables, StoreOp *op, int64 left_ms);

/* What columns have; an owner is that of this instance with that number. */
extern Datum row_key(const StoreOp *op);
extern Datum row_owner(uint64 owner, const char *suffix);
extern Datum row_lease(int64 ms);
extern Datum row_time_after(int64 ms);

/*
 * Of the row that was found: is it this owner's, of this instance, that of readers; who
 * is told.
 */
extern bool row_belongs_to(LockTables *tables, uint64 owner);
extern bool row_is_own(LockTables *tables);
extern bool row_is_of_readers(LockTables *tables);

/* Is it that of a token lock, and of the token with that id (StoreOp)? */
extern bool row_is_token(LockTables *tables);
extern void row_tell_token(LockTables *tables, char *out);
extern bool row_is_of_token(LockTables *tables, const uint8 *id);
extern int	row_hold_count(LockTables *tables);
extern void row_tell_owner(LockTables *tables, char *out);

/*
 * Write the first "n" columns, which are ours, of a new row, or of the one that was found;
 * both arrays have room for KEYED_MAX_COLUMNS.  False: somebody's transaction is at it.
 */
extern bool row_put(KeyedTable *table, KeyedFound found, int n, Datum *values, bool *nulls);

/*
 * Write the row of a new lock, with so many holds, over what was found.  To "keep" it
 * whatever becomes of this server it belongs to no instance.  False: as above.
 */
extern bool row_make(LockTables *tables, const StoreOp *op, KeyedFound found, Datum owner,
					 int holds, int64 lease_ms, bool keep);

/*
 * Find the row of a lock that the caller believes to have; false: the outcome is
 * set.
 */
extern bool row_find_own(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern bool row_find_of(LockTables *tables, StoreOp *op, uint64 owner,
						TableTrouble *trouble);

/* Collect a change of it, and write that; or delete it.  Both set the outcome. */
extern void row_change_column(RowChange *change, int column, Datum value, bool isnull);
extern void row_change_lease(LockTables *tables, const StoreOp *op, RowChange *change);
extern void row_change_end(LockTables *tables, const StoreOp *op, RowChange *change);
extern void row_change_to_no_instance(LockTables *tables, RowChange *change);
extern void row_write_change(LockTables *tables, StoreOp *op, const RowChange *change,
							 TableTrouble *trouble);
extern void row_delete(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/* ----------
 * table_shares.c: Locks that several have together: the row that they share, and theirs.
 * ----------
 */

/*
 * A row of the key in redis_lock_shares, of that owner and of the operation's kind: find
 * it; insert it, and "keep" it whatever becomes of this server; lengthen the lease of the
 * one that was found, if there is a longer one (false: somebody's transaction is at it).
 */
extern KeyedFound share_find(LockTables *tables, const StoreOp *op, Datum owner);
extern void share_insert(LockTables *tables, const StoreOp *op, Datum owner, bool keep);
extern bool share_lengthen(LockTables *tables, const StoreOp *op);

/* Is the one in a slot a permit? */
extern bool share_is_permit(TupleTableSlot *row);

/* Operations of a read lock. */
extern void read_create(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void read_renew(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void read_release(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/*
 * All shares of the key go.  Raises if somebody's transaction is at one: then all that
 * was done is undone.
 */
extern void shares_drop(LockTables *tables, const StoreOp *op);

/*
 * Who has the row that was found and shares of its key, as a text that is another one
 * when others have; empty: there are no shares.
 */
extern void shares_digest(LockTables *tables, const StoreOp *op, char *out, Size size);

/*
 * The row that was found belongs to a writer who gives it back: if its session reads
 * too, it is that of a reader from now on, and the outcome is set.  False: nobody reads.
 */
extern bool shares_keep(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/* Delete what instances that have ended have left. */
extern void shares_sweep(LockTables *tables);

/* ----------
 * table_values.c: Numbers that somebody has set: how many permits there are, and the like.
 * ----------
 */

/* What there is of the number of a key and kind; see value_find(). */
typedef struct FoundValue
{
	KeyedFound	row;			/* also one that does not count any more */
	bool		counts;
	int64		value;			/* 0 unless it counts */
} FoundValue;

/* False: somebody's transaction is at it, and the outcome is set. */
extern bool value_find(LockTables *tables, StoreOp *op, FoundValue *found,
					   TableTrouble *trouble);

/*
 * Write the number that was looked for last, or delete it.  What expires does so
 * "lease_ms" after a new one was made, 0 = never; one that is changed keeps its end.
 * False: as above.
 */
extern bool value_write(LockTables *tables, StoreOp *op, const FoundValue *found,
						int64 value, TableTrouble *trouble);
extern bool value_delete(LockTables *tables, StoreOp *op, const FoundValue *found,
						 TableTrouble *trouble);

/*
 * What a change makes of a number of which so many are had; "changed" and the outcome
 * are set.  True: *value is to be written.
 */
extern bool value_change(StoreOp *op, const FoundValue *found, int64 had, int64 *value);

/* Delete those that have expired. */
extern void values_sweep(LockTables *tables);

/* ----------
 * table_permits.c: Permits: how many there are, and who has one.
 * ----------
 */

/* Operations of permits. */
extern void permit_create(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void permit_renew(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void permit_release(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void permit_define(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void permit_value(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/*
 * Of a key that has no row: who has permits of it; take them away if they are still
 * those who were told.  The outcome is set only if somebody has one, or if that is not
 * known.
 */
extern void permits_inspect(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void permits_force(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/* ----------
 * table_counts.c: Semaphores and latches in a table.
 * ----------
 */

extern void semaphore_create(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void semaphore_release(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void semaphore_count(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void semaphore_define(LockTables *tables, StoreOp *op, TableTrouble *trouble);

extern void latch_create(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void latch_count(LockTables *tables, StoreOp *op, TableTrouble *trouble);
extern void latch_define(LockTables *tables, StoreOp *op, TableTrouble *trouble);

extern void count_value(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/* ----------
 * table_tickets.c: Which requests have been counted, for when nobody has read the answer.
 * ----------
 */

/* The present transaction does what that owner has asked for, or undoes it. */
extern void tickets_add(uint64 owner);
extern void tickets_remove(uint64 owner);

/* Has that been done, by this transaction or by one that was committed? */
extern bool tickets_has(uint64 owner);

/* ----------
 * table_conditions.c: Waits for conditions of locks, in the memory of the table worker.
 * ----------
 */

/*
 * What is left to do of an operation of the kind, once the lock is as it has to be: given
 * back by the wait that begins, or there, of him who notifies.  Sets the outcome, and
 * raises nothing.
 */
extern void condition_carry_out(StoreOp *op);

/* ----------
 * table_rows.c: What each operation does to the rows of the tables.
 * ----------
 */

/*
 * Carry one operation out; its outcome is set.  If *trouble is set too, that is
 * why it could not be done.
 */
extern void rows_execute(LockTables *tables, StoreOp *op, TableTrouble *trouble);

/*
 * The transaction in which it was carried out has been committed: what is not in a table,
 * but in memory, is done now, once.
 */
extern void rows_committed(StoreOp *op);

/* Delete rows that do not count any more. */
extern void rows_sweep(LockTables *tables);

#endif							/* LR_TABLE_INT_H */
