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

#include "lockredis.h"

#include "keyname.h"
#include "kinds/kind.h"
#include "terms.h"

/* Once, when the library is preloaded. */
extern void xact_register_callbacks(void);

/*
 * COMMIT PREPARED is about to run, for which there is no callback: no signal of
 * on_lost from here to the end of the statement.
 */
extern void xact_before_commit_prepared(void);

/* Bring whatever was left by an error to its end.  Never raises. */
extern void xact_clean_up(void);

/* Warnings, each once a transaction. */
extern void xact_warn_snapshot(LockScope scope);
extern void xact_warn_early_unlock(void);

/* Statements that hold a transaction open without a block: DO and CALL. */
extern void xact_enter_procedural(void);
extern void xact_leave_procedural(void);

/* Is one running, and no other around it? */
extern bool xact_in_outermost_procedural(void);

/* The job runner's command failed: release its hold at the end of the abort. */
extern void xact_release_job_at_abort(const LrName *name, KindId kind);

#endif							/* LR_TRANSACTION_H */
