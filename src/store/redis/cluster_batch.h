/*-------------------------------------------------------------------------
 *
 * cluster_batch.h
 *	  A cluster: its map, and batches over its masters.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_batch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CLUSTER_BATCH_H
#define LR_CLUSTER_BATCH_H

#include "lockredis.h"

#include "store/nodes.h"
#include "store/redis/node_batch.h"
#include "store/redis/resp.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * cluster_claims.c: What a node of a Redis Cluster says of it: the answer to CLUSTER NODES.
 * ----------
 */

/* A node, as the answer has it. */
typedef struct Claim
{
	char		id[CLUSTER_ID_LEN + 1];
	RedisHost	at;
	char		name[LR_HOST_MAX];	/* that it announces, or empty */
	int64		number;			/* config epoch */
	bool		is_master;
	bool		is_replica;
	bool		has_failed;
	bool		is_itself;		/* who answers */
	const char *slots;			/* to the end of the line */
	int			row;			/* CLUSTER_NO_NODE: not looked up */
} Claim;

typedef struct ClusterClaims
{
	int			n;
	Claim		claim[CLUSTER_NODES_MAX];
	uint8		claimed[(SLOT_COUNT + BITS_PER_BYTE - 1) / BITS_PER_BYTE];	/* by any of them */
} ClusterClaims;

/*
 * The lines of an answer of the node "asked", which have to stay where they are; false:
 * that is none, or it is not whole.
 */
extern bool cluster_claims_read(ClusterClaims *a, const RedisValue *v, const RedisUrl *asked);

extern const Claim *cluster_claims_find(const ClusterClaims *a, const char *id);

/*
 * A range of slots, at *p, which goes on behind it; false: there is none any more.
 */
extern bool claim_next_range(const char **p, long *first, long *last);

/* ----------
 * cluster_map.c: What a node of a Redis Cluster says changes the map: whom to believe.
 * ----------
 */

/* What one of these watchdogs before this one has left. */
extern void cluster_map_start(void);

/* Is the answer one of the cluster that is known?  Only then it is to be applied. */
extern bool cluster_map_is_ours(const ClusterClaims *a);
extern void cluster_map_apply(ClusterClaims *a);

/* Now and then: what is said of replicas is not for ever. */
extern void cluster_map_step(int64 now);

/* ----------
 * cluster_watch.c: The watchdog asks the nodes of a Redis Cluster which of them has which slot.
 * ----------
 */

/* As the follow_xxx of StoreRoutine; do nothing where there is no cluster. */
extern void redis_cluster_watch_start(void);
extern void redis_cluster_watch_reload(void);
extern void redis_cluster_watch_step(void);
extern int	redis_cluster_watch_interests(StoreInterest *out, int64 *until,
										  uint32 *epoch);

/* ----------
 * cluster_batch.c: A batch of operations at the nodes of a Redis Cluster.
 *
 * Each operation goes to the node that has its slot.  There is a link to each node that
 * was ever needed, made on demand, and all of them work at the same time on operations
 * of the same array: each has a part (StoreOp.part).  An operation that its node sends
 * elsewhere leaves that part and is routed again.
 *
 * Nothing waits here, raises or allocates in a memory context.
 * ----------
 */

typedef struct ClusterBatch
{
	char		role[32];
	bool		patient;
	bool		judge;
	int			home;			/* row for what concerns no key; CLUSTER_NO_NODE: any */
	NodeBatch  *link[NODE_MASTERS]; /* NULL: never needed */

	bool		at_work[NODE_MASTERS];	/* has had a part of the batch */

	StoreBatch	batch;			/* left: operations that no link has */
	int64		route_at;		/* when to look at these */
	int64		refused_at;		/* one of them was by the node that the map has */
	int64		map_wanted_at;	/* the map was asked for last */
	int64		map_until;		/* until then the first one is waited for */
	uint32		routed_by;		/* topology_epoch() when that was done last */
	int			tried_again;	/* what needs keys that were not all there */
	StoreError	error;			/* of what failed last; at its home, if that did */
	bool		home_failed;
} ClusterBatch;

extern void cluster_batch_init(ClusterBatch *c, const char *role, bool patient,
							   bool judge);

/* As of NodeBatch. */
extern void cluster_batch_start(ClusterBatch *c, StoreOp *ops, int nops,
								int64 deadline);
extern void cluster_batch_process(ClusterBatch *c, bool readable, bool briefly);

/* Drop a batch that a longjmp has left: its operations may be gone. */
extern void cluster_batch_drop(ClusterBatch *c);

/*
 * End what has had its time.  "leave": what cannot be sent now, since nobody knows
 * where to, is not waited for.
 */
extern void cluster_batch_check_time(ClusterBatch *c, bool leave);
extern int64 cluster_batch_until(const ClusterBatch *c);
extern void cluster_batch_abandon(ClusterBatch *c);
extern bool cluster_batch_is_active(const ClusterBatch *c);

/* The links that are at work; returns how many. */
extern int	cluster_batch_busy(ClusterBatch *c, NodeBatch **out);

/* Are operations waiting for something else than a reply? */
extern bool cluster_batch_has_open(const ClusterBatch *c);

/* Between batches. */
extern void cluster_batch_check_connections(ClusterBatch *c);
extern bool cluster_batch_is_connected(const ClusterBatch *c);
extern uint32 cluster_batch_connections(const ClusterBatch *c);
extern int64 cluster_batch_let_go(ClusterBatch *c, int64 unused_since);
extern void cluster_batch_close(ClusterBatch *c);

/* As node_batch_forget(), of the node that has answered. */
extern void cluster_batch_forget(ClusterBatch *c, const StoreOp *op);
extern void cluster_batch_send_idle(ClusterBatch *c);

#endif							/* LR_CLUSTER_BATCH_H */
