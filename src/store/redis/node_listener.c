/*-------------------------------------------------------------------------
 *
 * node_listener.c
 *	  Release messages of one Redis node.
 *
 * There is one connection, with a subscription for each awaited key.  Only the watchdog
 * has one.  It never waits: node_listener_step() does what is possible, and
 * node_listener_interests() says when to call it again.
 *
 * A node of a cluster sends messages about a slot to those subscribed at that node
 * (sharded channels), and ends the subscriptions when it loses the slot.
 *
 * For each channel there is an entry with what the caller wants and what was last
 * requested from Redis.  A channel has at most one unanswered request; if the caller
 * changes its mind meanwhile, the next request is sent when the answer has come.  So an
 * answer always belongs to the latest request, and a confirmed subscription has no gap.
 * Redis answers in order, which tells which channel an error reply is about.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_listener.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "lib/ilist.h"
#include "utils/memutils.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/redis/conn.h"
#include "store/redis/listener.h"

#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			(1 * LR_US_PER_S)

/* A connection that was silent for so long gets a PING. */
#define PING_AFTER			(5 * LR_US_PER_S)

/* When to repeat refused subscriptions: a right may be granted again. */
#define REFUSED_MIN			(1 * LR_US_PER_S)
#define REFUSED_MAX			(32 * LR_US_PER_S)

/* Zero-padded, so that it can be compared as a blob. */
typedef struct ChannelKey
{
	int			len;
	char		channel[LR_DERIVED_MAX];
} ChannelKey;

/* A key that uses the channel. */
typedef struct ChannelUser
{
	TopicKey	key;
	bool		wanted;			/* by the caller */
	bool		told;			/* the caller was notified that it is confirmed */
} ChannelUser;

/*
 * The keys "x" and "{x}" have the same channel, so users[0] is the one without a brace
 * and users[1] the one with braces.
 */
typedef struct Channel
{
	ChannelKey	key;
	ChannelUser users[2];
	bool		asked;			/* the last request was SUBSCRIBE */
	bool		unanswered;		/* that request is unanswered; it is in the
								 * listener's list */
	bool		refused;		/* by Redis; requested again now and then */
	dlist_node	node;
} Channel;

struct NodeListener
{
	RedisTarget target;
	RedisConn	conn;
	StoreEventCallback callback;
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
};

