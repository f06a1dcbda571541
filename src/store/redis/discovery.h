/*-------------------------------------------------------------------------
 *
 * discovery.h
 *	  Which of the nodes that Sentinels name is the master: whom to believe.
 *
 * The watchdog's, which calls it as the follow_xxx of store.h.  What is found is
 * told to all in topology.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/discovery.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_DISCOVERY_H
#define LR_REDIS_DISCOVERY_H

#include "lockredis.h"

#include "store/store.h"

extern void redis_discovery_start(void);
extern void redis_discovery_step(void);
extern int	redis_discovery_interests(StoreInterest *out, int64 *until, uint32 *epoch);

#endif							/* LR_REDIS_DISCOVERY_H */
