/*-------------------------------------------------------------------------
 *
 * masters_listener.c
 *	  Release messages of independent masters.
 *
 * All masters are listened to, and each message wakes the waiting session, which asks
 * again; it does so again when the next master reports the release.  A lock held at a
 * majority is released at a majority.  If another majority is being listened to, at
 * least one of them reports the release, so then a subscription counts as confirmed.  A
 * release that reaches a single master, because the others are down, may be missed; then
 * the session asks again when the lease is over.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/masters_listener.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "store/nodes.h"
#include "store/redis/listener.h"

typedef struct Awaited
{
	TopicKey	key;
	uint32		confirmed;		/* bits of nodes that have confirmed it */
	bool		told;			/* the caller was notified that a majority has */
} Awaited;

struct MastersListener
{
	StoreEventCallback callback;
	HTAB	   *awaited;
	int			n;
	NodeListener *node[LR_MAX_MASTERS];
	int			speaking;		/* index of the node that is being stepped */
};

/* Callbacks of node listeners have no argument; a process has one listener. */
static MastersListener *current = NULL;

/*
 * masters_hear_it --- has a majority confirmed it?
 */
static bool
masters_hear_it(const MastersListener *l, const Awaited *a)
{
	int			n = 0;

	for (int i = 0; i < l->n; i++)
		n += (a->confirmed >> i) & 1;
	return n >= masters_quorum(l->n);
}

/*
 * masters_tell --- notify the caller of the confirmation, when a majority has confirmed
 * it
 */
static void
masters_tell(MastersListener *l, Awaited *a)
{
	if (a->told || !masters_hear_it(l, a))
		return;
	a->told = true;
	l->callback(STORE_LISTEN_CONFIRMED, a->key.topic, a->key.owner, a->key.name,
				a->key.len);
}

/*
 * masters_lose --- the node that is being stepped has lost its connection
 *
 * A loss voids all subscriptions of the caller, so those still good are confirmed again.
 */
static void
masters_lose(MastersListener *l)
{
	HASH_SEQ_STATUS seq;
	Awaited    *a;
	bool		lost = false;

	hash_seq_init(&seq, l->awaited);
	while ((a = hash_seq_search(&seq)) != NULL)
	{
		a->confirmed &= ~(1U << l->speaking);
		lost = lost || (a->told && !masters_hear_it(l, a));
	}
	if (!lost)
		return;
	l->callback(STORE_LISTEN_LOST, TOPIC_COUNT, 0, NULL, 0);
	hash_seq_init(&seq, l->awaited);
	while ((a = hash_seq_search(&seq)) != NULL)
	{
		a->told = false;
		masters_tell(l, a);
	}
}

/*
 * masters_hear --- the callback of each node's listener
 */
static void
masters_hear(StoreEvent event, LrTopic topic, uint64 owner, const char *name,
			 int name_len)
{
	MastersListener *l = current;
	TopicKey	key;
	Awaited    *a;

	switch (event)
	{
		case STORE_LISTEN_CONFIRMED:
			topic_key(&key, topic, owner, name, name_len);
			a = hash_search(l->awaited, &key, HASH_FIND, NULL);
			if (a == NULL)
				break;
			a->confirmed |= 1U << l->speaking;
			masters_tell(l, a);
			break;
		case STORE_LISTEN_RELEASED:
		case STORE_LISTEN_REFUSED:
			l->callback(event, topic, owner, name, name_len);
			break;
		case STORE_LISTEN_LOST:
			masters_lose(l);
			break;
	}
}

MastersListener *
masters_listener_open(int n, StoreEventCallback callback)
{
	MastersListener *l = MemoryContextAllocZero(TopMemoryContext,
												sizeof(MastersListener));

	l->awaited = listener_table("lockredis awaited channels", sizeof(TopicKey),
								sizeof(Awaited));
	l->callback = callback;
	l->n = n;
	for (int i = 0; i < n; i++)
		l->node[i] = node_listener_open(NODE_MASTER + i, masters_hear);
	current = l;
	return l;
}

void
masters_listener_close(MastersListener *l)
{
	for (int i = 0; i < l->n; i++)
		node_listener_close(l->node[i]);
	hash_destroy(l->awaited);
	current = NULL;
	pfree(l);
}

void
masters_listener_subscribe(MastersListener *l, LrTopic topic, uint64 owner,
						   const char *name, int name_len)
{
	TopicKey	key;
	Awaited    *a;

	topic_key(&key, topic, owner, name, name_len);
	a = hash_search(l->awaited, &key, HASH_ENTER, NULL);
	a->confirmed = 0;
	a->told = false;
	for (int i = 0; i < l->n; i++)
		node_listener_subscribe(l->node[i], topic, owner, name, name_len);
}

void
masters_listener_unsubscribe(MastersListener *l, LrTopic topic, uint64 owner,
							 const char *name, int name_len)
{
	TopicKey	key;

	topic_key(&key, topic, owner, name, name_len);
	if (hash_search(l->awaited, &key, HASH_REMOVE, NULL) == NULL)
		return;
	for (int i = 0; i < l->n; i++)
		node_listener_unsubscribe(l->node[i], topic, owner, name, name_len);
}

void
masters_listener_step(MastersListener *l)
{
	for (l->speaking = 0; l->speaking < l->n; l->speaking++)
		node_listener_step(l->node[l->speaking]);
}

int
masters_listener_interests(MastersListener *l, StoreInterest *out, int64 *until,
						   uint32 *epoch)
{
	return node_listeners_interests(l->node, l->n, out, until, epoch);
}
