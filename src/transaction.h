/*-------------------------------------------------------------------------
 *
 * transaction.h
 *	  Locks that follow the transaction, and the guard of its commit.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/transaction.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TRANSACTION_H
#define LR_TRANSACTION_H

#include "session_int.h"

/* Once, when the library is preloaded. */
extern void xact_register_callbacks(void);

/* Room for what one call may have to remember.  May raise. */
extern void xact_reserve(void);

/*
 * Remember for the present subtransaction, without raising: a transaction-level
 * hold was taken, a session-level one was taken, a token was recorded.
 */
extern void xact_track_hold(const HeldKey *key, LrIndex hold);
extern void xact_track_taken(uint64 owner);
extern void xact_forget_taken(uint64 owner);
extern void xact_track_recorded(HeldEntry *entry, int64 token);

/* A lost session-level hold was unlocked: the commit must know. */
extern void xact_note_unlocked_loss(const LrName *name, const HoldView *view);

/* Warnings, each once a transaction. */
extern void xact_warn_snapshot(LockScope scope);
extern void xact_warn_early_unlock(void);

/* Statements that hold a transaction open without a block: DO and CALL. */
extern void xact_enter_procedural(void);
extern void xact_leave_procedural(void);

/* Is one running, and no other around it? */
extern bool xact_in_outermost_procedural(void);

/* The job runner's command failed: release its hold at the end of the abort. */
extern void xact_release_job_at_abort(const LrName *name);

#endif							/* LR_TRANSACTION_H */
