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
 * For each channel of a node there is an entry with the keys that use it and what was
 * last requested from Redis.  A channel has at most one unanswered request; if the caller
 * changes its mind meanwhile, the next request is sent when the answer has come.  So an
 * answer always belongs to the latest request, and a confirmed subscription has no gap.
 * Redis answers in order, which tells which channel an error reply is about.
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

#include "lib/ilist.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/redis/conn.h"

#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			(1 * LR_US_PER_S)

/* A connection that was silent for so long gets a PING. */
#define PING_AFTER			(5 * LR_US_PER_S)

/* When to repeat refused subscriptions: a right may be granted again. */
#define REFUSED_MIN			(1 * LR_US_PER_S)
#define REFUSED_MAX			(32 * LR_US_PER_S)

/* A key whose messages the caller wants. */
typedef struct Wanted
{
	TopicKey	key;
	int			part;			/* cluster: row where it is subscribed to; or
								 * CLUSTER_NO_NODE */
	uint32		confirmed;		/* bits of nodes that have confirmed it; in a
								 * cluster, all have the same bit */
	uint32		since;			/* and of those of them that have been listened to
								 * since the caller was notified; 0: it was not */
} Wanted;

/* Zero-padded, so that it can be compared as a blob. */
typedef struct ChannelKey
{
	int			len;
	char		channel[LR_DERIVED_MAX];
} ChannelKey;

/*
 * The keys "x" and "{x}" have the same channel, so users[0] is the one without a brace
 * and users[1] the one with braces; NULL: the caller does not want it.
 */
typedef struct Channel
{
	ChannelKey	key;
	Wanted	   *users[2];
	bool		asked;			/* the last request was SUBSCRIBE */
	bool		unanswered;		/* that request is unanswered; it is in the
								 * listener's list */
	bool		refused;		/* by Redis; requested again now and then */
	dlist_node	node;
} Channel;

/* Listens to one node. */
typedef struct NodeListener
{
	StoreListener *all;
	uint32		bit;			/* in Wanted.confirmed */
	RedisTarget target;
	RedisConn	conn;
	HTAB	   *channels;
	int			nwanted;
	bool		dirty;			/* some channel needs a request */
	bool		pinged;			/* a PING is unanswered; it is older than all
								 * unanswered requests */
	dlist_head	unanswered;		/* channels, in the order of their requests */
	bool		connected;		/* has been READY since the last loss */
	bool		loss_logged;	/* since it was last READY */
	bool		refusal_logged; /* on this connection */
	int64		refused_delay;	/* how long to wait from the next refusal until
								 * all refused channels are requested again */
	int64		refused_until;	/* when that is; 0 = none was refused */
	int64		retry_delay;
	int64		next_try;
	int64		heard_at;
	int64		answer_until;	/* something must be received before that; 0 =
								 * no limit */
} NodeListener;

struct StoreListener
{
	StoreEventCallback callback;
	int			n;				/* how many nodes are listened to; 0: a cluster */
	HTAB	   *wanted;
	NodeListener *node[NODE_MASTERS];	/* NULL: not needed so far */
	uint32		epoch;			/* topology_epoch() by which it was sorted */
	bool		unsorted;		/* some channel has no known node */
	bool		void_all;		/* cluster: something was lost: confirm the rest again */
};

/* ----------
 * What the caller hears
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
 * listener_confirmed --- a node has confirmed a subscription
 */
static void
listener_confirmed(const NodeListener *l, Wanted *w)
{
	w->confirmed |= l->bit;
	if (l->all->n > 0)
		listener_tell(l->all, w);
	else
		l->all->callback(STORE_LISTEN_CONFIRMED, &w->key);
}

/*
 * listener_void --- in a cluster, messages may have been lost
 *
 * That voids all subscriptions of the caller; redis_listener_step() has those still good
 * confirmed again.
 */
static void
listener_void(StoreListener *l)
{
	l->void_all = true;
	l->callback(STORE_LISTEN_LOST, NULL);
}

/*
 * listener_lose --- otherwise: this node has lost its connection
 *
 * A loss voids all subscriptions of the caller, so those still good are confirmed again.
 */
