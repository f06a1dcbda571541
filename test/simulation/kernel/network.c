/*-------------------------------------------------------------------------
 *
 * network.c
 *	  Connections of the processes to the one node there is.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/network.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "network.h"

#define MAX_CONNS	2048

typedef struct Message
{
	struct Message *next;
	int			conn;
	size_t		len;
	char		data[];
} Message;

typedef struct Conn
{
	NetState	state;
	int			owner;			/* pid */
	bool		client_open;
	bool		server_open;
	int64_t		last_to_server;	/* messages stay in order */
	int64_t		last_to_client;
	Message    *first;			/* that have arrived at the client */
	Message    *last;
} Conn;

static Conn conns[MAX_CONNS];
static int	nconns;
static NetServe serve;
static NetClosed closed;
static uint32_t slow_permille;
static int	slow_max;
static int64_t blocked_until;
static int64_t down_until;

static const int64_t slow_delays[] = {
	2 * SIM_MS, 60 * SIM_MS, 400 * SIM_MS, 1300 * SIM_MS, 5 * SIM_S
};

static void
free_messages(Conn *c)
{
	while (c->first != NULL)
	{
		Message    *m = c->first;

		c->first = m->next;
		free(m);
	}
	c->last = NULL;
}

void
net_reset(NetServe serve_, NetClosed closed_)
{
	for (int i = 0; i < nconns; i++)
		free_messages(&conns[i]);
	nconns = 0;
	serve = serve_;
	closed = closed_;
	slow_permille = 0;
	blocked_until = down_until = 0;
}

void
net_set_slow(uint32_t permille, int max)
{
	slow_permille = permille;
	slow_max = max;
}

/* When something that is sent now arrives, after what was sent before it. */
static int64_t
arrival(int64_t *last)
{
	int64_t		when = sim_now() + 40 + 30 * sim_draw(4);

	if (sim_chance(slow_permille))
	{
		when += slow_delays[sim_draw(slow_max + 1)];
		sim_disturbed(when);
	}
	if (when < blocked_until)
		when = blocked_until + 10;
	if (when <= *last)
		when = *last + 1;
	*last = when;
	return when;
}

static void
tell_owner(const Conn *c)
{
	if (c->client_open)
		sim_wake(c->owner);
}

/* ----------
 * Connecting and closing
 * ----------
 */

static void
connected(void *arg, int64_t conn)
{
	Conn	   *c = &conns[conn];

	(void) arg;
	if (sim_now() < down_until)
		c->state = NET_CLOSED;
	else
	{
		c->state = NET_OPEN;
		c->server_open = true;
	}
	tell_owner(c);
}

int
net_connect(void)
{
	Conn	   *c = &conns[nconns];

	if (nconns == MAX_CONNS)
		sim_fail("simulator", "too many connections");
	memset(c, 0, sizeof(Conn));
	c->state = NET_CONNECTING;
	c->owner = sim_pid();
	c->client_open = true;
	sim_at(arrival(&c->last_to_client), connected, NULL, nconns);
	return nconns++;
}

static void
server_closes(Conn *c)
{
	if (c->server_open)
		closed(c - conns);
	c->server_open = false;
}

static void
break_now(Conn *c)
{
	server_closes(c);
	if (c->state == NET_OPEN)
		c->state = NET_CLOSED;
	tell_owner(c);
}

NetState
net_state(int conn)
{
	return conns[conn].state;
}

bool
net_is_ready(int conn)
{
	return conns[conn].state == NET_CLOSED || conns[conn].first != NULL;
}

static void
end_arrives(void *arg, int64_t conn)
{
	(void) arg;
	if (sim_now() < blocked_until)
		sim_at(blocked_until, end_arrives, NULL, conn);
	else
		server_closes(&conns[conn]);
}

/* What was sent before still arrives before the end. */
void
net_close(int conn)
{
	Conn	   *c = &conns[conn];

	c->client_open = false;
	c->state = NET_CLOSED;
	free_messages(c);
	sim_at(arrival(&c->last_to_server), end_arrives, NULL, conn);
}

/* ----------
 * Messages
 * ----------
 */

static void
at_server(void *arg, int64_t conn)
{
	Message    *m = arg;
	Conn	   *c = &conns[conn];

	/* A node that does not read just now. */
	if (sim_now() < blocked_until)
	{
		sim_at(blocked_until, at_server, arg, conn);
		return;
	}
	if (c->server_open)
		serve((int) conn, m->data);
	free(m);
}

static Message *
make_message(int conn, const void *data, size_t len)
{
	Message    *m = malloc(sizeof(Message) + len);

	m->next = NULL;
	m->conn = conn;
	m->len = len;
	memcpy(m->data, data, len);
	return m;
}

void
net_send(int conn, const void *data, size_t len)
{
	Conn	   *c = &conns[conn];

	if (c->state == NET_OPEN)
		sim_at(arrival(&c->last_to_server), at_server,
			   make_message(conn, data, len), conn);
}

static void
at_client(void *arg, int64_t conn)
{
	Message    *m = arg;
	Conn	   *c = &conns[conn];

	if (!c->client_open || c->state != NET_OPEN)
	{
		free(m);
		return;
	}
	if (c->last != NULL)
		c->last->next = m;
	else
		c->first = m;
	c->last = m;
	tell_owner(c);
}

void
net_reply(int conn, const void *data, size_t len)
{
	Conn	   *c = &conns[conn];

	if (c->server_open)
		sim_at(arrival(&c->last_to_client), at_client,
			   make_message(conn, data, len), conn);
}

bool
net_receive(int conn, void *data, size_t len)
{
	Conn	   *c = &conns[conn];
	Message    *m = c->first;

	if (m == NULL)
		return false;
	memcpy(data, m->data, m->len < len ? m->len : len);
	c->first = m->next;
	if (c->first == NULL)
		c->last = NULL;
	free(m);
	return true;
}

/* ----------
 * Faults
 * ----------
 */

void
net_block_until(int64_t until)
{
	blocked_until = until;
	sim_disturbed(until);
}

void
net_break_all(void)
{
	for (int i = 0; i < nconns; i++)
		break_now(&conns[i]);
	sim_disturbed(sim_now());
}

void
net_break_one(void)
{
	int			open[MAX_CONNS];
	int			n = 0;

	for (int i = 0; i < nconns; i++)
		if (conns[i].server_open)
			open[n++] = i;
	if (n > 0)
		break_now(&conns[open[sim_draw(n)]]);
	sim_disturbed(sim_now());
}

void
net_down_until(int64_t until)
{
	down_until = until;
	net_break_all();
	sim_disturbed(until);
}

bool
net_is_well(void)
{
	return sim_now() >= blocked_until && sim_now() >= down_until;
}
