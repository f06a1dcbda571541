/*-------------------------------------------------------------------------
 *
 * node_listener.h
 *	  Release messages of one Redis node.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_listener.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_NODE_LISTENER_H
#define LR_REDIS_NODE_LISTENER_H

#include "lockredis.h"

#include "store/store.h"

typedef struct NodeListener NodeListener;

/* As the listener_xxx of StoreRoutine; of this row in the table of nodes. */
extern NodeListener *node_listener_open(NodeId node, StoreEventCallback callback);
extern void node_listener_close(NodeListener *l);
extern void node_listener_subscribe(NodeListener *l, LrTopic topic, uint64 owner,
									const char *name, int name_len);
extern void node_listener_unsubscribe(NodeListener *l, LrTopic topic, uint64 owner,
									  const char *name, int name_len);
extern void node_listener_step(NodeListener *l);
extern int	node_listener_interests(NodeListener *l, StoreInterest *out, int64 *until,
									uint32 *epoch);

#endif							/* LR_REDIS_NODE_LISTENER_H */
