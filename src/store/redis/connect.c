/*-------------------------------------------------------------------------
 *
 * connect.c
 *	  From a target to a connected socket, by trying its addresses in turn.
 *
 * There is no socket while there is nothing to try: until the addresses of a host name
 * are known, or while the backlog of a unix socket is full.  Nothing in here waits,
 * raises or allocates.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/connect.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "port/pg_bswap.h"

#include "settings.h"
#include "store/redis/conn.h"

/* How often to check whether the host name has been resolved. */
#define RESOLVE_POLL		(50 * LR_US_PER_MS)

/* How often to check whether the master is known. */
#define MASTER_POLL			(10 * LR_US_PER_MS)

/* Pause before a retry if the backlog of a unix socket is full, which shows at once. */
#define BACKLOG_POLL		(10 * LR_US_PER_MS)

void
redis_connect_start(RedisConnect *d, int64 until)
{
	int64		now = lr_now();

	d->opened_at = now;
	d->until = Min(until, now + lr_connect_timeout * LR_US_PER_MS);
	d->addresses.count = 0;
	d->addresses.error[0] = '\0';
	d->next_address = 0;
	d->pause_until = now;
}

/* ----------
 * Addresses
 * ----------
 */

/*
 * connect_numeric_address --- the only address, from a path or a numeric host
 */
static void
connect_numeric_address(const RedisUrl *url, NodeAddresses *a)
{
	memset(a, 0, sizeof(NodeAddresses));
	a->count = 1;
	if (url->scheme == REDIS_UNIX)
	{
		struct sockaddr_un *un = (struct sockaddr_un *) &a->addr[0];

		StaticAssertStmt(sizeof(url->path) <= sizeof(un->sun_path),
						 "socket path does not fit");
		un->sun_family = AF_UNIX;
		strlcpy(un->sun_path, url->path, sizeof(un->sun_path));
		a->addr_len[0] = sizeof(struct sockaddr_un);
	}
	else if (strchr(url->host, ':') != NULL)
	{
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *) &a->addr[0];

		in6->sin6_family = AF_INET6;
		in6->sin6_port = pg_hton16((uint16) url->port);
		(void) inet_pton(AF_INET6, url->host, &in6->sin6_addr);
		a->addr_len[0] = sizeof(struct sockaddr_in6);
	}
	else
	{
		struct sockaddr_in *in = (struct sockaddr_in *) &a->addr[0];

		in->sin_family = AF_INET;
		in->sin_port = pg_hton16((uint16) url->port);
		(void) inet_pton(AF_INET, url->host, &in->sin_addr);
		a->addr_len[0] = sizeof(struct sockaddr_in);
	}
}

/*
 * connect_find_addresses --- false if they are not known yet
 */
static bool
connect_find_addresses(RedisConnect *d, const RedisTarget *t)
{
	if (!redis_url_has_name(&t->url))
	{
		connect_numeric_address(&t->url, &d->addresses);
		return true;
	}
	if (addresses_get(t->url.host, t->url.port, &d->addresses))
		return true;
	redis_target_want_addresses(t, WANT_REACHABLE);
	return false;
}

/* ----------
 * Failures
 * ----------
 */

static StepResult
connect_failed(RedisFailure *f, const char *detail)
{
	redis_failure_set(f, STORE_DOWN,
					  ERRCODE_STORE_UNREACHABLE,
					  NULL, "%s", detail);
	return STEP_FAILED;
}

void
redis_connect_timed_out(const RedisConnect *d, const RedisTarget *t,
						RedisFailure *f, const char *detail)
{
	if (lr_now() - d->opened_at >= lr_connect_timeout * LR_US_PER_MS)
		redis_target_set_silent(t, true);
	redis_target_want_addresses(t, WANT_REACHABLE);
	(void) connect_failed(f, detail);
}

/*
 * connect_address_failed --- try the next address, or give up
 *
 * When giving up, have the name resolved again: it may have moved.
 */
static StepResult
connect_address_failed(RedisConnect *d, const RedisTarget *t, RedisSocket *s,
					   RedisFailure *f, int error)
{
	redis_socket_close(s);
	if (d->next_address < d->addresses.count)
	{
		d->pause_until = 0;
		return STEP_UNDER_WAY;
	}
	if (error == ETIMEDOUT)
	{
		redis_connect_timed_out(d, t, f, "Could not connect to the node in time.");
		return STEP_FAILED;
	}
	redis_target_want_addresses(t, WANT_REACHABLE);
	redis_failure_set(f, STORE_DOWN,
					  ERRCODE_STORE_UNREACHABLE, NULL,
					  "Could not connect to the node: %s.", strerror(error));
	return STEP_FAILED;
}

/*
 * connect_no_socket --- give up because of a shortage on this machine
 *
 * That says nothing about the address, so neither try the next one nor have the name
 * resolved again.
 */
static StepResult
connect_no_socket(RedisFailure *f, int error)
{
	if (error == EMFILE)
		redis_failure_set(f, STORE_DOWN, ERRCODE_INSUFFICIENT_RESOURCES, NULL,
						  "Too many open files in this server process.");
	else
		redis_failure_set(f, STORE_DOWN, ERRCODE_INSUFFICIENT_RESOURCES, NULL,
						  "Could not create a socket: %s.", strerror(error));
	return STEP_FAILED;
}

