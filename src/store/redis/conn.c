/*-------------------------------------------------------------------------
 *
 * conn.c
 *	  One connection to a Redis node, as a machine that never blocks.
 *
 * Used by the store handles and by the listener.  Nothing in here waits,
 * raises (but for redis_conn_init) or allocates in a memory context, so it
 * may run at the end of a transaction and of the process.
 *
 * Only conn_recv() and conn_send() touch the bytes on the socket: that is
 * where TLS goes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/conn.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "port/pg_bswap.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "store/redis/conn.h"
#include "store/redis/redis_store.h"
#include "settings.h"
#include "wait_events.h"

#define OUT_INITIAL			4096

/* A reply that comes so soon is waited for in recv(). */
#define BRIEFLY_MS			10

#define RECEIVE_CHUNK		16384

/* How often to look whether the host name has been resolved. */
#define RESOLVE_POLL		(50 * LR_US_PER_MS)

/* A unix socket whose backlog is full says so at once: try again soon. */
#define BACKLOG_POLL		(10 * LR_US_PER_MS)

/* Probes of idle connections, so that firewalls and we notice dead ones. */
#define KEEPALIVE_IDLE_S	30
#define KEEPALIVE_INTERVAL_S	10
#define KEEPALIVE_COUNT		3

/* ----------
 * Replies: the callbacks of hiredis' reader
 *
 * Returning NULL makes the reader give up with an error, which is how limits
 * are kept.
 * ----------
 */

static RedisValue *
new_value(const redisReadTask *task)
{
	RedisConn  *c = task->privdata;
	RedisValue *v;

	if (task->parent == NULL)
	{
		c->nvalues = 0;
		c->text_used = 0;
	}
	if (c->nvalues >= lengthof(c->values))
		return NULL;
	v = &c->values[c->nvalues++];
	memset(v, 0, sizeof(RedisValue));
	v->type = task->type;
	v->str = "";
	return v;
}

static void *
create_string(const redisReadTask *task, char *str, size_t len)
{
	RedisConn  *c = task->privdata;
	RedisValue *v = new_value(task);
	size_t		room;

	if (v == NULL)
		return NULL;
	room = REDIS_TEXT_SIZE - c->text_used;
	if (room > 0)
	{
		len = Min(len, room - 1);
		memcpy(c->text + c->text_used, str, len);
		v->str = c->text + c->text_used;
		v->len = (int) len;
		c->text[c->text_used + len] = '\0';
		c->text_used += (int) len + 1;
	}
	return v;
}

#if HIREDIS_MAJOR >= 1
static void *
create_array(const redisReadTask *task, size_t elements)
#else
static void *
create_array(const redisReadTask *task, int elements)
#endif
{
	RedisValue *v;

	/* No request of ours is answered by a nested array. */
	if (task->parent != NULL || elements > REDIS_MAX_ELEMENTS)
		return NULL;
	v = new_value(task);
	if (v != NULL)
		v->elements = (int) elements;
	return v;
}

static void *
create_integer(const redisReadTask *task, long long value)
{
	RedisValue *v = new_value(task);

	if (v != NULL)
		v->integer = value;
	return v;
}

/* The task still has the type that was announced. */
static void *
create_nil(const redisReadTask *task)
{
	RedisValue *v = new_value(task);

	if (v != NULL)
		v->type = REDIS_REPLY_NIL;
	return v;
}

static void
free_value(void *value)
{
	/* Values are parts of the connection. */
}

/* RESP3 types are never asked for: without a callback they are refused. */
static redisReplyObjectFunctions reader_functions = {
	.createString = create_string,
	.createArray = create_array,
	.createInteger = create_integer,
	.createNil = create_nil,
	.freeObject = free_value
};

/* ----------
 * Opening and closing
 * ----------
 */

