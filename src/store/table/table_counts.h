/*-------------------------------------------------------------------------
 *
 * table_counts.h
 *	  Semaphores and latches in a table.
 *
 * For the table worker only.  The table of values is open.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_counts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_COUNTS_H
#define LR_TABLE_COUNTS_H

#include "lockredis.h"

#include "store/table/requests.h"
#include "store/table/tables.h"

extern void semaphore_create(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void semaphore_release(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void semaphore_count(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void semaphore_define(LockTables *tables, TableOp *op, TableTrouble *trouble);

extern void latch_create(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void latch_count(LockTables *tables, TableOp *op, TableTrouble *trouble);
extern void latch_define(LockTables *tables, TableOp *op, TableTrouble *trouble);

extern void count_value(LockTables *tables, TableOp *op, TableTrouble *trouble);

#endif							/* LR_TABLE_COUNTS_H */
