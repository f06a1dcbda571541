/*-------------------------------------------------------------------------
 *
 * claim.h
 *	  Does a node say of itself that it is a master?  Asked before it is believed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/claim.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CLAIM_H
#define LR_REDIS_CLAIM_H

#include "lockredis.h"

#include "store/redis/url.h"
#include "store/store.h"

/* Nobody is asked, by the present settings. */
extern void redis_claim_start(void);

/* This node is asked from now on, again and again; NULL: none. */
extern void redis_claim_ask(const RedisHost *at);

/* Has it said so, when it was asked since then? */
extern bool redis_claim_was_made(const RedisHost *at, int64 since);

/* Do what can be done without waiting; what to wait for. */
extern void redis_claim_step(void);
extern int	redis_claim_interests(StoreInterest *out, int64 *until, uint32 *epoch);

#endif							/* LR_REDIS_CLAIM_H */
