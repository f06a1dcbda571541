/*-------------------------------------------------------------------------
 *
 * conn.c
 *	  One connection to a Redis node, as a state machine that never blocks.
 *
 * The addresses of a target are tried in turn.  There is no socket while there is nothing
 * to try: until the addresses of a host name are known, or while the backlog of a unix
 * socket is full.
 *
 * Nothing in here raises (except redis_conn_init), allocates in a memory context, or
 * waits (except redis_conn_receive, for a short time, if allowed).  So it may run at the
 * end of a transaction and of the process.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/conn.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/conn.h"

#define RECEIVE_CHUNK		16384

/* First byte of an answer by a server that expects TLS. */
#define TLS_ALERT			0x15
#define TLS_HANDSHAKE		0x16

static const char *const tls_port_hint =
gettext_noop("If the node expects TLS on this port, write rediss:// in lockredis.url.");

/* How often to check whether the host name has been resolved. */
#define RESOLVE_POLL		(50 * LR_US_PER_MS)

/* How often to check whether the master is known. */
#define MASTER_POLL			(10 * LR_US_PER_MS)

/* Pause before a retry if the backlog of a unix socket is full, which shows at once. */
#define BACKLOG_POLL		(10 * LR_US_PER_MS)

/* ----------
 * Opening and closing
 * ----------
 */

bool
redis_conn_make(RedisConn *c, const char *role, bool probe)
{
	memset(c, 0, sizeof(RedisConn));
	redis_socket_init(&c->socket);
	c->tls.socket = &c->socket;
	c->probe = probe;
	strlcpy(c->role, role, sizeof(c->role));
	return resp_out_make(&c->out);
}

void
redis_conn_init(RedisConn *c, const char *role, bool probe)
{
	if (!redis_conn_make(c, role, probe))
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
}

void
redis_conn_free(RedisConn *c)
{
	redis_conn_close(c);
	redis_tls_free(&c->tls);
	resp_out_free(&c->out);
	resp_in_free(&c->in);
}

bool
redis_conn_is_other(const RedisConn *c)
{
	return c->state == CONN_READY && c->target->kind == TARGET_VOTER &&
		c->target->node != NODE_NONE &&
		c->facts.life != node_generation(c->target->node);
}

void
redis_conn_close(RedisConn *c)
{
	if (c->probe && c->state != CONN_CLOSED && !redis_conn_is_other(c))
		redis_target_lost(c->target);
	redis_tls_close(&c->tls);
	redis_socket_close(&c->socket);
	resp_in_close(&c->in);
	redis_handshake_forget_secret(&c->handshake);
	resp_out_wipe(&c->out);
	c->state = CONN_CLOSED;
}

/*
 * redis_conn_fail --- close the connection, and remember why
 *
 * An operation that was not sent gets STORE_DOWN.
 */
void
redis_conn_fail(RedisConn *c, int sqlstate, const char *format,...)
{
	char		detail[sizeof(c->failure.error.detail)];
	va_list		args;

	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	redis_failure_set(&c->failure, STORE_DOWN, sqlstate, NULL, "%s", detail);
	redis_conn_close(c);
}

/*
 * redis_conn_refused --- the reply that was read last is an error, which ends the connection
 */
void
redis_conn_refused(RedisConn *c)
{
	char		words[REDIS_WORDS_MAX];

	(void) redis_error_words(c->in.reply, c->target->url.user, words, sizeof(words));
	redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node answered: %s", words);
}

/*
 * redis_conn_open --- start connecting
 *
 * The caller goes on with redis_conn_advance().
 */
