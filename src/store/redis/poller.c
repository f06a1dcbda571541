/*-------------------------------------------------------------------------
 *
 * poller.c
 *	  A connection by which the watchdog asks a node again and again, or listens to it.
 *
 * It is made when it is wanted, and made again a while after it has ended.  What is said
 * over it is the business of its routine, which sets "answer_until" when something must be
 * answered.
 *
 * Nothing here waits, and only redis_poller_init() raises.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/poller.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/redis/conn.h"

/* A connection that was silent for so long gets a PING. */
#define PING_AFTER			(5 * LR_US_PER_S)

#define RETRY_MIN			(100 * LR_US_PER_MS)
#define RETRY_MAX			LR_US_PER_S

void
redis_poller_init(RedisPoller *p, const PollerRoutine *routine, void *owner)
{
	memset(p, 0, sizeof(RedisPoller));
	p->routine = routine;
	p->owner = owner;
	redis_conn_init(&p->conn, routine->role, false);
}

void
redis_poller_expect(RedisPoller *p)
{
	if (p->answer_until == 0)
		p->answer_until = lr_now() + lr_command_timeout * LR_US_PER_MS;
}

void
redis_poller_no_sense(RedisPoller *p)
{
	redis_conn_fail(&p->conn, ERRCODE_STORE_FAILED, "The node's answer makes no sense.");
}

void
redis_poller_back_off(RedisPoller *p)
{
	p->retry_delay = Min(Max(p->retry_delay * 2, RETRY_MIN), RETRY_MAX);
	p->next_try = lr_now() + p->retry_delay;
}

/*
 * poller_connect --- connect if it is time; true if the connection is ready
 */
static bool
poller_connect(RedisPoller *p)
{
	RedisConn  *c = &p->conn;
	int64		max = p->routine->connect_max;

	if (c->state == CONN_READY)
		return true;
	if (c->state == CONN_CLOSED)
	{
		if (!p->wanted || lr_now() < p->next_try ||
			(p->routine->aim != NULL && !p->routine->aim(p)))
			return false;
		p->answer_until = 0;
		p->pinged = false;
		redis_conn_open(c, &p->target, max == 0 ? LR_NEVER : lr_now() + max);
	}
	redis_conn_advance(c);
	if (c->state == CONN_CLOSED)
		p->routine->lost(p, false);
	if (c->state != CONN_READY)
		return false;
	p->heard_at = lr_now();
	if (p->routine->ready != NULL)
		p->routine->ready(p);
	return true;
}

/*
 * poller_ping --- a dead connection may not show until something is sent
 */
static void
poller_ping(RedisPoller *p)
{
	if (!p->routine->pings || p->answer_until != 0 || lr_now() < p->heard_at + PING_AFTER)
		return;
	resp_put_request(&p->conn.out, 1, "PING");
	p->pinged = true;
	redis_poller_expect(p);
}

/*
 * poller_talk --- take what has come, and send what is due
 */
static void
poller_talk(RedisPoller *p)
{
	RedisConn  *c = &p->conn;
	int			nreads = 0;

	while (redis_conn_next(c, &nreads))
	{
		p->heard_at = lr_now();
		p->routine->take(p);
	}
	if (c->state == CONN_READY && p->answer_until != 0 && lr_now() >= p->answer_until)
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node did not answer in time.");
	if (c->state == CONN_READY && p->routine->talk != NULL)
		p->routine->talk(p);
	if (c->state == CONN_READY)
	{
		poller_ping(p);
		(void) redis_conn_flush(c);
	}
}

void
redis_poller_step(RedisPoller *p)
{
	if (!poller_connect(p))
		return;
	poller_talk(p);
	if (p->conn.state == CONN_CLOSED)
		p->routine->lost(p, true);
}

void
redis_poller_interests(const RedisPoller *p, StoreInterests *in)
{
	if (p->conn.state == CONN_CLOSED && p->wanted)
		store_wait_until(in, p->next_try);
	else if (p->conn.state == CONN_READY && p->answer_until != 0)
		store_wait_until(in, p->answer_until);
	else if (p->conn.state == CONN_READY && p->routine->pings)
		store_wait_until(in, p->heard_at + PING_AFTER);
	redis_conn_interests(&p->conn, in);
}
