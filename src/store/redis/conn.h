/*-------------------------------------------------------------------------
 *
 * conn.h
 *	  One connection to a Redis node, as a machine that never blocks.
 *
 *		CLOSED --open--> CONNECTING --> [SECURING -->] HANDSHAKE --> READY
 *
 * Any state goes back to CLOSED, with the reason in "failure".  Who waits, and
 * how, is the caller's business: redis_conn_events() and redis_conn_until()
 * say for what.
 *
 * It is put together of target.h (where to), connect.h (how to get there),
 * tls.h (unless in the clear), handshake.h (what is said first), resp.h (the
 * protocol) and socket.h (the bytes), none of which knows the others' user.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/conn.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_CONN_H
#define LR_REDIS_CONN_H

#include "lockredis.h"

#include "store/redis/connect.h"
#include "store/redis/handshake.h"
#include "store/redis/node_errors.h"
#include "store/redis/resp.h"
#include "store/redis/socket.h"
#include "store/redis/target.h"
#include "store/redis/tls.h"
#include "store/store.h"

typedef enum RedisConnState
{
	CONN_CLOSED,
	CONN_CONNECTING,
	CONN_SECURING,				/* with TLS: its handshake */
	CONN_HANDSHAKE,
	CONN_READY
} RedisConnState;

typedef enum RedisRead
{
	REDIS_READ_NOTHING,
	REDIS_READ_SOME,
	REDIS_READ_FULL,			/* and there is probably more */
	REDIS_READ_LOST				/* closed; see failure */
} RedisRead;

typedef struct RedisConn
{
	RedisConnState state;
	const RedisTarget *target;	/* the user's, since redis_conn_open() */
	bool		probe;			/* tell node.h what the node says of itself */
	char		role[32];

	RedisSocket socket;
	RedisTls	tls;
	RedisConnect connect;
	RedisHandshake handshake;
	RespOut		out;
	RespIn		in;
	RedisFacts	facts;
	int64		clock_offset;	/* the node's clock minus lr_now(),
								 * microseconds, at least that much */
	bool		garbled;		/* closed because of what was received */
	RedisFailure failure;		/* why it was closed */
} RedisConn;

/*
 * So often it is read in one step, as more may come for as long as anybody reads: who
 * reads has other things to do, and looks at the time.
 */
#define REDIS_READS_MAX		8

/* Raises when out of memory; or is false then. */
extern bool redis_conn_make(RedisConn *c, const char *role, bool probe);
extern void redis_conn_init(RedisConn *c, const char *role, bool probe);
extern void redis_conn_free(RedisConn *c);

/*
 * Start connecting, to be ready before "until" and within connect_timeout.  The
 * target stays as it is until the connection is closed or opened again.
 */
extern void redis_conn_open(RedisConn *c, const RedisTarget *target,
							int64 until);
extern void redis_conn_advance(RedisConn *c);

/* Closes the socket; frees the set that watched it before. */
extern void redis_conn_close(RedisConn *c);
extern void redis_conn_fail(RedisConn *c, int sqlstate, const char *detail);

/* What to wait for, and until when at most. */
extern uint32 redis_conn_events(const RedisConn *c);
extern int64 redis_conn_until(const RedisConn *c);

/*
 * Both for StoreRoutine.interests: how many sockets it has; *until, when the caller has
 * something to do with it, becomes earlier if the connection has.
 */
extern int	redis_conn_interests(const RedisConn *c, StoreInterest *out, int64 *until);

/*
 * Is a kept connection still good?  Closes it when not.  "lately": it was good a
 * moment ago, so only what has been read already is looked at.
 */
extern bool redis_conn_check(RedisConn *c, bool lately);

/*
 * Is there another one by now in place of this one of several masters?  Then nothing is
 * to be asked over this connection, and nothing that it has answered counts.
 */
extern bool redis_conn_is_other(const RedisConn *c);

/* The same, and it is closed for that. */
extern bool redis_conn_close_other(RedisConn *c);

/* Send what the kernel takes; false if that closed it. */
extern bool redis_conn_flush(RedisConn *c);

/*
 * First receive, then take all replies, each of which is in c->in.values until
 * the next.  "briefly": it may wait for a short time, if the socket can.
 */
extern RedisRead redis_conn_receive(RedisConn *c, bool briefly);
extern bool redis_conn_reply(RedisConn *c);

/*
 * Is it to be read once more in this step?  What is left makes the next wait end at
 * once: by the socket, or see redis_conn_has_more().
 */
static inline bool
redis_conn_reads_on(RedisRead got, int *nreads)
{
	return got == REDIS_READ_FULL && ++*nreads < REDIS_READS_MAX;
}

/*
 * Has more been received than the socket tells?  Then it is to be read without
 * waiting for that.
 */
extern bool redis_conn_has_more(const RedisConn *c);

/* The reply of INFO: what the node says of itself, for node.h. */
extern void redis_conn_take_info(RedisConn *c, const char *info);

#endif							/* LR_REDIS_CONN_H */
