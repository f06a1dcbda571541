/*-------------------------------------------------------------------------
 *
 * wire.h
 *	  The bytes of a connection: by TLS if that is on, else the socket's.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/wire.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_WIRE_H
#define LR_REDIS_WIRE_H

#include "lockredis.h"

#include "store/redis/socket.h"
#include "store/redis/tls.h"

/* "briefly": it may wait for a short time, if the socket can. */
static inline ssize_t
redis_wire_recv(RedisSocket *s, RedisTls *t, char *buf, size_t len, bool briefly)
{
	if (redis_tls_is_on(t))
		return redis_tls_recv(t, buf, len, briefly);
	return briefly ? redis_socket_recv_soon(s, buf, len) :
		redis_socket_recv(s, buf, len);
}

static inline ssize_t
redis_wire_send(RedisSocket *s, RedisTls *t, const char *buf, size_t len)
{
	return redis_tls_is_on(t) ? redis_tls_send(t, buf, len) :
		redis_socket_send(s, buf, len);
}

/* So many bytes of what was sent has the peer surely not read. */
static inline size_t
redis_wire_unread(const RedisSocket *s, const RedisTls *t)
{
	return redis_tls_is_on(t) ? redis_tls_unread(t) : redis_socket_unread(s);
}

/* For what the socket is to be watched; "writing": something is to be sent. */
static inline uint32
redis_wire_events(const RedisTls *t, bool writing)
{
	if (redis_tls_is_on(t))
		return redis_tls_events(t, writing);
	return writing ? WL_SOCKET_READABLE | WL_SOCKET_WRITEABLE :
		WL_SOCKET_READABLE;
}

#endif							/* LR_REDIS_WIRE_H */
