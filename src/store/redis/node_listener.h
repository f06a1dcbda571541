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

#include "utils/hsearch.h"

#include "store/store.h"

typedef struct NodeListener NodeListener;

/* What is listened to; zero-padded, so that it can be compared as a blob. */
typedef struct TopicKey
{
	uint64		owner;
	LrTopic		topic;
	int			len;
	char		name[LR_NAME_MAX];
} TopicKey;

extern void topic_key(TopicKey *key, LrTopic topic, uint64 owner, const char *name,
					  int name_len);

/* A hash table of entries that begin with a key of that size. */
extern HTAB *listener_table(const char *name, Size key_size, Size entry_size);

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

/* The same of several; those that are NULL are passed over. */
extern int	node_listeners_interests(NodeListener *const *listeners, int n,
									 StoreInterest *out, int64 *until, uint32 *epoch);

#endif							/* LR_REDIS_NODE_LISTENER_H */
