/*-------------------------------------------------------------------------
 *
 * sentinel.c
 *	  One Sentinel: what it says about the master, and when it has news.
 *
 * A question consists of two commands.  The reply to SENTINEL MASTER has the number of
 * the last failover, but until all replicas have been reconfigured, which takes seconds,
 * its address is that of the old master.  So the address is taken from
 * GET-MASTER-ADDR-BY-NAME, which is sent behind it: an address that is newer than the
 * number is only asked for again, but an older one must not be combined with it.
 *
 * A message is only a reason to ask at once.  It is from one Sentinel, its order
 * relative to the answers is not known, and messages sent while nobody listened are
 * lost.
 *
 * Nothing here waits, and only sentinel_open() raises.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/sentinel.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/discovery.h"

#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			LR_US_PER_S

/* A connection that was silent for so long gets a PING. */
#define PING_AFTER			(5 * LR_US_PER_S)

/*
 * A name that led to the Sentinel of another name is tried again after this; the longer it
 * does, the more seldom.
 */
#define RETRY_SAME_MIN		(2 * LR_US_PER_S)
#define RETRY_SAME_MAX		(5 * LR_US_PER_S)

#define QUESTION_REPLIES	2

/*
 * A failover has definitely begun; the chosen replica has been promoted; this Sentinel
 * has learned the new address.
 */
static const char *const news_channels[] = {
	"+failover-state-select-slave", "+promoted-slave", "+switch-master"
};

/* States between the election and the promotion. */
static const char *const doubtful_states[] = {
	"select_slave", "send_slaveof_noone", "wait_promotion"
};

void
sentinel_open(RedisSentinel *s, int number)
{
	redis_target_set_sentinel(&s->target, number);
	redis_conn_init(&s->ask, "sentinel", false);
	redis_conn_init(&s->ear, "sentinel-listener", false);
	s->state = NODE_CONNECTING;
	s->retry_delay = RETRY_MIN;
	node_appear(s->target.node);
}

void
sentinel_close(RedisSentinel *s)
{
	redis_conn_free(&s->ask);
	redis_conn_free(&s->ear);
	node_vanish(s->target.node);
}

/* ----------
 * Up and down
 * ----------
 */

/*
 * sentinel_is_down --- it could not be reached, or has sent something useless
 *
 * The reason is in the connection, which has been closed.
 */
static void
sentinel_is_down(RedisSentinel *s)
{
	const StoreError *error = &s->ask.failure.error;
	int64		now = lr_now();

	s->nawaited = 0;
	s->failed_at = now;
	s->next_try = now + s->retry_delay;
	s->retry_delay = Min(s->retry_delay * 2, RETRY_MAX);
	node_set_error(s->target.node, error->address, error->detail);
	if (s->state == NODE_DOWN)
		return;
	s->state = NODE_DOWN;
	node_set_state(s->target.node, NODE_DOWN);
	ereport(LOG,
			(errmsg("lockredis: the Sentinel at %s is down", error->address),
			 errdetail_internal("%s", error->detail)));
}

/*
 * sentinel_is_cut_off --- a good connection has ended
 *
 * That says nothing about the Sentinel: connect again at once, and wait for it.  But a
 * Sentinel that closes each connection is down.
 */
static void
sentinel_is_cut_off(RedisSentinel *s)
{
	int64		now = lr_now();

	if (s->state != NODE_UP || now - s->cut_off_at < RETRY_MAX)
	{
		sentinel_is_down(s);
		return;
	}
	s->cut_off_at = now;
	s->nawaited = 0;
	s->next_try = 0;
}

/*
 * sentinel_is_up --- it has answered: store what it is, and log it if it was down
 */
