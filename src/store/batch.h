/*-------------------------------------------------------------------------
 *
 * batch.h
 *	  A batch under way: what every store keeps of one, and how it ends.
 *
 * The rules of store.h that do not depend on the store are kept here: each
 * operation gets one outcome, what may have been carried out is never said to
 * have not, and a batch that a longjmp has left is dropped without touching its
 * operations.  A store has a StoreBatch in its handle and does the rest: sends,
 * reads, waits.
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
	int			part;			/* its own are those of this part, see StoreOp */
	int			left;			/* so many have no outcome */
	int64		deadline;		/* lr_now() time */
	StoreError	error;			/* stays when the batch has ended */
} StoreBatch;

/* Begin: no operation has an outcome, and none was sent.  None: not active. */
extern void batch_start(StoreBatch *batch, StoreOp *ops, int nops,
						int64 deadline);

/*
 * Begin with "n" of them, those of that part, all of which another one has begun
 * before; or take so many more along.
 */
extern void batch_join(StoreBatch *batch, StoreOp *ops, int nops, int part, int n,
					   int64 deadline);

/* Is it one of its own? */
static inline bool
batch_has(const StoreBatch *batch, const StoreOp *op)
{
	return op->part == batch->part;
}

/* An operation that has no outcome is none of its own any more. */
extern void batch_hand_on(StoreBatch *batch, StoreOp *op, int part);

/* An operation of the batch that has no outcome gets its. */
extern void batch_settle(StoreBatch *batch, StoreOp *op, StoreOutcome outcome);

/*
 * This operation surely did not reach the store, although it was thought to be
 * on its way.
 */
extern void batch_mark_unsent(StoreOp *op);

/*
 * Settle all that have no outcome: what was sent is STORE_UNKNOWN, and
 * "unsent" becomes of the others.
 */
extern void batch_give_up(StoreBatch *batch, StoreOutcome unsent);

/* End the batch if nothing is left; true if that ended it. */
extern bool batch_finish(StoreBatch *batch);

/* Drop it: the operations are not touched, since they may be gone. */
extern void batch_forget(StoreBatch *batch);

/* What the caller is told of it; without address and hint. */
extern void batch_set_error(StoreBatch *batch, int sqlstate, const char *detail);

#endif							/* LR_STORE_BATCH_H */
