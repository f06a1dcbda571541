/*-------------------------------------------------------------------------
 *
 * row_changes.h
 *	  The row of a key in redis_lock_rows: whose it is, and changes of it.
 *
 * For the operations of locks, in the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/row_changes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_ROW_CHANGES_H
#define LR_ROW_CHANGES_H

#include "lockredis.h"

#include "store/table/requests.h"
#include "store/table/tables.h"

/* A change of the row that was found, collected column by column. */
typedef struct RowChange
{
	int			n;
	int			columns[ROW_COLUMNS];
	Datum		values[ROW_COLUMNS];
	bool		nulls[ROW_COLUMNS];
} RowChange;

/* The outcome of an operation that was not carried out, for this reason. */
extern void rows_refuse(TableOp *op, const TableTrouble *trouble);

/* ... because somebody's open transaction is at the row.  Returns false. */
extern bool rows_blocked(TableOp *op, TableTrouble *trouble);

/* ... and something was written already: raises, so that all of it is undone. */
extern void rows_undo_blocked(void);

/* ... because somebody has the row that was found, and for so long. */
extern void row_is_taken(LockTables *tables, TableOp *op, int64 left_ms);

/* What columns have; an owner is that of this instance with that number. */
extern Datum row_key(const TableOp *op);
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
extern bool row_make(LockTables *tables, const TableOp *op, KeyedFound found, Datum owner,
					 int holds, int64 lease_ms, bool keep);

/*
 * Find the row of a lock that the caller believes to have; false: the outcome is
 * set.
 */
extern bool row_find_own(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern bool row_find_of(LockTables *tables, TableOp *op, uint64 owner,
						TableTrouble *trouble);

/* Collect a change of it, and write that; or delete it.  Both set the outcome. */
extern void row_change_column(RowChange *change, int column, Datum value, bool isnull);
extern void row_change_lease(LockTables *tables, const TableOp *op, RowChange *change);
extern void row_change_end(LockTables *tables, const TableOp *op, RowChange *change);
extern void row_change_to_no_instance(LockTables *tables, RowChange *change);
extern void row_write_change(LockTables *tables, TableOp *op, const RowChange *change,
							 TableTrouble *trouble);
extern void row_delete(LockTables *tables, TableOp *op, TableTrouble *trouble);

#endif							/* LR_ROW_CHANGES_H */
