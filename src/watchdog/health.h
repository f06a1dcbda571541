/*-------------------------------------------------------------------------
 *
 * health.h
 *	  Is a store there?  Judged by what it answers the watchdog.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/health.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_HEALTH_H
#define LR_HEALTH_H

#include "lockredis.h"

#include "store/node.h"
#include "watchdog/due_batch.h"

/* A store that is away is asked again after 0.1 to 1 s. */
#define HEALTH_RETRY_MIN	(100 * LR_US_PER_MS)
#define HEALTH_RETRY_MAX	LR_US_PER_S

/* So many different reasons of one outage are logged. */
#define HEALTH_REASONS		8

typedef struct StoreHealth
{
	StoreId		id;
	NodeId		node;
	NodeState	state;
	int64		retry_delay;
	int64		next_try;		/* not before, while the store is away */
	int64		next_probe;
	int64		next_facts;
	uint32		connection_epoch;

	/* Digests of the reasons that were logged since it went down. */
	uint32		reasons[HEALTH_REASONS];
	int			nreasons;

	/* What was warned of. */
	char		warned_policy[32];
	bool		warned_replica;
} StoreHealth;

extern void health_start(StoreHealth *h, StoreId id, NodeId node);

/* The settings have changed: it is another one, or lets us in as another. */
extern void health_forget(StoreHealth *h);

/* What the replies of a batch say. */
extern void health_judge(StoreHealth *h, const DueBatch *b);

/* When to try again what the store did not do. */
extern int64 health_retry_at(const StoreHealth *h);

/* Is it to be asked, although nothing is due? */
extern bool health_wants_probe(const StoreHealth *h, int64 now);

/* When it is to be asked at the latest. */
extern int64 health_next(const StoreHealth *h);

/* Is it unknown whether it would do the operations of this batch? */
extern bool health_wants_proof(const StoreHealth *h, const DueBatch *b);

/* Is it to say something of itself? */
extern bool health_wants_facts(const StoreHealth *h, const DueBatch *b);

/* Does it serve us, over the connection that there is? */
extern bool health_serves(const StoreHealth *h, const DueBatch *b);

#endif							/* LR_HEALTH_H */
