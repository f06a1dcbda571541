/*-------------------------------------------------------------------------
 *
 * redis_model.h
 *	  A model of Redis: what the scripts in src/kinds do, on a map of keys.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_model.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_MODEL_H
#define SIM_REDIS_MODEL_H

#include "sim.h"

/* Operations that share a command; 200 in Redis, few here. */
#define REDIS_GROUP		3
#define REDIS_NAME		32
#define REDIS_OWNER		64

typedef enum RedisVerb
{
	REDIS_CREATE,
	REDIS_SET,
	REDIS_RELEASE,
	REDIS_RENEW,
	REDIS_MINT,
	REDIS_FORCE,
	REDIS_INSPECT,
	REDIS_PROBE,
	REDIS_TIME,
	REDIS_SUBSCRIBE,
	REDIS_UNSUBSCRIBE,
	REDIS_PING
} RedisVerb;

typedef struct RedisArg
{
	char		key[REDIS_NAME];
	char		owner[REDIS_OWNER];
	int64_t		lease_ms;
	int64_t		keep_ms;
	int64_t		not_after;
	int64_t		floor;
	int			count;
	bool		fenced;
	bool		shared;			/* of a kind that others can have beside it */
	bool		excludes_nobody;	/* if so: of one that anybody can have beside it */
} RedisArg;

typedef struct RedisRequest
{
	RedisVerb	verb;
	int			n;
	RedisArg	arg[REDIS_GROUP];
} RedisRequest;

typedef enum RedisResult
{
	REDIS_DONE,
	REDIS_BUSY,
	REDIS_GONE,
	REDIS_LATE
} RedisResult;

typedef struct RedisAnswer
{
	RedisResult result;
	int64_t		ttl_ms;			/* -1 = none */
	int64_t		fence;
	int64_t		store_ms;
	int			count;
	int			receivers;
	bool		there;			/* inspect: there is a lock */
	char		holder[REDIS_OWNER];
} RedisAnswer;

typedef struct RedisReply
{
	RedisVerb	verb;
	bool		is_message;		/* a release was published */
	bool		denied;			/* NOPERM, for all of it */
	bool		loading;
	int			n;
	char		channel[REDIS_NAME];
	RedisAnswer answer[REDIS_GROUP];
} RedisReply;

extern void redis_reset(void);

/* Its clock, microseconds. */
extern int64_t redis_clock(void);

/* ---- faults ---- */

extern void redis_lose_data(void);
extern void redis_set_clock(int64_t offset);
extern void redis_deny_key(const char *key, bool deny);
extern void redis_loading_until(int64_t until);
extern void redis_delete(const char *key);	/* by hand, and nobody is told */
extern void redis_publish(const char *key);

/* A client elsewhere takes and gives back. */
extern bool redis_foreign_take(const char *key, const char *owner, int64_t lease_ms);
extern void redis_foreign_release(const char *key, const char *owner, bool tell);

/* ---- checks ---- */

/* Until when (sim_now() time) that owner has the key; 0 = not at all. */
extern int64_t redis_owned_until(const char *key, const char *owner);

/* Is there anybody beside whom it could not be had, shared or not? */
extern bool redis_keeps_from(const char *key, bool shared);

/* Was something of that owner taken away that it did not give back? */
extern bool redis_was_robbed(const char *owner);
extern void redis_note_robbed(const char *owner);
extern bool redis_is_denied(const char *key);

/* When it was denied last; INT64_MAX: it is. */
extern int64_t redis_denied_until(const char *key);

/* A key whose owner begins with this text and that is not merely kept. */
extern const char *redis_find_owner(const char *prefix);

#endif							/* SIM_REDIS_MODEL_H */
