/*-------------------------------------------------------------------------
 *
 * redis_link.c
 *	  A connection to the model of Redis, for the client and the listener.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/redis_link.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "../../../src/settings.h"

#include "../kernel/network.h"
#include "../kernel/redis_model.h"
#include "redis_link.h"

void
link_init(RedisLink *l)
{
	memset(l, 0, sizeof(RedisLink));
	l->conn = PGINVALID_SOCKET;
}

void
link_close(RedisLink *l)
{
	if (l->conn != PGINVALID_SOCKET)
	{
		sim_yield("close");
		net_close(l->conn);
		l->epoch++;
	}
	l->conn = PGINVALID_SOCKET;
	l->state = LINK_CLOSED;
}

void
link_open(RedisLink *l)
{
	link_close(l);
	sim_yield("connect");
	l->conn = net_connect();
	l->epoch++;
	l->state = LINK_CONNECTING;
	l->connect_until = lr_now() + lr_connect_timeout * LR_US_PER_MS;
}

void
link_set_clock(RedisLink *l, int64 node_clock)
{
	l->clock_offset = node_clock - lr_now();
}

static void
shake_hands(RedisLink *l)
{
	RedisRequest q;

	memset(&q, 0, sizeof(q));
	q.verb = REDIS_TIME;
	q.n = 1;
	net_send(l->conn, &q, sizeof(q));
	l->state = LINK_HANDSHAKE;
}

void
link_advance(RedisLink *l)
{
	RedisReply	reply;

	if (l->state == LINK_CLOSED || l->state == LINK_READY)
		return;
	sim_yield("connected?");
	if (net_state(l->conn) == NET_CLOSED || lr_now() >= l->connect_until)
	{
		link_close(l);
		return;
	}
	if (l->state == LINK_CONNECTING && net_state(l->conn) == NET_OPEN)
		shake_hands(l);
	if (l->state == LINK_HANDSHAKE &&
		net_receive(l->conn, &reply, sizeof(reply)))
	{
		link_set_clock(l, reply.answer[0].store_ms * LR_US_PER_MS);
		l->state = LINK_READY;
	}
}

void
link_check(RedisLink *l)
{
	if (l->state == LINK_READY && net_state(l->conn) == NET_CLOSED)
		link_close(l);
}

bool
link_is_ready(const RedisLink *l)
{
	if (l->conn == PGINVALID_SOCKET)
		return true;
	return net_is_ready(l->conn) ||
		(l->state == LINK_CONNECTING && net_state(l->conn) == NET_OPEN);
}

int
link_interest(const RedisLink *l, StoreInterest *out, uint32 *epoch)
{
	*epoch = l->epoch;
	if (l->conn == PGINVALID_SOCKET)
		return 0;
	out->sock = l->conn;
	out->events = WL_SOCKET_READABLE |
		(l->state == LINK_CONNECTING ? WL_SOCKET_WRITEABLE : 0);
	return 1;
}
