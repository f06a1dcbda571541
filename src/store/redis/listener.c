/*-------------------------------------------------------------------------
 *
 * listener.c
 *	  Release messages of Redis: the listener of the store interface.
 *
 * Only the watchdog has one.  Nothing waits here: redis_listener_step() does what is
 * possible, and redis_listener_interests() says when to call it again.
 *
 * There is one connection to each node, with a subscription for each awaited key.  A
 * node of a cluster sends messages about a slot to those subscribed at that node
 * (sharded channels), and ends the subscriptions when it loses the slot.
 *
 * For each channel there is an entry with the keys that use it and, for each node, what was
 * last requested there.  A channel has at most one unanswered request at a node; if the caller
 * changes its mind meanwhile, the next request is sent when the answer has come.  So an
 * answer always belongs to the latest request, and a confirmed subscription has no gap.
 * Redis answers in order, so a node's unanswered requests are a queue: that tells which channel
 * an error reply is about.
 *
 * A message may have been lost whenever a connection ends with which a channel was subscribed
 * to, and when a slot of a cluster moves, and with it its channels.  Then the caller is
 * notified that all subscriptions are void.  It subscribes again to those that it still
 * wants, and is notified at once of the ones that are still good.
 *
 * In a cluster a channel is subscribed to at the node that has its slot.  Otherwise, that is
 * with one node or independent masters, all nodes are listened to.
 * Each message wakes the waiting session, which asks again; it does so again when the
 * next master reports the release.  A lock held at a majority is released at a majority.
 * If another majority is being listened to, at least one of them reports the release, so
 * then a subscription counts as confirmed.  It has to be the same majority since the
 * confirmation, after which the session has asked.  So the loss of any of them makes the
 * subscriptions void, although the rest may be a majority:
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

#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/redis/conn.h"

/* When to repeat refused subscriptions: a right may be granted again. */
#define REFUSED_MIN			(1 * LR_US_PER_S)
#define REFUSED_MAX			(32 * LR_US_PER_S)

/* Zero-padded, so that it can be compared as a blob. */
typedef struct ChannelKey
{
	int			len;
	char		channel[LR_DERIVED_MAX];
} ChannelKey;

/* A key whose messages the caller wants. */
typedef struct ChannelUser
{
	TopicKey	key;			/* no name: there is no such user */
	bool		notified;		/* the caller was notified that it is confirmed */
} ChannelUser;

/* A channel at one node; all zero: nothing was requested over this connection. */
typedef struct ChannelAt
{
	bool		asked;			/* the last request was SUBSCRIBE */
	bool		refused;		/* by Redis; requested again now and then */
	bool		pending;		/* it is not answered yet */
	struct Channel *next;		/* the channel of the next unanswered request there */
} ChannelAt;

/*
 * The keys "x" and "{x}" have the same channel, so user[0] is the one without a brace
 * and user[1] the one with braces.
 */
typedef struct Channel
{
	ChannelKey	key;
	ChannelUser user[2];
	int			part;			/* cluster: row of the node that has its slot; or
								 * CLUSTER_NO_NODE */
	ChannelAt	at[NODE_MASTERS];
} Channel;

/* Listens to one node. */
typedef struct NodeListener
{
	StoreListener *all;
	int			number;			/* index in Channel.at */
	RedisPoller poller;			/* wanted: some channel needs a request */
	Channel    *first;			/* of the unanswered requests, the oldest one first */
	Channel    *last;
	bool		loss_logged;	/* since a channel was last subscribed to */
	bool		refusal_logged; /* on this connection */
	int64		refused_delay;	/* how long to wait from the next refusal until
								 * all refused channels are requested again */
	int64		refused_until;	/* when that is; 0 = none was refused */
} NodeListener;

struct StoreListener
{
	StoreEventCallback callback;
	int			n;				/* how many nodes are listened to; 0: a cluster */
	HTAB	   *channels;
	NodeListener *node[NODE_MASTERS];	/* NULL: not needed so far */
	uint32		epoch;			/* cluster: topology_epoch() by which the channels were
								 * sorted */
};

/* ----------
 * Channels
 * ----------
 */

/*
 * channel_is_wanted --- is the channel to be subscribed to at this node?
 */
static bool
channel_is_wanted(const StoreListener *l, const Channel *ch, int number)
{
	return (ch->user[0].key.len > 0 || ch->user[1].key.len > 0) &&
		(l->n > 0 ? number < l->n : number == ch->part);
}

