/*-------------------------------------------------------------------------
 *
 * socket.c
 *	  The socket of a connection.
 *
 * Nothing in here raises or allocates.  Only redis_socket_recv() waits, for BRIEFLY_MS at
 * most, if it may.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/socket.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/sockios.h>
#endif

#include "storage/fd.h"

#include "settings.h"
#include "stats.h"
#include "store/redis/conn.h"

/*
 * How long recv() itself waits for a reply.  A later one, from a node that is far away or on
 * a machine with more sessions than it can run, costs a futile recv() and a wait for events.
 */
#define BRIEFLY_MS			40

/* Probes on idle connections, so that firewalls keep them and we notice dead ones. */
#define KEEPALIVE_IDLE_S	30
#define KEEPALIVE_INTERVAL_S	10
#define KEEPALIVE_COUNT		3

/* Of all sockets of this process. */
static uint32 last_epoch = 0;

/* ----------
 * Opening and closing
 * ----------
 */

/*
 * redis_socket_init --- a socket that is not open
 */
void
redis_socket_init(RedisSocket *s)
{
	memset(s, 0, sizeof(RedisSocket));
	s->fd = PGINVALID_SOCKET;
}

static void
socket_set(pgsocket sock, int level, int option, int value)
{
	(void) setsockopt(sock, level, option, &value, sizeof(value));
}

/*
 * socket_set_options --- switch off delays, and notice dead peers
 *
 * Failures do not matter: the connection works without these options.
 */
static void
socket_set_options(pgsocket sock)
{
	socket_set(sock, IPPROTO_TCP, TCP_NODELAY, 1);
	socket_set(sock, SOL_SOCKET, SO_KEEPALIVE, 1);
#ifdef TCP_KEEPIDLE
	socket_set(sock, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
#endif
#ifdef TCP_KEEPINTVL
	socket_set(sock, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
#endif
#ifdef TCP_KEEPCNT
	socket_set(sock, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
#endif
#ifdef TCP_USER_TIMEOUT
	socket_set(sock, IPPROTO_TCP, TCP_USER_TIMEOUT, lr_connect_timeout + lr_command_timeout);
#endif
}

/*
 * redis_socket_open --- see conn.h
 */
int
redis_socket_open(RedisSocket *s, int family)
{
	Assert(s->fd == PGINVALID_SOCKET);
	if (!AcquireExternalFD())
		return EMFILE;
	s->fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd == PGINVALID_SOCKET)
	{
		int			error = errno;

		ReleaseExternalFD();
		return error;
	}
	s->epoch = ++last_epoch;
	s->can_wait = false;
	s->shut = false;
	if (family != AF_UNIX)
		socket_set_options(s->fd);
	return 0;
}

/*
 * redis_socket_close --- close it, if it is open
 */
void
redis_socket_close(RedisSocket *s)
{
	if (s->fd == PGINVALID_SOCKET)
		return;
	closesocket(s->fd);
	ReleaseExternalFD();
	s->fd = PGINVALID_SOCKET;
	s->epoch = ++last_epoch;
}

/*
 * redis_socket_shut --- see conn.h
 *
 * Runs in a signal handler: it only makes a system call and sets a flag, which
 * redis_socket_open() clears.
 */
void
redis_socket_shut(RedisSocket *s)
{
	int			error = errno;

	s->shut = true;
	(void) shutdown(s->fd, SHUT_RDWR);
	errno = error;
}

void
redis_socket_block_briefly(RedisSocket *s)
{
	struct timeval limit = {0, BRIEFLY_MS * 1000};

	s->can_wait = setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
		pg_set_block(s->fd);
}

/* ----------
 * Bytes
 * ----------
 */

/*
 * socket_recv_soon --- wait for a short time
 *
 * The kernel never restarts recv() on a socket with a time limit.  A signal that comes
 * right before the call is noticed when the limit has passed.
 */
static ssize_t
socket_recv_soon(RedisSocket *s, char *buf, size_t len)
{
	ssize_t		n;
	int			error;

	pgstat_report_wait_start(LR_WAIT_REPLY);
	n = recv(s->fd, buf, len, 0);
	error = errno;
	pgstat_report_wait_end();
	errno = error == EINTR ? EAGAIN : error;
	return n;
}

ssize_t
redis_socket_recv(RedisSocket *s, char *buf, size_t len, bool briefly)
{
	ssize_t		n;

	if (briefly)
		return socket_recv_soon(s, buf, len);
	do
		n = recv(s->fd, buf, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

ssize_t
redis_socket_send(RedisSocket *s, const char *buf, size_t len)
{
	ssize_t		n;

	do
		n = send(s->fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * redis_socket_unread --- see conn.h
 *
 * This counts bytes on the wire; with TLS these are not the bytes of requests, see
 * redis_wire_unread().
 *
 * It is only valid for TCP, where data that is not acknowledged when the peer's FIN
 * arrives has not been read.  The kernel may be configured to use another protocol for
 * such a socket (MPTCP, SMC), which need not guarantee that.
 */
size_t
redis_socket_unread(const RedisSocket *s)
{
#if defined(SIOCOUTQ) && defined(SO_PROTOCOL)
	int			protocol;
	socklen_t	len = sizeof(protocol);
	int			unread;

	if (getsockopt(s->fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 &&
		protocol == IPPROTO_TCP &&
		ioctl(s->fd, SIOCOUTQ, &unread) == 0 && unread > 0)
		return unread;
#endif
	return 0;
}
