/*-------------------------------------------------------------------------
 *
 * masters_watch.h
 *	  The watchdog asks each of the independent masters whether it is there.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/masters_watch.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_MASTERS_WATCH_H
#define LR_REDIS_MASTERS_WATCH_H

#include "lockredis.h"

#include "store/store.h"

/* As the follow_xxx of StoreRoutine; do nothing where there are none. */
extern void redis_masters_watch_start(void);
extern void redis_masters_watch_step(void);
extern int	redis_masters_watch_interests(StoreInterest *out, int64 *until,
										  uint32 *epoch);

#endif							/* LR_REDIS_MASTERS_WATCH_H */
