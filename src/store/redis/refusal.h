/*-------------------------------------------------------------------------
 *
 * refusal.h
 *	  What a batch makes of error replies.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/refusal.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_REFUSAL_H
#define LR_REDIS_REFUSAL_H

#include "lockredis.h"

#include "store/redis/node_batch.h"

/* An error reply to a whole command; to one lock of it. */
extern void refusal_take(NodeBatch *b, const RedisCommand *cmd);
extern void refusal_of_one(NodeBatch *b, StoreOp *op, const RedisValue *v);

/* To the question what replicas have. */
extern void refusal_of_wait(NodeBatch *b, const RedisValue *v);

/* Nothing is done for anybody: all that is open has this outcome. */
extern void refusal_of_rest(NodeBatch *b, StoreOutcome outcome);

/* Have what a session was told in redis_lock_status too. */
extern void refusal_report(const NodeBatch *b);

#endif							/* LR_REDIS_REFUSAL_H */
