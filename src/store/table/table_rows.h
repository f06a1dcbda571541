/*-------------------------------------------------------------------------
 *
 * table_rows.h
 *	  The tables of table mode, and what each operation does to them.
 *
 * For the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_rows.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_ROWS_H
#define LR_TABLE_ROWS_H

#include "lockredis.h"

#include "store/table/requests.h"

/* Whoever meets what is blocked by a transaction looks again after (ms). */
#define BLOCKED_TTL_MS		100

/* Once, in a process that is connected to lockredis.database. */
extern void rows_start(void);

/*
 * Inside a transaction: open the tables.  False: they cannot be used, *trouble
 * says why.
 */
extern bool rows_begin(TableTrouble *trouble);
extern void rows_end(void);

/*
 * Carry one operation out; its outcome is set.  STORE_BUSY of anything but a
 * create: the row is blocked by another transaction.
 */
extern void rows_execute(TableOp *op, TableTrouble *trouble);

/* Has something been done since rows_begin() that must survive a crash? */
extern bool rows_must_flush(void);

/* Delete rows that nobody has any more. */
extern void rows_sweep(void);

#endif							/* LR_TABLE_ROWS_H */
