/*-------------------------------------------------------------------------
 *
 * listener.h
 *	  Listening for release messages: of one node, of several masters, or of whichever
 *	  lockredis.url names.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/listener.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LISTENER_H
#define LR_LISTENER_H

#include "lockredis.h"

#include "utils/hsearch.h"

#include "store/store.h"

/* ----------
 * node_listener.c: Release messages of one Redis node.
 * ----------
 */

typedef struct NodeListener NodeListener;

/* Create a hash table whose entries begin with a key of key_size bytes. */
extern HTAB *listener_table(const char *name, Size key_size, Size entry_size);

/*
 * Like the listener_xxx functions of StoreRoutine, for the node in this row of the table
 * of nodes.
 */
extern NodeListener *node_listener_open(NodeId node, StoreEventCallback callback);
extern void node_listener_close(NodeListener *l);
extern void node_listener_subscribe(NodeListener *l, const TopicKey *key);
extern void node_listener_unsubscribe(NodeListener *l, const TopicKey *key);
extern void node_listener_step(NodeListener *l);
extern void node_listener_interests(NodeListener *l, StoreInterests *in);

/* ----------
 * listener.c: The listener functions of the store interface.
 *
 * StoreRoutine in store.h describes them; redis_store.c puts them there.
 * ----------
 */

extern StoreListener *redis_listener_open(StoreEventCallback callback);
extern void redis_listener_subscribe(StoreListener *l, const TopicKey *key);
extern void redis_listener_unsubscribe(StoreListener *l, const TopicKey *key);
extern void redis_listener_step(StoreListener *l);
extern void redis_listener_interests(StoreListener *l, StoreInterests *in);
extern void redis_listener_close(StoreListener *l);

#endif							/* LR_LISTENER_H */
