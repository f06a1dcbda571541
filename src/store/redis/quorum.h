/*-------------------------------------------------------------------------
 *
 * quorum.h
 *	  What independent masters say of one operation, as one outcome.
 *
 * Each of them was asked the same, by a copy of the operation.  More than half of all
 * that are configured have to agree, whether they can be reached or not: two such
 * majorities have a node in common.
 *
 * Nothing here knows connections, waits or has state.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_QUORUM_H
#define LR_REDIS_QUORUM_H

#include "lockredis.h"

#include "store/redis/url.h"
#include "store/store.h"

/* What one node says. */
typedef struct QuorumVote
{
	const StoreOp *copy;		/* NULL: it was not asked */
	bool		awaited;		/* it may yet answer, and that is worth waiting for */
	bool		counts;			/* of a create: it cannot have forgotten a lock */
} QuorumVote;

/*
 * The outcome that the votes of n nodes are, with its results in *op;
 * STORE_PENDING: it depends on those that are awaited.
 */
extern StoreOutcome quorum_decide(StoreOp *op, const QuorumVote *votes, int n);

/*
 * Of a create that is busy: has nobody a majority, as far as is known?  Then who asks
 * again may get it.
 */
extern bool quorum_is_split(const QuorumVote *votes, int n);

/* The clocks of nodes run apart: so much (ms) of a lease is not relied on. */
extern int64 quorum_drift_ms(int64 lease_ms);

#endif							/* LR_REDIS_QUORUM_H */
