/*-------------------------------------------------------------------------
 *
 * socket.h
 *	  The socket of a connection: its bytes, and what watches it.
 *
 * The only file that touches the bytes on the wire: that is where TLS goes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/socket.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_SOCKET_H
#define LR_REDIS_SOCKET_H

#include "lockredis.h"

typedef struct RedisSocket
{
	pgsocket	fd;
	uint32		epoch;			/* changes with each descriptor */
	bool		can_wait;		/* recv() has a time limit */
	int			briefly_ms;		/* that limit */
	int			nlate;			/* replies in a row that came later */
	volatile bool shut;			/* see redis_socket_shut */
	WaitEventSet *set;			/* watches it, and the latch; or NULL */
	int			position;		/* of the socket in the set */
	uint32		events;			/* that the set waits for */
} RedisSocket;

extern void redis_socket_init(RedisSocket *s);

/* Make one that does not block; 0, or the error.  Counted with fd.c. */
extern int	redis_socket_open(RedisSocket *s, int family);
extern void redis_socket_close(RedisSocket *s);

/*
 * End the connection, but keep the socket: the next look finds it ended by the
 * peer.  For signal handlers.
 */
extern void redis_socket_shut(RedisSocket *s);

/* From now on redis_socket_recv_soon() may be used, if the kernel lets it. */
extern void redis_socket_block_briefly(RedisSocket *s);

/* As recv(2) and send(2) that never wait and are never interrupted. */
extern ssize_t redis_socket_recv(RedisSocket *s, char *buf, size_t len);
extern ssize_t redis_socket_send(RedisSocket *s, const char *buf, size_t len);

/* The same after waiting for a short time; a signal ends the wait. */
extern ssize_t redis_socket_recv_soon(RedisSocket *s, char *buf, size_t len);

/*
 * So many bytes of those that were sent has the peer not acknowledged; 0 where
 * that is not known.
 */
extern size_t redis_socket_unread(const RedisSocket *s);

/* Have the set wait for these events, too; false: it could not be made. */
extern bool redis_socket_watch(RedisSocket *s, uint32 events);

#endif							/* LR_REDIS_SOCKET_H */
