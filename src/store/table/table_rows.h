/*-------------------------------------------------------------------------
 *
 * table_rows.h
 *	  What each operation does to the rows of the tables.
 *
 * For the table worker only, between tables_open() and tables_close().
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
#include "store/table/tables.h"

/*
 * Carry one operation out; its outcome is set.  If *trouble is set too, that is
 * why it could not be done.
 */
extern void rows_execute(LockTables *tables, TableOp *op, TableTrouble *trouble);

/*
 * The transaction in which it was carried out has been committed: what is not in a table,
 * but in memory, is done now, once.
 */
extern void rows_committed(TableOp *op);

/* Delete rows that do not count any more. */
extern void rows_sweep(LockTables *tables);

#endif							/* LR_TABLE_ROWS_H */
