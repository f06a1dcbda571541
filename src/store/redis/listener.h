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

/* A channel to listen to; zero-padded, so that it can be compared as a blob. */
typedef struct TopicKey
{
	uint64		owner;
	LrTopic		topic;
	int			len;
	char		name[LR_NAME_MAX];
} TopicKey;

extern void topic_key(TopicKey *key, LrTopic topic, uint64 owner, const char *name,
					  int name_len);

/* Create a hash table whose entries begin with a key of key_size bytes. */
extern HTAB *listener_table(const char *name, Size key_size, Size entry_size);

/*
 * Like the listener_xxx functions of StoreRoutine, for the node in this row of the table
 * of nodes.
 */
extern NodeListener *node_listener_open(NodeId node, StoreEventCallback callback);
extern void node_listener_close(NodeListener *l);
extern void node_listener_subscribe(NodeListener *l, LrTopic topic, uint64 owner,
									const char *name, int name_len);
extern void node_listener_unsubscribe(NodeListener *l, LrTopic topic, uint64 owner,
									  const char *name, int name_len);
extern void node_listener_step(NodeListener *l);
extern int	node_listener_interests(NodeListener *l, StoreInterest *out, int64 *until,
									uint32 *epoch);

/* The same for several listeners; NULL entries are skipped. */
extern int	node_listeners_interests(NodeListener *const *listeners, int n,
									 StoreInterest *out, int64 *until, uint32 *epoch);

/* ----------
 * masters_listener.c: Release messages of independent masters.
 * ----------
 */

typedef struct MastersListener MastersListener;

/* Like the listener_xxx functions of StoreRoutine, for n masters. */
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
 * listener.c: The listener functions of the store interface.
 *
 * StoreRoutine in store.h describes them; redis_store.c puts them there.
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
