/*-------------------------------------------------------------------------
 *
 * report.h
 *	  Errors and warnings for users about locks and their store.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/report.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REPORT_H
#define LR_REPORT_H

#include "lockredis.h"

#include "locktable/locktable.h"
#include "names.h"
#include "store/store.h"

/*
 * Raise an error, or warn, that an operation has failed (any outcome from STORE_REFUSED
 * on); counts it in STAT_ERRORS.
 */
extern void report_store_failure(int elevel, StoreOutcome outcome,
								 const StoreError *error);

/* The key holds something other than a lock of this kind. */
extern void report_wrong_type(const LrName *name, const StoreOp *op);

/*
 * Another session of this server holds the key as the other kind, which excludes the
 * wanted one.
 */
extern void report_held_otherwise(const LrName *name, KindId wanted, KindId other);

/* This session holds the key as another kind, and would wait for itself. */
extern void report_has_other_kind(const LrName *name, KindId has, KindId wanted);

/* The store read the request too late. */
extern void report_late(void);

/* The number of permits is not defined. */
extern void report_missing(const LrName *name, KindId kind);

/*
 * The session does not hold the lock that it wants to use or to release.  "has": the other
 * kind as which it holds the key; if there is none, or it does not matter, the same kind.
 */
extern void report_not_held(int elevel, const LrName *name, KindId kind, KindId has);

/* A hold was lost (see HoldView); with the SQLSTATE of a warning. */
extern void report_lost(int elevel, const LrName *name, const HoldView *view);

/*
 * At which level the lost lock was held, when its loss makes a statement fail.  40001
 * tells clients that they can start the transaction again on the same connection.  That
 * can succeed only if the transaction held the lock; otherwise the loss would make it
 * fail again, or it would run without the lock.
 */
typedef enum LossLevel
{
	LOSS_OF_XACT,				/* of the transaction only, or of the job runner */
	LOSS_OF_SESSION,			/* of the session, also if the transaction holds it, too */
	LOSS_UNLOCKED				/* of the session, which has released it since */
} LossLevel;

/* The session uses a lost hold. */
extern void report_lost_used(const LrName *name, const HoldView *view,
							 LossLevel level);

/*
 * A transaction cannot commit because the lock was lost or, if it is still held,
 * because too little of its lease is left.
 */
extern void report_commit_refused(const LrName *name, const HoldView *view,
								  LossLevel level);

/* The value of redis_locks.lost_reason; palloc'd. */
extern char *lost_reason_text(const LockLoss *loss);

extern void report_table_full(void);

/*
 * A failed statement took so many permits that could not be given back; raises no
 * error.
 */
extern void report_not_given_back(KindId kind, int64 amount);

/*
 * One of several locks was lost while the session waited for the others; it keeps none.
 */
extern void report_lost_meanwhile(const LrName *name, const HoldView *view);

/*
 * May the current user see the keys and owners of sessions of this role?  InvalidOid
 * stands for no role.
 */
extern bool lr_may_see_keys_of(Oid role);

#endif							/* LR_REPORT_H */
