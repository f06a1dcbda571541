/*-------------------------------------------------------------------------
 *
 * tls.h
 *	  TLS between a connection and its socket.
 *
 * OpenSSL reads and writes through a BIO of ours, which is nothing but the
 * calls of socket.h: whoever waits for the socket, and how, stays as it is.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_TLS_H
#define LR_REDIS_TLS_H

#include "lockredis.h"
#include "datatype/timestamp.h"

#include "store/redis/node_errors.h"
#include "store/redis/socket.h"
#include "store/redis/target.h"

/* Whom a session may be resumed with. */
typedef struct TlsPeer
{
	char		host[LR_HOST_MAX];
	int			port;
	char		name[LR_HOST_MAX];
	uint32		context;		/* by which it was verified */
} TlsPeer;

/* A record that the kernel has taken. */
typedef struct TlsRecord
{
	uint64		ends_at;		/* bytes on the wire up to its end */
	size_t		len;			/* of what is in it */
} TlsRecord;

#define TLS_RECORDS			16

/* All zero: in the clear. */
typedef struct RedisTls
{
	struct ssl_st *ssl;			/* NULL: in the clear */
	RedisSocket *socket;
	bool		shaken;			/* our side of the handshake is complete */
	bool		cert_wanted;	/* the node has asked for ours */
	bool		briefly;		/* the next read of the socket may wait */
	int			nreads;			/* of the socket, in this call */
	bool		more;			/* there may be more than the socket tells */
	bool		wants_write;	/* before anything can be read */
	bool		wants_read;		/* before anything can be written */

	/* How it ended. */
	bool		ended;			/* by the socket, in the last call; */
	int			socket_error;	/* its errno, 0: by the node, as one does */
	unsigned long error;		/* OpenSSL's */
	unsigned char first_byte;	/* that was received; 0 = none */

	/* What is on its way. */
	size_t		half_sent;		/* what is in a record that the kernel has not
								 * taken whole; 0 = none */
	uint64		on_wire;		/* bytes that the kernel has taken */
	TlsRecord	records[TLS_RECORDS];	/* the last ones, in a ring */
	uint64		nrecords;

	/* For the next time; stays when the connection is closed. */
	struct ssl_session_st *session;
	TlsPeer		session_peer;
	TlsPeer		peer;
} RedisTls;

typedef enum TlsResult
{
	TLS_UNDER_WAY,
	TLS_DONE,
	TLS_FAILED					/* the failure says why */
} TlsResult;

/* On a connected socket, which stays the caller's; false: it has failed. */
extern bool redis_tls_start(RedisTls *t, const RedisTarget *target,
							RedisSocket *s, RedisFailure *f);

/* Go as far as is possible now. */
extern TlsResult redis_tls_shake_hands(RedisTls *t, RedisFailure *f);

/* End it, before the socket is closed; sends nothing. */
extern void redis_tls_close(RedisTls *t);
extern void redis_tls_free(RedisTls *t);

static inline bool
redis_tls_is_on(const RedisTls *t)
{
	return t->ssl != NULL;
}

/*
 * As those of the socket.  EPROTO: it has failed for another reason than the
 * socket's, redis_tls_explain() knows which.
 */
extern ssize_t redis_tls_recv(RedisTls *t, char *buf, size_t len, bool briefly);
extern ssize_t redis_tls_send(RedisTls *t, const char *buf, size_t len);
extern size_t redis_tls_unread(const RedisTls *t);

/* For what the socket has to be watched; "writing": something is to be sent. */
extern uint32 redis_tls_events(const RedisTls *t, bool writing);

/*
 * When the first of the node's certificate and ours expires, after the handshake.  Of a
 * session that goes on it is the certificate that was shown at its beginning.
 */
extern TimestampTz redis_tls_expires(const RedisTls *t);

/* Why it has failed. */
extern void redis_tls_explain(const RedisTls *t, RedisFailure *f);

#endif							/* LR_REDIS_TLS_H */