HTAB *
listener_table(const char *name, Size key_size, Size entry_size)
{
	HASHCTL		ctl = {.keysize = key_size,.entrysize = entry_size,.hcxt = TopMemoryContext};

	return hash_create(name, 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * node_listener_open --- create it; it connects when something is wanted
 */
NodeListener *
node_listener_open(NodeId node, StoreEventCallback callback)
{
	NodeListener *l = MemoryContextAllocZero(TopMemoryContext,
											 sizeof(NodeListener));

	l->channels = listener_table("lockredis channels", sizeof(ChannelKey), sizeof(Channel));
	l->callback = callback;
	l->retry_delay = RETRY_MIN;
	l->refused_delay = REFUSED_MIN;
	dlist_init(&l->unanswered);
	redis_target_set(&l->target, node);
	redis_conn_init(&l->conn, "listener", false);
	return l;
}

void
node_listener_close(NodeListener *l)
{
	redis_conn_free(&l->conn);
	hash_destroy(l->channels);
	pfree(l);
}

static void
listener_channel_key(ChannelKey *key, const TopicKey *of)
{
	char		text[LR_OWNER_MAX];

	memset(key, 0, sizeof(ChannelKey));
	(void) lr_owner_text(of->owner, text);
	key->len = lr_channel_name(of->topic, of->name, of->len, text, key->channel);
}

static ChannelUser *
listener_user_of(Channel *ch, const TopicKey *key)
{
	return &ch->users[memchr(key->name, '{', key->len) != NULL];
}

static bool
listener_is_wanted(const Channel *ch)
{
	return ch->users[0].wanted || ch->users[1].wanted;
}

/*
 * node_listener_subscribe --- listen for messages about this key
 *
 * If it is subscribed to already, the caller is notified again that it is confirmed.
 */
void
node_listener_subscribe(NodeListener *l, const TopicKey *key)
{
	ChannelKey	channel;
	Channel    *ch;
	ChannelUser *user;
	bool		found;

	listener_channel_key(&channel, key);
	ch = hash_search(l->channels, &channel, HASH_ENTER, &found);
	if (!found)
	{
		ch->users[0].wanted = ch->users[1].wanted = false;
		ch->asked = ch->unanswered = false;
	}
	user = listener_user_of(ch, key);
	if (!user->wanted)
		l->nwanted++;
	user->key = *key;
	user->wanted = true;
	user->told = false;
	ch->refused = false;
	l->dirty = true;
}

/*
 * node_listener_unsubscribe --- stop listening for messages about this key
 */
void
node_listener_unsubscribe(NodeListener *l, const TopicKey *key)
{
	ChannelKey	channel;
	Channel    *ch;
	ChannelUser *user;

	listener_channel_key(&channel, key);
	ch = hash_search(l->channels, &channel, HASH_FIND, NULL);
	if (ch == NULL)
		return;
	user = listener_user_of(ch, key);
	if (!user->wanted)
		return;
	user->wanted = false;
	l->nwanted--;
	l->dirty = true;
}

/* ----------
 * The connection ends
 * ----------
 */

/*
 * listener_lost --- the connection was closed, or could not be made
 */
static void
listener_lost(NodeListener *l)
{
	HASH_SEQ_STATUS seq;
	Channel    *ch;
	bool		was_connected = l->connected;

	hash_seq_init(&seq, l->channels);
	while ((ch = hash_seq_search(&seq)) != NULL)
	{
		ch->asked = ch->unanswered = ch->refused = false;
		ch->users[0].told = ch->users[1].told = false;
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
	if (was_connected)
		l->callback(STORE_LISTEN_LOST, NULL);
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
 * listener_tell_users --- notify the caller that the channel is subscribed to
 */
static void
listener_tell_users(NodeListener *l, Channel *ch)
{
	for (int i = 0; i < lengthof(ch->users); i++)
	{
		ChannelUser *user = &ch->users[i];

		if (!user->wanted || user->told)
			continue;
		user->told = true;
		l->callback(STORE_LISTEN_CONFIRMED, &user->key);
	}
}

/*
 * listener_has_shards --- does the node send messages to its shard only?
 */
static bool
listener_has_shards(const NodeListener *l)
{
	return l->target.kind == TARGET_SHARD && redis_facts_have_shards(&l->conn.facts);
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
		bool		wanted = listener_is_wanted(ch);

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
		if (listener_has_shards(l))
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
 * listener_tell_refused --- notify the caller that there will be no messages
 */
static void
listener_tell_refused(NodeListener *l, const Channel *ch)
{
	for (int i = 0; i < lengthof(ch->users); i++)
		if (ch->users[i].wanted)
			l->callback(STORE_LISTEN_REFUSED, &ch->users[i].key);
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
		listener_tell_refused(l, ch);
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
	if (!listener_has_shards(l) || strcmp(word, "sunsubscribe") != 0 ||
		(ch != NULL && ch->unanswered && !ch->asked))
		return false;
	cluster_want_map();
	if (ch == NULL || ch->unanswered || !ch->asked)
		return true;
	ch->asked = false;
	ch->refused = true;
	ch->users[0].told = ch->users[1].told = false;
	listener_put_off(l);
	l->dirty = true;
	l->callback(STORE_LISTEN_LOST, NULL);
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
		for (int i = 0; ch != NULL && i < lengthof(ch->users); i++)
			if (ch->users[i].wanted)
				l->callback(STORE_LISTEN_RELEASED, &ch->users[i].key);
		return true;
	}
	if (listener_is_ended(l, ch, v[1].str))
		return true;
	word = v[1].str + (listener_has_shards(l) && v[1].str[0] == 's');
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
	RedisRead	got;
	int			nreads = 0;

	do
	{
		got = redis_conn_receive(c, false);
		while (redis_conn_reply(c))
		{
			l->heard_at = lr_now();
			l->answer_until = 0;
			if (!listener_take_push(l))
			{
				redis_conn_fail(c, ERRCODE_STORE_FAILED,
								"The node's answer makes no sense.");
				return false;
			}
		}
		if (c->state == CONN_CLOSED)
			return false;
	} while (redis_conn_reads_on(got, &nreads));

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
		listener_lost(l);
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
		listener_lost(l);
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
 * node_listener_step --- do all that can be done without waiting
 */
void
node_listener_step(NodeListener *l)
{
	RedisConn  *c = &l->conn;
	int64		now;

	if (!listener_connect(l))
		return;
	if (!listener_take_pushes(l))
	{
		listener_lost(l);
		return;
	}

	now = lr_now();
	if (l->answer_until != 0 && now >= l->answer_until)
	{
		redis_conn_fail(c, ERRCODE_STORE_FAILED,
						"The node did not answer in time.");
		listener_lost(l);
		return;
	}
	listener_ping_if_idle(l, now);
	listener_ask_again(l, now);

	do
	{
		listener_put_requests(l);
		if (c->out.failed)
			redis_conn_fail(c, ERRCODE_OUT_OF_MEMORY,
							"Out of memory.");
		else
			(void) redis_conn_flush(c);
		if (c->state == CONN_CLOSED)
		{
			listener_lost(l);
			return;
		}
	} while (l->dirty && resp_out_is_empty(&c->out));
}

/*
 * node_listener_interests --- see StoreRoutine.interests
 */
void
node_listener_interests(NodeListener *l, StoreInterests *in)
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