static bool
channel_is_subscribed(const Channel *ch, int number)
{
	return ch->at[number].asked && !ch->at[number].pending;
}

/*
 * channel_is_confirmed --- does a message that is sent from now on arrive?
 */
static bool
channel_is_confirmed(const StoreListener *l, const Channel *ch)
{
	int			n = 0;

	if (l->n == 0)
		return ch->part != CLUSTER_NO_NODE && channel_is_subscribed(ch, ch->part);
	for (int i = 0; i < l->n; i++)
		n += channel_is_subscribed(ch, i);
	return n >= masters_quorum(l->n);
}

/*
 * channel_is_dead --- is it neither wanted nor subscribed to anywhere?
 */
static bool
channel_is_dead(const Channel *ch)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (ch->at[i].asked || ch->at[i].pending)
			return false;
	return ch->user[0].key.len == 0 && ch->user[1].key.len == 0;
}

/*
 * channel_notify --- notify the caller of an event of the channel
 */
static void
channel_notify(const StoreListener *l, const Channel *ch, StoreEvent event)
{
	for (int i = 0; i < lengthof(ch->user); i++)
		if (ch->user[i].key.len > 0)
			l->callback(event, &ch->user[i].key);
}

/*
 * channel_tell --- notify the caller of the confirmation, unless it knows
 */
static void
channel_tell(const StoreListener *l, Channel *ch)
{
	if (!channel_is_confirmed(l, ch))
		return;
	for (int i = 0; i < lengthof(ch->user); i++)
	{
		ChannelUser *u = &ch->user[i];

		if (u->key.len == 0 || u->notified)
			continue;
		u->notified = true;
		l->callback(STORE_LISTEN_CONFIRMED, &u->key);
	}
}

/*
 * listener_void --- messages may have been lost: all subscriptions of the caller are void
 */
static void
listener_void(const StoreListener *l)
{
	l->callback(STORE_LISTEN_LOST, NULL);
}

/* ----------
 * The connection ends
 * ----------
 */

/*
 * listener_lost --- the connection was closed, or could not be made
 */
static void
listener_lost(RedisPoller *p, bool was_ready)
{
	NodeListener *l = p->owner;
	HASH_SEQ_STATUS seq;
	Channel    *ch;
	bool		subscribed = false;

	p->wanted = false;
	hash_seq_init(&seq, l->all->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		subscribed = subscribed || channel_is_subscribed(ch, l->number);
		p->wanted = p->wanted || channel_is_wanted(l->all, ch, l->number);
		memset(&ch->at[l->number], 0, sizeof(ChannelAt));
	}
	l->first = l->last = NULL;
	l->refused_until = 0;
	l->refused_delay = REFUSED_MIN;
	redis_poller_back_off(p);

	/*
	 * The node may close a connection without subscriptions as idle; not worth a log
	 * line.
	 */
	if (!l->loss_logged && p->wanted)
	{
		l->loss_logged = true;
		ereport(LOG,
				(errmsg("lockredis: no release messages from the lock store at %s",
						p->conn.failure.error.address),
				 errdetail_internal("%s", p->conn.failure.error.detail)));
	}
	if (subscribed)
		listener_void(l->all);
}

/* ----------
 * Sending
 * ----------
 */

/*
 * listener_put_request --- subscribe to a channel, or end that
 */
static void
listener_put_request(NodeListener *l, Channel *ch, bool wanted)
{
	RespOut    *out = &l->poller.conn.out;

	resp_put_array(out, 2);
	if (redis_conn_has_shards(&l->poller.conn))
		resp_put_text(out, wanted ? "SSUBSCRIBE" : "SUNSUBSCRIBE");
	else
		resp_put_text(out, wanted ? "SUBSCRIBE" : "UNSUBSCRIBE");
	resp_put_bulk(out, ch->key.channel, ch->key.len);
	ch->at[l->number].asked = wanted;
	ch->at[l->number].pending = true;
	if (l->first == NULL)
		l->first = ch;
	else
		l->last->at[l->number].next = ch;
	l->last = ch;
	redis_poller_expect(&l->poller);
}

/*
 * listener_put_requests --- request what is wanted
 *
 * When the buffer is full, the remaining requests are left for the next call.
 */
