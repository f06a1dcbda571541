/*-------------------------------------------------------------------------
 *
 * quorum_ask.h
 *	  What several masters are asked on the way to an outcome.
 *
 * "which": the number of an operation of the batch; the first of n that are taken together.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_ask.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_QUORUM_ASK_H
#define LR_REDIS_QUORUM_ASK_H

#include "lockredis.h"

#include "store/redis/quorum.h"
#include "store/redis/quorum_batch.h"

/* Put them for that node, to be asked by link_ask(); returns how many. */
extern int	quorum_put_group(QuorumBatch *b, int row, int which, int n, StoreOpKind kind);

/* All nodes that were not asked yet, and may be. */
extern void quorum_ask_rest(QuorumBatch *b, int which, int n);

/*
 * An attempt has failed: give back what was granted, or may have been.  "quiet": nobody
 * else is told.  Will nothing stay then?  And once more.
 */
extern void quorum_undo(QuorumBatch *b, int which, int n, bool quiet);
extern bool quorum_undoes_all(const QuorumBatch *b, int which, int n);
extern void quorum_begin_attempt(QuorumBatch *b, int which, int n);

/* Have the counters of a majority reach the token; false: they have. */
extern bool quorum_raise(QuorumBatch *b, int which, const QuorumVote *votes);

/* A node has said who has the lock there: take it from him. */
extern void quorum_turn_force(QuorumBatch *b, int which);

#endif							/* LR_REDIS_QUORUM_ASK_H */
