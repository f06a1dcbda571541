/*-------------------------------------------------------------------------
 *
 * listener.h
 *	  Release messages of Redis: the listener functions of the store interface.
 *
 * What they do is said at StoreRoutine, of which redis_store.c fills in the rest.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/listener.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_LISTENER_H
#define LR_REDIS_LISTENER_H

#include "store/store.h"

extern StoreListener *redis_listener_open(StoreEventCallback callback);
extern void redis_listener_subscribe(StoreListener *l, LrTopic topic, uint64 owner,
									 const char *name, int name_len);
extern void redis_listener_unsubscribe(StoreListener *l, LrTopic topic, uint64 owner,
									   const char *name, int name_len);
extern void redis_listener_step(StoreListener *l);
extern int	redis_listener_interests(StoreListener *l, StoreInterest *out,
									 int64 *until, uint32 *epoch);
extern void redis_listener_close(StoreListener *l);

#endif							/* LR_REDIS_LISTENER_H */
