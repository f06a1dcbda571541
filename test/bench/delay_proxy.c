/*-------------------------------------------------------------------------
 *
 * delay_proxy.c
 *	  A distance between clients and Redis: forwards everything, later.
 *
 *	  delay_proxy REDIS_PORT DELAY_US
 *
 * Listens on a free port of the loopback interface, which it prints, and
 * forwards each connection to REDIS_PORT.  What is read is passed on DELAY_US
 * microseconds later, in either direction, so a round trip takes twice as much
 * longer; nothing waits for what was read before it, so any number of bytes can
 * be under way.  One thread and no copying beyond what the sockets do: with
 * 30,000 messages a second it is idle for most of the time.  Ends at the end of
 * its standard input.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/bench/delay_proxy.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CHUNK_SIZE	16384
#define MAX_EVENTS	256

typedef struct Pair Pair;

/* One end of a forwarded connection. */
typedef struct End
{
	int			fd;
	bool		closed;
	Pair	   *pair;
	struct End *other;
} End;

struct Pair
{
	End			client;
	End			redis;
	int			under_way;		/* chunks that lead to it */
};

/* Bytes on their way to an end; none: it is to be closed. */
typedef struct Chunk
{
	struct Chunk *next;
	int64_t		due;
	End		   *to;
	size_t		len;
	char		bytes[];
} Chunk;

/* The delay is the same for all, so the order of arrival is that of departure. */
static Chunk *first;
static Chunk *last;

static int	epoll_fd;
static int	timer_fd;
static int	redis_port;
static int64_t delay_ns;

static void
die(const char *what)
{
	fprintf(stderr, "delay_proxy: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void
watch(int fd, void *data)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = data};

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		die("epoll_ctl");
}

static void
loopback(struct sockaddr_in *address, int port)
{
	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address->sin_port = htons(port);
}

static void
no_delay(int fd)
{
	int			on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void
accept_client(int listen_fd)
{
	struct sockaddr_in address;
	Pair	   *pair = calloc(1, sizeof(Pair));

	if (pair == NULL)
		die("calloc");
	pair->client.fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	pair->redis.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	loopback(&address, redis_port);
	if (pair->client.fd < 0 || pair->redis.fd < 0 ||
		connect(pair->redis.fd, (struct sockaddr *) &address,
				sizeof(address)) < 0)
	{
		close(pair->client.fd);
		close(pair->redis.fd);
		free(pair);
		return;
	}
	pair->client.pair = pair->redis.pair = pair;
	pair->client.other = &pair->redis;
	pair->redis.other = &pair->client;
	no_delay(pair->client.fd);
	no_delay(pair->redis.fd);
	watch(pair->client.fd, &pair->client);
	watch(pair->redis.fd, &pair->redis);
}

static void
free_if_done(Pair *pair)
{
	if (pair->client.closed && pair->redis.closed && pair->under_way == 0)
		free(pair);
}

static void
close_end(End *end)
{
	if (!end->closed)
	{
		close(end->fd);
		end->closed = true;
	}
}

static void
set_timer(int64_t due)
{
	struct itimerspec spec = {0};

	spec.it_value.tv_sec = due / 1000000000;
	spec.it_value.tv_nsec = due % 1000000000;
	if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0)
		die("timerfd_settime");
}

static void
receive(End *from)
{
	static char buffer[CHUNK_SIZE];
	ssize_t		got = recv(from->fd, buffer, sizeof(buffer), 0);
	Chunk	   *chunk;

	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got < 0)
		got = 0;
	chunk = malloc(sizeof(Chunk) + got);
	if (chunk == NULL)
		die("malloc");
	chunk->next = NULL;
	chunk->due = now() + delay_ns;
	chunk->to = from->other;
	chunk->len = got;
	memcpy(chunk->bytes, buffer, got);
	from->pair->under_way++;
	if (last)
		last->next = chunk;
	else
	{
		first = chunk;
		set_timer(chunk->due);
	}
	last = chunk;
	if (got == 0)
		close_end(from);
}

/* Blocks if the receiver does not read, which clients of a benchmark do. */
static void
deliver(Chunk *chunk)
{
	End		   *to = chunk->to;
	size_t		sent = 0;

	while (!to->closed && sent < chunk->len)
	{
		ssize_t		n = send(to->fd, chunk->bytes + sent, chunk->len - sent,
							 MSG_NOSIGNAL);

		if (n > 0)
			sent += n;
		else if (errno != EINTR)
			break;
	}
	if (chunk->len == 0)
		close_end(to);
	to->pair->under_way--;
	free_if_done(to->pair);
	free(chunk);
}

static void
deliver_due(void)
{
	uint64_t	expirations;

	(void) !read(timer_fd, &expirations, sizeof(expirations));
	while (first != NULL && first->due <= now())
	{
		Chunk	   *chunk = first;

		first = chunk->next;
		if (first == NULL)
			last = NULL;
		deliver(chunk);
	}
	if (first != NULL)
		set_timer(first->due);
}

int
main(int argc, char **argv)
{
	struct sockaddr_in address;
	socklen_t	len = sizeof(address);
	struct epoll_event events[MAX_EVENTS];
	int			listen_fd;

	if (argc != 3)
	{
		fprintf(stderr, "usage: delay_proxy REDIS_PORT DELAY_US\n");
		return 2;
	}
	redis_port = atoi(argv[1]);
	delay_ns = atoll(argv[2]) * 1000;

	/* Timers on the microsecond. */
	prctl(PR_SET_TIMERSLACK, 1UL);

	listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	loopback(&address, 0);
	if (listen_fd < 0 ||
		bind(listen_fd, (struct sockaddr *) &address, len) < 0 ||
		listen(listen_fd, 1024) < 0 ||
		getsockname(listen_fd, (struct sockaddr *) &address, &len) < 0)
		die("could not listen");
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (epoll_fd < 0 || timer_fd < 0)
		die("could not create an epoll or timer descriptor");
	watch(listen_fd, &listen_fd);
	watch(timer_fd, &timer_fd);
	watch(STDIN_FILENO, &redis_port);
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);

	for (;;)
	{
		int			n = epoll_wait(epoll_fd, events, MAX_EVENTS, -1);

		for (int i = 0; i < n; i++)
		{
			void	   *data = events[i].data.ptr;

			if (data == &listen_fd)
				accept_client(listen_fd);
			else if (data == &redis_port)
				return 0;
			else if (data != &timer_fd && !((End *) data)->closed)
				receive(data);
		}
		/* After all events: it may free ends that they point to. */
		deliver_due();
	}
}
