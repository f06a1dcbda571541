/*-------------------------------------------------------------------------
 *
 * redis_link.h
 *	  A connection to the model of Redis, for the client and the listener.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/redis_link.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_LINK_H
#define SIM_REDIS_LINK_H

#include "../../../src/store/store.h"
#include "../backend/backend.h"
#include "../backend/hooks.h"

typedef enum LinkState
{
	LINK_CLOSED,
	LINK_CONNECTING,
	LINK_HANDSHAKE,				/* TIME was asked */
	LINK_READY
} LinkState;

typedef struct RedisLink
{
	LinkState	state;
	int			conn;			/* -1 = none */
	uint32		epoch;			/* changes with the connection */
	int64		connect_until;
	int64		clock_offset;	/* of the node's clock, not above the true one */
} RedisLink;

extern void link_init(RedisLink *l);
extern void link_open(RedisLink *l);
extern void link_close(RedisLink *l);

/* Do what is possible; CLOSED then: it could not be made. */
extern void link_advance(RedisLink *l);

/* An idle one: has it died? */
extern void link_check(RedisLink *l);
extern bool link_is_ready(const RedisLink *l);
extern void link_set_clock(RedisLink *l, int64 node_clock);
extern int	link_interest(const RedisLink *l, StoreInterest *out, uint32 *epoch);

#endif							/* SIM_REDIS_LINK_H */
