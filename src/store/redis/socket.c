/*-------------------------------------------------------------------------
 *
 * socket.c
 *	  The socket of a connection: its bytes, and what watches it.
 *
 * Nothing in here raises.  Nothing waits but redis_socket_recv_soon(), for
 * BRIEFLY_MAX_MS at most.  Only redis_socket_watch() allocates.
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
#include "store/redis/conn.h"
#include "wait_events.h"

/*
 * A reply that comes so soon is waited for in recv().  If so many in a row come later, the
 * limit is doubled, since each of them costs a recv() in vain and a wait for events.
 */
#define BRIEFLY_MS			10
#define BRIEFLY_MAX_MS		80
#define LATE_REPLIES		4

/* Probes of idle connections, so that firewalls and we notice dead ones. */
#define KEEPALIVE_IDLE_S	30
#define KEEPALIVE_INTERVAL_S	10
#define KEEPALIVE_COUNT		3

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

/*
 * socket_set_options --- no delay, and dead peers noticed
 *
 * Failures do not matter: the connection works without.
 */
static void
socket_set_options(pgsocket sock)
{
	int			on = 1;

	(void) setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(sock, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
#ifdef TCP_KEEPIDLE
	{
		int			idle = KEEPALIVE_IDLE_S;

		(void) setsockopt(sock, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	}
#endif
#ifdef TCP_KEEPINTVL
	{
		int			interval = KEEPALIVE_INTERVAL_S;

		(void) setsockopt(sock, IPPROTO_TCP, TCP_KEEPINTVL, &interval,
						  sizeof(interval));
	}
#endif
#ifdef TCP_KEEPCNT
	{
		int			count = KEEPALIVE_COUNT;

		(void) setsockopt(sock, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	}
#endif
#ifdef TCP_USER_TIMEOUT
	{
		unsigned int unacked = lr_connect_timeout + lr_command_timeout;

		(void) setsockopt(sock, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacked,
						  sizeof(unacked));
	}
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
	s->epoch++;
	s->can_wait = false;
	s->shut = false;
	if (family != AF_UNIX)
		socket_set_options(s->fd);
	return 0;
}

/*
 * redis_socket_close --- if there is one; and the set that watches it before
 */
void
redis_socket_close(RedisSocket *s)
{
	if (s->fd == PGINVALID_SOCKET)
		return;
	if (s->set != NULL)
		FreeWaitEventSet(s->set);
	s->set = NULL;
	closesocket(s->fd);
	ReleaseExternalFD();
	s->fd = PGINVALID_SOCKET;
	s->epoch++;
}

/*
 * redis_socket_shut --- see conn.h
 *
 * Runs in a signal handler: a system call, and a flag that nobody else sets.
 */
void
redis_socket_shut(RedisSocket *s)
{
	int			error = errno;

	s->shut = true;
	(void) shutdown(s->fd, SHUT_RDWR);
	errno = error;
}

static bool
socket_limit_recv(RedisSocket *s, int ms)
{
	struct timeval limit = {0, ms * 1000};

	s->briefly_ms = ms;
	s->nlate = 0;
	return setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0;
}

void
redis_socket_block_briefly(RedisSocket *s)
{
	s->can_wait = socket_limit_recv(s, BRIEFLY_MS) && pg_set_block(s->fd);
}

/* ----------
 * Bytes
 * ----------
 */

ssize_t
redis_socket_recv(RedisSocket *s, char *buf, size_t len)
{
	ssize_t		n;

	do
		n = recv(s->fd, buf, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * socket_note_late --- a reply did not come within the limit
 *
 * On a machine with more sessions than it can run, or with a node that is far away, most
 * replies do.  The limit does not become shorter again: it costs nothing if replies come
 * sooner.  A failure leaves the limit as it was.
 */
static void
socket_note_late(RedisSocket *s)
{
	if (++s->nlate == LATE_REPLIES && s->briefly_ms < BRIEFLY_MAX_MS)
		(void) socket_limit_recv(s, s->briefly_ms * 2);
}

/*
 * redis_socket_recv_soon --- see conn.h
 *
 * With a time limit on the socket recv() is never restarted.  A signal that
 * comes right before it costs that time at most.
 */
ssize_t
redis_socket_recv_soon(RedisSocket *s, char *buf, size_t len)
{
	ssize_t		n;
	int			error;

	pgstat_report_wait_start(LR_WAIT_REPLY);
	n = recv(s->fd, buf, len, 0);
	error = errno;
	pgstat_report_wait_end();
	if (n >= 0)
		s->nlate = 0;
	else if (error == EAGAIN || error == EWOULDBLOCK)
		socket_note_late(s);
	errno = error == EINTR ? EAGAIN : error;
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
 * The kernel's number.  A layer of encryption has other numbers of bytes, and
 * has to say 0 here.
 *
 * Of TCP alone, from which it follows that what is not acknowledged when the
 * peer's end arrives has not been read.  The kernel may be told to serve such a
 * socket with another protocol (MPTCP, SMC), which need not keep to that.
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

/* ----------
 * Watching
 * ----------
 */

/*
 * socket_make_set --- a set with the latch, the postmaster and the socket
 *
 * Creating one can raise (no descriptors left, say), which becomes NULL: only
 * resources that are ours are at stake.
 */
static WaitEventSet *
socket_make_set(RedisSocket *s, uint32 events)
{
	MemoryContext context = CurrentMemoryContext;
	WaitEventSet *volatile set = NULL;
	volatile bool good = true;

	PG_TRY();
	{
		set = LrCreateWaitEventSet(3);
		AddWaitEventToSet(set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
		if (IsUnderPostmaster)
			AddWaitEventToSet(set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
		s->position = AddWaitEventToSet(set, events, s->fd, NULL, NULL);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		if (set != NULL)
			FreeWaitEventSet(set);
		good = false;
	}
	PG_END_TRY();
	return good ? set : NULL;
}

/*
 * redis_socket_watch --- see conn.h
 *
 * The set is made once a socket, normally before anything but the handshake is
 * sent.
 */
bool
redis_socket_watch(RedisSocket *s, uint32 events)
{
	if (s->set == NULL)
		s->set = socket_make_set(s, events);
	else if (s->events != events)
		ModifyWaitEvent(s->set, s->position, events, NULL);
	s->events = events;
	return s->set != NULL;
}
