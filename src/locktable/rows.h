/*-------------------------------------------------------------------------
 *
 * rows.h
 *	  The lock table for the views, which get a copy of its rows.
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

/* A copy of what a view shows of one hold or wait. */
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
	int64		amount;			/* OWED: what the store is to count */
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
 * A palloc'd copy of all rows.  The rows of a key are adjacent: first those that hold or
 * held it, then those of the waiting sessions in the order of their queue.
 */
extern LockTableRow *lt_rows(int *nrows);

/*
 * Count the rows that hold a lock, that wait for one, and that wait for a condition; without
 * a copy.
 */
extern void lt_count_rows(int64 *granted, int64 *waiting, int64 *at_conditions);

/* By how many microseconds the most overdue renewal in that store is late; 0: none is. */
extern int64 lt_renewal_lag(StoreId store);

/* Do the views show a hold in this state as granted? */
static inline bool
lt_is_granted(HoldState state)
{
	return state == HOLD_HELD || state == HOLD_RELEASING;
}

#endif							/* LR_LOCKTABLE_ROWS_H */
