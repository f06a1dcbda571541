/*-------------------------------------------------------------------------
 *
 * handshake.h
 *	  What is said first on a connection: who we are; and what the node is.
 *
 * Part of the machine of conn.h.  All requests go out at once, and their replies
 * are taken one by one.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/handshake.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_HANDSHAKE_H
#define LR_REDIS_HANDSHAKE_H

#include "lockredis.h"

#include "store/masters.h"
#include "store/redis/node_errors.h"
#include "store/redis/resp.h"
#include "store/redis/target.h"

/* Requests, in the order in which they are answered. */
typedef enum RedisGreeting
{
	GREET_HELLO,				/* with user, password and name; tells what the
								 * node is */
	GREET_AUTH,
	GREET_SELECT,
	GREET_NAME,
	GREET_TIME,
	GREET_INFO,
	GREET_ID					/* of a node of a cluster */
} RedisGreeting;

#define REDIS_MAX_GREETINGS 8

/* What the node says of itself. */
typedef struct RedisFacts
{
	char		version[32];
	char		policy[32];		/* maxmemory_policy */
	NodeRole	role;
	char		run_id[RUN_ID_LEN + 1]; /* empty: not told */
	int64		booted_by;		/* lr_now() at which it surely ran; 0 = not told */
	uint32		life;			/* one of several masters: that of its row then, */
	int64		since;			/* and since when it is there (masters.h) */
} RedisFacts;

typedef struct RedisHandshake
{
	RedisGreeting greetings[REDIS_MAX_GREETINGS];
	int			ngreetings;
	int			next;			/* is answered next */
	int64		sent_at;
	char		secret[LR_SECRET_MAX];	/* until AUTH is answered */

	/* What came of it. */
	RedisFacts	facts;			/* if it was asked to probe */
	int64		round_trip;
	int64		clock_offset;	/* see RedisConn */
} RedisHandshake;

typedef enum HandshakeResult
{
	HANDSHAKE_UNDER_WAY,
	HANDSHAKE_DONE,
	HANDSHAKE_FAILED			/* the failure says why */
} HandshakeResult;

/*
 * Put all requests.  "role" becomes part of the connection's name; with "probe"
 * the node is asked for its facts.  False: it has failed.
 */
extern bool redis_handshake_start(RedisHandshake *hs, const RedisTarget *t,
								  const char *role, bool probe, RespOut *out,
								  RedisFailure *f);

/* Take the next reply. */
extern HandshakeResult redis_handshake_take(RedisHandshake *hs,
											const RedisTarget *t,
											const RedisValue *v,
											RedisFailure *f);
extern void redis_handshake_forget_secret(RedisHandshake *hs);

/*
 * The reply of INFO: what is in it, the rest stays.  What it says of replicas, for
 * the table of nodes.
 */
extern void redis_facts_read(RedisFacts *facts, const char *info);
extern void redis_replicas_read(const char *info);

/* Can messages be told to its shard alone? */
extern bool redis_facts_have_shards(const RedisFacts *facts);

/* The node's clock minus lr_now(), when it was "us" at "read_at" or before. */
extern int64 redis_clock_offset(int64 us, int64 read_at);

#endif							/* LR_REDIS_HANDSHAKE_H */