void
redis_conn_init(RedisConn *c, const char *role, bool probe)
{
	memset(c, 0, sizeof(RedisConn));
	c->sock = PGINVALID_SOCKET;
	c->probe = probe;
	strlcpy(c->role, role, sizeof(c->role));
	c->out = malloc(OUT_INITIAL);
	if (c->out == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	c->out_size = OUT_INITIAL;
}

void
redis_conn_free(RedisConn *c)
{
	redis_conn_close(c);
	free(c->out);
	c->out = NULL;
}

static void
close_socket(RedisConn *c)
{
	if (c->sock == PGINVALID_SOCKET)
		return;
	if (c->wait_set != NULL)
		FreeWaitEventSet(c->wait_set);
	c->wait_set = NULL;
	closesocket(c->sock);
	ReleaseExternalFD();
	c->sock = PGINVALID_SOCKET;
	c->socket_epoch++;
}

void
redis_conn_close(RedisConn *c)
{
	close_socket(c);
	if (c->reader != NULL)
		redisReaderFree(c->reader);
	c->reader = NULL;
	c->state = CONN_CLOSED;
	c->has_clock = false;
	explicit_bzero(c->secret, sizeof(c->secret));
	explicit_bzero(c->out, c->out_len);
	c->out_pos = c->out_len = 0;
	c->out_failed = false;
}

/*
 * redis_conn_fail --- close, and remember why
 *
 * "failure" is what an operation gets that was not sent.
 */
void
redis_conn_fail(RedisConn *c, StoreOutcome failure, int sqlstate,
				const char *format,...)
{
	va_list		args;

	c->failure = failure;
	c->error.sqlstate = sqlstate;
	c->error.hint = NULL;
	va_start(args, format);
	vsnprintf(c->error.detail, sizeof(c->error.detail), format, args);
	va_end(args);
	redis_conn_close(c);
}

static void
sent_unasked(RedisConn *c)
{
	redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
					"The node sent something that was not asked for.");
}

/*
 * show_address --- for the server log
 */
static void
show_address(RedisConn *c)
{
	const RedisUrl *url = lr_redis_url;

	if (url->scheme == REDIS_UNIX)
		snprintf(c->error.address, sizeof(c->error.address), "%s", url->path);
	else
		snprintf(c->error.address, sizeof(c->error.address),
				 strchr(url->host, ':') ? "[%s]:%d" : "%s:%d",
				 url->host, url->port);
}

/*
 * find_addresses --- fill c->addresses; false when they are not known yet
 */
static bool
find_addresses(RedisConn *c)
{
	const RedisUrl *url = lr_redis_url;
	NodeAddresses *a = &c->addresses;

	if (redis_url_has_name(url))
	{
		c->by_name = true;
		if (addresses_get(url->host, url->port, a))
			return true;
		addresses_want(NODE_REDIS, url->host, url->port, WANT_REACHABLE);
		return false;
	}

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
	return true;
}

/*
 * redis_conn_open --- start connecting
 *
 * The caller goes on with redis_conn_advance().
 */
void
redis_conn_open(RedisConn *c, int64 until)
{
	int64		now = lr_now();

	redis_conn_close(c);
	memset(&c->error, 0, sizeof(c->error));
	c->url_epoch = lr_url_epoch;
	c->opened_at = now;
	c->connect_until = Min(until, now + lr_connect_timeout * LR_US_PER_MS);
	c->addresses.count = 0;
	c->next_address = 0;
	c->by_name = false;
	c->bytes_put = c->bytes_sent = 0;
	c->understood = c->garbled = false;
	c->first_byte = 0;
	c->version[0] = c->policy[0] = '\0';
	c->replica = false;
	show_address(c);

	c->reader = redisReaderCreateWithFunctions(&reader_functions);
	if (c->reader == NULL)
	{
		redis_conn_fail(c, STORE_DOWN, ERRCODE_OUT_OF_MEMORY,
						"Out of memory.");
		return;
	}
	c->reader->privdata = c;

	c->state = CONN_PAUSED;
	c->pause_until = now;
}

/*
 * ask_for_addresses --- no good node there: the name may have moved
 */
static void
ask_for_addresses(const RedisConn *c)
{
	if (c->by_name)
		addresses_want(NODE_REDIS, lr_redis_url->host, lr_redis_url->port,
					   WANT_REACHABLE);
}

/*
 * connect_timed_out --- no sign of life
 *
 * If it had all of connect_timeout, nobody else needs to wait as long.
 */
static void
connect_timed_out(RedisConn *c, const char *detail)
{
	if (lr_now() - c->opened_at >= lr_connect_timeout * LR_US_PER_MS)
		node_set_silent(NODE_REDIS, true);
	ask_for_addresses(c);
	redis_conn_fail(c, STORE_DOWN,
					ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
					"%s", detail);
}

/*
 * address_failed --- this address is no good: the next one, or give up
 */
static void
address_failed(RedisConn *c, int error)
{
	close_socket(c);
	if (c->next_address < c->addresses.count)
	{
		c->state = CONN_PAUSED;
		c->pause_until = 0;
		return;
	}

	if (error == ETIMEDOUT)
	{
		connect_timed_out(c, "Could not connect to the node in time.");
		return;
	}
	ask_for_addresses(c);
	redis_conn_fail(c, STORE_DOWN,
					ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
					"Could not connect to the node: %s.", strerror(error));
}

