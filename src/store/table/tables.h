/*-------------------------------------------------------------------------
 *
 * tables.h
 *	  The tables of table mode: finding them, checking them, opening them.
 *
 * redis_lock_rows has a row for each lock that somebody has, and
 * redis_lock_counters the last fencing token of each key.  Both are made by the
 * script of the extension, but they belong to somebody who may change them, so
 * their form is checked whenever they are opened.
 *
 * For the table worker only, inside a transaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/tables.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLES_H
#define LR_TABLES_H

#include "lockredis.h"

#include "store/table/keyed_table.h"
#include "store/table/trouble.h"

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

/* Open in this transaction. */
typedef struct LockTables
{
	KeyedTable	rows;
	KeyedTable	counters;
	bool		must_flush;		/* something was done that has to survive a
								 * crash */
} LockTables;

/*
 * Open them, and act as their owner from here on.  NULL: they cannot be used,
 * *trouble says why, and the transaction has to be aborted.
 */
extern LockTables *tables_open(TableTrouble *trouble);
extern void tables_close(LockTables *tables);

#endif							/* LR_TABLES_H */
