/*-------------------------------------------------------------------------
 *
 * left.h
 *	  Releases whose batch has ended before they were answered.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/left.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_LEFT_H
#define LR_REDIS_LEFT_H

#include "lockredis.h"

#include "store/redis/node_batch.h"

/*
 * All of the batch was sent, and all that is under way is releases: remember them, and
 * end it.  False: the batch is to be gone on with.
 */
extern bool left_begin(NodeBatch *b, StoreAnswered answered);

/* The reply to the oldest of their commands; false if there is no such reply. */
extern bool left_take(NodeBatch *b, const RedisValue *v);

/* The connection that would have brought their replies is gone. */
extern void left_lose(NodeBatch *b);

#endif							/* LR_REDIS_LEFT_H */