static void
sentinel_is_up(RedisSentinel *s)
{
	const char *address = s->ask.failure.error.address;

	s->retry_delay = RETRY_MIN;
	s->same_delay = 0;
	node_set_round_trip(s->target.node, lr_now() - s->answer.asked_at);
	if (s->state == NODE_UP)
		return;
	node_set_facts(s->target.node, address, s->ask.facts.version, NULL,
				   ROLE_SENTINEL);
	if (redis_tls_is_on(&s->ask.tls))
		node_set_certificate(s->target.node, redis_tls_expires(&s->ask.tls));
	if (s->state == NODE_DOWN)
		ereport(LOG,
				(errmsg("lockredis: the Sentinel at %s is up", address)));
	s->state = NODE_UP;
	node_set_state(s->target.node, NODE_UP);
}

static void
sentinel_fail(RedisSentinel *s, const char *detail)
{
	redis_conn_fail(&s->ask, ERRCODE_STORE_FAILED, "%s", detail);
	sentinel_is_down(s);
}

/* ----------
 * Which Sentinel a name leads to
 * ----------
 */

/*
 * sentinel_meet --- the connection for questions is ready
 *
 * What another Sentinel has answered before is not this one's vote.  But if that was in doubt, it
 * remains so until somebody says that there is none.
 */
static void
sentinel_meet(RedisSentinel *s)
{
	const char *run_id = s->ask.facts.run_id;

	s->met = true;
	if (strcmp(s->run_id, run_id) == 0)
		return;
	s->answer.of_another = true;
	strlcpy(s->run_id, run_id, sizeof(s->run_id));
}

/*
 * sentinel_refuse --- see discovery.h
 *
 * Which of both names leads there by mistake is not known, so both are resolved again.
 */
void
sentinel_refuse(RedisSentinel *s)
{
	s->answer.of_another = true;
	s->run_id[0] = '\0';
	redis_conn_close(&s->ear);
	redis_target_want_addresses(&s->target, WANT_REACHABLE);
	if (s->ask.state != CONN_READY)
		return;
	sentinel_fail(s, "It is the same Sentinel as that of another name in lockredis.url.");
	s->same_delay = Min(Max(s->same_delay * 2, RETRY_SAME_MIN), RETRY_SAME_MAX);
	s->next_try = lr_now() + s->same_delay;
}

void
sentinel_reconnect(RedisSentinel *s)
{
	redis_target_want_addresses(&s->target, WANT_REACHABLE);
	redis_conn_close(&s->ask);
	s->nawaited = 0;
	s->next_try = 0;
}

/* ----------
 * Questions
 * ----------
 */

/*
 * sentinel_put_question --- ask which node is the master, by both commands
 */
static void
sentinel_put_question(RedisSentinel *s)
{
	static const char *const words[QUESTION_REPLIES] = {
		"MASTER", "GET-MASTER-ADDR-BY-NAME"
	};
	int64		now = lr_now();

	for (int i = 0; i < QUESTION_REPLIES; i++)
		resp_put_request(&s->ask.out, 3, "SENTINEL", words[i], s->target.url.service);
	memset(&s->coming, 0, sizeof(SentinelAnswer));
	s->coming.asked_at = now;
	s->nawaited = QUESTION_REPLIES;
	s->answer_until = now + lr_command_timeout * LR_US_PER_MS;
}

static bool
sentinel_is_doubtful(const char *state)
{
	for (int i = 0; i < lengthof(doubtful_states); i++)
		if (strcmp(state, doubtful_states[i]) == 0)
			return true;
	return false;
}

/*
 * sentinel_take_master --- parse the reply to SENTINEL MASTER; false if it is not valid
 */
static bool
sentinel_take_master(SentinelAnswer *a, const RedisValue *v)
{
	bool		has_epoch = false;

	if (v->type != REDIS_REPLY_ARRAY)
		return false;
	for (int i = 1; i + 1 <= v->elements; i += 2)
	{
		if (v[i].type != REDIS_REPLY_STRING || v[i + 1].type != REDIS_REPLY_STRING)
			return false;
		if (strcmp(v[i].str, "config-epoch") == 0)
		{
			char	   *end;

			errno = 0;
			a->config_epoch = strtoi64(v[i + 1].str, &end, 10);
			has_epoch = end != v[i + 1].str && *end == '\0' && errno == 0 &&
				a->config_epoch >= 0 && a->config_epoch < PG_INT64_MAX;
		}
		else if (strcmp(v[i].str, "failover-state") == 0)
			a->in_doubt = sentinel_is_doubtful(v[i + 1].str);
	}
	a->known = has_epoch;
	return has_epoch;
}

