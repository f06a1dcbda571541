/*-------------------------------------------------------------------------
 *
 * cluster_claims.h
 *	  What a node of a Redis Cluster says of it: the answer to CLUSTER NODES.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_claims.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CLUSTER_CLAIMS_H
#define LR_REDIS_CLUSTER_CLAIMS_H

#include "lockredis.h"

#include "store/cluster.h"
#include "store/redis/resp.h"
#include "store/redis/url.h"

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

#endif							/* LR_REDIS_CLUSTER_CLAIMS_H */
