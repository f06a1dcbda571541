/*-------------------------------------------------------------------------
 *
 * redis_ear.c
 *	  Stands for redis/listener.c: releases of awaited keys, over the simulated
 *	  network.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/redis_ear.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "../../../src/store/redis/listener.h"
#include "../../../src/settings.h"

#include "../kernel/network.h"
#include "../kernel/redis_model.h"
#include "redis_link.h"

#define MAX_CHANNELS	16
#define RETRY_MIN		(100 * LR_US_PER_MS)
#define RETRY_MAX		LR_US_PER_S
#define PING_AFTER		(10 * LR_US_PER_S)

typedef struct Channel
{
	char		name[REDIS_NAME];
	bool		wanted;
	bool		asked;
	bool		unanswered;
	bool		told;
	bool		refused;
} Channel;

struct StoreListener
{
	RedisLink	link;
	StoreEventCallback callback;
	int			n;
	Channel		channel[MAX_CHANNELS];
	int			unanswered[MAX_CHANNELS * 2];	/* in the order of the requests */
	int			nunanswered;
	bool		connected;
	bool		dirty;
	int64		retry_delay;
	int64		next_try;
	int64		heard_at;
	int64		answer_until;
};

StoreListener *
redis_listener_open(StoreEventCallback callback)
{
	StoreListener *l = MemoryContextAllocZero(TopMemoryContext, sizeof(StoreListener));

	link_init(&l->link);
	l->callback = callback;
	l->retry_delay = RETRY_MIN;
	return l;
}

void
redis_listener_close(StoreListener *l)
{
	link_close(&l->link);
	pfree(l);
}

static Channel *
find(StoreListener *l, const char *name, int len)
{
	for (int i = 0; i < l->n; i++)
		if (strlen(l->channel[i].name) == len &&
			memcmp(l->channel[i].name, name, len) == 0)
			return &l->channel[i];
	Assert(l->n < MAX_CHANNELS);
	memset(&l->channel[l->n], 0, sizeof(Channel));
	memcpy(l->channel[l->n].name, name, len);
	return &l->channel[l->n++];
}

void
redis_listener_subscribe(StoreListener *l, const char *name, int name_len)
{
	Channel    *ch = find(l, name, name_len);

	ch->wanted = true;
	ch->told = false;
	ch->refused = false;
	l->dirty = true;
}

void
redis_listener_unsubscribe(StoreListener *l, const char *name, int name_len)
{
	find(l, name, name_len)->wanted = false;
	l->dirty = true;
}

static bool
any_wanted(const StoreListener *l)
{
	for (int i = 0; i < l->n; i++)
		if (l->channel[i].wanted)
			return true;
	return false;
}

static void
lost(StoreListener *l)
{
	bool		was_connected = l->connected;

	link_close(&l->link);
	for (int i = 0; i < l->n; i++)
		l->channel[i].asked = l->channel[i].unanswered =
			l->channel[i].told = l->channel[i].refused = false;
	l->nunanswered = 0;
	l->dirty = true;
	l->connected = false;
	l->answer_until = 0;
	l->next_try = lr_now() + l->retry_delay;
	l->retry_delay = Min(l->retry_delay * 2, RETRY_MAX);
	if (was_connected)
		l->callback(STORE_LISTEN_LOST, NULL, 0);
}

static void
request(StoreListener *l, RedisVerb verb, const char *name)
{
	RedisRequest q;

	memset(&q, 0, sizeof(q));
	q.verb = verb;
	q.n = 1;
	strlcpy(q.arg[0].key, name, REDIS_NAME);
	sim_yield("send");
	net_send(l->link.conn, &q, sizeof(q));
	if (l->answer_until == 0)
		l->answer_until = lr_now() + lr_command_timeout * LR_US_PER_MS;
}

static void
put_requests(StoreListener *l)
{
	l->dirty = false;
	for (int i = 0; i < l->n; i++)
	{
		Channel    *ch = &l->channel[i];

		if (ch->unanswered || (ch->refused && ch->wanted))
			continue;
		if (ch->wanted != ch->asked)
		{
			ch->asked = ch->wanted;
			ch->unanswered = true;
			l->unanswered[l->nunanswered++] = i;
			request(l, ch->wanted ? REDIS_SUBSCRIBE : REDIS_UNSUBSCRIBE, ch->name);
		}
		else if (ch->wanted && !ch->told)
		{
			ch->told = true;
			l->callback(STORE_LISTEN_CONFIRMED, ch->name, strlen(ch->name));
		}
	}
}

static void
take_push(StoreListener *l, const RedisReply *r)
{
	l->heard_at = lr_now();
	l->answer_until = 0;
	if (r->is_message)
	{
		Channel    *ch = find(l, r->channel, strlen(r->channel));

		if (ch->wanted)
			l->callback(STORE_LISTEN_RELEASED, ch->name, strlen(ch->name));
	}
	else if (r->verb != REDIS_PING && l->nunanswered > 0)
	{
		Channel    *ch = &l->channel[l->unanswered[0]];

		l->nunanswered--;
		memmove(l->unanswered, l->unanswered + 1, sizeof(int) * l->nunanswered);
		ch->unanswered = false;
		l->dirty = true;
		if (r->denied || r->loading)
		{
			ch->refused = true;
			ch->asked = false;
		}
	}
	if (l->nunanswered > 0 && l->answer_until == 0)
		l->answer_until = lr_now() + lr_command_timeout * LR_US_PER_MS;
}

static bool
connect_ear(StoreListener *l)
{
	if (l->link.state == LINK_READY)
		return true;
	if (l->link.state == LINK_CLOSED)
	{
		if (!any_wanted(l) || lr_now() < l->next_try)
			return false;
		link_open(&l->link);
	}
	link_advance(&l->link);
	if (l->link.state == LINK_CLOSED)
		lost(l);
	if (l->link.state != LINK_READY)
		return false;
	l->connected = true;
	l->retry_delay = RETRY_MIN;
	l->heard_at = lr_now();
	l->dirty = true;
	return true;
}

void
redis_listener_step(StoreListener *l)
{
	RedisReply	reply;

	if (!connect_ear(l))
		return;
	sim_yield("receive");
	while (net_receive(l->link.conn, &reply, sizeof(reply)))
		take_push(l, &reply);
	if (net_state(l->link.conn) == NET_CLOSED ||
		(l->answer_until != 0 && lr_now() >= l->answer_until))
	{
		lost(l);
		return;
	}
	if (l->answer_until == 0 && lr_now() >= l->heard_at + PING_AFTER)
		request(l, REDIS_PING, "");
	if (l->dirty)
		put_requests(l);
}

int
redis_listener_interests(StoreListener *l, StoreInterest *out, int64 *until,
						 uint32 *epoch)
{
	if (l->link.state == LINK_CLOSED)
		*until = any_wanted(l) ? l->next_try : LR_NEVER;
	else if (l->link.state != LINK_READY)
		*until = l->link.connect_until;
	else if (l->dirty)
		*until = 0;
	else
		*until = l->answer_until != 0 ? l->answer_until : l->heard_at + PING_AFTER;
	return link_interest(&l->link, out, epoch);
}
