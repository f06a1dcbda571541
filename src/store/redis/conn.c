/*-------------------------------------------------------------------------
 *
 * conn.c
 *	  One connection to a Redis node, as a state machine that never blocks.
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

#include "store/nodes.h"
#include "store/redis/conn.h"

#define RECEIVE_CHUNK		16384

/* ----------
 * Opening and closing
 * ----------
 */

bool
redis_conn_make(RedisConn *c, const char *role, bool probe)
{
	memset(c, 0, sizeof(RedisConn));
	redis_socket_init(&c->socket);
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

void
redis_conn_close(RedisConn *c)
{
	if (c->probe && c->state != CONN_CLOSED)
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
redis_conn_fail(RedisConn *c, int sqlstate, const char *detail)
{
	redis_failure_set(&c->failure, STORE_DOWN, sqlstate, NULL, "%s", detail);
	redis_conn_close(c);
}

static void
conn_sent_unasked(RedisConn *c)
{
	redis_conn_fail(c, ERRCODE_STORE_FAILED,
					"The node sent something that was not asked for.");
}

/*
 * redis_conn_open --- start connecting
 *
 * The caller goes on with redis_conn_advance().
 */
void
redis_conn_open(RedisConn *c, const RedisTarget *target, int64 until)
{
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
	redis_connect_start(&c->connect, until);
	c->state = CONN_CONNECTING;
}

/*
 * conn_out_of_time --- there is a socket, but the peer has not answered in time
 */
static void
conn_out_of_time(RedisConn *c, const char *detail, const char *hint)
{
	redis_connect_timed_out(&c->connect, c->target, &c->failure, detail);
	c->failure.error.hint = hint;
	redis_conn_close(c);
}

/*
 * conn_greet --- the connection can be used: begin the handshake
 */
static void
conn_greet(RedisConn *c)
{
	c->state = CONN_HANDSHAKE;
	c->in.depth = c->target->kind != TARGET_NODE ? RESP_HELLO_DEPTH : RESP_DEPTH;
	if (redis_handshake_start(&c->handshake, c->target, c->role, c->probe,
							  &c->out, &c->failure))
		(void) redis_conn_flush(c);
	else
		redis_conn_close(c);
}

bool
redis_conn_has_more(const RedisConn *c)
{
	return c->tls.more;
}

/*
 * conn_has_unasked --- has more data come than the last reply, as far as it was read
 * from the socket?
 */
static bool
conn_has_unasked(RedisConn *c)
{
	char		byte;

	return resp_in_has_more(&c->in) ||
		(redis_conn_has_more(c) &&
		 redis_wire_recv(&c->socket, &c->tls, &byte, 1, false) > 0);
}

/*
 * conn_ready --- the handshake is done
 */
static void
conn_ready(RedisConn *c)
{
	const RedisHandshake *hs = &c->handshake;

	if (conn_has_unasked(c))
	{
		conn_sent_unasked(c);
		return;
	}
	c->state = CONN_READY;
	c->facts = hs->facts;
	c->clock_offset = hs->clock_offset;
	redis_socket_block_briefly(&c->socket);
	if (c->probe)
	{
		node_set_round_trip(c->target->node, hs->round_trip);
		if (redis_tls_is_on(&c->tls))
			node_set_certificate(c->target->node, redis_tls_expires(&c->tls));
		node_set_facts(c->target->node, c->failure.error.address,
					   c->facts.version, c->facts.policy, c->facts.role);
		redis_target_note_answered(c->target);
		redis_target_confirm(c->target);
	}
}

/*
 * conn_shake_hands --- send the rest of the handshake, take the replies
 */
static void
conn_shake_hands(RedisConn *c)
{
	RedisRead	got;
	int			nreads = 0;

	if (!redis_conn_flush(c))
		return;
	do
	{
		got = redis_conn_receive(c, false);
		while (c->state == CONN_HANDSHAKE && redis_conn_reply(c))
		{
			c->in.depth = RESP_DEPTH;	/* HELLO comes first; only its reply is deeper */
			switch (redis_handshake_take(&c->handshake, c->target,
										 c->in.values, &c->failure))
			{
				case STEP_UNDER_WAY:
					break;
				case STEP_DONE:
					conn_ready(c);
					break;
				case STEP_FAILED:
					redis_conn_close(c);
					break;
			}
		}
	} while (c->state == CONN_HANDSHAKE && redis_conn_reads_on(got, &nreads));

	if (c->state == CONN_HANDSHAKE && lr_now() >= c->connect.until)
		conn_out_of_time(c, "The node accepted the connection but did not answer in time.",
						 NULL);
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
			if (lr_now() >= c->connect.until)
				conn_out_of_time(c, "The node accepted the connection but did not finish the TLS handshake in time.",
								 redis_target_has_answered(c->target) ? NULL :
								 gettext_noop("The port in lockredis.url may be one without TLS."));
			break;
		case STEP_DONE:
			conn_greet(c);
			break;
		case STEP_FAILED:
			redis_target_want_addresses(c->target, WANT_REACHABLE);
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
	if (!c->target->tls)
		conn_greet(c);
	else if (redis_tls_start(&c->tls, c->target, &c->socket, &c->failure))
		c->state = CONN_SECURING;
	else
		redis_conn_close(c);
}

/*
 * redis_conn_advance --- go as far towards READY as is possible now
 */
void
redis_conn_advance(RedisConn *c)
{
	if (c->state == CONN_CONNECTING)
	{
		switch (redis_connect_step(&c->connect, c->target, &c->socket,
								   &c->failure))
		{
			case STEP_UNDER_WAY:
				return;
			case STEP_DONE:
				conn_connected(c);
				break;
			case STEP_FAILED:
				redis_conn_close(c);
				break;
		}
	}
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
			return redis_connect_next(&c->connect, &c->socket);
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
	if (c->state == CONN_HANDSHAKE)
		redis_target_want_addresses(c->target, WANT_REACHABLE);
	if (c->tls.error != 0)
	{
		redis_tls_explain(&c->tls, &c->failure);
		c->garbled = true;
	}
	else if (c->state == CONN_HANDSHAKE && c->in.first_byte == 0)
		redis_failure_no_answer(&c->failure, c->target->tls,
								redis_target_has_answered(c->target));
	else if (error == 0)
		redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_FAILED, NULL,
						  "The node closed the connection.");
	else
		redis_failure_set(&c->failure, STORE_DOWN, ERRCODE_STORE_FAILED, NULL,
						  "The connection to the node was lost: %s.",
						  strerror(error));
	redis_conn_close(c);
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

	if (resp_in_has_more(&c->in))
		n = 1;
	else if (lately && !redis_conn_has_more(c))
		return true;
	else
		n = redis_wire_recv(&c->socket, &c->tls, &byte, 1, false);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return true;
	if (n > 0)
		conn_sent_unasked(c);
	else
		conn_lost(c, n < 0 ? errno : 0);
	return false;
}

bool
redis_conn_is_other(const RedisConn *c)
{
	return c->state == CONN_READY && c->target->kind == TARGET_VOTER &&
		c->target->node != NODE_NONE &&
		c->facts.life != masters_life(c->target->node - NODE_MASTER);
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
 */
bool
redis_conn_flush(RedisConn *c)
{
	RespOut    *out = &c->out;

	while (!resp_out_is_empty(out))
	{
		ssize_t		n = redis_wire_send(&c->socket, &c->tls, out->data + out->pos,
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
 */
static void
conn_garbled(RedisConn *c)
{
	redis_target_want_addresses(c->target, WANT_REACHABLE);
	redis_failure_not_redis(&c->failure, c->in.understood ? 0 : c->in.first_byte);
	redis_conn_close(c);
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
	uint64		unread = redis_wire_unread(&c->socket, &c->tls);

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

	n = redis_wire_recv(&c->socket, &c->tls, buf, sizeof(buf), briefly);
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
		conn_garbled(c);
		return REDIS_READ_LOST;
	}
	return n == sizeof(buf) || redis_conn_has_more(c) ? REDIS_READ_FULL : REDIS_READ_SOME;
}

/*
 * redis_conn_reply --- parse the next reply into c->in.values
 *
 * False: none is complete, or the connection was closed because what came is not valid.
 */
bool
redis_conn_reply(RedisConn *c)
{
	if (c->state == CONN_CLOSED)
		return false;
	switch (resp_in_parse(&c->in))
	{
		case RESP_NONE:
			break;
		case RESP_REPLY:
			return true;
		case RESP_GARBLED:
			conn_garbled(c);
			break;
	}
	return false;
}

/*
 * redis_conn_take_info --- record the reply to INFO, unless the node is a former one
 */
void
redis_conn_take_info(RedisConn *c, const char *info)
{
	redis_facts_read(&c->facts, info);
	if (c->target->node == NODE_NONE)
		return;
	node_set_facts(c->target->node, NULL, c->facts.version, c->facts.policy,
				   c->facts.role);
	if (c->target->node == NODE_REDIS)
		redis_replicas_read(info);
}