static bool
connect_is_lack(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS ||
		error == ENOMEM;
}

/*
 * connect_out_of_time --- the time is up, and no address is being tried
 */
static StepResult
connect_out_of_time(RedisConnect *d, const RedisTarget *t, RedisSocket *s,
					RedisFailure *f)
{
	if (t->url.host[0] == '\0' && t->kind == TARGET_MASTER)
		return connect_failed(f, "The Sentinels have not named a master in time.");
	if (d->addresses.count == 0 && d->addresses.error[0] == '\0')
		return connect_failed(f, t->kind == TARGET_MASTER ?
							  "The host name that the Sentinels announce could not be resolved in time." :
							  "The host name in lockredis.url could not be resolved in time.");
	if (d->addresses.count > 0)
	{
		d->next_address = d->addresses.count;
		return connect_address_failed(d, t, s, f, ETIMEDOUT);
	}
	redis_failure_set(f, STORE_DOWN,
					  ERRCODE_STORE_UNREACHABLE, NULL,
					  t->kind == TARGET_MASTER ?
					  "Could not resolve the host name that the Sentinels announce: %s." :
					  "Could not resolve the host name in lockredis.url: %s.",
					  d->addresses.error);
	return STEP_FAILED;
}

/* ----------
 * Trying
 * ----------
 */

/*
 * connect_try_address --- begin with the next address
 *
 * Each address gets a share of the time, as one that drops packets must leave some for
 * the others.
 */
static StepResult
connect_try_address(RedisConnect *d, const RedisTarget *t, RedisSocket *s,
					RedisFailure *f, int64 now)
{
	int			i = d->next_address++;
	int			left = d->addresses.count - i;
	int			error = redis_socket_open(s, d->addresses.addr[i].ss_family);

	if (error != 0)
		return connect_is_lack(error) ? connect_no_socket(f, error) :
			connect_address_failed(d, t, s, f, error);
	d->address_until = now + Max(d->until - now, 0) / left;

	while (connect(s->fd, (struct sockaddr *) &d->addresses.addr[i],
				   d->addresses.addr_len[i]) < 0)
	{
		if (errno == EINTR)
			continue;
		if (errno == EINPROGRESS || errno == EALREADY || errno == EISCONN)
			return STEP_UNDER_WAY;
		if (errno != EAGAIN)
			return connect_address_failed(d, t, s, f, errno);
		redis_socket_close(s);
		d->next_address--;
		d->pause_until = now + BACKLOG_POLL;
		return STEP_UNDER_WAY;
	}
	return STEP_UNDER_WAY;
}

/*
 * connect_begin_next --- there is no socket: create one if it is time
 */
static StepResult
connect_begin_next(RedisConnect *d, const RedisTarget *t, RedisSocket *s,
				   RedisFailure *f, int64 now)
{
	char		why[sizeof(f->error.detail)];

	if (now >= d->until)
		return connect_out_of_time(d, t, s, f);
	if (now < d->pause_until)
		return STEP_UNDER_WAY;
	switch (redis_target_look(t, why, sizeof(why)))
	{
		case TARGET_OPEN:
			break;
		case TARGET_NOT_YET:
			d->pause_until = now + MASTER_POLL;
			return STEP_UNDER_WAY;
		case TARGET_CLOSED:
			return connect_failed(f, why);
	}
	if (d->addresses.count == 0 && !connect_find_addresses(d, t))
	{
		d->pause_until = now + RESOLVE_POLL;
		return STEP_UNDER_WAY;
	}
	return connect_try_address(d, t, s, f, now);
}

/*
 * connect_look --- has connect() finished?
 */
static StepResult
connect_look(RedisConnect *d, const RedisTarget *t, RedisSocket *s,
			 RedisFailure *f, int64 now)
{
	struct pollfd pfd = {.fd = s->fd,.events = POLLOUT};
	int			error = 0;
	socklen_t	len = sizeof(error);

	if (poll(&pfd, 1, 0) <= 0)
		return now < d->address_until ? STEP_UNDER_WAY :
			connect_address_failed(d, t, s, f, ETIMEDOUT);
	if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	return error == 0 ? STEP_DONE :
		connect_address_failed(d, t, s, f, error);
}

/*
 * redis_connect_step --- see conn.h
 */
StepResult
redis_connect_step(RedisConnect *d, const RedisTarget *t, RedisSocket *s,
				   RedisFailure *f)
{
	for (;;)
	{
		int64		now = lr_now();
		bool		has_socket = s->fd != PGINVALID_SOCKET;
		StepResult	result = has_socket ? connect_look(d, t, s, f, now) :
			connect_begin_next(d, t, s, f, now);

		if (result != STEP_UNDER_WAY)
			return result;

		/* Go on unless we wait for the same as before. */
		if (has_socket == (s->fd != PGINVALID_SOCKET) &&
			(has_socket || d->pause_until > now))
			return STEP_UNDER_WAY;
	}
}

int64
redis_connect_next(const RedisConnect *d, const RedisSocket *s)
{
	return Min(s->fd != PGINVALID_SOCKET ? d->address_until : d->pause_until,
			   d->until);
}
