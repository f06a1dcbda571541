/*-------------------------------------------------------------------------
 *
 * listener.c
 *	  Release messages of Redis: the listener of the store interface.
 *
 * Each node has a listener of its own (node_listener.c).
 *
 * In a cluster a channel is subscribed to at the node that has its slot.  When the slot
 * moves, so does the subscription.  A message may have been lost meanwhile, so the caller
 * is notified that all subscriptions are void; those that have not moved are confirmed
 * again at once.
 *
 * Otherwise, that is with one node or independent masters, all nodes are listened to.
 * Each message wakes the waiting session, which asks again; it does so again when the
 * next master reports the release.  A lock held at a majority is released at a majority.
 * If another majority is being listened to, at least one of them reports the release, so
 * then a subscription counts as confirmed.  It has to be the same majority since the
 * confirmation, after which the session has asked; if it no longer is, the subscription is
 * confirmed again:
 *
 *	 S waits for a lock that is held at A and B
 *	 the connection to A is lost		A: released
 *	 the connection to A is back
 *	 the connection to B is lost		B: released
 *	 S asks again, as only C was listened to all the time
 *
 * A release that reaches a single master, because the others are down, may be missed; then
 * the session asks again when the lease is over.
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
	int			part;			/* cluster: row where it is subscribed to; or
								 * CLUSTER_NO_NODE */
	uint32		confirmed;		/* else: bits of nodes that have confirmed it, */
	uint32		since;			/* and of those of them that have been listened to
								 * since the caller was notified; 0: it was not */
} Wanted;

struct StoreListener
{
	StoreEventCallback callback;
	int			n;				/* how many nodes are listened to; 0: a cluster */
	HTAB	   *wanted;
	NodeListener *node[NODE_MASTERS];	/* NULL: not needed so far */
	int			speaking;		/* index of the node that is being stepped */
	uint32		epoch;			/* topology_epoch() by which it was sorted */
	bool		unsorted;		/* some channel has no known node */
	bool		void_all;		/* cluster: something was lost: confirm the rest again */
};

/* Callbacks of node listeners have no argument; a process has one listener. */
static StoreListener *current = NULL;

/* ----------
 * What the nodes say
 * ----------
 */

/*
 * listener_is_most --- are these most of the nodes?
 */
static bool
listener_is_most(const StoreListener *l, uint32 nodes)
{
	int			n = 0;

	for (int i = 0; i < l->n; i++)
		n += (nodes >> i) & 1;
	return n >= masters_quorum(l->n);
}

/*
 * listener_tell --- notify the caller of the confirmation, when most have confirmed it
 */
static void
listener_tell(StoreListener *l, Wanted *w)
{
	if (listener_is_most(l, w->since) || !listener_is_most(l, w->confirmed))
		return;
	w->since = w->confirmed;
	l->callback(STORE_LISTEN_CONFIRMED, &w->key);
}

/*
 * listener_lose --- the node that is being stepped has lost its connection
 *
 * A loss voids all subscriptions of the caller, so those still good are confirmed again.
 */
static void
listener_lose(StoreListener *l)
{
	HASH_SEQ_STATUS seq;
	Wanted	   *w;
	uint32		rest = ~(1U << l->speaking);
	bool		lost = false;

	hash_seq_init(&seq, l->wanted);
	while ((w = hash_seq_search(&seq)) != NULL)
	{
		w->confirmed &= rest;
		lost = lost || (w->since != 0 && !listener_is_most(l, w->confirmed));
		w->since &= rest;
	}
	if (lost)
		l->callback(STORE_LISTEN_LOST, NULL);
	hash_seq_init(&seq, l->wanted);
	while ((w = hash_seq_search(&seq)) != NULL)
	{
		if (lost)
			w->since = 0;
		listener_tell(l, w);
	}
}

/*
 * listener_hear --- the callback of each node's listener
 */
