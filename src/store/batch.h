/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  A batch under way: the state that every store keeps, and how it ends.
 *
 * This file implements the rules of store.h that do not depend on the store: each
 * operation gets one outcome, an operation that may have run never counts as not
 * run, and a batch that a longjmp has left is dropped without touching its
 * operations.  A store has a StoreBatch in its handle and does the rest: it sends,
 * reads, and waits.
 *
 * Nothing in here waits, allocates or raises.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/batch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_STORE_BATCH_H
#define LR_STORE_BATCH_H

#include "lockredis.h"

#include "store/store.h"

typedef struct StoreBatch
{
	bool		active;			/* from batch_start() to batch_finish() */
	StoreOp    *ops;			/* the caller's; NULL unless active */
	int			nops;
	int			part;			/* it owns the operations of this part; see StoreOp */
	int			left;			/* number of operations without outcome */
	int64		deadline;		/* lr_now() time */
	StoreError	error;			/* kept when the batch has ended */
} StoreBatch;

/*
 * Begin: no operation has an outcome, and none was sent.  An empty batch is not active.
 */
extern void batch_start(StoreBatch *batch, StoreOp *ops, int nops,
						int64 deadline);

/*
 * Begin with the "n" operations of that part, after another batch has begun all of
 * them; or add them to the batch under way.
 */
extern void batch_join(StoreBatch *batch, StoreOp *ops, int nops, int part, int n,
					   int64 deadline);

/* Does the operation belong to this batch? */
static inline bool
batch_has(const StoreBatch *batch, const StoreOp *op)
{
	return op->part == batch->part;
}

/* An operation without outcome leaves this batch for another part. */
extern void batch_hand_on(StoreBatch *batch, StoreOp *op, int part);

/* Set the outcome of an operation of the batch that has none. */
extern void batch_settle(StoreBatch *batch, StoreOp *op, StoreOutcome outcome);

/* This operation surely did not reach the store, although it had been sent. */
extern void batch_mark_unsent(StoreOp *op);

/*
 * Settle all operations without outcome: those that were sent as STORE_UNKNOWN, the
 * others as "unsent".
 */
extern void batch_give_up(StoreBatch *batch, StoreOutcome unsent);

/* End the batch if all operations have an outcome; returns true if that ended it. */
extern bool batch_finish(StoreBatch *batch);

/* Drop the batch, without touching the operations, since they may be gone. */
extern void batch_forget(StoreBatch *batch);

/* Set the error for the caller; without address and hint. */
extern void batch_set_error(StoreBatch *batch, int sqlstate, const char *detail);

#endif							/* LR_STORE_BATCH_H */