/*
 * no_socket --- give up for the lack of something here
 *
 * That says nothing about any address: there is no use in trying the next one,
 * nor in having the name resolved.
 */
static void
no_socket(RedisConn *c, int error)
{
	if (error == EMFILE)
		redis_conn_fail(c, STORE_DOWN, ERRCODE_INSUFFICIENT_RESOURCES,
						"Too many open files in this server process.");
	else
		redis_conn_fail(c, STORE_DOWN, ERRCODE_INSUFFICIENT_RESOURCES,
						"Could not create a socket: %s.", strerror(error));
}

static bool
is_lack(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS ||
		error == ENOMEM;
}

/*
 * set_socket_options --- no delay, and dead peers noticed
 *
 * Failures do not matter: the connection works without.
 */
static void
set_socket_options(pgsocket sock)
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
 * block_briefly --- from now on a plain recv() waits for BRIEFLY_MS
 */
static void
block_briefly(RedisConn *c)
{
	struct timeval limit = {0, BRIEFLY_MS * 1000};

	c->can_wait_briefly =
		setsockopt(c->sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
		pg_set_block(c->sock);
}

/*
 * start_address --- a socket for the next address
 */
static void
start_address(RedisConn *c, int64 now)
{
	int			i = c->next_address++;
	int			left = c->addresses.count - i;
	int			family = c->addresses.addr[i].ss_family;

	if (!AcquireExternalFD())
	{
		no_socket(c, EMFILE);
		return;
	}
	c->sock = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->sock == PGINVALID_SOCKET)
	{
		int			error = errno;

		ReleaseExternalFD();
		if (is_lack(error))
			no_socket(c, error);
		else
			address_failed(c, error);
		return;
	}
	c->socket_epoch++;
	if (family != AF_UNIX)
		set_socket_options(c->sock);

	/* An address that swallows packets must leave time for the others. */
	c->address_until = now + Max(c->connect_until - now, 0) / left;
	c->state = CONN_CONNECTING;

	while (connect(c->sock, (struct sockaddr *) &c->addresses.addr[i],
				   c->addresses.addr_len[i]) < 0)
	{
		if (errno == EINTR)
			continue;
		if (errno == EINPROGRESS || errno == EALREADY || errno == EISCONN)
			return;
		if (errno == EAGAIN)
		{
			close_socket(c);
			c->next_address--;
			c->state = CONN_PAUSED;
			c->pause_until = now + BACKLOG_POLL;
			return;
		}
		address_failed(c, errno);
		return;
	}
}

/*
 * is_connected --- has connect() finished?  On failure the next address is up.
 */
