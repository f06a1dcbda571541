/*-------------------------------------------------------------------------
 *
 * cluster_map.h
 *	  What a node of a Redis Cluster says changes the map: whom to believe.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_map.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CLUSTER_MAP_H
#define LR_REDIS_CLUSTER_MAP_H

#include "lockredis.h"

#include "store/redis/cluster_claims.h"

/* What one of these watchdogs before this one has left. */
extern void cluster_map_start(void);

/* Is the answer one of the cluster that is known?  Only then it is to be applied. */
extern bool cluster_map_is_ours(const ClusterClaims *a);
extern void cluster_map_apply(ClusterClaims *a);

/* Now and then: what is said of replicas is not for ever. */
extern void cluster_map_step(int64 now);

#endif							/* LR_REDIS_CLUSTER_MAP_H */