static void
listener_put_requests(NodeListener *l)
{
	HASH_SEQ_STATUS seq;
	Channel    *ch;

	if (!l->poller.wanted)
		return;
	l->poller.wanted = false;

	hash_seq_init(&seq, l->all->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		ChannelAt  *at = &ch->at[l->number];
		bool		wanted = channel_is_wanted(l->all, ch, l->number);

		if (at->pending || (at->refused && wanted) || wanted == at->asked)
			continue;
		if (resp_out_is_high(&l->poller.conn.out))
		{
			l->poller.wanted = true;
			hash_seq_term(&seq);
			return;
		}
		listener_put_request(l, ch, wanted);
	}
}

/* ----------
 * Receiving
 * ----------
 */

/*
 * listener_put_off --- after a refusal: decide when to request it again
 *
 * The intervals grow, as with locks that are refused.  All channels share one time,
 * since rights are granted by patterns.
 */
static void
listener_put_off(NodeListener *l, Channel *ch)
{
	ch->at[l->number].asked = false;
	ch->at[l->number].refused = true;
	if (l->refused_until != 0)
		return;
	l->refused_until = lr_now() + l->refused_delay;
	l->refused_delay = Min(l->refused_delay * 2, REFUSED_MAX);
}

/*
 * listener_ask_again --- when it is time, request all refused channels again
 */
static void
listener_ask_again(NodeListener *l, int64 now)
{
	HASH_SEQ_STATUS seq;
	Channel    *ch;

	if (l->refused_until == 0 || now < l->refused_until)
		return;
	l->refused_until = 0;
	l->poller.wanted = true;
	hash_seq_init(&seq, l->all->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
		ch->at[l->number].refused = false;
}

/*
 * listener_answered --- the oldest unanswered request is answered; returns its channel
 */
static Channel *
listener_answered(NodeListener *l)
{
	Channel    *ch = l->first;
	ChannelAt  *at = &ch->at[l->number];

	l->first = at->next;
	at->next = NULL;
	at->pending = false;
	l->poller.wanted = true;
	return ch;
}

/*
 * listener_is_pong --- is it the reply to PING?  While there are subscriptions, it comes in an
 * array.
 */
static bool
listener_is_pong(const redisReply *v)
{
	if (v->type == REDIS_REPLY_STATUS)
		return strcmp(v->str, "PONG") == 0;
	return v->type == REDIS_REPLY_ARRAY && v->elements == 2 &&
		v->element[0]->type == REDIS_REPLY_STRING && strcmp(v->element[0]->str, "pong") == 0;
}

/*
 * listener_take_refusal --- an error reply belongs to the oldest unanswered request
 *
 * The connection serves other keys, so it is kept.  Sessions that wait for a release of
 * this key get no confirmation and have to poll.
 */
static void
listener_take_refusal(NodeListener *l)
{
	char		words[REDIS_WORDS_MAX];
	Channel    *ch = listener_answered(l);

	(void) redis_error_words(l->poller.conn.in.reply, l->poller.target.url.user, words,
							 sizeof(words));
	if (redis_words_begin(words, "MOVED"))
		cluster_want_map();
	else if (!l->refusal_logged)
	{
		l->refusal_logged = true;
		ereport(LOG,
				(errmsg("lockredis: the lock store at %s refused a subscription",
						l->poller.conn.failure.error.address),
				 errdetail_internal("The node answered: %s", words),
				 !redis_words_begin(words, "NOPERM") ? 0 :
				 errhint("%s", _(redis_rights_hint))));
	}
	listener_put_off(l, ch);
	channel_notify(l->all, ch, STORE_LISTEN_REFUSED);
}

/*
 * listener_take_end --- the node has ended a subscription on its own
 *
 * It has lost the slot.  Treat the channel as refused, notify the caller that
 * subscriptions are void, and ask for a new map, which says where to subscribe now.
 */
static void
listener_take_end(NodeListener *l, Channel *ch)
{
	cluster_want_map();
	if (ch == NULL || !channel_is_subscribed(ch, l->number))
		return;
	listener_put_off(l, ch);
	listener_void(l->all);
}

/*
 * listener_is_back --- a request was answered, so the connection is good for more than a handshake
 */
static void
listener_is_back(NodeListener *l)
{
	l->poller.retry_delay = 0;
	if (!l->loss_logged)
		return;
	l->loss_logged = false;
	ereport(LOG,
			(errmsg("lockredis: release messages from the lock store at %s are back",
					l->poller.conn.failure.error.address)));
}

/*
 * listener_take_push --- take a message, or the answer to a request; false: it is
 * neither
 *
 * A PING is sent when no request is unanswered, so its reply is the first to come.  That is an
 * error if Redis cannot save its data, or if the user lacks the right, which says nothing of
 * subscriptions.
 */
static bool
listener_take_push(NodeListener *l)
{
	RedisPoller *p = &l->poller;
	const redisReply *v = p->conn.in.reply;
	bool		shards = redis_conn_has_shards(&p->conn);
	const char *word;
	ChannelKey	key;
	Channel    *ch;

	if (p->pinged && (listener_is_pong(v) || v->type == REDIS_REPLY_ERROR))
	{
		p->pinged = false;
		return true;
	}
	if (l->first != NULL && v->type == REDIS_REPLY_ERROR)
	{
		listener_take_refusal(l);
		return true;
	}
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 3 ||
		v->element[0]->type != REDIS_REPLY_STRING || v->element[1]->type != REDIS_REPLY_STRING ||
		v->element[1]->len > LR_DERIVED_MAX)
		return false;

	memset(&key, 0, sizeof(key));
	key.len = v->element[1]->len;
	memcpy(key.channel, v->element[1]->str, v->element[1]->len);
	ch = hash_search(l->all->channels, &key, HASH_FIND, NULL);

	if (strcmp(v->element[0]->str, "message") == 0 || strcmp(v->element[0]->str, "smessage") == 0)
	{
		if (ch != NULL)
			channel_notify(l->all, ch, STORE_LISTEN_RELEASED);
		return true;
	}
	word = v->element[0]->str + (shards && v->element[0]->str[0] == 's');
	if (ch == NULL || ch != l->first ||
		strcmp(word, ch->at[l->number].asked ? "subscribe" : "unsubscribe") != 0)
	{
		if (!shards || strcmp(word, "unsubscribe") != 0)
			return false;
		listener_take_end(l, ch);
		return true;
	}
	(void) listener_answered(l);
	listener_is_back(l);
	if (l->refused_until == 0)
		l->refused_delay = REFUSED_MIN;
	channel_tell(l->all, ch);
	return true;
}