static void
listener_hear(StoreEvent event, const TopicKey *key)
{
	StoreListener *l = current;
	Wanted	   *w;

	if (l->n > 0 && event == STORE_LISTEN_LOST)
		listener_lose(l);
	else if (l->n > 0 && event == STORE_LISTEN_CONFIRMED)
	{
		w = hash_search(l->wanted, key, HASH_FIND, NULL);
		if (w == NULL)
			return;
		w->confirmed |= 1U << l->speaking;
		listener_tell(l, w);
	}
	else
	{
		l->void_all = l->void_all || event == STORE_LISTEN_LOST;
		l->callback(event, key);
	}
}

/* ----------
 * Which node of a cluster
 * ----------
 */

static void
listener_join(StoreListener *l, const Wanted *w)
{
	if (l->node[w->part] == NULL)
		l->node[w->part] = node_listener_open(NODE_MASTER + w->part, listener_hear);
	node_listener_subscribe(l->node[w->part], &w->key);
}

static void
listener_leave(StoreListener *l, Wanted *w)
{
	if (w->part != CLUSTER_NO_NODE)
		node_listener_unsubscribe(l->node[w->part], &w->key);
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
 * redis_listener_open --- a listener for the topology of lockredis.url: one node, a
 * cluster, or several masters
 */
StoreListener *
redis_listener_open(StoreEventCallback callback)
{
	StoreListener *l = MemoryContextAllocZero(TopMemoryContext,
											  sizeof(StoreListener));

	l->callback = callback;
	l->wanted = listener_table("lockredis wanted channels", sizeof(TopicKey), sizeof(Wanted));
	l->n = redis_url_is_cluster(lr_redis_url) ? 0 : Max(lr_nmasters, 1);
	for (int i = 0; i < l->n; i++)
		l->node[i] = node_listener_open(lr_nmasters > 0 ? NODE_MASTER + i : NODE_REDIS,
										listener_hear);
	current = l;
	return l;
}

/*
 * redis_listener_close --- end all of its connections, and free it
 */
void
redis_listener_close(StoreListener *l)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			node_listener_close(l->node[i]);
	hash_destroy(l->wanted);
	current = NULL;
	pfree(l);
}

/*
 * redis_listener_subscribe --- listen for messages about a key
 *
 * In a cluster the node that has its slot may not be known yet.
 */
void
redis_listener_subscribe(StoreListener *l, const TopicKey *key)
{
	bool		found;
	Wanted	   *w = hash_search(l->wanted, key, HASH_ENTER, &found);

	if (!found)
		w->part = CLUSTER_NO_NODE;
	w->confirmed = w->since = 0;
	for (int i = 0; i < l->n; i++)
		node_listener_subscribe(l->node[i], key);
	if (w->part != CLUSTER_NO_NODE)
		listener_join(l, w);
	else
		l->unsorted = true;
}

/*
 * redis_listener_unsubscribe --- stop listening for messages about a key
 */
void
redis_listener_unsubscribe(StoreListener *l, const TopicKey *key)
{
	Wanted	   *w = hash_search(l->wanted, key, HASH_FIND, NULL);

	if (w == NULL)
		return;
	for (int i = 0; i < l->n; i++)
		node_listener_unsubscribe(l->node[i], key);
	listener_leave(l, w);
	(void) hash_search(l->wanted, key, HASH_REMOVE, NULL);
}

static void
listener_step_nodes(StoreListener *l)
{
	for (l->speaking = 0; l->speaking < NODE_MASTERS; l->speaking++)
		if (l->node[l->speaking] != NULL)
			node_listener_step(l->node[l->speaking]);
}

/*
 * redis_listener_step --- do all that can be done without waiting
 *
 * When slots of a cluster have moved, subscriptions move first.
 */
void
redis_listener_step(StoreListener *l)
{
	if (l->n == 0 && (l->unsorted || l->epoch != topology_epoch()) && listener_sort(l))
		listener_hear(STORE_LISTEN_LOST, NULL);
	listener_step_nodes(l);
	if (!l->void_all)
		return;
	listener_confirm_again(l);
	listener_step_nodes(l);
}

/*
 * redis_listener_interests --- the sockets to wait for, and until when
 */
void
redis_listener_interests(StoreListener *l, StoreInterests *in)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			node_listener_interests(l->node[i], in);
	if (l->void_all)
		store_wait_until(in, 0);
}
