/*-------------------------------------------------------------------------
 *
 * quorum_step.h
 *	  What several masters have said of an operation, and what follows.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_step.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_QUORUM_STEP_H
#define LR_REDIS_QUORUM_STEP_H

#include "lockredis.h"

#include "store/redis/quorum_batch.h"

/* This is the outcome. */
extern void quorum_settle(QuorumBatch *b, int which, StoreOutcome outcome);

/* What a node has answered since it was heard last; what all have. */
extern void quorum_hear(QuorumBatch *b, int row);
extern void quorum_hear_all(QuorumBatch *b);

/* Decide what can be decided. */
extern void quorum_look(QuorumBatch *b);

#endif							/* LR_REDIS_QUORUM_STEP_H */