static void
listener_take(RedisPoller *p)
{
	NodeListener *l = p->owner;

	p->answer_until = 0;
	if (!listener_take_push(l))
		redis_poller_no_sense(p);
	else if (l->first != NULL || p->pinged)
		redis_poller_expect(p);
}

/* ----------
 * Stepping
 * ----------
 */

/*
 * listener_ready --- it is connected
 */
static void
listener_ready(RedisPoller *p)
{
	NodeListener *l = p->owner;

	lr_count(STAT_CONNECTS);
	p->wanted = true;
	l->refusal_logged = false;
}

static void
listener_talk(RedisPoller *p)
{
	listener_ask_again(p->owner, lr_now());
	listener_put_requests(p->owner);
}

/*
 * listener_node_open --- it connects when something is wanted
 */
static NodeListener *
listener_node_open(StoreListener *all, int number)
{
	static const PollerRoutine routine = {
		.role = "listener",
		.pings = true,
		.ready = listener_ready,
		.take = listener_take,
		.talk = listener_talk,
		.lost = listener_lost
	};
	NodeListener *l = MemoryContextAllocZero(TopMemoryContext,
											 sizeof(NodeListener));

	redis_poller_init(&l->poller, &routine, l);
	l->all = all;
	l->number = number;
	l->refused_delay = REFUSED_MIN;
	redis_target_set(&l->poller.target, all->n == 1 && lr_nmasters == 0 ? NODE_REDIS :
					 NODE_MASTER + number);
	return l;
}

/*
 * listener_look_at_target --- if the settings have changed, connect to the present target
 *
 * Do not send the password to where a former lockredis.url points.
 */
static void
listener_look_at_target(NodeListener *l)
{
	RedisPoller *p = &l->poller;
	RedisConnState state = p->conn.state;

	if ((!redis_target_is_outdated(&p->target) || state == CONN_HANDSHAKE) &&
		!redis_conn_is_other(&p->conn))
		return;
	redis_conn_close(&p->conn);
	redis_target_set(&p->target, p->target.node);
	if (state != CONN_READY)
		return;
	listener_lost(p, true);
	p->next_try = lr_now();
}

static void
listener_node_step(NodeListener *l)
{
	listener_look_at_target(l);
	redis_poller_step(&l->poller);
}

