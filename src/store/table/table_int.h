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
#include "utils/timestamp.h"

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

/* By all columns of the key. */
extern KeyedFound keyed_find(KeyedTable *table, const Datum *keys);

/*
 * One after the other all rows with that first column; those that somebody is just
 * inserting are passed over.  What is found may be deleted.
 */
extern void keyed_begin_group(KeyedTable *table, Datum key);
extern bool keyed_next_of_group(KeyedTable *table);

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

typedef enum TableId
{
	IN_ROWS,
	IN_COUNTERS,
	IN_SHARES,					/* from here on: opened for those who need it, and */
	IN_VALUES,					/* not there in version 1.0 */
	IN_COUNT
} TableId;

/* What a column says. */
typedef enum Field
{
	FIELD_KEY,
	FIELD_KIND,
	FIELD_OWNER,
	FIELD_HOLDS,
	FIELD_NUMBER,
	FIELD_LEASE,
	FIELD_UNTIL,
	FIELD_FENCE,				/* a number; from here on it may be null */
	FIELD_END,					/* until when the row counts; null: for ever */
	FIELD_INSTANCE,
	FIELD_SINCE,				/* is not read, */
	FIELD_COMMENT				/* nor this */
} Field;

typedef struct TableFields
{
	const char *name;
	int			nkeys;
	int			ncolumns;
	Field		column[9];
} TableFields;

extern const TableFields table_fields[IN_COUNT];

/* Whose a row is; see lifetime.c. */
typedef enum EntryOf
{
	OF_NOBODY,
	OF_US,
	OF_OTHERS
} EntryOf;

/* A row as it is in C.  Of another table than its own a field says nothing. */
typedef struct Entry
{
	bool		there;			/* in the table */
	bool		anew;			/* what is written is another one */
	KindId		kind;
	char		owner[LR_OWNER_MAX];
	EntryOf		of;
	int			holds;
	int64		number;			/* that was set, or a fencing token; 0: none */
	int64		lease_ms;
	TimestampTz until;
	uint64		remembered;		/* by which lifetime.c knows it; 0: it does not */
	int64		left_ms;		/* for so long it still counts; 0: no more, or it is not
								 * there */
} Entry;

/* Open in this transaction. */
typedef struct LockTables
{
	KeyedTable	table[IN_COUNT];
	bool		is_open[IN_COUNT];
	Entry		entry[IN_COUNT];	/* the row that was found last */
	bool		must_flush;		/* something was done that has to survive a
								 * crash */
	bool		wrote;			/* the present operation has written something */
	TableTrouble trouble;		/* why it could not be carried out */
} LockTables;

/*
 * Open them, and act as their owner from here on.  NULL: they cannot be used,
 * *trouble says why, and the transaction has to be aborted.
 */
extern LockTables *tables_open(TableTrouble *trouble);
extern void tables_close(LockTables *tables);

/*
 * Open one that few operations need, too.  False: it cannot be used, tables->trouble says
 * why; all else can be done.
 */
extern bool tables_have(LockTables *tables, TableId in);

/* ----------
 * entries.c: Rows of the tables, read and written as entries.
 *
 * The tables are ours, but they have an owner, who can write anything into them.  A row
 * that is not as ours are is treated as none: it is deleted where it is met, and by the
 * sweep.  So nobody needs to doubt an entry.
 * ----------
 */

/* Appended to the owner of a key that stays locked after its release. */
#define KEPT_SUFFIX			"/kept"

/* The owner of the row that readers of a key share. */
#define SHARED_OWNER		"readers"

/* Before the SHA-256 of a token, or of the id of a permit. */
#define TOKEN_OWNER			"token:"
#define PERMIT_OWNER		"permit:"

/* The outcome of an operation that was not carried out, for this reason. */
extern void entry_refuse(StoreOp *op, const TableTrouble *trouble);

/* ... as it is not to be had, for so long. */
extern void entry_busy(StoreOp *op, int64 ttl_ms);

/*
 * May a table be looked into?  If it cannot be used nobody has anything there; if somebody
 * has locked it that is not known, and the outcome is set.
 */
extern bool entry_may_look(LockTables *tables, TableId in, StoreOp *op);

/*
 * The entry with the operation's key, and that kind and owner if the table tells those
 * apart.  NULL: somebody's open transaction is about to insert it; the outcome is set.
 */
extern Entry *entry_find(LockTables *tables, TableId in, StoreOp *op, KindId kind,
						 const char *owner);

/* One after the other all of a kind with the operation's key; NULL: that was the last. */
extern void entry_begin_group(LockTables *tables, TableId in, const StoreOp *op);
extern Entry *entry_next(LockTables *tables, TableId in, KindId kind);

/* A new one instead of what was found; to "keep" it whatever becomes of this server. */
extern void entry_renew(Entry *e, const char *owner, int64 lease_ms, bool keep);

/* A lease from now on, if it is longer than what is left: then it has to be written. */
extern bool entry_lengthen(Entry *e, int64 lease_ms);

/*
 * Write what was found last, as it is now, or delete it; the outcome is set.  False:
 * somebody's transaction is at it.  If the operation has written something before, that
 * raises, so that all of it is undone.
 */
