/*-------------------------------------------------------------------------
 *
 * report.h
 *	  What users are told when a lock or its store fails them.
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

#include "keyname.h"
#include "locktable/hold.h"
#include "store/store.h"

/* An operation ended in an outcome from STORE_REFUSED on.  Counts it. */
extern void report_store_failure(int elevel, StoreOutcome outcome,
								 const StoreError *error);

/* The key holds something that is no lock of this kind. */
extern void report_wrong_type(const LrName *name, const StoreOp *op);

/* Another session of this server has the key as such a kind. */
extern void report_held_otherwise(const LrName *name, KindId wanted, KindId other);

/* This session has, and would wait for itself. */
extern void report_has_other_kind(const LrName *name, KindId has, KindId wanted);

/* The session does not have the lock that is to be used or given back. */
extern void report_late(void);
extern void report_missing(const LrName *name, KindId kind);
extern void report_not_held(int elevel, const LrName *name);

/* Nor as that kind, but as that other one. */
extern void report_not_held_so(int elevel, const LrName *name, KindId kind, KindId has);

/* A hold was lost (see HoldView); a warning. */
extern void report_lost(int elevel, const LrName *name, const HoldView *view);

/*
 * Whose loss refuses something.  Only where the lock was the transaction's can
 * starting it again on the same connection succeed, which is what 40001 says;
 * else the loss would refuse it again, or it would run without the lock.
 */
typedef enum LossLevel
{
	LOSS_OF_XACT,				/* the job runner's hold, too */
	LOSS_OF_SESSION,			/* of both levels, too */
	LOSS_UNLOCKED				/* of a session-level hold, unlocked since */
} LossLevel;

/* A lost hold was used. */
extern void report_lost_used(const LrName *name, const HoldView *view,
							 LossLevel level);

/*
 * A transaction cannot commit because the lock was lost or, if the hold is
 * still held, because too little of its lease is left.
 */
extern void report_commit_refused(const LrName *name, const HoldView *view,
								  LossLevel level);

/* The words of redis_locks.lost_reason; palloc'd. */
extern char *lost_reason_text(LostReason reason, const char *taken_by);

extern void report_table_full(void);

/* A statement took so many of a semaphore, and failed; raises nothing. */
extern void report_not_given_back(KindId kind, int64 amount);

/* One of several locks was lost while the others were waited for: none is kept. */
extern void report_lost_meanwhile(const LrName *name, const HoldView *view);

/*
 * May the caller see the keys and owners of sessions of this role?  InvalidOid
 * is nobody's.
 */
extern bool lr_may_see_keys_of(Oid role);

#endif							/* LR_REPORT_H */