/* What one node's connection waits for. */
static void
listener_node_interests(const NodeListener *l, StoreInterests *in)
{
	const RedisConn *c = &l->poller.conn;

	redis_poller_interests(&l->poller, in);
	if (c->state == CONN_READY && l->refused_until != 0)
		store_wait_until(in, l->refused_until);
}

/* ----------
 * Where the channels are
 * ----------
 */

/*
 * channel_touch --- have the nodes where the channel is, or is to be, look at it
 */
static void
channel_touch(StoreListener *l, const Channel *ch)
{
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		bool		wanted = channel_is_wanted(l, ch, i);

		if (wanted && l->node[i] == NULL)
			l->node[i] = listener_node_open(l, i);
		if (wanted || ch->at[i].asked || ch->at[i].pending)
			l->node[i]->poller.wanted = true;
	}
}

/*
 * listener_sort --- subscribe to each channel at the node that has its slot now
 */
static void
listener_sort(StoreListener *l)
{
	HASH_SEQ_STATUS seq;
	Channel    *ch;
	bool		moved = false;

	l->epoch = topology_epoch();
	hash_seq_init(&seq, l->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		int			part = cluster_owner(slot_of(ch->key.channel, ch->key.len), NULL);

		if (part == ch->part)
			continue;
		moved = moved || channel_is_confirmed(l, ch);
		ch->part = part;
		channel_touch(l, ch);
	}
	if (moved)
		listener_void(l);
}

/*
 * channel_of --- the channel of a key, which may be new
 */
static Channel *
channel_of(StoreListener *l, const TopicKey *of)
{
	char		text[LR_OWNER_MAX];
	ChannelKey	key;
	Channel    *ch;
	bool		found;

	memset(&key, 0, sizeof(ChannelKey));
	(void) lr_owner_text(of->owner, text);
	key.len = lr_derived_name(lr_channels[of->topic], of->name, of->len, text, key.channel);
	ch = hash_search(l->channels, &key, HASH_ENTER, &found);
	if (!found)
	{
		memset(ch->user, 0, sizeof(ch->user));
		memset(ch->at, 0, sizeof(ch->at));
		ch->part = l->n > 0 ? CLUSTER_NO_NODE :
			cluster_owner(slot_of(key.channel, key.len), NULL);
	}
	return ch;
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
	HASHCTL		ctl = {.keysize = sizeof(ChannelKey),.entrysize = sizeof(Channel),
	.hcxt = TopMemoryContext};

	l->callback = callback;
	l->channels = hash_create("lockredis channels", 64, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	l->n = redis_url_is_cluster(lr_redis_url) ? 0 : Max(lr_nmasters, 1);
	l->epoch = topology_epoch();
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
		{
			redis_conn_free(&l->node[i]->poller.conn);
			pfree(l->node[i]);
		}
	hash_destroy(l->channels);
	pfree(l);
}

/*
 * redis_listener_subscribe --- listen for messages about a key
 */
void
redis_listener_subscribe(StoreListener *l, const TopicKey *key)
{
	Channel    *ch = channel_of(l, key);
	ChannelUser *u = &ch->user[memchr(key->name, '{', key->len) != NULL];

	u->notified = false;
	if (u->key.len == 0)
	{
		u->key = *key;
		channel_touch(l, ch);
	}
	channel_tell(l, ch);
}

/*
 * redis_listener_sweep --- stop listening for messages about unused keys
 */
bool
redis_listener_sweep(StoreListener *l, StoreUnused unused)
{
	HASH_SEQ_STATUS seq;
	Channel    *ch;

	hash_seq_init(&seq, l->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		for (int i = 0; i < lengthof(ch->user); i++)
			if (ch->user[i].key.len > 0 && unused(&ch->user[i].key))
			{
				ch->user[i].key.len = 0;
				channel_touch(l, ch);
			}
		if (channel_is_dead(ch))
			(void) hash_search(l->channels, &ch->key, HASH_REMOVE, NULL);
	}
	return hash_get_num_entries(l->channels) > 0;
}

/*
 * redis_listener_step --- do all that can be done without waiting
 *
 * When slots of a cluster have moved, subscriptions move first.
 */
void
redis_listener_step(StoreListener *l)
{
	if (l->n == 0 && l->epoch != topology_epoch())
		listener_sort(l);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			listener_node_step(l->node[i]);
}

/*
 * redis_listener_interests --- the sockets to wait for, and until when
 */
void
redis_listener_interests(StoreListener *l, StoreInterests *in)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			listener_node_interests(l->node[i], in);
}