void
redis_conn_open(RedisConn *c, const RedisTarget *target, int64 until)
{
	int64		now;

	redis_conn_close(c);
	c->target = target;
	memset(&c->failure, 0, sizeof(c->failure));
	redis_target_show(target, c->failure.error.address,
					  sizeof(c->failure.error.address));
	c->garbled = false;
	resp_out_reset(&c->out);
	if (!resp_in_open(&c->in))
	{
		redis_conn_fail(c, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
		return;
	}
	now = lr_now();
	c->connect.opened_at = c->connect.pause_until = now;
	c->connect.until = Min(until, now + lr_connect_timeout * LR_US_PER_MS);
	c->connect.addresses.count = 0;
	c->connect.addresses.error[0] = '\0';
	c->connect.next_address = 0;
	c->state = CONN_CONNECTING;
}

/* ----------
 * Bytes
 * ----------
 */

/*
 * conn_lost --- the peer has ended the connection; "error" 0: in the regular way
 *
 * Servers that expect TLS, and others that do not understand Redis's protocol, often do
 * so without an answer.  A node that has answered before is not one of these: it is
 * shutting down, or something in front of it cannot reach it.  The socket's error is
 * reported unless TLS knows a reason.
 */
static void
conn_lost(RedisConn *c, int error)
{
	bool		tls = c->target->url.tls;

	if (c->state == CONN_HANDSHAKE)
		redis_target_want_addresses(c->target, false);
	if (c->tls.error != 0)
	{
		redis_tls_explain(&c->tls, &c->failure);
		redis_conn_close(c);
		c->garbled = true;
	}
	else if (c->state == CONN_HANDSHAKE && c->in.first_byte == 0 &&
			 redis_target_has_answered(c->target))
		redis_conn_fail(c, ERRCODE_STORE_FAILED,
						"The node closed the connection before it answered.");
	else if (c->state == CONN_HANDSHAKE && c->in.first_byte == 0)
	{
		redis_conn_fail(c, ERRCODE_STORE_FAILED,
						"The node closed the connection without an answer: it may %sbe no Redis server.",
						tls ? "" : "expect TLS, or ");
		c->failure.error.hint = tls ? NULL : tls_port_hint;
	}
	else if (error == 0)
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node closed the connection.");
	else
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The connection to the node was lost: %s.",
						strerror(error));
}

bool
redis_conn_has_more(const RedisConn *c)
{
	return c->tls.more;
}

/*
 * redis_conn_check --- is this idle connection still good?
 *
 * If so there is nothing to read.  But a part of a surplus reply may have been read
 * already.  If the node answered "lately", the socket is not asked.
 */
bool
redis_conn_check(RedisConn *c, bool lately)
{
	char		byte;
	ssize_t		n;

	if (c->in.unfinished > 0)
		n = 1;
	else if (lately && !redis_conn_has_more(c))
		return true;
	else
		n = redis_wire_recv(&c->tls, &byte, 1, false);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return true;
	if (n > 0)
		redis_conn_fail(c, ERRCODE_STORE_FAILED,
						"The node sent something that was not asked for.");
	else
		conn_lost(c, n < 0 ? errno : 0);
	return false;
}

bool
redis_conn_close_other(RedisConn *c)
{
	if (!redis_conn_is_other(c))
		return false;
	redis_conn_fail(c, ERRCODE_STORE_FAILED,
					"Another server has been found in place of this one.");
	return true;
}

/*
 * redis_conn_flush --- send what the kernel takes; false if that closed it
 *
 * If there was no memory for all of it, nothing of it is sent.
 */
bool
redis_conn_flush(RedisConn *c)
{
	RespOut    *out = &c->out;

	if (out->failed)
	{
		redis_conn_fail(c, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
		return false;
	}
	while (!resp_out_is_empty(out))
	{
		ssize_t		n = redis_wire_send(&c->tls, out->data + out->pos,
										out->len - out->pos);

		if (n < 0)
		{
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				return true;
			conn_lost(c, errno);
			return false;
		}
		out->pos += n;
		out->sent += n;
	}

	/* The handshake had the password in it. */
	if (c->state == CONN_HANDSHAKE)
		resp_out_wipe(out);
	else
		out->pos = out->len = 0;
	return true;
}

/*
 * conn_garbled --- the peer does not speak Redis's protocol
 *
 * The first byte that it sent shows what it may be.
 */
static void
conn_garbled(RedisConn *c)
{
	unsigned char first = c->in.understood ? 0 : c->in.first_byte;
	bool		tls = first == TLS_ALERT || first == TLS_HANDSHAKE;
	const char *seems = "";

	if (first == 'H' || first == '<')
		seems = ": it seems to be an HTTP server";
	else if (tls)
		seems = ": it seems to expect TLS";
	redis_target_want_addresses(c->target, false);
	redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node's answer is not in Redis's protocol%s.",
					seems);
	c->failure.error.hint = tls ? tls_port_hint : NULL;
	c->garbled = true;
}