/*
 * sentinel_take_address --- parse host and port, or nil; false if it is neither
 */
static bool
sentinel_take_address(SentinelAnswer *a, const RedisValue *v)
{
	RedisHost  *at = &a->master;
	int			port;

	if (v->type == REDIS_REPLY_NIL)
	{
		a->known = false;
		return true;
	}
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 2 ||
		v[1].type != REDIS_REPLY_STRING || v[2].type != REDIS_REPLY_STRING ||
		v[1].len == 0 || v[1].len >= LR_HOST_MAX ||
		strspn(v[1].str, "0123456789abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:") != v[1].len)
		return false;
	port = atoi(v[2].str);
	if (port < 1 || port > 65535)
		return false;
	memcpy(at->host, v[1].str, v[1].len + 1);
	at->port = port;
	return true;
}

/*
 * sentinel_take_refusal --- an error reply; true if it only means that the service is
 * not known
 */
static bool
sentinel_take_refusal(RedisSentinel *s, const RedisValue *v)
{
	if (redis_words_begin(v->str, "ERR No such master"))
	{
		s->coming.known = false;
		return true;
	}
	redis_conn_refused(&s->ask);
	sentinel_is_down(s);
	return false;
}

/*
 * sentinel_take_reply --- take the next reply; false: the connection has been closed
 */
static bool
sentinel_take_reply(RedisSentinel *s)
{
	const RedisValue *v = s->ask.in.values;
	bool		first = s->nawaited == QUESTION_REPLIES;

	if (s->nawaited == 0)
	{
		sentinel_fail(s, "The node sent something that was not asked for.");
		return false;
	}
	if (v->type == REDIS_REPLY_ERROR)
	{
		if (!sentinel_take_refusal(s, v))
			return false;
	}
	else if (!(first ? sentinel_take_master(&s->coming, v) :
			   sentinel_take_address(&s->coming, v)))
	{
		sentinel_fail(s, "The node's answer makes no sense.");
		return false;
	}
	if (--s->nawaited == 0)
	{
		s->answer = s->coming;
		sentinel_is_up(s);
	}
	return true;
}

/*
 * sentinel_read --- read its replies; false: the connection is gone
 */
static bool
sentinel_read(RedisSentinel *s)
{
	int			nreads = 0;

	while (redis_conn_next(&s->ask, &nreads))
		if (!sentinel_take_reply(s))
			return false;
	if (s->ask.state == CONN_CLOSED)
		sentinel_is_cut_off(s);
	return s->ask.state == CONN_READY;
}

/*
 * sentinel_connect --- the connection for questions; true if it is ready
 */
static bool
sentinel_connect(RedisSentinel *s)
{
	if (s->ask.state == CONN_READY)
		return true;
	if (s->ask.state == CONN_CLOSED)
	{
		if (lr_now() < s->next_try)
			return false;
		redis_conn_open(&s->ask, &s->target, LR_NEVER);
	}
	redis_conn_advance(&s->ask);
	if (s->ask.state == CONN_CLOSED)
		sentinel_is_down(s);
	else if (s->ask.state == CONN_READY)
		sentinel_meet(s);
	return s->ask.state == CONN_READY;
}

/*
 * sentinel_step_question --- go on with that connection, and ask if the last answer is
 * to a question from before "since"
 *
 * It must not read behind the flush: a question is answered in a later step.  So the
 * step that notes a doubt does not name the master again, and failover_step() sees that.
 */
static void
sentinel_step_question(RedisSentinel *s, int64 since)
{
	if (!sentinel_connect(s) || !sentinel_read(s))
		return;
	if (s->nawaited > 0 && lr_now() >= s->answer_until)
	{
		sentinel_fail(s, "The node did not answer in time.");
		return;
	}
	if (s->nawaited == 0 && (s->answer.asked_at < since || s->answer.of_another))
		sentinel_put_question(s);
	if (!redis_conn_flush(&s->ask))
		sentinel_is_cut_off(s);
}

