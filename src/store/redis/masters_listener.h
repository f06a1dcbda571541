/*-------------------------------------------------------------------------
 *
 * masters_listener.h
 *	  Release messages of independent masters.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/masters_listener.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_MASTERS_LISTENER_H
#define LR_REDIS_MASTERS_LISTENER_H

#include "lockredis.h"

#include "store/store.h"

typedef struct MastersListener MastersListener;

/* As the listener_xxx of StoreRoutine; of so many masters. */
extern MastersListener *masters_listener_open(int n, StoreEventCallback callback);
extern void masters_listener_close(MastersListener *l);
extern void masters_listener_subscribe(MastersListener *l, LrTopic topic, uint64 owner,
									   const char *name, int name_len);
extern void masters_listener_unsubscribe(MastersListener *l, LrTopic topic, uint64 owner,
										 const char *name, int name_len);
extern void masters_listener_step(MastersListener *l);
extern int	masters_listener_interests(MastersListener *l, StoreInterest *out,
									   int64 *until, uint32 *epoch);

#endif							/* LR_REDIS_MASTERS_LISTENER_H */
