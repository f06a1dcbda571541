/*-------------------------------------------------------------------------
 *
 * listener.c
 *	  Release messages of Redis: the listener of the store interface.
 *
 * One node has one listener (node_listener.c), several masters have one for all of them
 * (masters_listener.c).  In a cluster each node has one, and a channel is subscribed to
 * at the node that has its slot.  When the slot moves, so does the subscription.  A
 * message may have been lost meanwhile, so the caller is notified that all subscriptions
 * are void; those that have not moved are confirmed again at once.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/listener.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/listener.h"

typedef struct Wanted
{
	TopicKey	key;
	int			part;			/* row where it is subscribed to; or CLUSTER_NO_NODE */
} Wanted;

struct StoreListener
{
	StoreEventCallback callback;
	NodeListener *one;			/* NULL: several nodes */
	MastersListener *masters;	/* NULL: one node, or a cluster */

	HTAB	   *wanted;
	NodeListener *node[NODE_MASTERS];	/* NULL: not needed so far */
	uint32		epoch;			/* topology_epoch() by which it was sorted */
	bool		unsorted;		/* some channel has no known node */
	bool		void_all;		/* something was lost: confirm the rest again */
};

/* Callbacks of node listeners have no argument; a process has one listener. */
static StoreListener *current = NULL;

static void
listener_hear(StoreEvent event, LrTopic topic, uint64 owner, const char *name,
			  int name_len)
{
	if (event == STORE_LISTEN_LOST)
		current->void_all = true;
	current->callback(event, topic, owner, name, name_len);
}

/*
 * redis_listener_open --- a listener for the topology of lockredis.url: one
 * node, a cluster, or several masters
 */
StoreListener *
redis_listener_open(StoreEventCallback callback)
{
	StoreListener *l = MemoryContextAllocZero(TopMemoryContext,
											  sizeof(StoreListener));

	l->callback = callback;
	if (lr_nmasters > 0)
	{
		l->masters = masters_listener_open(lr_nmasters, callback);
		return l;
	}
	if (!redis_url_is_cluster(lr_redis_url))
	{
		l->one = node_listener_open(NODE_REDIS, callback);
		return l;
	}
	l->wanted = listener_table("lockredis wanted channels", sizeof(TopicKey), sizeof(Wanted));
	current = l;
	return l;
}

/*
 * redis_listener_close --- end all of its connections, and free it
 */
void
redis_listener_close(StoreListener *l)
{
	if (l->one != NULL)
		node_listener_close(l->one);
	else if (l->masters != NULL)
		masters_listener_close(l->masters);
	else
	{
		for (int i = 0; i < NODE_MASTERS; i++)
			if (l->node[i] != NULL)
				node_listener_close(l->node[i]);
		hash_destroy(l->wanted);
		current = NULL;
	}
	pfree(l);
}

/* ----------
 * Which node
 * ----------
 */

static void
listener_join(StoreListener *l, const Wanted *w)
{
	if (l->node[w->part] == NULL)
		l->node[w->part] = node_listener_open(NODE_MASTER + w->part, listener_hear);
	node_listener_subscribe(l->node[w->part], w->key.topic, w->key.owner, w->key.name,
							w->key.len);
}

static void
listener_leave(StoreListener *l, Wanted *w)
{
	if (w->part != CLUSTER_NO_NODE)
		node_listener_unsubscribe(l->node[w->part], w->key.topic, w->key.owner,
								  w->key.name, w->key.len);
	w->part = CLUSTER_NO_NODE;
}

/*
 * listener_sort --- subscribe to each channel at the node that has its slot now; true if
 * one was subscribed to elsewhere before
 */
