/*-------------------------------------------------------------------------
 *
 * tables.h
 *	  The tables of table mode: finding them, checking them, opening them.
 *
 * redis_lock_rows has a row for each key that somebody has, redis_lock_shares one
 * for each of several who have a key together, redis_lock_counters the last fencing
 * token of each key, and redis_lock_values the number of permits and the like.  They are made by the script of the extension, but they
 * belong to somebody who may change them, so their form is checked whenever they are
 * opened.
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

#endif							/* LR_TABLES_H */
