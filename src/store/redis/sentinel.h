/*-------------------------------------------------------------------------
 *
 * sentinel.h
 *	  One Sentinel: what it says about the master, and when it has news.
 *
 * Two connections, since one that listens cannot be asked.  Only the watchdog
 * has them.  Whom of several Sentinels to believe is the business of discovery.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/sentinel.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_SENTINEL_H
#define LR_REDIS_SENTINEL_H

#include "lockredis.h"

#include "store/redis/conn.h"
#include "store/redis/target.h"

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

#endif							/* LR_REDIS_SENTINEL_H */