static bool
listener_sort(StoreListener *l)
{
	HASH_SEQ_STATUS seq;
	Wanted	   *w;
	bool		moved = false;

	l->epoch = topology_epoch();
	l->unsorted = false;
	hash_seq_init(&seq, l->wanted);
	while ((w = hash_seq_search(&seq)) != NULL)
	{
		uint32		epoch;
		int			part = cluster_owner(slot_of(w->key.name, w->key.len), &epoch);

		l->unsorted = l->unsorted || part == CLUSTER_NO_NODE;
		if (part == w->part)
			continue;
		moved = moved || w->part != CLUSTER_NO_NODE;
		listener_leave(l, w);
		w->part = part;
		if (part != CLUSTER_NO_NODE)
			listener_join(l, w);
	}
	return moved;
}

/*
 * listener_confirm_again --- have all subscriptions confirmed again
 */
static void
listener_confirm_again(StoreListener *l)
{
	HASH_SEQ_STATUS seq;
	Wanted	   *w;

	l->void_all = false;
	hash_seq_init(&seq, l->wanted);
	while ((w = hash_seq_search(&seq)) != NULL)
		if (w->part != CLUSTER_NO_NODE)
			listener_join(l, w);
}

/* ----------
 * The interface
 * ----------
 */

/*
 * redis_listener_subscribe --- listen for messages about a key
 *
 * In a cluster the channel is remembered first, as the node that has its slot may not be
 * known yet.
 */
void
redis_listener_subscribe(StoreListener *l, LrTopic topic, uint64 owner,
						 const char *name, int name_len)
{
	TopicKey	key;
	Wanted	   *w;
	bool		found;

	if (l->one != NULL)
	{
		node_listener_subscribe(l->one, topic, owner, name, name_len);
		return;
	}
	if (l->masters != NULL)
	{
		masters_listener_subscribe(l->masters, topic, owner, name, name_len);
		return;
	}
	topic_key(&key, topic, owner, name, name_len);
	w = hash_search(l->wanted, &key, HASH_ENTER, &found);
	if (!found)
		w->part = CLUSTER_NO_NODE;
	if (w->part != CLUSTER_NO_NODE)
		listener_join(l, w);
	else
		l->unsorted = true;
}

/*
 * redis_listener_unsubscribe --- stop listening for messages about a key
 */
void
redis_listener_unsubscribe(StoreListener *l, LrTopic topic, uint64 owner,
						   const char *name, int name_len)
{
	TopicKey	key;
	Wanted	   *w;

	if (l->one != NULL)
	{
		node_listener_unsubscribe(l->one, topic, owner, name, name_len);
		return;
	}
	if (l->masters != NULL)
	{
		masters_listener_unsubscribe(l->masters, topic, owner, name, name_len);
		return;
	}
	topic_key(&key, topic, owner, name, name_len);
	w = hash_search(l->wanted, &key, HASH_FIND, NULL);
	if (w == NULL)
		return;
	listener_leave(l, w);
	(void) hash_search(l->wanted, &key, HASH_REMOVE, NULL);
}

/*
 * redis_listener_step --- do all that can be done without waiting
 *
 * When slots of a cluster have moved, subscriptions move first.
 */
void
redis_listener_step(StoreListener *l)
{
	if (l->one != NULL)
	{
		node_listener_step(l->one);
		return;
	}
	if (l->masters != NULL)
	{
		masters_listener_step(l->masters);
		return;
	}
	if ((l->unsorted || l->epoch != topology_epoch()) && listener_sort(l))
		listener_hear(STORE_LISTEN_LOST, TOPIC_COUNT, 0, NULL, 0);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			node_listener_step(l->node[i]);
	if (!l->void_all)
		return;
	listener_confirm_again(l);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			node_listener_step(l->node[i]);
}

/*
 * redis_listener_interests --- the sockets to wait for, and until when
 */
int
redis_listener_interests(StoreListener *l, StoreInterest *out, int64 *until,
						 uint32 *epoch)
{
	int			n;

	if (l->one != NULL)
		return node_listener_interests(l->one, out, until, epoch);
	if (l->masters != NULL)
		return masters_listener_interests(l->masters, out, until, epoch);
	n = node_listeners_interests(l->node, NODE_MASTERS, out, until, epoch);
	if (l->void_all)
		*until = 0;
	return n;
}
