/*-------------------------------------------------------------------------
 *
 * owed.h
 *	  The lock table for a session that has the store count something.
 *
 * What is to be counted is not had by anybody, and must not get lost: it has a record
 * from before it is asked for, or decided, until the store has answered.
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
 * A record of so much that is to be counted, now or (SCOPE_XACT) when the transaction has
 * committed; its owner number is new, and the store knows it as the ticket.  False: there
 * is no row.
 */
extern bool lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount,
				   LrIndex *hold);

/* The record that this transaction has of the name; LR_NONE: none. */
extern LrIndex lt_find_owed(const LrName *name, KindId kind);

/* More of it, or less; when nothing is left it is gone. */
extern void lt_owe_more(LrIndex hold, int64 amount);

/* What it is, for its session only. */
extern int64 lt_owed_amount(LrIndex hold);

/* The store has counted it, or surely will not. */
extern void lt_owed_done(LrIndex hold);

/*
 * It has not answered: the watchdog goes on.  "sent_at": of the request, which may have
 * run; 0 = it surely has not.
 */
extern void lt_leave_owed(LrIndex hold, StoreId store, uint32 topology, int64 sent_at);

#endif							/* LR_LOCKTABLE_OWED_H */
