/*-------------------------------------------------------------------------
 *
 * transaction.h
 *	  Locks that follow the transaction, and the guard of its commit.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/transaction.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TRANSACTION_H
#define LR_TRANSACTION_H

#include "session/session_int.h"

/* Once, when the library is preloaded. */
extern void xact_register_callbacks(void);

/*
 * COMMIT PREPARED is about to run, for which there is no callback: no signal of
 * on_lost from here to the end of the statement.
 */
extern void xact_before_commit_prepared(void);

/* Room for one entry, before one is made.  May raise. */
extern void xact_reserve(void);

/*
 * Remember for the present subtransaction, without raising: a transaction-level
 * hold was taken, a session-level one was taken, a token was recorded.
 */
extern void xact_track_hold(const HeldKey *key, LrIndex hold);
extern void xact_track_taken(HeldEntry *entry);
extern void xact_forget_taken(uint64 owner);
extern void xact_track_recorded(HeldEntry *entry, int64 token);

/*
 * A lost hold goes: if it was a session-level one, the commit must know.  Never
 * raises, and comes before the record of the loss is dropped.
 */
extern void xact_note_unlocked_loss(const char *name, int len,
									const HoldView *view);

/*
 * The transaction has done nothing under those locks: it is that of a DISCARD
 * ALL, or began when a job had ended.
 */
extern void xact_forget_unlocked_losses(void);

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
