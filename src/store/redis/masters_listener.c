/*-------------------------------------------------------------------------
 *
 * masters_listener.c
 *	  Release messages of independent masters.
 *
 * Each of them is listened to, and whichever tells of a release first is heard: who
 * waits asks then, and again when the next one tells.  A lock that most of them have
 * is given back at most of them.  So it is told of by one that is listened to, as long
 * as these are most of them, too: then a subscription is confirmed.  One that was given
 * back at a single node, the others being away, may be missed; then who waits asks when
 * the lease is over.
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
	uint32		confirmed;		/* a bit for each node that has done so */
	bool		told;			/* the caller: enough of them have */
} Awaited;

struct MastersListener
{
	StoreEventCallback callback;
	HTAB	   *awaited;
	int			n;
	NodeListener *node[LR_MAX_MASTERS];
	int			speaking;		/* the node that is stepped */
};

/* The callback of a node has no argument; there is one listener in a process. */
static MastersListener *current = NULL;

/*
 * masters_hear_it --- have most of them confirmed it?
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
 * masters_tell --- that a subscription is good, once it is
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
 * masters_lose --- the node that speaks has lost its connection
 *
 * The caller knows all or nothing, so what is still good is told again.
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
 * masters_hear --- what one of several masters has said about a subscription
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
