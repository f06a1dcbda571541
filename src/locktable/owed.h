/*-------------------------------------------------------------------------
 *
 * owed.h
 *	  The lock table for a session that has the store count something.
 *
 * A change that a store is to count is held by no session, and must not get lost.  So
 * it has a record from before the session sends the request, or its transaction ends,
 * until the store has answered.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/owed.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_OWED_H
#define LR_LOCKTABLE_OWED_H

#include "locktable/locktable.h"

/*
 * Make a record of an amount that the store is to count, now or (SCOPE_XACT) when the
 * transaction has committed.  Its owner number is new; the store knows it as the ticket.
 * False: there is no free row.
 */
extern bool lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount,
				   LrIndex *hold);

/* This transaction's record for the name; LR_NONE: there is none. */
extern LrIndex lt_find_owed(const LrName *name, KindId kind);

/* Add to the amount, which may be negative; at 0 the record is freed. */
extern void lt_owe_more(LrIndex hold, int64 amount);

/* The amount; only its session may call this. */
extern int64 lt_owed_amount(LrIndex hold);

/* Free the record: the store has counted the amount, or surely will not. */
extern void lt_owed_done(LrIndex hold);

/*
 * The store has not answered: the watchdog goes on.  "sent_at": when the request was sent,
 * which may have run; 0 = it surely has not.
 */
extern void lt_leave_owed(LrIndex hold, StoreId store, uint32 topology, int64 sent_at);

#endif							/* LR_LOCKTABLE_OWED_H */
