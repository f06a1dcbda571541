/*-------------------------------------------------------------------------
 *
 * confirm.h
 *	  What replicas of a Redis node have to confirm.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/confirm.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CONFIRM_H
#define LR_REDIS_CONFIRM_H

#include "lockredis.h"

#include "store/redis/node_batch.h"

/* This operation has been put into a command. */
extern void confirm_want(NodeBatch *b, const StoreOp *op);

/*
 * Put the WAIT for all that has been put before it.  False without memory: the
 * operations have no outcome then, and the connection is of no use.
 */
extern bool confirm_put(NodeBatch *b);

/* The operation was carried out: that is its outcome, or replicas are awaited. */
extern void confirm_done(NodeBatch *b, StoreOp *op);

/* The reply to a WAIT; false if there is no such reply. */
extern bool confirm_take(NodeBatch *b, const RedisValue *v);

/* The connection is gone, and with it what it would have said. */
extern void confirm_lost(NodeBatch *b);

/* Is the next reply one to a WAIT? */
extern bool confirm_is_awaited(NodeBatch *b);

/* The batch has ended: replies to WAITs may be under way. */
extern void confirm_leave(NodeBatch *b);

/* That is one of these replies; false if there is no such reply. */
extern bool confirm_swallow(NodeBatch *b, const RedisValue *v);

#endif							/* LR_REDIS_CONFIRM_H */
