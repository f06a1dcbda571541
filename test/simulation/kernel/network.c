/*-------------------------------------------------------------------------
 *
 * network.c
 *	  Connections of the processes to the nodes that there are.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/network.c
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "network.h"
#include "server.h"

#define MAX_PORTS	16

/*
 * A flooded connection has bytes for FLOOD_READS reads.  A process may read READS_MAX times
 * before it looks again at what is ready, or begins another round: eight times are the rule, for
 * each of the things that a round does with a connection.
 */
#define FLOOD_READS	100
#define READS_MAX	64

typedef struct Chunk
{
	struct Chunk *next;
	size_t		len;
	size_t		read;
	int64_t		sent_at;
	char		data[];
} Chunk;

typedef struct Queue
{
	Chunk	   *first;
	Chunk	   *last;
} Queue;

typedef struct Conn
{
	NetState	state;
	int			error;			/* once it is closed */
	int			owner;			/* pid */
	bool		is_watchdogs;
	int			port;
	int			node;			/* -1 = nobody */
	bool		client_open;
	bool		server_open;
	bool		shut;			/* by the client */
	bool		mute;			/* the server has died: what it had to say is lost */
	int64_t		silent_until;	/* the other end is gone and does not say so */
	int64_t		closed_at;		/* when the client found it closed, or closed it */
	int64_t		full_until;		/* no more bytes are taken */
	int64_t		last_to_server; /* messages stay in order */
	int64_t		last_to_client;
	int			flood;			/* so many more reads find as much as they want */
	size_t		flooded;		/* bytes */
	int			reads;			/* since the client's last net_looks() */
	uint64_t	sent;
	uint64_t	delivered;
	Queue		to_server;		/* under way */
	Queue		arrived;		/* at the client */
} Conn;

typedef struct Node
{
	int64_t		blocked_until;
	int64_t		down_until;
} Node;

static Conn conns[NET_MAX_CONNS];
static int	nconns;
static Node nodes[NET_MAX_NODES];
static int64_t cut_off_until[SIM_MAX_SERVERS];	/* servers that reach no node */
static int64_t refused_until[SIM_MAX_SERVERS];	/* servers whose watchdog is refused by all */
static struct
{
	int			port;
	int			node;
}			ports[MAX_PORTS];
static int	nports;
static NetServe serve;
static NetClosed closed;
static bool had_half_open;
static bool had_flood;
static uint32_t slow_permille;
static int	slow_max;
static uint32_t cut_permille;
static int64_t sent_at;			/* what is being served */

static const int64_t slow_delays[] = {
	2 * SIM_MS, 60 * SIM_MS, 400 * SIM_MS, 1300 * SIM_MS, 5 * SIM_S
};

static void
append(Queue *q, Chunk *m)
{
	if (q->last != NULL)
		q->last->next = m;
	else
		q->first = m;
	q->last = m;
}

static Chunk *
take_first(Queue *q)
{
	Chunk	   *m = q->first;

	q->first = m->next;
	if (q->first == NULL)
		q->last = NULL;
	return m;
}

static void
free_chunks(Queue *q)
{
	while (q->first != NULL)
		free(take_first(q));
}

void
net_reset(NetServe serve_, NetClosed closed_)
{
	for (int i = 0; i < nconns; i++)
	{
		free_chunks(&conns[i].to_server);
		free_chunks(&conns[i].arrived);
	}
	nconns = nports = 0;
	memset(nodes, 0, sizeof(nodes));
	memset(cut_off_until, 0, sizeof(cut_off_until));
	memset(refused_until, 0, sizeof(refused_until));
	serve = serve_;
	closed = closed_;
	slow_permille = cut_permille = 0;
	sent_at = 0;
	had_half_open = had_flood = false;
}

void
net_listen(int port, int node)
{
	int			i = 0;

	while (i < nports && ports[i].port != port)
		i++;
	if (i == MAX_PORTS)
		sim_fail("simulator", "too many ports");
	if (i == nports)
		ports[nports++].port = port;
	ports[i].node = node;
}

