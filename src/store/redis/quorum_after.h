/*-------------------------------------------------------------------------
 *
 * quorum_after.h
 *	  What masters are asked behind the outcome of an operation.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_after.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_QUORUM_AFTER_H
#define LR_REDIS_QUORUM_AFTER_H

#include "lockredis.h"

#include "store/redis/quorum_batch.h"

/* The lock is lost: nor is it to stay at those that still have it. */
extern void quorum_give_up(QuorumBatch *b, int which);

/* It was renewed: what a minority has forgotten it gets again. */
extern void quorum_watch(QuorumBatch *b, int which);

/* An answer that may have come after the outcome: that copy of the link. */
extern void quorum_look_after(QuorumBatch *b, int row, int which);

#endif							/* LR_REDIS_QUORUM_AFTER_H */
