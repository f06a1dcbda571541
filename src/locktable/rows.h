/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  The lock table for the views: a copy of its rows.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/rows.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_ROWS_H
#define LR_LOCKTABLE_ROWS_H

#include "locktable/locktable.h"

/* What a view shows of one hold or wait; a copy. */
typedef struct LockTableRow
{
	int			pid;			/* 0 = orphan */
	Oid			datid;
	Oid			userid;
	KindId		kind;
	HoldState	state;
	LostReason	lost_reason;
	LockScope	scope;
	ScopeHold	part;
	int64		amount;			/* owed */
	bool		placed;			/* waits in the order of the store */
	uint64		owner;
	int64		fence;
	int64		renewals;
	int64		deadline;		/* lr_now() time */
	TimestampTz waiting_since;
	TimestampTz lost_at;
	char		taken_by[LR_OWNER_MAX];
	int			name_len;
	char		name[LR_NAME_MAX];
} LockTableRow;

/*
 * A palloc'd copy of all rows.  Rows of one key stand together: first those
 * that have or had it, then the waiting ones in the order of their queue.
 */
extern LockTableRow *lt_rows(int *nrows);

/*
 * How many of these rows have their lock, and how many wait for one, or for a condition;
 * without a copy.
 */
extern void lt_count_rows(int64 *granted, int64 *waiting, int64 *at_conditions);

/* By how much the most delayed renewal there is late, microseconds. */
extern int64 lt_renewal_lag(StoreId store);

/* What a hold in this state is to the views. */
static inline bool
lt_is_granted(HoldState state)
{
	return state == HOLD_HELD || state == HOLD_RELEASING;
}

#endif							/* LR_LOCKTABLE_ROWS_H */
