/*-------------------------------------------------------------------------
 *
 * cluster_map.h
 *	  Redis Cluster: the map of its slots.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_map.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CLUSTER_MAP_H
#define LR_CLUSTER_MAP_H

#include "lockredis.h"

#include "store/nodes.h"
#include "store/redis/resp.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * cluster_map.c: Parses what a node of a Redis Cluster says about it: the reply to CLUSTER
 * NODES; and decides how that changes the map.
 * ----------
 */

/* One node in such a reply. */
typedef struct Claim
{
	char		id[CLUSTER_ID_LEN + 1];
	RedisHost	at;
	char		name[LR_HOST_MAX];	/* name that it announces, or empty */
	int64		number;			/* config epoch */
	bool		is_master;
	bool		is_replica;
	bool		has_failed;
	bool		in_doubt;		/* the node that has answered does not hear it */
	bool		is_itself;		/* the node that has answered */
	bool		gives;			/* some of its slots are being moved to another one */
	int			row;			/* CLUSTER_NO_NODE: not looked up yet */
} Claim;

typedef struct ClusterClaims
{
	int			n;
	Claim		claim[CLUSTER_NODES_MAX];
	int64		asked_at;		/* when the node was asked */
	ClusterIds	ids;			/* of all of them */
	int16		claimed_by[SLOT_COUNT]; /* number of the claim; CLUSTER_NO_NODE: none */
} ClusterClaims;

/*
 * Parse a reply of the node at "asked".  False if it is not such a reply, or incomplete.
 */
extern bool cluster_claims_read(ClusterClaims *a, const redisReply *v, const RedisUrl *asked);

/* Does it name one of these nodes, other than the one that replies unless that counts? */
extern bool cluster_claims_name(ClusterClaims *a, const ClusterIds *ids, bool itself_counts);

/* Begin, with the map that an earlier watchdog may have left. */
extern void cluster_map_start(void);

/* Is the reply from the cluster that we know?  It may be applied only if so. */
extern bool cluster_map_is_ours(ClusterClaims *a);
extern void cluster_map_apply(ClusterClaims *a);

/* To be called now and then: what is known of replicas expires. */
extern void cluster_map_step(int64 now);

/* ----------
 * cluster_watch.c: The watchdog asks the nodes of a Redis Cluster for the map of its
 * slots.
 * ----------
 */

/* Like the follow_xxx of StoreRoutine; they do nothing if there is no cluster. */
extern void redis_cluster_watch_start(void);
extern void redis_cluster_watch_reload(void);
extern void redis_cluster_watch_step(void);
extern void redis_cluster_watch_interests(StoreInterests *in);

#endif							/* LR_CLUSTER_MAP_H */