bool
sentinel_has_answered(const RedisSentinel *s, int64 since)
{
	return (s->answer.asked_at >= since && !s->answer.of_another) || s->failed_at >= since ||
		(s->ask.state == CONN_CLOSED && s->next_try > since);
}

/* ----------
 * News
 * ----------
 */

static void
ear_expect(RedisSentinel *s)
{
	if (s->ear_until == 0)
		s->ear_until = lr_now() + lr_command_timeout * LR_US_PER_MS;
}

static void
ear_subscribe(RedisSentinel *s)
{
	RespOut    *out = &s->ear.out;

	resp_put_array(out, 1 + lengthof(news_channels));
	resp_put_text(out, "SUBSCRIBE");
	for (int i = 0; i < lengthof(news_channels); i++)
		resp_put_text(out, news_channels[i]);
	s->listening = true;
	ear_expect(s);
}

/*
 * ear_connect --- the listening connection, once the Sentinel has answered; true if it
 * is ready
 */
static bool
ear_connect(RedisSentinel *s)
{
	int64		now = lr_now();

	if (s->ear.state == CONN_CLOSED)
	{
		if (s->state != NODE_UP || now < s->ear_next_try)
			return false;
		s->ear_next_try = now + RETRY_MAX;
		s->listening = false;
		s->ear_until = 0;
		redis_conn_open(&s->ear, &s->target, LR_NEVER);
	}
	redis_conn_advance(&s->ear);
	if (s->ear.state != CONN_READY)
		return false;
	if (!s->listening)
	{
		s->heard_at = now;
		ear_subscribe(s);
	}
	return true;
}

/*
 * ear_hears --- is this a message about our service?
 */
static bool
ear_hears(const RedisSentinel *s)
{
	const RedisValue *v = s->ear.in.values;

	return v->type == REDIS_REPLY_ARRAY && v->elements == 3 &&
		v[1].type == REDIS_REPLY_STRING && strcmp(v[1].str, "message") == 0 &&
		v[3].type == REDIS_REPLY_STRING &&
		strstr(v[3].str, s->target.url.service) != NULL;
}

/*
 * ear_step --- listen; true if there is news
 *
 * A refused subscription is no failure, as the Sentinel is asked each second anyway.
 */
static bool
ear_step(RedisSentinel *s)
{
	bool		news = false;
	int			nreads = 0;

	if (!ear_connect(s))
		return false;
	while (redis_conn_next(&s->ear, &nreads))
	{
		s->heard_at = lr_now();
		s->ear_until = 0;
		news = news || ear_hears(s);
	}
	if (s->ear.state != CONN_READY)
		return news;

	if (s->ear_until == 0 && lr_now() >= s->heard_at + PING_AFTER)
	{
		resp_put_request(&s->ear.out, 1, "PING");
		ear_expect(s);
	}
	if (s->ear_until != 0 && lr_now() >= s->ear_until)
		redis_conn_close(&s->ear);
	else
		(void) redis_conn_flush(&s->ear);
	return news;
}

/* ----------
 * Both
 * ----------
 */

bool
sentinel_step(RedisSentinel *s, int64 since)
{
	sentinel_step_question(s, since);
	return ear_step(s);
}

void
sentinel_interests(const RedisSentinel *s, StoreInterests *in)
{
	if (s->ask.state == CONN_CLOSED)
		store_wait_until(in, s->next_try);
	else if (s->nawaited > 0)
		store_wait_until(in, s->answer_until);
	if (s->ear.state == CONN_READY)
		store_wait_until(in, s->ear_until != 0 ? s->ear_until : s->heard_at + PING_AFTER);
	else if (s->ear.state == CONN_CLOSED && s->state == NODE_UP)
		store_wait_until(in, s->ear_next_try);
	redis_conn_interests(&s->ask, in);
	redis_conn_interests(&s->ear, in);
}
