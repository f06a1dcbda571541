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

/* A good connection may end that seldom, and the Sentinel is not down. */
#define CUT_OFF_MIN			LR_US_PER_S

/* When to listen again after the connection for that has ended. */
#define EAR_RETRY			LR_US_PER_S

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

/* ----------
 * Up and down
 * ----------
 */

/*
 * sentinel_is_down --- it could not be reached, or cannot be used
 *
 * The reason is in the connection, which has been closed.
 */
static void
sentinel_is_down(RedisSentinel *s)
{
	const StoreError *error = &s->ask.conn.failure.error;

	s->failed_at = lr_now();
	redis_poller_back_off(&s->ask);
	s->ear.wanted = false;
	node_set_error(s->ask.target.node, error->address, error->detail);
	if (s->state == NODE_DOWN)
		return;
	s->state = NODE_DOWN;
	node_set_state(s->ask.target.node, NODE_DOWN);
	ereport(LOG,
			(errmsg("lockredis: the Sentinel at %s is down", error->address),
			 errdetail_internal("%s", error->detail)));
}

/*
 * sentinel_lost --- the connection for questions has ended, or could not be made
 *
 * The end of a good one says nothing about the Sentinel: connect again at once, and wait for it.
 * But a Sentinel with which each connection ends is down.
 */
static void
sentinel_lost(RedisPoller *p, bool was_ready)
{
	RedisSentinel *s = p->owner;
	int64		now = lr_now();

	s->nawaited = 0;
	if (!was_ready || s->state != NODE_UP || s->answer.asked_at <= s->cut_off_at ||
		now - s->cut_off_at < CUT_OFF_MIN)
	{
		sentinel_is_down(s);
		return;
	}
	s->cut_off_at = now;
	p->next_try = 0;
}

/*
 * sentinel_is_up --- it has answered: store what it is, and log it if it was down
 */
