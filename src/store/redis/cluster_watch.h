/*-------------------------------------------------------------------------
 *
 * cluster_watch.h
 *	  The watchdog asks the nodes of a Redis Cluster which of them has which slot.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_watch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CLUSTER_WATCH_H
#define LR_REDIS_CLUSTER_WATCH_H

#include "lockredis.h"

#include "store/store.h"

/* As the follow_xxx of StoreRoutine; do nothing where there is no cluster. */
extern void redis_cluster_watch_start(void);
extern void redis_cluster_watch_reload(void);
extern void redis_cluster_watch_step(void);
extern int	redis_cluster_watch_interests(StoreInterest *out, int64 *until,
										  uint32 *epoch);

#endif							/* LR_REDIS_CLUSTER_WATCH_H */
