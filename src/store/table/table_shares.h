/*-------------------------------------------------------------------------
 *
 * table_shares.h
 *	  Locks that several have together: the row that they share, and theirs.
 *
 * For the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_shares.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_SHARES_H
#define LR_TABLE_SHARES_H

#include "lockredis.h"

#include "store/table/requests.h"
#include "store/table/tables.h"

/*
 * A row of the key in redis_lock_shares, of that owner and of the operation's kind: find
 * it; insert it, and "keep" it whatever becomes of this server; lengthen the lease of the
 * one that was found, if there is a longer one (false: somebody's transaction is at it).
 */
extern KeyedFound share_find(LockTables *tables, const TableOp *op, Datum owner);
extern void share_insert(LockTables *tables, const TableOp *op, Datum owner, bool keep);
extern bool share_lengthen(LockTables *tables, const TableOp *op);

/* Is the one in a slot a permit? */
extern bool share_is_permit(TupleTableSlot *row);

/* Operations of a read lock. */
extern void read_create(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void read_renew(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void read_release(LockTables *tables, TableOp *op, TableTrouble *trouble);

/*
 * All shares of the key go.  Raises if somebody's transaction is at one: then all that
 * was done is undone.
 */
extern void shares_drop(LockTables *tables, const TableOp *op);

/*
 * Who has the row that was found and shares of its key, as a text that is another one
 * when others have; empty: there are no shares.
 */
extern void shares_digest(LockTables *tables, const TableOp *op, char *out, Size size);

/*
 * The row that was found belongs to a writer who gives it back: if its session reads
 * too, it is that of a reader from now on, and the outcome is set.  False: nobody reads.
 */
extern bool shares_keep(LockTables *tables, TableOp *op, TableTrouble *trouble);

/* Delete what instances that have ended have left. */
extern void shares_sweep(LockTables *tables);

#endif							/* LR_TABLE_SHARES_H */
