/*-------------------------------------------------------------------------
 *
 * ask.h
 *	  What this backend asks the stores.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/ask.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_ASK_H
#define LR_ASK_H

#include "lockredis.h"

#include "locktable/hold.h"
#include "session/held.h"
#include "store/store.h"

/* Handles of the stores of this server's mode; connects to none.  May raise. */
extern void ask_open(void);
extern bool ask_is_open(void);

/* Room for a batch of n releases, which may then not raise. */
extern void ask_reserve(int n);

/*
 * So many replicas have to confirm what lengthens the lease of that.  By its
 * scopes, which may be those that are wanted.
 */
static inline int
ask_min_replicas(const HoldView *view)
{
	int			n = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (view->scope[i].count > 0)
			n = Max(n, view->scope[i].min_replicas);
	return n;
}

/* An operation on a lock, with nothing but its name and kind. */
extern void ask_prepare(StoreOp *op, StoreOpKind kind, const HeldKey *key,
						StoreId store);

/*
 * One on a lock that we hold: as its owner, and where it was when it was looked
 * at.
 */
extern void ask_prepare_held(StoreOp *op, StoreOpKind kind, const HeldKey *key,
							 const HoldView *view);

/*
 * Run operations, each in its store, until each has an outcome.  Raises only
 * what CHECK_FOR_INTERRUPTS does, and only with STORE_WAIT; the operations have
 * outcomes then, too.
 */
extern void ask_run(StoreOp *op, StoreStep how);
extern void ask_run_many(StoreOp *ops, int nops, StoreStep how);

/* The same of one until that time at most, interruptible. */
extern void ask_run_within(StoreOp *op, int64 deadline);

/*
 * The same until that time at most, and whoever catches what it raises has to
 * call ask_abandon() himself, which is what gives those an outcome that were under
 * way.
 */
extern void ask_run_until(StoreOp *ops, int nops, int64 deadline, StoreStep how);
extern void ask_abandon(void);

/*
 * The same of releases in one store, with STORE_POLL; but true if that has them and
 * nobody has to wait: see leave() of a store.
 */
extern bool ask_send(StoreOp *ops, int nops, int64 deadline, StoreAnswered answered);

/*
 * A former master's answer says nothing of what the present one has: then it is not
 * known what was done.
 */
extern void ask_distrust(StoreOp *op);

/*
 * This request of a semaphore or a latch was answered, and is settled: the store need not
 * know that it has run.  Before the end of the session: all that is left of that is sent.
 */
extern void ask_forget(const StoreOp *op);
extern void ask_close(void);

/*
 * Run an operation on a lock that we hold in the store where that is: sets store
 * and moves.
 */
extern void ask_run_held(LrIndex hold, StoreOp *op);

/* And the hold is marked lost if the answer says so.  True: it is lost. */
extern bool ask_held(LrIndex hold, StoreOp *op);

/*
 * Have the store lengthen the lease of a lock that we hold, of which that is a view, to
 * lease_ms; "keep": even if this server crashes.  The outcome may be that it is lost.
 */
extern void ask_lengthen(const HeldEntry *entry, const HoldView *view,
						 int64 lease_ms, bool keep, StoreOp *op);

/*
 * An owner-checked operation of a lock that we hold was answered: repeat it while
 * the lock has been moved since, mark the hold lost if the answer says so.  True:
 * it is lost.
 */
extern bool ask_settle(LrIndex hold, StoreOp *op);

/* The answer says that our owner is not there; and so the hold is lost. */
extern bool ask_says_lost(const StoreOp *op);
extern void ask_lose_hold(LrIndex hold, const StoreOp *op);

/* Of the store that failed last */
extern const StoreError *ask_error(void);

/* Raise or warn of it. */
extern void ask_report_failure(int elevel, StoreOutcome outcome);

#endif							/* LR_ASK_H */