static void
listener_lose(StoreListener *l, uint32 bit)
{
	HASH_SEQ_STATUS seq;
	Wanted	   *w;
	bool		lost = false;

	hash_seq_init(&seq, l->wanted);
	while ((w = hash_seq_search(&seq)) != NULL)
	{
		lost = lost || (w->since != 0 && !listener_is_most(l, w->confirmed));
		w->since &= ~bit;
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

/* ----------
 * One node
 * ----------
 */

static HTAB *
listener_table(const char *name, Size key_size, Size entry_size)
{
	HASHCTL		ctl = {.keysize = key_size,.entrysize = entry_size,.hcxt = TopMemoryContext};

	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * listener_node_open --- it connects when something is wanted
 */
static NodeListener *
listener_node_open(StoreListener *all, NodeId node, uint32 bit)
{
	NodeListener *l = MemoryContextAllocZero(TopMemoryContext,
											 sizeof(NodeListener));

	l->all = all;
	l->bit = bit;
	l->channels = listener_table("lockredis channels", sizeof(ChannelKey), sizeof(Channel));
	l->retry_delay = RETRY_MIN;
	l->refused_delay = REFUSED_MIN;
	dlist_init(&l->unanswered);
	redis_target_set(&l->target, node);
	redis_conn_init(&l->conn, "listener", false);
	return l;
}

static void
listener_node_close(NodeListener *l)
{
	redis_conn_free(&l->conn);
	hash_destroy(l->channels);
	pfree(l);
}

/*
 * listener_channel --- the channel of a key; NULL: there is none, and "make" is false
 */
static Channel *
listener_channel(NodeListener *l, const TopicKey *of, bool make)
{
	char		text[LR_OWNER_MAX];
	ChannelKey	key;
	Channel    *ch;
	bool		found;

	memset(&key, 0, sizeof(ChannelKey));
	(void) lr_owner_text(of->owner, text);
	key.len = lr_channel_name(of->topic, of->name, of->len, text, key.channel);
	ch = hash_search(l->channels, &key, make ? HASH_ENTER : HASH_FIND, &found);
	if (!found && make)
	{
		ch->users[0] = ch->users[1] = NULL;
		ch->asked = ch->unanswered = false;
	}
	return ch;
}

static Wanted **
channel_user(Channel *ch, const TopicKey *key)
{
	return &ch->users[memchr(key->name, '{', key->len) != NULL];
}

static bool
channel_is_wanted(const Channel *ch)
{
	return ch->users[0] != NULL || ch->users[1] != NULL;
}

/*
 * channel_void --- the node has not confirmed it, or does not send messages any more
 */
static void
channel_void(const NodeListener *l, Channel *ch)
{
	for (int i = 0; i < lengthof(ch->users); i++)
		if (ch->users[i] != NULL)
			ch->users[i]->confirmed &= ~l->bit;
}

/*
 * listener_node_subscribe --- listen for messages about this key
 *
 * If it is subscribed to already, the caller is notified again that it is confirmed.
 */
static void
listener_node_subscribe(NodeListener *l, Wanted *w)
{
	Channel    *ch = listener_channel(l, &w->key, true);
	Wanted	  **user = channel_user(ch, &w->key);

	if (*user == NULL)
		l->nwanted++;
	*user = w;
	w->confirmed &= ~l->bit;
	ch->refused = false;
	l->dirty = true;
}

static void
listener_node_unsubscribe(NodeListener *l, Wanted *w)
{
	Channel    *ch = listener_channel(l, &w->key, false);

	if (ch == NULL || *channel_user(ch, &w->key) == NULL)
		return;
	*channel_user(ch, &w->key) = NULL;
	l->nwanted--;
	l->dirty = true;
}

/* ----------
 * The connection ends
 * ----------
 */

/*
 * listener_node_lost --- the connection was closed, or could not be made
 */
static void
listener_node_lost(NodeListener *l)
{
	HASH_SEQ_STATUS seq;
	Channel    *ch;
	bool		was_connected = l->connected;

	hash_seq_init(&seq, l->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		ch->asked = ch->unanswered = ch->refused = false;
		channel_void(l, ch);
	}
	dlist_init(&l->unanswered);
	l->dirty = true;
	l->connected = false;
	l->pinged = false;
	l->answer_until = 0;
	l->refused_until = 0;
	l->refused_delay = REFUSED_MIN;

	l->next_try = lr_now() + l->retry_delay;
	l->retry_delay = Min(l->retry_delay * 2, RETRY_MAX);

	/*
	 * The node may close a connection without subscriptions as idle; not worth a log
	 * line.
	 */
	if (!l->loss_logged && l->nwanted > 0)
	{
		l->loss_logged = true;
		ereport(LOG,
				(errmsg("lockredis: no release messages from the lock store at %s",
						l->conn.failure.error.address),
				 errdetail_internal("%s", l->conn.failure.error.detail)));
	}
	if (was_connected && l->all->n > 0)
		listener_lose(l->all, l->bit);
	else if (was_connected)
		listener_void(l->all);
}

/* ----------
 * Sending
 * ----------
 */

static void
listener_expect_answer(NodeListener *l)
{
	if (l->answer_until == 0)
		l->answer_until = lr_now() + lr_command_timeout * LR_US_PER_MS;
}

/*
 * listener_tell_users --- note that the channel is subscribed to
 */
static void
listener_tell_users(NodeListener *l, Channel *ch)
{
	for (int i = 0; i < lengthof(ch->users); i++)
		if (ch->users[i] != NULL && (ch->users[i]->confirmed & l->bit) == 0)
			listener_confirmed(l, ch->users[i]);
}

/*
 * listener_put_requests --- request what is wanted, and notify of what is confirmed
 *
 * When the buffer is full, the remaining requests are left for the next call.
 */
static void
listener_put_requests(NodeListener *l)
{
	RedisConn  *c = &l->conn;
	HASH_SEQ_STATUS seq;
	Channel    *ch;

	if (!l->dirty)
		return;
	l->dirty = false;

	hash_seq_init(&seq, l->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		bool		wanted = channel_is_wanted(ch);

		if (ch->unanswered || (ch->refused && wanted))
			continue;
		if (wanted == ch->asked)
		{
			if (wanted)
				listener_tell_users(l, ch);
			else
				(void) hash_search(l->channels, &ch->key, HASH_REMOVE, NULL);
			continue;
		}

		if (resp_out_is_high(&c->out))
		{
			l->dirty = true;
			hash_seq_term(&seq);
			return;
		}
		resp_put_array(&c->out, 2);
		if (redis_conn_has_shards(&l->conn))
			resp_put_text(&c->out, wanted ? "SSUBSCRIBE" : "SUNSUBSCRIBE");
		else
			resp_put_text(&c->out, wanted ? "SUBSCRIBE" : "UNSUBSCRIBE");
		resp_put_bulk(&c->out, ch->key.channel, ch->key.len);
		ch->asked = wanted;
		ch->unanswered = true;
		dlist_push_tail(&l->unanswered, &ch->node);
		listener_expect_answer(l);
	}
}

/*
 * listener_ping_if_idle --- a dead connection may not show until something is sent
 */
static void
listener_ping_if_idle(NodeListener *l, int64 now)
{
	if (l->answer_until != 0 || now < l->heard_at + PING_AFTER)
		return;
	resp_put_array(&l->conn.out, 1);
	resp_put_text(&l->conn.out, "PING");
	l->pinged = true;
	listener_expect_answer(l);
}

/* ----------
 * Receiving
 * ----------
 */

static void
listener_answered(NodeListener *l, Channel *ch)
{
	ch->unanswered = false;
	dlist_delete(&ch->node);
	l->dirty = true;
}

/*
 * listener_put_off --- after a refusal: decide when to request it again
 *
 * The intervals grow, as with locks that are refused.  All channels share one time,
 * since rights are granted by patterns.
 */
static void
listener_put_off(NodeListener *l)
{
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
	l->dirty = true;
	hash_seq_init(&seq, l->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
		ch->refused = false;
}

/*
 * listener_notify --- notify the caller of an event of the channel
 */
static void
listener_notify(const NodeListener *l, const Channel *ch, StoreEvent event)
{
	for (int i = 0; i < lengthof(ch->users); i++)
		if (ch->users[i] != NULL)
			l->all->callback(event, &ch->users[i]->key);
}

/*
 * listener_take_pong --- is it the reply to PING?
 *
 * It is an error if Redis cannot save its data, or if the user lacks the right; that
 * says nothing of subscriptions.  While there are some, PONG comes in an array.
 */
static bool
listener_take_pong(NodeListener *l, const RedisValue *v)
{
	bool		in_array = v->type == REDIS_REPLY_ARRAY && v->elements == 2 &&
		v[1].type == REDIS_REPLY_STRING && strcmp(v[1].str, "pong") == 0;
	bool		alone = v->type == REDIS_REPLY_STATUS && strcmp(v->str, "PONG") == 0;

	if (!l->pinged || (!in_array && !alone && v->type != REDIS_REPLY_ERROR))
		return false;
	l->pinged = false;
	return true;
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

	(void) redis_error_words(l->conn.in.values, l->target.url.user, words,
							 sizeof(words));
	if (redis_words_begin(words, "MOVED"))
		cluster_want_map();
	else if (!l->refusal_logged)
	{
		l->refusal_logged = true;
		ereport(LOG,
				(errmsg("lockredis: the lock store at %s refused a subscription",
						l->conn.failure.error.address),
				 errdetail_internal("The node answered: %s", words),
				 !redis_words_begin(words, "NOPERM") ? 0 :
				 errhint("%s", _(redis_rights_hint))));
	}
	if (!dlist_is_empty(&l->unanswered))
	{
		Channel    *ch = dlist_head_element(Channel, node, &l->unanswered);

		listener_answered(l, ch);
		ch->refused = true;
		ch->asked = false;
		listener_put_off(l);
		listener_notify(l, ch, STORE_LISTEN_REFUSED);
	}
}

/*
 * listener_is_ended --- has the node ended a subscription on its own?
 *
 * It has lost the slot.  Treat the channel as refused, notify the caller that
 * subscriptions are void, and ask for a new map, which says where to subscribe now.
 */
static bool
listener_is_ended(NodeListener *l, Channel *ch, const char *word)
{
	if (!redis_conn_has_shards(&l->conn) || strcmp(word, "sunsubscribe") != 0 ||
		(ch != NULL && ch->unanswered && !ch->asked))
		return false;
	cluster_want_map();
	if (ch == NULL || ch->unanswered || !ch->asked)
		return true;
	ch->asked = false;
	ch->refused = true;
	channel_void(l, ch);
	listener_put_off(l);
	l->dirty = true;
	listener_void(l->all);
	return true;
}

/*
 * listener_take_push --- take a message, or the answer to a request; false: it is
 * neither
 */
static bool
listener_take_push(NodeListener *l)
{
	const RedisValue *v = l->conn.in.values;
	const char *word;
	ChannelKey	key;
	Channel    *ch;

	if (listener_take_pong(l, v))
		return true;
	if (v->type == REDIS_REPLY_ERROR)
	{
		listener_take_refusal(l);
		return true;
	}
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 3 ||
		v[1].type != REDIS_REPLY_STRING || v[2].type != REDIS_REPLY_STRING ||
		v[2].len > LR_DERIVED_MAX)
		return false;

	memset(&key, 0, sizeof(key));
	key.len = v[2].len;
	memcpy(key.channel, v[2].str, v[2].len);
	ch = hash_search(l->channels, &key, HASH_FIND, NULL);

	if (strcmp(v[1].str, "message") == 0 || strcmp(v[1].str, "smessage") == 0)
	{
		if (ch != NULL)
			listener_notify(l, ch, STORE_LISTEN_RELEASED);
		return true;
	}
	if (listener_is_ended(l, ch, v[1].str))
		return true;
	word = v[1].str + (redis_conn_has_shards(&l->conn) && v[1].str[0] == 's');
	if (ch == NULL || !ch->unanswered ||
		strcmp(word, ch->asked ? "subscribe" : "unsubscribe") != 0)
		return false;
	listener_answered(l, ch);
	if (l->refused_until == 0)
		l->refused_delay = REFUSED_MIN;
	return true;
}

/*
 * listener_take_pushes --- read what is there; false when the connection is gone
 */
static bool
listener_take_pushes(NodeListener *l)
{
	RedisConn  *c = &l->conn;
	int			nreads = 0;

	while (redis_conn_next(c, &nreads))
	{
		l->heard_at = lr_now();
		l->answer_until = 0;
		if (!listener_take_push(l))
			redis_conn_fail(c, ERRCODE_STORE_FAILED,
							"The node's answer makes no sense.");
	}
	if (c->state == CONN_CLOSED)
		return false;

	if (l->pinged || !dlist_is_empty(&l->unanswered))
		listener_expect_answer(l);
	return true;
}

/* ----------
 * Stepping
 * ----------
 */

/*
 * listener_change_target --- the settings have changed: connect to the present target
 */
static void
listener_change_target(NodeListener *l)
{
	bool		was_ready = l->conn.state == CONN_READY;

	redis_conn_close(&l->conn);
	redis_target_set(&l->target, l->target.node);
	if (was_ready)
	{
		listener_node_lost(l);
		l->next_try = lr_now();
	}
}

/*
 * listener_connect --- connect if it is time; true if the connection is ready
 */
static bool
listener_connect(NodeListener *l)
{
	RedisConn  *c = &l->conn;
	int64		now = lr_now();

	/*
	 * Do not send the password to where a former lockredis.url points.
	 */
	if ((redis_target_is_outdated(&l->target) && c->state != CONN_HANDSHAKE) ||
		redis_conn_is_other(c))
		listener_change_target(l);
	if (c->state == CONN_READY)
		return true;

	if (c->state == CONN_CLOSED)
	{
		if (l->nwanted == 0 || now < l->next_try)
			return false;
		redis_conn_open(c, &l->target, LR_NEVER);
	}
	redis_conn_advance(c);
	if (c->state == CONN_CLOSED)
	{
		listener_node_lost(l);
		return false;
	}
	if (c->state != CONN_READY)
		return false;

	lr_count(STAT_CONNECTS);
	l->connected = true;
	l->retry_delay = RETRY_MIN;
	l->heard_at = now;
	l->dirty = true;
	l->refusal_logged = false;
	if (l->loss_logged)
	{
		l->loss_logged = false;
		ereport(LOG,
				(errmsg("lockredis: release messages from the lock store at %s are back",
						c->failure.error.address)));
	}
	return true;
}

/*
 * listener_talk --- take what has come, and send what is due; false when the connection
 * is gone
 */
static bool
listener_talk(NodeListener *l)
{
	RedisConn  *c = &l->conn;
	int64		now;

	if (!listener_take_pushes(l))
		return false;
	now = lr_now();
	if (l->answer_until != 0 && now >= l->answer_until)
	{
		redis_conn_fail(c, ERRCODE_STORE_FAILED,
						"The node did not answer in time.");
		return false;
	}
	listener_ping_if_idle(l, now);
	listener_ask_again(l, now);

	do
	{
		listener_put_requests(l);
		(void) redis_conn_flush(c);
	} while (c->state == CONN_READY && l->dirty && resp_out_is_empty(&c->out));
	return c->state == CONN_READY;
}

static void
listener_node_step(NodeListener *l)
{
	if (listener_connect(l) && !listener_talk(l))
		listener_node_lost(l);
}

/* What one node's connection waits for. */
static void
listener_node_interests(const NodeListener *l, StoreInterests *in)
{
	const RedisConn *c = &l->conn;

	if (c->state == CONN_CLOSED && l->nwanted > 0)
		store_wait_until(in, l->next_try);
	else if (c->state == CONN_READY)
	{
		store_wait_until(in, l->answer_until != 0 ? l->answer_until :
						 l->heard_at + PING_AFTER);
		if (l->refused_until != 0)
			store_wait_until(in, l->refused_until);
		/* Something has been requested since the last step. */
		if (l->dirty && resp_out_is_empty(&c->out))
			store_wait_until(in, 0);
	}
	redis_conn_interests(c, in);
}

/* ----------
 * Which node of a cluster
 * ----------
 */

static void
listener_join(StoreListener *l, Wanted *w)
{
	if (l->node[w->part] == NULL)
		l->node[w->part] = listener_node_open(l, NODE_MASTER + w->part, 1);
	listener_node_subscribe(l->node[w->part], w);
}

static void
listener_leave(StoreListener *l, Wanted *w)
{
	if (w->part != CLUSTER_NO_NODE)
		listener_node_unsubscribe(l->node[w->part], w);
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
		l->node[i] = listener_node_open(l, lr_nmasters > 0 ? NODE_MASTER + i : NODE_REDIS, 1U << i);
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
			listener_node_close(l->node[i]);
	hash_destroy(l->wanted);
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
		listener_node_subscribe(l->node[i], w);
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
		listener_node_unsubscribe(l->node[i], w);
	listener_leave(l, w);
	(void) hash_search(l->wanted, key, HASH_REMOVE, NULL);
}

static void
listener_step_nodes(StoreListener *l)
{
	for (int i = 0; i < NODE_MASTERS; i++)
		if (l->node[i] != NULL)
			listener_node_step(l->node[i]);
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
		listener_void(l);
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
			listener_node_interests(l->node[i], in);
	if (l->void_all)
		store_wait_until(in, 0);
}