int
net_node_at(int port)
{
	for (int i = 0; i < nports; i++)
		if (ports[i].port == port)
			return ports[i].node;
	return -1;
}

void
net_set_slow(uint32_t permille, int max)
{
	slow_permille = permille;
	slow_max = max;
}

void
net_set_cut(uint32_t permille)
{
	cut_permille = permille;
}

static int64_t
blocked_until(const Conn *c)
{
	int64_t		cut_off = cut_off_until[server_of_pid(c->owner)];

	return c->node < 0 ? 0 :
		cut_off > nodes[c->node].blocked_until ? cut_off : nodes[c->node].blocked_until;
}

static bool
is_down(int node)
{
	return node < 0 || sim_now() < nodes[node].down_until;
}

/* When something that is sent now arrives, after what was sent before it. */
static int64_t
arrival(const Conn *c, int64_t *last)
{
	int64_t		when = sim_now() + 40 + 30 * sim_draw(4);

	if (sim_chance(slow_permille))
	{
		when += slow_delays[sim_draw(slow_max + 1)];
		sim_disturbed(when);
	}
	if (when < blocked_until(c))
		when = blocked_until(c) + 10;
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

static bool
is_refused(const Conn *c)
{
	return c->is_watchdogs && sim_now() < refused_until[server_of_pid(c->owner)];
}

/* The client finds it closed. */
static void
ends(Conn *c, int error)
{
	if (c->state == NET_CLOSED)
		return;
	c->state = NET_CLOSED;
	c->error = error;
	c->closed_at = sim_now();
	tell_owner(c);
}

static void
connected(void *arg, int64_t conn)
{
	Conn	   *c = &conns[conn];

	(void) arg;
	if (c->state != NET_CONNECTING)
		return;
	if (is_down(c->node) || is_refused(c))
	{
		ends(c, ECONNREFUSED);
		return;
	}
	c->state = NET_OPEN;
	c->server_open = true;
	tell_owner(c);
}

int
net_socket(void)
{
	Conn	   *c = &conns[nconns];

	if (nconns == NET_MAX_CONNS)
		sim_fail("simulator", "too many connections");
	memset(c, 0, sizeof(Conn));
	c->owner = sim_pid();
	c->is_watchdogs = server_is_watchdog(sim_slot());
	c->client_open = true;
	c->node = -1;
	return nconns++;
}

void
net_connect(int conn, int port)
{
	Conn	   *c = &conns[conn];

	c->state = NET_CONNECTING;
	c->port = port;
	c->node = net_node_at(port);
	sim_at(arrival(c, &c->last_to_client), connected, NULL, conn);
}

static void
server_closes(Conn *c)
{
	if (c->server_open)
		closed(c->node, (int) (c - conns));
	c->server_open = false;
}

static void
reset_arrives(void *arg, int64_t conn)
{
	(void) arg;
	ends(&conns[conn], ECONNRESET);
}

static void
fin_arrives(void *arg, int64_t conn)
{
	(void) arg;
	ends(&conns[conn], 0);
}

/*
 * At once; or in order, behind what was answered or without it, as when a server dies
 * that has read and carried out what it was asked.
 */
static void
break_now(Conn *c)
{
	bool		was_open = c->server_open;
	uint32_t	how = was_open ? sim_draw(3) : 0;

	server_closes(c);
	c->mute = how == 2;
	if (how > 0)
		sim_at(arrival(c, &c->last_to_client), fin_arrives, NULL, c - conns);
	else if (was_open)
		ends(c, ECONNRESET);
}

NetState
net_state(int conn)
{
	return conns[conn].state;
}

int
net_error(int conn)
{
	return conns[conn].error;
}

bool
net_is_readable(int conn)
{
	return conns[conn].state == NET_CLOSED || conns[conn].arrived.first != NULL ||
		conns[conn].flood > 0;
}

void
net_looks(void)
{
	for (int i = 0; i < nconns && had_flood; i++)
		if (conns[i].owner == sim_pid())
			conns[i].reads = 0;
}

bool
net_is_writeable(int conn)
{
	const Conn *c = &conns[conn];

	return c->state == NET_CLOSED ||
		(c->state == NET_OPEN && sim_now() >= c->full_until);
}

static void
end_arrives(void *arg, int64_t conn)
{
	Conn	   *c = &conns[conn];

	(void) arg;
	if (sim_now() < blocked_until(c))
		sim_at(blocked_until(c), end_arrives, NULL, conn);
	else if (c->to_server.first != NULL)
		sim_at(sim_now() + 1, end_arrives, NULL, conn);
	else
		server_closes(c);
}

/* What was sent before still arrives before the end. */
void
net_close(int conn)
{
	Conn	   *c = &conns[conn];
	bool		was_open = c->state == NET_OPEN;

	if (!c->client_open)
		sim_fail("simulator", "connection %d is closed twice", conn);
	c->client_open = false;
	c->state = NET_CLOSED;
	if (c->closed_at == 0)
		c->closed_at = sim_now();
	free_chunks(&c->arrived);
	if (was_open)
		sim_at(arrival(c, &c->last_to_server), end_arrives, NULL, conn);
}

/* What has arrived can still be read. */
void
net_shut(int conn)
{
	Conn	   *c = &conns[conn];

	if (c->state == NET_OPEN)
		sim_at(arrival(c, &c->last_to_server), end_arrives, NULL, conn);
	c->shut = true;
	c->state = NET_CLOSED;
	c->error = 0;
}

bool
net_is_shut(int conn)
{
	return conns[conn].shut;
}

int
net_owner(int conn)
{
	return conns[conn].owner;
}

int
net_port(int conn)
{
	return conns[conn].port;
}

void
net_owner_ended(int pid)
{
	for (int i = 0; i < nconns; i++)
		if (conns[i].client_open && conns[i].owner == pid)
			net_close(i);
}

/* ----------
 * Bytes
 * ----------
 */

static Chunk *
make_chunk(const void *data, size_t len)
{
	Chunk	   *m = malloc(sizeof(Chunk) + len);

	m->next = NULL;
	m->len = len;
	m->read = 0;
	m->sent_at = sim_now();
	memcpy(m->data, data, len);
	return m;
}

/*
 * at_server --- something arrives: what was sent first, whichever it is
 *
 * A node that does not read for a while, and then for a while longer, makes some
 * wait for the one end and some for the other.
 */
static void
at_server(void *arg, int64_t conn)
{
	Conn	   *c = &conns[conn];
	Chunk	   *m;

	(void) arg;
	if (sim_now() < blocked_until(c))
	{
		sim_at(blocked_until(c), at_server, NULL, conn);
		return;
	}
	m = take_first(&c->to_server);
	if (c->server_open)
	{
		c->delivered += m->len;
		sent_at = m->sent_at;
		serve(c->node, (int) conn, m->data, m->len);
	}
	else if (sim_now() >= c->silent_until)
		sim_at(arrival(c, &c->last_to_client), reset_arrives, NULL, conn);
	free(m);
}

static void
at_client(void *arg, int64_t conn)
{
	Chunk	   *m = arg;
	Conn	   *c = &conns[conn];

	if (!c->client_open || c->state != NET_OPEN || c->mute)
	{
		free(m);
		return;
	}
	append(&c->arrived, m);
	tell_owner(c);
}

static void
piece_to_server(Conn *c, const char *data, size_t len)
{
	append(&c->to_server, make_chunk(data, len));
	sim_at(arrival(c, &c->last_to_server), at_server, NULL, c - conns);
}

static void
piece_to_client(Conn *c, const char *data, size_t len)
{
	sim_at(arrival(c, &c->last_to_client), at_client, make_chunk(data, len), c - conns);
}

/* As one piece, or as two. */
static void
under_way(Conn *c, void (*piece) (Conn *c, const char *data, size_t len),
		  const char *data, size_t len)
{
	if (len > 1 && sim_chance(cut_permille))
	{
		size_t		n = 1 + sim_draw((uint32_t) len - 1);

		piece(c, data, n);
		data += n;
		len -= n;
	}
	piece(c, data, len);
}

static void
has_room(void *arg, int64_t conn)
{
	(void) arg;
	tell_owner(&conns[conn]);
}

size_t
net_send(int conn, const void *data, size_t len)
{
	Conn	   *c = &conns[conn];

	if (sim_now() < c->full_until)
		return 0;
	if (sim_chance(cut_permille))
	{
		len = sim_draw((uint32_t) len);
		c->full_until = sim_now() + SIM_PICK(50, 20 * SIM_MS);
		sim_at(c->full_until, has_room, NULL, conn);
	}
	if (len > 0)
		under_way(c, piece_to_server, data, len);
	c->sent += len;
	return len;
}

void
net_reply(int conn, const void *data, size_t len)
{
	Conn	   *c = &conns[conn];

	if (c->server_open)
		under_way(c, piece_to_client, data, len);
}

/* Valid messages of a channel without subscribers; the last read ends the connection. */
static size_t
read_flood(Conn *c, char *data, size_t len)
{
	static const char text[] = "*3\r\n$7\r\nmessage\r\n$4\r\nnone\r\n$4\r\nnone\r\n";

	if (++c->reads > READS_MAX)
		sim_fail("endless", "process %d has read %d times what a peer sends without end", c->owner,
				 c->reads);
	for (size_t i = 0; i < len; i++)
		data[i] = text[c->flooded++ % (sizeof(text) - 1)];
	if (--c->flood == 0)
		ends(c, 0);
	scheduler_has_read();
	return len;
}

size_t
net_receive(int conn, void *data, size_t len)
{
	Conn	   *c = &conns[conn];
	size_t		got = 0;

	if (c->flood > 0 && c->arrived.first == NULL)
		return read_flood(c, data, len);

	while (got < len && c->arrived.first != NULL)
	{
		Chunk	   *m = c->arrived.first;
		size_t		n = m->len - m->read < len - got ? m->len - m->read : len - got;

		memcpy((char *) data + got, m->data + m->read, n);
		m->read += n;
		got += n;
		if (m->read < m->len)
			break;
		free(take_first(&c->arrived));
	}
	if (got > 0)
		scheduler_has_read();
	return got;
}

size_t
net_unacknowledged(int conn)
{
	return conns[conn].sent - conns[conn].delivered;
}

/* ----------
 * Faults
 * ----------
 */

void
net_block_until(int node, int64_t until)
{
	/* Never sooner than was said: what waits for that would be overtaken. */
	if (until > nodes[node].blocked_until)
		nodes[node].blocked_until = until;
	sim_disturbed(until);
}

void
net_cut_off_until(int server, int64_t until)
{
	if (until > cut_off_until[server])
		cut_off_until[server] = until;
	sim_disturbed(until);
}

void
net_refuse_watchdog_until(int server, int64_t until)
{
	if (until > refused_until[server])
		refused_until[server] = until;
	for (int i = 0; i < nconns; i++)
		if (is_refused(&conns[i]))
			break_now(&conns[i]);
	sim_disturbed(until);
}

void
net_break(int conn)
{
	break_now(&conns[conn]);
	sim_disturbed(sim_now());
}

void
net_break_all(int node)
{
	for (int i = 0; i < nconns; i++)
		if (conns[i].node == node)
			break_now(&conns[i]);
	sim_disturbed(sim_now());
}

void
net_stop(int node)
{
	for (int i = 0; i < nconns; i++)
		if (conns[i].node == node && conns[i].state == NET_CONNECTING)
			conns[i].node = -1;
	net_break_all(node);
}

static Conn *
draw_open(void)
{
	int			open[NET_MAX_CONNS];
	int			n = 0;

	for (int i = 0; i < nconns; i++)
		if (conns[i].server_open)
			open[n++] = i;
	return n > 0 ? &conns[open[sim_draw(n)]] : NULL;
}

void
net_break_one(void)
{
	Conn	   *c = draw_open();

	if (c != NULL)
		break_now(c);
	sim_disturbed(sim_now());
}

void
net_half_open_one(int64_t until)
{
	Conn	   *c = draw_open();

	if (c == NULL)
		return;
	server_closes(c);
	had_half_open = true;
	c->silent_until = until;
	sim_disturbed(until);
}

static void
babbles(void *arg, int64_t conn)
{
	Conn	   *c = &conns[conn];

	(void) arg;
	if (sim_now() >= c->silent_until)
		ends(c, 0);
	else if (c->client_open && c->state == NET_OPEN)
	{
		at_client(make_chunk("7", 1), conn);
		sim_at(sim_now() + 5 * SIM_MS, babbles, NULL, conn);
	}
}

static void
begins_to_babble(void *arg, int64_t conn)
{
	static const char *const beginnings[] = {
		"?\r\n", "$2000000000\r\n", ":7777777777777777777777777\r\n", "*1000000000\r\n:"
	};
	const char *text = beginnings[sim_draw(4)];
	Conn	   *c = &conns[conn];

	(void) arg;
	if (!c->client_open || c->state != NET_OPEN)
		return;
	if (sim_draw(3) == 0)
	{
		sim_trace("connection %d is flooded", (int) conn);
		c->flood = FLOOD_READS;
		had_flood = true;
		tell_owner(c);
		return;
	}
	sim_trace("connection %d babbles", (int) conn);
	at_client(make_chunk(text, strlen(text)), conn);
	babbles(NULL, conn);
}

/* The nonsense follows what the server has answered.  It runs no request from now on. */
void
net_babble_one(void)
{
	Conn	   *c = draw_open();

	if (c == NULL)
		return;
	server_closes(c);
	c->silent_until = sim_now() + SIM_PICK(300 * SIM_MS, 20 * SIM_MS, 4 * SIM_S);
	sim_at(arrival(c, &c->last_to_client), begins_to_babble, NULL, c - conns);
	sim_disturbed(c->silent_until);
}

void
net_down_until(int node, int64_t until)
{
	nodes[node].down_until = until;
	net_break_all(node);
	sim_disturbed(until);
}

int64_t
net_sent_at(void)
{
	return sent_at;
}

bool
net_had_half_open(void)
{
	return had_half_open;
}

int64_t
net_watchdog_told_at(void)
{
	int			pid = process_pid(server_watchdog());
	int64_t		told_at = 0;

	for (int i = 0; i < nconns; i++)
	{
		const Conn *c = &conns[i];
		int64_t		at = c->closed_at != 0 ? c->closed_at : SIM_NEVER;

		if (c->owner == pid && c->silent_until != 0 && at > told_at)
			told_at = at;
	}
	return told_at;
}

int64_t
net_away_until(int node)
{
	int64_t		until = nodes[node].blocked_until > nodes[node].down_until ?
		nodes[node].blocked_until : nodes[node].down_until;

	return until > sim_now() ? until : 0;
}

bool
net_is_up(int node)
{
	return sim_now() >= nodes[node].blocked_until && sim_now() >= nodes[node].down_until;
}

bool
net_is_well(void)
{
	for (int i = 0; i < NET_MAX_NODES; i++)
		if (!net_is_up(i))
			return false;
	for (int s = 0; s < SIM_MAX_SERVERS; s++)
		if (sim_now() < cut_off_until[s] || sim_now() < refused_until[s])
			return false;
	return true;
}
