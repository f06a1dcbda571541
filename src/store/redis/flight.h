/*-------------------------------------------------------------------------
 *
 * flight.h
 *	  Commands of a batch that are under way at one Redis node.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/flight.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_FLIGHT_H
#define LR_REDIS_FLIGHT_H

#include "lockredis.h"

#include "store/redis/node_batch.h"

/* Until when the reply to what is sent now is awaited at most. */
extern int64 flight_limit(const NodeBatch *b, int64 now);

/* The node was heard now, or asked first. */
extern void flight_note_progress(NodeBatch *b, int64 now);

/* What was put together, ops[first .. first + n), is under way. */
extern void flight_push(NodeBatch *b, RedisCommandKind kind, int first, int n,
						uint64 starts_at, int64 now);

/* The one that is answered next, or NULL; and it has been answered. */
extern RedisCommand *flight_oldest(NodeBatch *b);
extern void flight_land_oldest(NodeBatch *b);

/* It surely did not run for this operation. */
extern void flight_never_ran(StoreOp *op, const RedisCommand *cmd);

/* The connection is gone. */
extern void flight_ground(NodeBatch *b);

/* Go through the operations again, for those that are still open. */
extern void flight_start_pass(NodeBatch *b);

#endif							/* LR_REDIS_FLIGHT_H */
