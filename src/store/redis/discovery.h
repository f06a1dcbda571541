/*-------------------------------------------------------------------------
 *
 * discovery.h
 *	  What nodes say of each other, and which one is the master.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/discovery.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_DISCOVERY_H
#define LR_DISCOVERY_H

#include "lockredis.h"

#include "store/redis/conn.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * claim.c: Does a node say of itself that it is a master?  Asked before it is believed.
 * ----------
 */

/* Nobody is asked, by the present settings. */
extern void redis_claim_start(void);

/* This node is asked from now on, again and again; NULL: none. */
extern void redis_claim_ask(const RedisHost *at);

/* Has it said so, when it was asked since then? */
extern bool redis_claim_was_made(const RedisHost *at, int64 since);

/* Do what can be done without waiting; what to wait for. */
extern void redis_claim_step(void);
extern int	redis_claim_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* ----------
 * sentinel.c: One Sentinel: what it says about the master, and when it has news.
 *
 * Two connections, since one that listens cannot be asked.  Only the watchdog
 * has them.  Whom of several Sentinels to believe is the business of discovery.h.
 * ----------
 */

typedef struct SentinelAnswer
{
	int64		asked_at;		/* lr_now() before the question; 0 = none yet */
	bool		known;			/* it knows the service, */
	RedisHost	master;			/* and who serves that, */
	int64		config_epoch;	/* by this failover; */
	bool		in_doubt;		/* but is about to make somebody else the master */
} SentinelAnswer;

typedef struct RedisSentinel
{
	RedisTarget target;
	NodeState	state;

	/* Questions. */
	RedisConn	ask;
	int			nawaited;		/* replies to come */
	int64		answer_until;
	int64		retry_delay;
	int64		next_try;
	int64		failed_at;		/* it could not be asked, or did not answer */
	int64		cut_off_at;		/* a good connection to it has ended */
	SentinelAnswer coming;
	SentinelAnswer answer;		/* the last whole one */

	/* News. */
	RedisConn	ear;
	bool		listening;
	int64		heard_at;
	int64		ear_until;		/* something must be heard before; 0 = need not */
	int64		ear_next_try;
} RedisSentinel;

/* On zeroed memory; raises when out of memory.  It connects when stepped. */
extern void sentinel_open(RedisSentinel *s, int number);
extern void sentinel_close(RedisSentinel *s);

/*
 * Do what can be done without waiting, so that there is an answer to a question
 * that was asked at "since" or later.  True: it has said that something is going
 * on.
 */
extern bool sentinel_step(RedisSentinel *s, int64 since);

/* Is there such an answer, or surely none soon? */
extern bool sentinel_has_answered(const RedisSentinel *s, int64 since);

/* As StoreRoutine.interests; at most two sockets. */
extern int	sentinel_interests(const RedisSentinel *s, StoreInterest *out,
							   int64 *until, uint32 *epoch);

/* ----------
 * discovery.c: Which of the nodes that Sentinels name is the master: whom to believe.
 *
 * The watchdog's, which calls it as the follow_xxx of store.h.  What is found is
 * told to all in topology.c.
 * ----------
 */

extern void redis_discovery_start(void);
extern void redis_discovery_step(void);
extern int	redis_discovery_interests(StoreInterest *out, int64 *until, uint32 *epoch);

#endif							/* LR_DISCOVERY_H */
