/*-------------------------------------------------------------------------
 *
 * sockets.c
 *	  The system calls of the client of Redis, over the simulated network.
 *
 * A descriptor is the number of a connection.  Linked before those of libc (see
 * the Makefile), for the product only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/sockets.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "storage/fd.h"

#include "../kernel/network.h"

/* As SO_RCVTIMEO, which only one file sets; longer ones of slow connections are not tried. */
#define RECEIVE_LIMIT	(10 * SIM_MS)

void		(*backend_waited) (void);

static int	nexternal = 0;

int
backend_descriptors(void)
{
	return nexternal;
}

bool
AcquireExternalFD(void)
{
	nexternal++;
	return true;
}

void
ReleaseExternalFD(void)
{
	nexternal--;
}

bool
pg_set_block(pgsocket sock)
{
	return true;
}

/* ----------
 * Connections
 * ----------
 */

extern int	__wrap_socket(int domain, int type, int protocol);
extern int	__wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
extern int	__wrap_close(int fd);
extern int	__wrap_shutdown(int fd, int how);
extern int	__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
extern int	__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
extern int	__wrap_ioctl(int fd, unsigned long request,...);

int
__wrap_socket(int domain, int type, int protocol)
{
	backend_must_hold_no_lock("a socket");
	return net_socket();
}

int
__wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	backend_must_hold_no_lock("connect()");
	sim_yield("connect");
	switch (net_state(fd))
	{
		case NET_NEW:
			net_connect(fd, ntohs(((const struct sockaddr_in *) addr)->sin_port));
			errno = EINPROGRESS;
			break;
		case NET_CONNECTING:
			errno = EALREADY;
			break;
		case NET_OPEN:
			errno = EISCONN;
			break;
		case NET_CLOSED:
			errno = net_error(fd) != 0 ? net_error(fd) : EISCONN;
			break;
	}
	return -1;
}

int
__wrap_close(int fd)
{
	backend_must_hold_no_lock("close()");
	sim_yield("close");
	net_close(fd);
	return 0;
}

/* In a signal handler: no step, and whoever is interrupted may have a lock. */
int
__wrap_shutdown(int fd, int how)
{
	net_shut(fd);
	return 0;
}

int
__wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	return 0;
}

int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	*(int *) value = IPPROTO_TCP;
	return 0;
}

/* Only the number of bytes that are not acknowledged is asked. */
int
__wrap_ioctl(int fd, unsigned long request,...)
{
	va_list		args;

	va_start(args, request);
	*va_arg(args, int *) = (int) net_unacknowledged(fd);
	va_end(args);
	return 0;
}

/* ----------
 * Bytes
 * ----------
 */

extern ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
extern ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
extern int	__wrap_poll(struct pollfd *fds, nfds_t n, int timeout);

/* With a limit, until a signal comes. */
static void
wait_readable(int fd)
{
	int64		until = sim_now() + RECEIVE_LIMIT;
	int			signals = backend_signals;

	backend_drain();
	while (!net_is_readable(fd) && sim_now() < until && backend_signals == signals)
		sim_block(until, true, "reply");
	if (backend_waited != NULL)
		backend_waited();
}

ssize_t
__wrap_recv(int fd, void *buf, size_t len, int flags)
{
	size_t		n;

	backend_must_hold_no_lock("recv()");
	sim_yield("receive");
	if (!(flags & MSG_DONTWAIT))
		wait_readable(fd);
	n = net_receive(fd, buf, len);
	if (n > 0)
		return n;
	errno = EAGAIN;
	if (net_state(fd) == NET_CLOSED)
		errno = net_error(fd);
	return errno == 0 ? 0 : -1;
}

ssize_t
__wrap_send(int fd, const void *buf, size_t len, int flags)
{
	size_t		n;

	backend_must_hold_no_lock("send()");
	sim_yield("send");
	if (net_is_shut(fd) || (net_state(fd) == NET_CLOSED && net_error(fd) != 0))
	{
		errno = EPIPE;
		return -1;
	}
	n = net_send(fd, buf, len);
	if (n > 0)
		return n;
	errno = EAGAIN;
	return -1;
}

static short
happened(const struct pollfd *p)
{
	short		what = 0;

	if (p->fd < 0)
		return 0;
	if ((p->events & POLLIN) && net_is_readable(p->fd))
		what |= POLLIN;
	if ((p->events & POLLOUT) && net_is_writeable(p->fd))
		what |= POLLOUT;
	if (net_state(p->fd) == NET_CLOSED)
		what |= POLLHUP;
	return what;
}

static int
count_ready(struct pollfd *fds, nfds_t n)
{
	int			ready = 0;

	for (nfds_t i = 0; i < n; i++)
	{
		fds[i].revents = happened(&fds[i]);
		ready += fds[i].revents != 0;
	}
	return ready;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	int64		until = timeout < 0 ? SIM_NEVER : sim_now() + timeout * SIM_MS;
	int			signals = backend_signals;

	backend_must_hold_no_lock("poll()");
	sim_yield("poll");
	net_looks();
	if (timeout != 0)
		backend_drain();
	while (count_ready(fds, n) == 0 && sim_now() < until)
	{
		if (backend_signals != signals)
		{
			errno = EINTR;
			return -1;
		}
		sim_block(until, true, "poll");
	}
	return count_ready(fds, n);
}
