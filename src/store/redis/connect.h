/*-------------------------------------------------------------------------
 *
 * connect.h
 *	  From a target to a connected socket: its addresses, one after the other.
 *
 * A machine that never waits, part of that of conn.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/connect.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CONNECT_H
#define LR_REDIS_CONNECT_H

#include "lockredis.h"

#include "store/redis/node_errors.h"
#include "store/redis/socket.h"
#include "store/redis/target.h"

typedef struct RedisConnect
{
	int64		opened_at;
	int64		until;			/* be connected, and greeted */
	NodeAddresses addresses;	/* none: not known yet */
	int			next_address;
	int64		address_until;	/* for the one that is tried: there is a socket */
	int64		pause_until;	/* what to do when there is none */
} RedisConnect;

typedef enum ConnectResult
{
	CONNECT_UNDER_WAY,
	CONNECT_DONE,
	CONNECT_FAILED				/* the failure says why */
} ConnectResult;

/* Start, to be ready before "until" and within connect_timeout. */
extern void redis_connect_start(RedisConnect *d, int64 until);

/* Go as far as is possible now. */
extern ConnectResult redis_connect_step(RedisConnect *d, const RedisTarget *t,
										RedisSocket *s, RedisFailure *f);

/* When to look at it even if nothing happens to the socket. */
extern int64 redis_connect_next(const RedisConnect *d, const RedisSocket *s);

/*
 * No sign of life up to the end: what to tell, and everybody else too if all of
 * connect_timeout has passed.
 */
extern void redis_connect_timed_out(const RedisConnect *d, const RedisTarget *t,
									RedisFailure *f, const char *detail);

#endif							/* LR_REDIS_CONNECT_H */
