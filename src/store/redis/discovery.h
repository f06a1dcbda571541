/*-------------------------------------------------------------------------
 *
 * discovery.h
 *	  Finding the master: what Sentinels and nodes say, and which of them to believe.
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

#include "store/nodes.h"
#include "store/redis/conn.h"
#include "store/redis/url.h"
#include "store/store.h"

/* ----------
 * sentinel.c: One Sentinel: what it says about the master, and when it has news.
 *
 * There are two connections to it, since a connection with a subscription cannot be used
 * for questions.  Only the watchdog has them.  discovery.c decides which of several
 * Sentinels to believe.
 * ----------
 */

typedef struct SentinelAnswer
{
	int64		asked_at;		/* lr_now() before the question; 0 = no answer yet */
	bool		known;			/* the Sentinel knows the service */
	RedisHost	master;			/* the master that it names */
	int64		config_epoch;	/* number of the failover that made it one */
	bool		in_doubt;		/* a failover is under way, which will make
								 * another node the master */
	bool		of_another;		/* the name leads to another Sentinel since, or that
								 * one is asked by another name */
} SentinelAnswer;

typedef struct RedisSentinel
{
	RedisPoller ask;			/* the connection for questions */
	RedisPoller ear;			/* the one that listens for news */
	NodeState	state;
	char		run_id[RUN_ID_LEN + 1]; /* which one it is; empty: not known */
	bool		met;			/* its connection has been made since the caller looked */
	bool		news;			/* it has announced some in this step */
	int64		since;			/* the answer that is wanted is to a question from then on */
	int			nawaited;		/* number of replies still to come */
	int64		same_delay;		/* retry_delay if it is the one of another name */
	int64		failed_at;		/* last time that it could not be asked, or did
								 * not answer */
	int64		cut_off_at;		/* last time that a good connection to it ended */
	SentinelAnswer coming;
	SentinelAnswer answer;		/* the last complete one */
} RedisSentinel;

/* *s must be zeroed.  Raises when out of memory.  Connects when stepped. */
extern void sentinel_open(RedisSentinel *s, int number);
extern void sentinel_close(RedisSentinel *s);

/*
 * Do what can be done without waiting to get an answer to a question asked at "since" or
 * later.  Returns true if the Sentinel has announced news.
 */
extern bool sentinel_step(RedisSentinel *s, int64 since);

/*
 * Has it answered a question asked at "since" or later, or is it certain that no such
 * answer comes soon?
 */
extern bool sentinel_has_answered(const RedisSentinel *s, int64 since);

/*
 * Another name leads to the same Sentinel, and there is a connection by that name.  So this one
 * counts as down, and is tried again later, ever more seldom.
 */
extern void sentinel_refuse(RedisSentinel *s);

/* Connect again by that name, which may lead to another one now. */
extern void sentinel_reconnect(RedisSentinel *s);

/* As StoreRoutine.interests; at most two sockets. */
extern void sentinel_interests(const RedisSentinel *s, StoreInterests *in);

/* ----------
 * discovery.c: Decides which of the nodes that Sentinels name is the master.
 *
 * Only the watchdog runs it, through the follow_xxx functions of store.h. nodes.c
 * publishes the result to all processes.
 * ----------
 */

extern void redis_discovery_start(void);
extern void redis_discovery_step(void);
extern void redis_discovery_interests(StoreInterests *in);

#endif							/* LR_DISCOVERY_H */
