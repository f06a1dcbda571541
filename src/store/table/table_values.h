/*-------------------------------------------------------------------------
 *
 * table_values.h
 *	  Numbers that somebody has set: how many permits there are, and the like.
 *
 * For the table worker only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_values.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_VALUES_H
#define LR_TABLE_VALUES_H

#include "lockredis.h"

#include "store/table/requests.h"
#include "store/table/tables.h"

/* What there is of the number of a key and kind; see value_find(). */
typedef struct FoundValue
{
	KeyedFound	row;			/* also one that does not count any more */
	bool		counts;
	int64		value;			/* 0 unless it counts */
} FoundValue;

/* False: somebody's transaction is at it, and the outcome is set. */
extern bool value_find(LockTables *tables, TableOp *op, FoundValue *found,
					   TableTrouble *trouble);

/*
 * Write the number that was looked for last, or delete it.  What expires does so
 * "lease_ms" after a new one was made, 0 = never; one that is changed keeps its end.
 * False: as above.
 */
extern bool value_write(LockTables *tables, TableOp *op, const FoundValue *found,
						int64 value, TableTrouble *trouble);
extern bool value_delete(LockTables *tables, TableOp *op, const FoundValue *found,
						 TableTrouble *trouble);

/*
 * What a change makes of a number of which so many are had; "changed" and the outcome
 * are set.  True: *value is to be written.
 */
extern bool value_change(TableOp *op, const FoundValue *found, int64 had, int64 *value);

/* Delete those that have expired. */
extern void values_sweep(LockTables *tables);

#endif							/* LR_TABLE_VALUES_H */