static void
sentinel_is_up(RedisSentinel *s)
{
	const RedisConn *c = &s->ask.conn;
	const char *address = c->failure.error.address;
	NodeId		node = s->ask.target.node;

	s->ask.retry_delay = s->same_delay = 0;
	s->ear.wanted = true;
	node_set_round_trip(node, lr_now() - s->answer.asked_at);
	if (s->state == NODE_UP)
		return;
	s->ask.conn.facts.shown.role = ROLE_SENTINEL;
	node_set_facts(node, address, &c->facts.shown);
	if (s->state == NODE_DOWN)
		ereport(LOG,
				(errmsg("lockredis: the Sentinel at %s is up", address)));
	s->state = NODE_UP;
	node_set_state(node, NODE_UP);
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
sentinel_meet(RedisPoller *p)
{
	RedisSentinel *s = p->owner;
	const char *run_id = p->conn.facts.run_id;

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
	redis_conn_close(&s->ear.conn);
	redis_target_want_addresses(&s->ask.target, true);
	if (s->ask.conn.state != CONN_READY)
		return;
	redis_conn_fail(&s->ask.conn, ERRCODE_STORE_FAILED,
					"It is the same Sentinel as that of another name in lockredis.url.");
	s->nawaited = 0;
	sentinel_is_down(s);
	s->same_delay = Min(Max(s->same_delay * 2, RETRY_SAME_MIN), RETRY_SAME_MAX);
	s->ask.next_try = lr_now() + s->same_delay;
}

void
sentinel_reconnect(RedisSentinel *s)
{
	redis_target_want_addresses(&s->ask.target, false);
	redis_conn_close(&s->ask.conn);
	s->nawaited = 0;
	s->ask.next_try = 0;
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

	for (int i = 0; i < QUESTION_REPLIES; i++)
		resp_put_request(&s->ask.conn.out, 3, "SENTINEL", words[i], s->ask.target.url.service);
	memset(&s->coming, 0, sizeof(SentinelAnswer));
	s->coming.asked_at = lr_now();
	s->nawaited = QUESTION_REPLIES;
	redis_poller_expect(&s->ask);
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
sentinel_take_master(SentinelAnswer *a, const redisReply *v)
{
	bool		has_epoch = false;

	if (v->type != REDIS_REPLY_ARRAY)
		return false;
	for (size_t i = 0; i + 1 < v->elements; i += 2)
	{
		const redisReply *name = v->element[i];
		const redisReply *value = v->element[i + 1];

		if (name->type != REDIS_REPLY_STRING || value->type != REDIS_REPLY_STRING)
			return false;
		if (strcmp(name->str, "config-epoch") == 0)
		{
			char	   *end;

			errno = 0;
			a->config_epoch = strtoi64(value->str, &end, 10);
			has_epoch = end != value->str && *end == '\0' && errno == 0 &&
				a->config_epoch >= 0 && a->config_epoch < PG_INT64_MAX;
		}
		else if (strcmp(name->str, "failover-state") == 0)
			a->in_doubt = sentinel_is_doubtful(value->str);
	}
	a->known = has_epoch;
	return has_epoch;
}

/*
 * sentinel_take_address --- parse host and port, or nil; false if it is neither
 */
static bool
sentinel_take_address(SentinelAnswer *a, const redisReply *v)
{
	RedisHost  *at = &a->master;
	int			port;

	if (v->type == REDIS_REPLY_NIL)
	{
		a->known = false;
		return true;
	}
	if (v->type != REDIS_REPLY_ARRAY || v->elements != 2 ||
		v->element[0]->type != REDIS_REPLY_STRING || v->element[1]->type != REDIS_REPLY_STRING ||
		v->element[0]->len == 0 || v->element[0]->len >= LR_HOST_MAX ||
		strspn(v->element[0]->str, "0123456789abcdefghijklmnopqrstuvwxyz"
			   "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-_:") != v->element[0]->len)
		return false;
	port = atoi(v->element[1]->str);
	if (port < 1 || port > 65535)
		return false;
	memcpy(at->host, v->element[0]->str, v->element[0]->len + 1);
	at->port = port;
	return true;
}

/*
 * sentinel_take_part --- parse the reply to one of both commands; false if it is not valid
 *
 * The only errors that come here mean that the service is not known.
 */
static bool
sentinel_take_part(RedisSentinel *s, const redisReply *v)
{
	if (v->type == REDIS_REPLY_ERROR)
	{
		s->coming.known = false;
		return true;
	}
	return s->nawaited == QUESTION_REPLIES ? sentinel_take_master(&s->coming, v) :
		sentinel_take_address(&s->coming, v);
}

/*
 * sentinel_take --- take the next reply
 */
static void
sentinel_take(RedisPoller *p)
{
	RedisSentinel *s = p->owner;
	const redisReply *v = p->conn.in.reply;

	if (v->type == REDIS_REPLY_ERROR && !redis_words_begin(v->str, "ERR No such master"))
		redis_conn_refused(&p->conn);
	else if (s->nawaited == 0 || !sentinel_take_part(s, v))
		redis_poller_no_sense(p);
	else if (--s->nawaited == 0)
	{
		p->answer_until = 0;
		s->answer = s->coming;
		sentinel_is_up(s);
	}
}

/*
 * sentinel_talk --- ask if the last answer is to a question from before "since"
 *
 * The question is answered in a later step.  So the step that notes a doubt does not name the
 * master again, and failover_step() sees that.
 */
static void
sentinel_talk(RedisPoller *p)
{
	RedisSentinel *s = p->owner;

	if (s->nawaited == 0 && (s->answer.asked_at < s->since || s->answer.of_another))
		sentinel_put_question(s);
}

bool
sentinel_has_answered(const RedisSentinel *s, int64 since)
{
	return (s->answer.asked_at >= since && !s->answer.of_another) || s->failed_at >= since ||
		(s->ask.conn.state == CONN_CLOSED && s->ask.next_try > since);
}

/* ----------
 * News
 * ----------
 */

static void
ear_ready(RedisPoller *p)
{
	RespOut    *out = &p->conn.out;

	resp_put_array(out, 1 + lengthof(news_channels));
	resp_put_text(out, "SUBSCRIBE");
	for (int i = 0; i < lengthof(news_channels); i++)
		resp_put_text(out, news_channels[i]);
	redis_poller_expect(p);
}

/*
 * ear_take --- is this a message about our service?
 *
 * A refused subscription is no failure, as the Sentinel is asked each second anyway.
 */
static void
ear_take(RedisPoller *p)
{
	RedisSentinel *s = p->owner;
	const redisReply *v = p->conn.in.reply;

	p->answer_until = 0;
	if (v->type == REDIS_REPLY_ARRAY && v->elements == 3 &&
		v->element[0]->type == REDIS_REPLY_STRING && strcmp(v->element[0]->str, "message") == 0 &&
		v->element[2]->type == REDIS_REPLY_STRING &&
		strstr(v->element[2]->str, p->target.url.service) != NULL)
		s->news = true;
}

static void
ear_lost(RedisPoller *p, bool was_ready)
{
	p->next_try = lr_now() + EAR_RETRY;
}

/* ----------
 * Both
 * ----------
 */

static const PollerRoutine ask_routine = {
	.role = "sentinel",
	.ready = sentinel_meet,
	.take = sentinel_take,
	.talk = sentinel_talk,
	.lost = sentinel_lost
};

static const PollerRoutine ear_routine = {
	.role = "sentinel-listener",
	.pings = true,
	.ready = ear_ready,
	.take = ear_take,
	.lost = ear_lost
};

void
sentinel_open(RedisSentinel *s, int number)
{
	redis_poller_init(&s->ask, &ask_routine, s);
	redis_poller_init(&s->ear, &ear_routine, s);
	redis_target_set_sentinel(&s->ask.target, number);
	s->ear.target = s->ask.target;
	s->ask.wanted = true;
	s->state = NODE_CONNECTING;
	node_appear(s->ask.target.node);
}

void
sentinel_close(RedisSentinel *s)
{
	redis_conn_free(&s->ask.conn);
	redis_conn_free(&s->ear.conn);
	node_vanish(s->ask.target.node);
}

bool
sentinel_step(RedisSentinel *s, int64 since)
{
	s->since = since;
	s->news = false;
	redis_poller_step(&s->ask);
	redis_poller_step(&s->ear);
	return s->news;
}

void
sentinel_interests(const RedisSentinel *s, StoreInterests *in)
{
	redis_poller_interests(&s->ask, in);
	redis_poller_interests(&s->ear, in);
}