extern bool entry_put(LockTables *tables, TableId in, StoreOp *op);
extern bool entry_delete(LockTables *tables, TableId in, StoreOp *op);

/* Delete the rows that are not as ours are, and those that do not count any more. */
extern void entry_sweep(LockTables *tables, TableId in);

/* The row of the key; is it that owner's, or of a token? */
extern Entry *row_find(LockTables *tables, StoreOp *op);
extern bool row_is_of(const Entry *row, uint64 owner);
extern bool row_is_token(const Entry *row);

/* Who has it is told, and if that is the outcome, for how long. */
extern void row_tell_owner(const Entry *row, char *out);
extern void row_is_taken(const Entry *row, StoreOp *op);

/* On the wall clock, which is for what outlives the server, and for those who look. */
extern TimestampTz entry_time_after(int64 ms);

/* Is it the row that readers of this server share? */
static inline bool
entry_is_shared(const Entry *e)
{
	return e->of == OF_US && strcmp(e->owner, SHARED_OWNER) == 0;
}

/* ----------
 * lifetime.c: Until when an entry counts.
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
 * ----------
 */

/* Once, in the worker. */
extern void lifetime_start(void);

/* The instance of rows that are ours, as their column has it; is it that? */
extern Datum lifetime_instance(void);
extern bool lifetime_is_own_instance(Datum value);

/* The row with this number, its owner's, was written now, and counts for a lease. */
extern void lifetime_remember(uint64 number, int64 lease_ms);
extern void lifetime_forget(uint64 number);

/* The number in an owner of this instance; 0: there is none. */
extern uint64 lifetime_owner_number(const char *owner);

/*
 * The number of the row that readers of a key share: it counts for as long as the lease
 * of any of them.
 */
extern uint64 lifetime_shared_number(const char *name, int len);

/* Forget what is remembered of rows that do not count any more. */
extern void lifetime_forget_ended(void);

/* How long an entry still counts, in milliseconds: 0 = not any more. */
extern int64 lifetime_left_ms(const Entry *e);

/* ----------
 * table_shares.c: Locks that several have together: the row that they share, and theirs.
 * ----------
 */

/* Operations of a read lock. */
extern void read_create(LockTables *tables, StoreOp *op);
extern void read_renew(LockTables *tables, StoreOp *op);
extern void read_release(LockTables *tables, StoreOp *op);

/* All shares of the key go. */
extern void shares_drop(LockTables *tables, StoreOp *op);

/*
 * Who has the row and shares of its key, as a text that is another one when others have;
 * empty: there are no shares.
 */
extern void shares_digest(LockTables *tables, const StoreOp *op, char *out, Size size);

/*
 * The row belongs to a writer who gives it back: if its session reads too, it is that of a
 * reader from now on, and the outcome is set.  False: nobody reads.
 */
extern bool shares_keep(LockTables *tables, StoreOp *op);

/* ----------
 * table_counts.c: Numbers that somebody has set: how many permits there are, semaphores
 * and latches.
 * ----------
 */

/* The number of the key and that kind, 0 if there is none; NULL: the outcome is set. */
extern Entry *value_find(LockTables *tables, StoreOp *op, KindId kind);

/*
 * Write the number that was looked for last.  What expires does so "lease_ms" after a new
 * one was made, 0 = never; one that is changed keeps its end.  False: the outcome is set.
 */
extern bool value_write(LockTables *tables, StoreOp *op, int64 number);

extern void semaphore_create(LockTables *tables, StoreOp *op);
extern void semaphore_release(LockTables *tables, StoreOp *op);
extern void semaphore_count(LockTables *tables, StoreOp *op);
extern void latch_create(LockTables *tables, StoreOp *op);
extern void latch_count(LockTables *tables, StoreOp *op);
extern void count_define(LockTables *tables, StoreOp *op);
extern void count_value(LockTables *tables, StoreOp *op);

/* ----------
 * table_permits.c: Permits: how many there are, and who has one.
 * ----------
 */

extern void permit_create(LockTables *tables, StoreOp *op);
extern void permit_renew(LockTables *tables, StoreOp *op);
extern void permit_release(LockTables *tables, StoreOp *op);
extern void permit_define(LockTables *tables, StoreOp *op);
extern void permit_value(LockTables *tables, StoreOp *op);

/*
 * Of a key that has no row: who has permits of it; take them away if they are still
 * those who were told.  The outcome is set only if somebody has one, or if that is not
 * known.
 */
extern void permits_inspect(LockTables *tables, StoreOp *op);
extern void permits_force(LockTables *tables, StoreOp *op);

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
 * Carry one operation out; its outcome is set.  If tables->trouble is set too, that is
 * why it could not be done.
 */
extern void rows_execute(LockTables *tables, StoreOp *op);

/*
 * The transaction in which it was carried out has been committed: what is not in a table,
 * but in memory, is done now, once.
 */
extern void rows_committed(StoreOp *op);

/* Delete rows that do not count any more. */
extern void rows_sweep(LockTables *tables);

#endif							/* LR_TABLE_INT_H */