/*
 * conn_forget_unread --- do not count as sent what the node certainly never reads
 *
 * To be called if the node has ended the connection in order.  Its FIN acknowledges
 * everything that had arrived by then.  What is not acknowledged came later, when nobody
 * was there to read it.  After a reset this is not known, since the last bytes that were
 * read may not have been acknowledged.
 *
 * So the restart of a node a moment ago costs no request.  This relies on the node
 * closing its end, as Redis does, rather than only shutting it down for writing;
 * otherwise a create may run twice, for the same owner.
 */
static void
conn_forget_unread(RedisConn *c)
{
	uint64		unread = redis_wire_unread(&c->tls);

	c->out.sent -= Min(unread, c->out.sent);
}

/*
 * redis_conn_receive --- read once
 *
 * After REDIS_READ_FULL, take the replies before the next call, which bounds the memory.
 */
RedisRead
redis_conn_receive(RedisConn *c, bool briefly)
{
	char		buf[RECEIVE_CHUNK];
	ssize_t		n;

	n = redis_wire_recv(&c->tls, buf, sizeof(buf), briefly);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return REDIS_READ_NOTHING;
	if (n <= 0)
	{
		if (n == 0)
			conn_forget_unread(c);
		conn_lost(c, n < 0 ? errno : 0);
		return REDIS_READ_LOST;
	}
	if (!resp_in_feed(&c->in, buf, n))
	{
		redis_conn_fail(c, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
		return REDIS_READ_LOST;
	}
	return n == sizeof(buf) || redis_conn_has_more(c) ? REDIS_READ_FULL : REDIS_READ_SOME;
}

/*
 * redis_conn_reply --- parse the next reply into c->in.reply
 *
 * False: none is complete, or the connection was closed because what came is not valid.
 */
bool
redis_conn_reply(RedisConn *c)
{
	RespResult	result = c->state == CONN_CLOSED ? RESP_NONE : resp_in_parse(&c->in);

	if (result == RESP_GARBLED)
		conn_garbled(c);
	else if (result == RESP_NO_MEMORY)
		redis_conn_fail(c, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
	return result == RESP_REPLY;
}

/*
 * redis_conn_next --- the next reply; reads if none is complete, REDIS_READS_MAX times in all
 */
bool
redis_conn_next(RedisConn *c, int *nreads)
{
	while (!redis_conn_reply(c))
	{
		if (c->state == CONN_CLOSED || *nreads == REDIS_READS_MAX)
			return false;
		if (!redis_conn_reads_on(redis_conn_receive(c, false), nreads))
			*nreads = REDIS_READS_MAX;
	}
	return true;
}

/* ----------
 * Handshakes
 * ----------
 */

/*
 * conn_timed_out --- nothing was heard before the time limit
 *
 * If the node had all of connect_timeout, it is marked as silent for all processes.
 */
static void
conn_timed_out(RedisConn *c, const char *detail)
{
	if (lr_now() - c->connect.opened_at >= lr_connect_timeout * LR_US_PER_MS)
		redis_target_set_silent(c->target, true);
	redis_target_want_addresses(c->target, false);
	redis_conn_fail(c, ERRCODE_STORE_UNREACHABLE, "%s", detail);
}

/*
 * conn_greet --- the connection can be used: begin the handshake
 */
static void
conn_greet(RedisConn *c)
{
	c->state = CONN_HANDSHAKE;
	if (redis_handshake_start(c))
		(void) redis_conn_flush(c);
	else
		redis_conn_close(c);
}

/*
 * conn_ready --- the handshake is done
 */
static void
conn_ready(RedisConn *c)
{
	const RedisHandshake *hs = &c->handshake;

	if (!redis_conn_check(c, true))
		return;
	c->state = CONN_READY;
	c->facts = hs->facts;
	c->facts.shown.certificate_expires = redis_tls_expires(&c->tls);
	c->clock_offset = hs->clock_offset;
	redis_socket_block_briefly(&c->socket);
	if (c->probe)
	{
		node_set_round_trip(c->target->node, hs->round_trip);
		node_set_facts(c->target->node, c->failure.error.address, &c->facts.shown);
		redis_target_confirm(c->target);
	}
}

/*
 * conn_shake_hands --- send the rest of the handshake, take the replies
 *
 * If the node is not what it should be, another one may have its address by now, so have the name
 * resolved again.
 */
static void
conn_shake_hands(RedisConn *c)
{
	int			nreads = 0;

	if (!redis_conn_flush(c))
		return;
	while (c->state == CONN_HANDSHAKE && redis_conn_next(c, &nreads))
	{
		switch (redis_handshake_take(c))
		{
			case STEP_UNDER_WAY:
				break;
			case STEP_DONE:
				conn_ready(c);
				break;
			case STEP_FAILED:
				redis_target_want_addresses(c->target, false);
				redis_conn_close(c);
				break;
		}
	}

	if (c->state == CONN_HANDSHAKE && lr_now() >= c->connect.until)
		conn_timed_out(c, "The node accepted the connection but did not answer in time.");
}

/*
 * conn_secure --- go on with the TLS handshake
 */
static void
conn_secure(RedisConn *c)
{
	switch (redis_tls_shake_hands(&c->tls, &c->failure))
	{
		case STEP_UNDER_WAY:
			if (lr_now() < c->connect.until)
				break;
			conn_timed_out(c, "The node accepted the connection but did not finish the TLS handshake in time.");
			if (!redis_target_has_answered(c->target))
				c->failure.error.hint = gettext_noop("The port in lockredis.url may be one without TLS.");
			break;
		case STEP_DONE:
			conn_greet(c);
			break;
		case STEP_FAILED:
			redis_target_want_addresses(c->target, false);
			if (c->tls.error == 0 && redis_target_has_answered(c->target))
				c->failure.error.hint = NULL;	/* the settings are right */
			redis_conn_close(c);
			break;
	}
}

/*
 * conn_connected --- the socket is connected
 */
static void
conn_connected(RedisConn *c)
{
	if (!c->target->url.tls)
		conn_greet(c);
	else if (redis_tls_start(&c->tls, c->target, &c->failure))
		c->state = CONN_SECURING;
	else
		redis_conn_close(c);
}

/* ----------
 * Connecting
 * ----------
 */

/*
 * conn_find_addresses --- false if they are not known yet
 */
static bool
conn_find_addresses(RedisConn *c)
{
	const RedisUrl *url = &c->target->url;
	NodeAddresses *a = &c->connect.addresses;

	if (url->scheme == REDIS_UNIX)
	{
		StaticAssertStmt(sizeof(url->path) <= sizeof(a->at.un.sun_path),
						 "socket path does not fit");
		a->at.un.sun_family = AF_UNIX;
		strlcpy(a->at.un.sun_path, url->path, sizeof(a->at.un.sun_path));
		a->addr_len[0] = sizeof(struct sockaddr_un);
		a->count = 1;
		return true;
	}
	if (!redis_url_has_name(url))
	{
		addresses_look_up(url->at.host, url->at.port, AI_NUMERICHOST, a);
		return a->count > 0;
	}
	if (addresses_get(url->at.host, url->at.port, a))
		return true;
	redis_target_want_addresses(c->target, false);
	return false;
}

/*
 * conn_address_failed --- try the next address, or give up
 *
 * When giving up, have the name resolved again: it may have moved.
 */
static void
conn_address_failed(RedisConn *c, int error)
{
	redis_socket_close(&c->socket);
	if (c->connect.next_address < c->connect.addresses.count)
		c->connect.pause_until = 0;
	else if (error == ETIMEDOUT)
		conn_timed_out(c, "Could not connect to the node in time.");
	else
	{
		redis_target_want_addresses(c->target, false);
		redis_conn_fail(c, ERRCODE_STORE_UNREACHABLE, "Could not connect to the node: %s.",
						strerror(error));
	}
}

/*
 * conn_no_socket --- there is no socket for the next address
 *
 * A shortage on this machine says nothing about the address, so neither try the next one
 * nor have the name resolved again.
 */
static void
conn_no_socket(RedisConn *c, int error)
{
	if (error == EMFILE)
		redis_conn_fail(c, ERRCODE_INSUFFICIENT_RESOURCES,
						"Too many open files in this server process.");
	else if (error == ENFILE || error == ENOBUFS || error == ENOMEM)
		redis_conn_fail(c, ERRCODE_INSUFFICIENT_RESOURCES, "Could not create a socket: %s.",
						strerror(error));
	else
		conn_address_failed(c, error);
}

/*
 * conn_out_of_time --- the time is up, and no address is being tried
 */
static void
conn_out_of_time(RedisConn *c)
{
	RedisConnect *d = &c->connect;
	bool		announced = c->target->kind == TARGET_MASTER;

	if (c->target->url.at.host[0] == '\0' && announced)
		redis_conn_fail(c, ERRCODE_STORE_UNREACHABLE,
						"The Sentinels have not named a master in time.");
	else if (d->addresses.count > 0)
	{
		d->next_address = d->addresses.count;
		conn_address_failed(c, ETIMEDOUT);
	}
	else if (d->addresses.error[0] == '\0')
		redis_conn_fail(c, ERRCODE_STORE_UNREACHABLE, announced ?
						"The host name that the Sentinels announce could not be resolved in time." :
						"The host name in lockredis.url could not be resolved in time.");
	else
		redis_conn_fail(c, ERRCODE_STORE_UNREACHABLE, announced ?
						"Could not resolve the host name that the Sentinels announce: %s." :
						"Could not resolve the host name in lockredis.url: %s.",
						d->addresses.error);
}

/*
 * conn_open_socket --- a socket for the next address; false if there is none
 *
 * Each address gets a share of the time, as one that drops packets must leave some for
 * the others.
 */
static bool
conn_open_socket(RedisConn *c, int64 now)
{
	RedisConnect *d = &c->connect;
	int			i = d->next_address++;
	int			error = redis_socket_open(&c->socket, d->addresses.at.addr[i].any.sa_family);

	d->address_until = now + Max(d->until - now, 0) / (d->addresses.count - i);
	if (error != 0)
		conn_no_socket(c, error);
	return error == 0;
}

/*
 * conn_begin_next --- create a socket if it is time; false if not
 */
static bool
conn_begin_next(RedisConn *c, int64 now)
{
	RedisConnect *d = &c->connect;
	char		why[sizeof(c->failure.error.detail)];

	if (now >= d->until)
	{
		conn_out_of_time(c);
		return false;
	}
	if (now < d->pause_until)
		return false;
	switch (redis_target_look(c->target, why, sizeof(why)))
	{
		case TARGET_OPEN:
			break;
		case TARGET_NOT_YET:
			d->pause_until = now + MASTER_POLL;
			return false;
		case TARGET_CLOSED:
			redis_conn_fail(c, ERRCODE_STORE_UNREACHABLE, "%s", why);
			return false;
	}
	if (d->addresses.count > 0 || conn_find_addresses(c))
		return conn_open_socket(c, now);
	d->pause_until = now + RESOLVE_POLL;
	return false;
}

/*
 * conn_try_address --- connect to the address of the socket, or see what has become of that
 */
static void
conn_try_address(RedisConn *c, int64 now)
{
	RedisConnect *d = &c->connect;
	int			i = d->next_address - 1;

	if (connect(c->socket.fd, &d->addresses.at.addr[i].any, d->addresses.addr_len[i]) == 0 ||
		errno == EISCONN)
		conn_connected(c);
	else if (errno == EINPROGRESS || errno == EALREADY || errno == EINTR)
	{
		if (now >= d->address_until)
			conn_address_failed(c, ETIMEDOUT);
	}
	else if (errno == EAGAIN)
	{
		redis_socket_close(&c->socket);
		d->next_address--;
		d->pause_until = now + BACKLOG_POLL;
	}
	else
		conn_address_failed(c, errno);
}

/*
 * conn_connect --- go on connecting as far as is possible without waiting
 */
static void
conn_connect(RedisConn *c)
{
	while (c->state == CONN_CONNECTING)
	{
		int64		now = lr_now();

		if (c->socket.fd == PGINVALID_SOCKET && !conn_begin_next(c, now))
			return;
		conn_try_address(c, now);
		if (c->socket.fd != PGINVALID_SOCKET)
			return;
	}
}

/*
 * redis_conn_advance --- go as far towards READY as is possible now
 */
void
redis_conn_advance(RedisConn *c)
{
	conn_connect(c);
	if (c->state == CONN_SECURING)
		conn_secure(c);
	if (c->state == CONN_HANDSHAKE)
		conn_shake_hands(c);
}

/*
 * redis_conn_events --- the events of the socket to wait for
 */
uint32
redis_conn_events(const RedisConn *c)
{
	switch (c->state)
	{
		case CONN_CLOSED:
			break;
		case CONN_CONNECTING:
			return c->socket.fd != PGINVALID_SOCKET ? WL_SOCKET_WRITEABLE : 0;
		case CONN_SECURING:
		case CONN_HANDSHAKE:
		case CONN_READY:
			return redis_wire_events(&c->tls, !resp_out_is_empty(&c->out));
	}
	return 0;
}

/*
 * redis_conn_until --- when to call redis_conn_advance() even if nothing happens
 *
 * Replies that do not come are the caller's business.
 */
int64
redis_conn_until(const RedisConn *c)
{
	switch (c->state)
	{
		case CONN_CONNECTING:
			return Min(c->connect.until, c->socket.fd != PGINVALID_SOCKET ?
					   c->connect.address_until : c->connect.pause_until);
		case CONN_SECURING:
		case CONN_HANDSHAKE:
			return redis_conn_has_more(c) ? 0 : c->connect.until;
		case CONN_CLOSED:
		case CONN_READY:
			break;
	}
	return LR_NEVER;
}

void
redis_conn_interests(const RedisConn *c, StoreInterests *in)
{
	store_wait_until(in, redis_conn_has_more(c) ? 0 : redis_conn_until(c));
	if (c->socket.fd != PGINVALID_SOCKET)
		store_wait_for(in, c->socket.fd, redis_conn_events(c), c->socket.epoch);
}

/*
 * redis_conn_take_info --- record the reply to INFO, unless the node is a former one
 *
 * One of several masters that is a replica now is shown as a master that is down, as it is
 * after a new connection, too.
 */
void
redis_conn_take_info(RedisConn *c, const char *info)
{
	redis_facts_read(&c->facts, c->target, info);
	if (c->target->kind == TARGET_VOTER && c->facts.shown.role != ROLE_MASTER)
		redis_conn_fail(c, ERRCODE_STORE_FAILED, "The node is a replica.");
	else if (c->target->node != NODE_NONE)
		node_set_facts(c->target->node, NULL, &c->facts.shown);
}