static bool
is_connected(RedisConn *c)
{
	struct pollfd pfd = {.fd = c->sock,.events = POLLOUT};
	int			error = 0;
	socklen_t	len = sizeof(error);

	if (poll(&pfd, 1, 0) <= 0)
		return false;
	if (getsockopt(c->sock, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		error = errno;
	if (error != 0)
	{
		address_failed(c, error);
		return false;
	}
	return true;
}

/* ----------
 * Handshake
 * ----------
 */

/*
 * read_password --- into c->secret; false when the connection was failed
 *
 * Read anew for each connection, so that a changed file takes effect.
 */
static bool
read_password(RedisConn *c)
{
	const char *problem = NULL;
	struct stat st;
	char		buf[LR_SECRET_MAX + 2];
	ssize_t		len = 0;
	int			fd;

	fd = open(lr_password_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
	{
		int			error = errno;

		if (fd >= 0)
			(void) close(fd);
		redis_conn_fail(c, STORE_DOWN,
						ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
						"Could not open the password file: %s.",
						strerror(error));
		c->error.hint = gettext_noop("Check lockredis.password_file.");
		return false;
	}

	if (!S_ISREG(st.st_mode))
		problem = "The password file is not a regular file.";
	else if (st.st_uid != geteuid())
		problem = "The password file does not belong to the user of the database server.";
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		problem = "The password file has group or world access; it should have permissions u=rw (0600) or less.";
	else
	{
		len = read(fd, buf, sizeof(buf));
		if (len < 0)
			problem = "Could not read the password file.";
	}
	(void) close(fd);

	if (problem == NULL)
	{
		if (len > 0 && buf[len - 1] == '\n')
			len--;
		if (len > 0 && buf[len - 1] == '\r')
			len--;
		if (len == 0)
			problem = "The password file is empty.";
		else if (len >= LR_SECRET_MAX)
			problem = "The password in the password file is too long.";
		else if (memchr(buf, '\0', len) != NULL || memchr(buf, '\n', len) != NULL)
			problem = "The password file has more than one line.";
		else
		{
			memcpy(c->secret, buf, len);
			c->secret[len] = '\0';
		}
	}
	explicit_bzero(buf, sizeof(buf));

	if (problem != NULL)
	{
		redis_conn_fail(c, STORE_DOWN,
						ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
						"%s", problem);
		c->error.hint = gettext_noop("Check lockredis.password_file.");
		return false;
	}
	return true;
}

static void
greet(RedisConn *c, RedisGreeting greeting)
{
	Assert(c->ngreetings < REDIS_MAX_GREETINGS);
	c->greetings[c->ngreetings++] = greeting;
}

/*
 * start_handshake --- send who we are and ask what time it is, in one go
 */
static void
start_handshake(RedisConn *c)
{
	const RedisUrl *url = lr_redis_url;
	char		name[64];

	c->state = CONN_HANDSHAKE;
	c->ngreetings = c->next_greeting = 0;

	if (lr_password_file != NULL && lr_password_file[0] != '\0')
	{
		if (!read_password(c))
			return;
	}
	else
		strlcpy(c->secret, url->password, sizeof(c->secret));

	if (c->secret[0] != '\0' || url->user[0] != '\0')
	{
		redis_put_array(c, url->user[0] != '\0' ? 3 : 2);
		redis_put_text(c, "AUTH");
		if (url->user[0] != '\0')
			redis_put_text(c, url->user);
		redis_put_text(c, c->secret);
		greet(c, GREET_AUTH);
	}
	if (url->db != 0)
	{
		redis_put_array(c, 2);
		redis_put_text(c, "SELECT");
		redis_put_int(c, url->db);
		greet(c, GREET_SELECT);
	}

	snprintf(name, sizeof(name), "lockredis-%s-%d", c->role, MyProcPid);
	redis_put_array(c, 3);
	redis_put_text(c, "CLIENT");
	redis_put_text(c, "SETNAME");
	redis_put_text(c, name);
	greet(c, GREET_NAME);

	redis_put_array(c, 1);
	redis_put_text(c, "TIME");
	greet(c, GREET_TIME);

	if (c->probe)
	{
		static const char *const sections[] = {"server", "memory", "replication"};

		for (int i = 0; i < lengthof(sections); i++)
		{
			redis_put_array(c, 2);
			redis_put_text(c, "INFO");
			redis_put_text(c, sections[i]);
			greet(c, GREET_INFO);
		}
	}

	if (c->out_failed)
	{
		redis_conn_fail(c, STORE_DOWN, ERRCODE_OUT_OF_MEMORY,
						"Out of memory.");
		return;
	}
	c->greeted_at = lr_now();
	(void) redis_conn_flush(c);
}

/*
 * info_field --- the value of a field of INFO; false if it is not there
 */
static bool
info_field(const char *info, const char *field, char *out, size_t size)
{
	size_t		len = strlen(field);

	for (const char *line = info; line != NULL;)
	{
		if (strncmp(line, field, len) == 0 && line[len] == ':')
		{
			size_t		n = strcspn(line + len + 1, "\r\n");

			strlcpy(out, line + len + 1, Min(size, n + 1));
			for (char *p = out; *p; p++)
			{
				if (*p < 0x20 || *p > 0x7e)
					*p = '?';
			}
			return true;
		}
		line = strchr(line, '\n');
		if (line != NULL)
			line++;
	}
	return false;
}

static void
take_info(RedisConn *c, const char *info)
{
	char		value[32];

	if (info_field(info, "valkey_version", value, sizeof(value)))
		snprintf(c->version, sizeof(c->version), "Valkey %.20s", value);
	else if (info_field(info, "redis_version", value, sizeof(value)))
		strlcpy(c->version, value, sizeof(c->version));
	(void) info_field(info, "maxmemory_policy", c->policy, sizeof(c->policy));
	if (info_field(info, "role", value, sizeof(value)))
		c->replica = strcmp(value, "master") != 0;
}

void
redis_conn_take_info(RedisConn *c, const char *info)
{
	take_info(c, info);
	node_set_facts(NODE_REDIS, NULL, c->version, c->policy,
				   c->replica ? ROLE_REPLICA : ROLE_MASTER);
}

/*
 * handshake_error --- an error reply to one of the greetings
 *
 * The name of the connection and the facts are not worth failing for, unless
 * the node says that we have to authenticate.
 */
static void
handshake_error(RedisConn *c, RedisGreeting greeting)
{
	char		words[160];
	StoreOutcome outcome = redis_error_words(c->values, words, sizeof(words));
	bool		full = strstr(words, "max number of clients") != NULL;

	if (greeting == GREET_AUTH && !full && strncmp(words, "LOADING", 7) != 0)
		outcome = STORE_DENIED;
	if (greeting == GREET_NAME || greeting == GREET_INFO)
	{
		if (!full && strncmp(words, "NOAUTH", 6) != 0 &&
			strncmp(words, "DENIED", 6) != 0)
			return;
	}

	/* Some answer an unknown command by repeating it. */
	if (c->secret[0] != '\0' && strstr(c->values[0].str, c->secret) != NULL)
		strlcpy(words, "(not shown: it repeats the password)", sizeof(words));

	redis_conn_fail(c, outcome,
					outcome == STORE_DENIED ?
					ERRCODE_SQLSERVER_REJECTED_ESTABLISHMENT_OF_SQLCONNECTION :
					ERRCODE_CONNECTION_FAILURE,
					"The node answered: %s", words);
	if (outcome == STORE_DENIED)
		c->error.hint = strncmp(words, "NOPERM", 6) == 0 ? redis_rights_hint :
			gettext_noop("Check lockredis.url and lockredis.password_file.");
}

/*
 * take_greeting --- one reply of the handshake
 */
static void
take_greeting(RedisConn *c)
{
	RedisGreeting greeting = c->greetings[c->next_greeting++];
	const RedisValue *v = c->values;
	bool		good = true;
	int64		us;
	int64		now;

	if (v->type == REDIS_REPLY_ERROR)
	{
		handshake_error(c, greeting);
		if (c->state == CONN_CLOSED)
			return;
	}
	else
	{
		switch (greeting)
		{
			case GREET_AUTH:
			case GREET_SELECT:
			case GREET_NAME:
				good = v->type == REDIS_REPLY_STATUS;
				break;
			case GREET_TIME:
				good = redis_value_time(v, &us);
				if (!good)
					break;
				now = lr_now();
				redis_conn_set_clock(c, us, now);
				if (c->probe)
					node_set_round_trip(NODE_REDIS, now - c->greeted_at);
				break;
			case GREET_INFO:
				if (v->type == REDIS_REPLY_STRING)
					take_info(c, v->str);
				break;
		}
	}
	if (greeting == GREET_AUTH)
		explicit_bzero(c->secret, sizeof(c->secret));

	if (!good)
	{
		redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
						"The node's answer makes no sense in Redis's protocol.");
		return;
	}
	if (c->next_greeting == c->ngreetings)
	{
		if (c->reader->len > c->reader->pos)
		{
			sent_unasked(c);
			return;
		}
		c->state = CONN_READY;
		block_briefly(c);
		if (c->probe)
			node_set_facts(NODE_REDIS, c->error.address, c->version, c->policy,
						   c->replica ? ROLE_REPLICA : ROLE_MASTER);
	}
}

/*
 * redis_conn_advance --- go as far towards READY as is possible now
 */
void
redis_conn_advance(RedisConn *c)
{
	for (;;)
	{
		int64		now = lr_now();
		RedisConnState before;

		/* No password goes to where another lockredis.url pointed. */
		if ((c->state == CONN_PAUSED || c->state == CONN_CONNECTING) &&
			c->url_epoch != lr_url_epoch)
			redis_conn_open(c, c->connect_until);

		before = c->state;
		switch (c->state)
		{
			case CONN_CLOSED:
			case CONN_READY:
				return;

			case CONN_PAUSED:
				if (now >= c->connect_until)
				{
					if (c->addresses.count == 0 && c->addresses.error[0])
						redis_conn_fail(c, STORE_DOWN,
										ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
										"Could not resolve the host name in lockredis.url: %s.",
										c->addresses.error);
					else if (c->addresses.count == 0)
						redis_conn_fail(c, STORE_DOWN,
										ERRCODE_SQLCLIENT_UNABLE_TO_ESTABLISH_SQLCONNECTION,
										"The host name in lockredis.url could not be resolved in time.");
					else
					{
						c->next_address = c->addresses.count;
						address_failed(c, ETIMEDOUT);
					}
					return;
				}
				if (now < c->pause_until)
					return;
				if (c->addresses.count == 0 && !find_addresses(c))
				{
					c->pause_until = now + RESOLVE_POLL;
					return;
				}
				start_address(c, now);
				if (c->state == CONN_PAUSED && c->pause_until > now)
					return;
				break;

			case CONN_CONNECTING:
				if (is_connected(c))
					start_handshake(c);
				else if (c->state == CONN_CONNECTING)
				{
					if (now < c->address_until)
						return;
					address_failed(c, ETIMEDOUT);
				}
				break;

			case CONN_HANDSHAKE:
				{
					RedisRead	got;

					if (!redis_conn_flush(c))
						return;
					do
					{
						got = redis_conn_receive(c);
						while (c->state == CONN_HANDSHAKE && redis_conn_reply(c))
							take_greeting(c);
					} while (got == REDIS_READ_FULL &&
							 c->state == CONN_HANDSHAKE);
					if (c->state == CONN_HANDSHAKE && now >= c->connect_until)
						connect_timed_out(c, "The node accepted the connection but did not answer in time.");
				}
				if (c->state == before)
					return;
				break;
		}
	}
}

uint32
redis_conn_events(const RedisConn *c)
{
	uint32		events = 0;

	switch (c->state)
	{
		case CONN_CLOSED:
		case CONN_PAUSED:
			break;
		case CONN_CONNECTING:
			events = WL_SOCKET_WRITEABLE;
			break;
		case CONN_HANDSHAKE:
		case CONN_READY:
			events = WL_SOCKET_READABLE;
			if (c->out_pos < c->out_len)
				events |= WL_SOCKET_WRITEABLE;
			break;
	}
	return events;
}

int64
redis_conn_until(const RedisConn *c)
{
	switch (c->state)
	{
		case CONN_PAUSED:
			return Min(c->pause_until, c->connect_until);
		case CONN_CONNECTING:
			return Min(c->address_until, c->connect_until);
		case CONN_HANDSHAKE:
			return c->connect_until;
		case CONN_CLOSED:
		case CONN_READY:
			break;
	}
	return LR_NEVER;
}

/* ----------
 * Bytes
 * ----------
 */

static ssize_t
conn_recv(RedisConn *c, char *buf, size_t len)
{
	ssize_t		n;

	do
		n = recv(c->sock, buf, len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * conn_recv_soon --- the same, after waiting for a short time
 *
 * A signal ends the wait: with a time limit on the socket recv() is never
 * restarted.  One that comes right before it costs that time at most.
 */
static ssize_t
conn_recv_soon(RedisConn *c, char *buf, size_t len)
{
	ssize_t		n;
	int			error;

	pgstat_report_wait_start(LR_WAIT_REPLY);
	n = recv(c->sock, buf, len, 0);
	error = errno;
	pgstat_report_wait_end();
	errno = error == EINTR ? EAGAIN : error;
	return n;
}

static ssize_t
conn_send(RedisConn *c, const char *buf, size_t len)
{
	ssize_t		n;

	do
		n = send(c->sock, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n;
}

/*
 * connection_lost --- the node has ended the connection
 *
 * Servers that expect TLS, and others that do not understand what we say,
 * often just do that.
 */
static void
connection_lost(RedisConn *c, int error)
{
	if (c->state == CONN_HANDSHAKE)
		ask_for_addresses(c);
	if (c->state == CONN_HANDSHAKE && c->first_byte == 0)
		redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
						"The node closed the connection without an answer: it may expect TLS, or be no Redis server.");
	else if (error == 0)
		redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
						"The node closed the connection.");
	else
		redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE,
						"The connection to the node was lost: %s.",
						strerror(error));
}

/*
 * redis_conn_check --- is this idle connection still good?
 *
 * Nothing to read is what a good one looks like.
 */
bool
redis_conn_check(RedisConn *c)
{
	char		byte;
	ssize_t		n;

	/* Part of a reply too many may have been read already. */
	if (c->reader->len > c->reader->pos)
		n = 1;
	else
		n = conn_recv(c, &byte, 1);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return true;
	if (n > 0)
		sent_unasked(c);
	else
		connection_lost(c, n < 0 ? errno : 0);
	return false;
}

/*
 * redis_conn_room --- make room for "size" more bytes; false without memory
 */
bool
redis_conn_room(RedisConn *c, size_t size)
{
	size_t		wanted;
	char	   *larger;

	if (c->out_size - c->out_len >= size)
		return true;

	if (c->out_pos > 0)
	{
		memmove(c->out, c->out + c->out_pos, c->out_len - c->out_pos);
		c->out_len -= c->out_pos;
		c->out_pos = 0;
		if (c->out_size - c->out_len >= size)
			return true;
	}

	wanted = c->out_size;
	while (wanted - c->out_len < size)
		wanted *= 2;
	larger = realloc(c->out, wanted);
	if (larger == NULL)
		return false;
	c->out = larger;
	c->out_size = wanted;
	return true;
}

/* Room for a type byte, a 64 bit number and the end of the line. */
#define HEADER_MAX	24

static char *
put_header(char *p, char type, uint64 value)
{
	*p++ = type;
	p += pg_ulltoa_n(value, p);
	*p++ = '\r';
	*p++ = '\n';
	return p;
}

void
redis_put_array(RedisConn *c, int n)
{
	char	   *start;
	char	   *p;

	if (c->out_failed || !redis_conn_room(c, HEADER_MAX))
	{
		c->out_failed = true;
		return;
	}
	start = c->out + c->out_len;
	p = put_header(start, '*', n);
	c->out_len += p - start;
	c->bytes_put += p - start;
}

void
redis_put_bulk(RedisConn *c, const char *data, size_t len)
{
	char	   *start;
	char	   *p;

	if (c->out_failed || !redis_conn_room(c, len + HEADER_MAX + 2))
	{
		c->out_failed = true;
		return;
	}
	start = c->out + c->out_len;
	p = put_header(start, '$', len);
	memcpy(p, data, len);
	p += len;
	*p++ = '\r';
	*p++ = '\n';
	c->out_len += p - start;
	c->bytes_put += p - start;
}

void
redis_put_text(RedisConn *c, const char *text)
{
	redis_put_bulk(c, text, strlen(text));
}

void
redis_put_int(RedisConn *c, int64 value)
{
	char		buf[32];

	redis_put_bulk(c, buf, pg_lltoa(value, buf));
}

/*
 * redis_conn_unput --- take back what was put since bytes_put was that
 *
 * Only for what cannot have been sent yet.
 */
void
redis_conn_unput(RedisConn *c, uint64 bytes_put)
{
	Assert(bytes_put >= c->bytes_sent);
	c->out_len -= c->bytes_put - bytes_put;
	c->bytes_put = bytes_put;
	c->out_failed = false;
}

/*
 * redis_conn_flush --- send what the kernel takes; false if that closed it
 */
bool
redis_conn_flush(RedisConn *c)
{
	while (c->out_pos < c->out_len)
	{
		ssize_t		n = conn_send(c, c->out + c->out_pos, c->out_len - c->out_pos);

		if (n < 0)
		{
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				return true;
			connection_lost(c, errno);
			return false;
		}
		c->out_pos += n;
		c->bytes_sent += n;
	}

	/* The handshake had the password in it. */
	if (c->state == CONN_HANDSHAKE)
		explicit_bzero(c->out, c->out_len);
	c->out_pos = c->out_len = 0;
	return true;
}

/*
 * protocol_failed --- the peer does not speak as Redis does
 */
static void
protocol_failed(RedisConn *c)
{
	const char *what = "The node's answer is not in Redis's protocol.";

	if (!c->understood && (c->first_byte == 'H' || c->first_byte == '<'))
		what = "The node's answer is not in Redis's protocol: it seems to be an HTTP server.";
	else if (!c->understood && (c->first_byte == 0x15 || c->first_byte == 0x16))
		what = "The node's answer is not in Redis's protocol: it seems to expect TLS.";
	c->garbled = true;
	ask_for_addresses(c);
	redis_conn_fail(c, STORE_DOWN, ERRCODE_CONNECTION_FAILURE, "%s", what);
}

/*
 * redis_conn_receive --- read once
 *
 * After REDIS_READ_FULL take the replies before the next call: that is what
 * bounds the memory.
 */
RedisRead
redis_conn_receive(RedisConn *c)
{
	char		buf[RECEIVE_CHUNK];
	ssize_t		n = c->wait_briefly ? conn_recv_soon(c, buf, sizeof(buf)) :
		conn_recv(c, buf, sizeof(buf));

	c->wait_briefly = false;
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return REDIS_READ_NOTHING;
	if (n <= 0)
	{
		connection_lost(c, n < 0 ? errno : 0);
		return REDIS_READ_LOST;
	}

	if (!c->understood && c->first_byte == 0)
		c->first_byte = (unsigned char) buf[0];
	if (redisReaderFeed(c->reader, buf, n) != REDIS_OK)
	{
		protocol_failed(c);
		return REDIS_READ_LOST;
	}
	return n == sizeof(buf) ? REDIS_READ_FULL : REDIS_READ_SOME;
}

/*
 * redis_conn_reply --- parse the next reply into c->values
 *
 * False: none is complete, or the connection was closed because what came is
 * no reply.
 */
bool
redis_conn_reply(RedisConn *c)
{
	void	   *reply = NULL;

	if (c->state == CONN_CLOSED)
		return false;
	if (redisReaderGetReply(c->reader, &reply) != REDIS_OK)
	{
		protocol_failed(c);
		return false;
	}
	if (reply == NULL)
	{
		if (c->reader->len - c->reader->pos > REDIS_MAX_UNPARSED)
			protocol_failed(c);
		return false;
	}
	if (reply != &c->values[0] ||
		(c->values[0].type == REDIS_REPLY_ARRAY &&
		 c->nvalues != 1 + c->values[0].elements))
	{
		/* A type of RESP3. */
		protocol_failed(c);
		return false;
	}
	c->understood = true;
	return true;
}

/* ----------
 * What replies mean
 * ----------
 */

/*
 * redis_value_time --- the reply of TIME in microseconds
 */
bool
redis_value_time(const RedisValue *v, int64 *us)
{
	int64		parts[2];

	if (v->type != REDIS_REPLY_ARRAY || v->elements != 2)
		return false;
	for (int i = 0; i < 2; i++)
	{
		char	   *end;

		if (v[1 + i].type != REDIS_REPLY_STRING || v[1 + i].len == 0)
			return false;
		errno = 0;
		parts[i] = strtoi64(v[1 + i].str, &end, 10);
		if (*end != '\0' || errno != 0)
			return false;
	}
	/* Up to the year 9999, so that sums cannot overflow. */
	if (parts[0] < 0 || parts[0] > INT64CONST(253402300799) ||
		parts[1] < 0 || parts[1] >= LR_US_PER_S)
		return false;
	*us = parts[0] * LR_US_PER_S + parts[1];
	return true;
}

/*
 * redis_conn_set_clock --- the node's clock was "us" at "read_at" or before
 *
 * Taken as read at that moment.  So the node's clock is never thought to be
 * further than it is, and a request limited by it never runs too late; the
 * error the other way is at most the time that the reply was under way.
 */
void
redis_conn_set_clock(RedisConn *c, int64 us, int64 read_at)
{
	c->clock_offset = us - read_at;
	c->has_clock = true;
}

/*
 * inner_words --- the words of an error inside a script
 *
 * Each version of Redis wraps them differently: in front of them with the
 * place in the script, once or twice, or behind them with that and the digest.
 * Returns where they begin, and their length.
 */
static const char *
inner_words(const char *words, int *len)
{
	static const char place[] = "@user_script:";

	for (const char *p = words; (p = strstr(p, place)) != NULL;)
	{
		p += sizeof(place) - 1;
		p += strspn(p, " ");
		p += strspn(p, "0123456789");
		if (strncmp(p, ": ", 2) == 0 && p[2] != '\0')
			words = p + 2;
	}
	if (*words == '-')
		words++;

	*len = strcspn(words, "\r\n");
	if (strstr(words, ", on @user_script") != NULL)
	{
		for (const char *p = words; (p = strstr(p, " script: ")) != NULL; p++)
			*len = p - words;
	}
	return words;
}

/*
 * hide_user --- take the name of the user out of the node's words
 *
 * As in "User bob has no permissions".
 */
static void
hide_user(char *words)
{
	const char *user = lr_redis_url->user;
	char	   *p = strstr(words, "User ");
	size_t		len = strlen(user);

	if (p == NULL || len == 0)
		return;
	p += strlen("User ");
	if (strncmp(p, user, len) == 0 && p[len] == ' ')
		memmove(p, p + len + 1, strlen(p + len + 1) + 1);
}

const char *const redis_rights_hint =
gettext_noop("The user of Redis lacks a right: the command ACL LOG shows there which one, and docs/acl.md lists those that are needed.");

/*
 * redis_error_words --- an error reply, fit to be shown, and what it means
 */
StoreOutcome
redis_error_words(const RedisValue *value, char *out, size_t size)
{
	/* The last ones are about a command inside a script. */
	static const char *const denials[] = {
		"NOAUTH", "WRONGPASS", "NOPERM", "DENIED", "ERR invalid password",
		"ERR ACL failure", "ERR The user executing the script can't",
		"The user executing the script can't"
	};
	int			len;
	const char *words = inner_words(value->str, &len);
	char	   *p;

	strlcpy(out, words, Min(size, (size_t) len + 1));
	for (p = out; *p; p++)
	{
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	}
	hide_user(out);

	/* What others see too must not name our keys. */
	p = strstr(out, ", with args beginning with");
	if (p != NULL)
		*p = '\0';

	/* A node of a cluster says where to go: no address for everybody. */
	if (strncmp(out, "MOVED ", 6) == 0 || strncmp(out, "ASK ", 4) == 0)
	{
		char	   *slot = strchr(out, ' ') + 1;

		slot[strcspn(slot, " ")] = '\0';
	}

	for (int i = 0; i < lengthof(denials); i++)
	{
		if (strncmp(out, denials[i], strlen(denials[i])) == 0)
			return STORE_DENIED;
	}
	return STORE_REFUSED;
}
