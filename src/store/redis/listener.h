/*-------------------------------------------------------------------------
 *
 * listener.h
 *	  Who listens to Redis: at one node, at several masters, and whichever it is.
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

/* ----------
 * masters_listener.c: Release messages of independent masters.
 * ----------
 */

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

/* ----------
 * listener.c: Release messages of Redis: the listener functions of the store interface.
 *
 * What they do is said at StoreRoutine, of which redis_store.c fills in the rest.
 * ----------
 */

extern StoreListener *redis_listener_open(StoreEventCallback callback);
extern void redis_listener_subscribe(StoreListener *l, LrTopic topic, uint64 owner,
									 const char *name, int name_len);
extern void redis_listener_unsubscribe(StoreListener *l, LrTopic topic, uint64 owner,
									   const char *name, int name_len);
extern void redis_listener_step(StoreListener *l);
extern int	redis_listener_interests(StoreListener *l, StoreInterest *out,
									 int64 *until, uint32 *epoch);
extern void redis_listener_close(StoreListener *l);

#endif							/* LR_LISTENER_H */
