/*-------------------------------------------------------------------------
 *
 * bare_hiredis.c
 *	  What a pair of lock and unlock costs with nothing but hiredis.
 *
 * Runs the extension's own create and release scripts in a loop on blocking
 * connections: two commands and two round trips a pair, and no check that a
 * real client would leave out.  A lock that is taken is asked for again at
 * once.  Each client is a thread with a connection of its own.
 *
 * Besides the requests of client.h it answers
 *
 *	  N				run N pairs; "SECONDS CPU_SECONDS" (test/bench/pair)
 *	  ping PORT N	the median round trip of N times PING, in nanoseconds
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/bench/bare_hiredis.c
 *
 *-------------------------------------------------------------------------
 */
#include <hiredis/hiredis.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "client.h"

#define OWNER_UUID	"6f1c1f6e-0b0f-4c0e-9a3b-5d8a1c2e7f40"
#define LEASE		"30000"
#define MAX_ARGS	12
#define MAX_CLIENTS	128
#define MAX_PORTS	8
#define SHA1_LEN	40

typedef struct Connection
{
	redisContext *redis;
	SSL		   *tls;			/* NULL: in the clear */
} Connection;

typedef struct Server
{
	int			port;
	Connection *conn[MAX_CLIENTS];
} Server;

typedef struct Thread
{
	pthread_t	id;
	Connection *conn;
	const char *prefix;
	Client		client;
} Thread;

typedef struct Script
{
	const char *name;
	const char *text;
} Script;

static const Script scripts[] = {
#include "../../src/store/redis/lua_texts.h"
};

static Server servers[MAX_PORTS];
static Thread threads[MAX_CLIENTS];
static const char *socket_path;
static SSL_CTX *tls_context;	/* NULL: in the clear */
static char create_sha1[SHA1_LEN + 1];
static char release_sha1[SHA1_LEN + 1];

static void
die(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fputs("bare_hiredis: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

static double
seconds_of(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* As hiredis_ssl reads and writes, which hiredis has from 1.0 on. */
static redisReply *
tls_command(Connection *conn, int argc, const char **argv,
			const size_t *lengths)
{
	char		buf[16384];
	char	   *text;
	int			len = redisFormatCommandArgv(&text, argc, argv, lengths);
	void	   *reply = NULL;

	if (len < 0 || SSL_write(conn->tls, text, len) != len)
		die("could not write");
	redisFreeCommand(text);
	for (;;)
	{
		if (redisReaderGetReply(conn->redis->reader, &reply) != REDIS_OK)
			die("%s", conn->redis->reader->errstr);
		if (reply != NULL)
			return reply;
		len = SSL_read(conn->tls, buf, sizeof(buf));
		if (len <= 0)
			die("could not read");
		redisReaderFeed(conn->redis->reader, buf, len);
	}
}

static redisReply *
command(Connection *conn, int argc, const char **argv)
{
	size_t		lengths[MAX_ARGS];
	redisReply *reply;

	for (int i = 0; i < argc; i++)
		lengths[i] = strlen(argv[i]);
	reply = conn->tls ? tls_command(conn, argc, argv, lengths) :
		redisCommandArgv(conn->redis, argc, argv, lengths);
	if (reply == NULL)
		die("%s", conn->redis->errstr);
	if (reply->type == REDIS_REPLY_ERROR)
		die("%s", reply->str);
	return reply;
}

/* Load a script of the reentrant lock and remember its digest. */
static void
load_script(Connection *conn, const char *name, char *sha1)
{
	const char *argv[] = {"SCRIPT", "LOAD", NULL};
	redisReply *reply;

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
		if (strcmp(scripts[i].name, name) == 0)
			argv[2] = scripts[i].text;
	if (argv[2] == NULL)
		die("there is no script \"%s\"", name);
	reply = command(conn, 3, argv);
	if (reply->type != REDIS_REPLY_STRING || reply->len != SHA1_LEN)
		die("unexpected reply to SCRIPT LOAD");
	memcpy(sha1, reply->str, SHA1_LEN + 1);
	freeReplyObject(reply);
}

static Connection *
connect_to(int port)
{
	Connection *conn = calloc(1, sizeof(Connection));
	redisContext *redis = socket_path ? redisConnectUnix(socket_path) :
		redisConnect("127.0.0.1", port);

	if (conn == NULL || redis == NULL || redis->err)
		die("could not connect: %s", redis ? redis->errstr : "out of memory");
	conn->redis = redis;
	if (tls_context != NULL)
	{
		conn->tls = SSL_new(tls_context);
		if (conn->tls == NULL || SSL_set_fd(conn->tls, redis->fd) != 1 ||
			SSL_connect(conn->tls) != 1)
			die("could not connect with TLS");
	}
	return conn;
}

static void
use_tls(const char *ca_file)
{
	tls_context = SSL_CTX_new(TLS_client_method());
	if (tls_context == NULL ||
		SSL_CTX_load_verify_locations(tls_context, ca_file, NULL) != 1)
		die("could not use \"%s\"", ca_file);
	SSL_CTX_set_verify(tls_context, SSL_VERIFY_PEER, NULL);
}

/* The connection of a client to a port, made when it is first used. */
static Connection *
connection(int port, int client)
{
	Server	   *server = servers;

	while (server->port != 0 && server->port != port)
	{
		if (++server == servers + MAX_PORTS)
			die("too many ports");
	}
	if (client >= MAX_CLIENTS)
		die("too many clients");
	server->port = port;
	if (server->conn[client] == NULL)
	{
		Connection *conn = connect_to(port);

		load_script(conn, "reentrant create", create_sha1);
		load_script(conn, "reentrant release", release_sha1);
		server->conn[client] = conn;
	}
	return server->conn[client];
}

/*
 * A script has done what it is for if a number is the answer.  Else the array's first
 * element, also a number, says why it has not.
 */
static bool
is_done(redisReply *reply, long long *why_not)
{
	bool		done = reply->type == REDIS_REPLY_INTEGER;

	if (!done && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
				  reply->element[0]->type != REDIS_REPLY_INTEGER))
		die("unexpected reply");
	*why_not = done ? 0 : reply->element[0]->integer;
	freeReplyObject(reply);
	return done;
}

/* False: somebody else has it. */
static bool
take(Connection *conn, const char *key, const char *owner)
{
	char		not_after[32];
	const char *argv[] = {"EVALSHA", create_sha1, "1", key, LEASE, owner,
	not_after};
	long long	why_not;

	snprintf(not_after, sizeof(not_after), "%lld",
			 (long long) (seconds_of(CLOCK_REALTIME) * 1000) + 60000);
	if (is_done(command(conn, 7, argv), &why_not))
		return true;
	if (why_not != 1)
		die("the lock cannot be taken");
	return false;
}

static void
give_back(Connection *conn, const char *key, const char *owner)
{
	char		channel[512];
	const char *argv[] = {"EVALSHA", release_sha1, "1", key, owner, channel};
	long long	why_not;

	snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", key);
	if (!is_done(command(conn, 6, argv), &why_not))
		die("the lock was lost");
}

static void
next_owner(char *owner, size_t size, int client)
{
	static __thread unsigned long long number = 0;

	snprintf(owner, size, OWNER_UUID ":%d%012llu", client + 1, ++number);
}

static void *
work(void *arg)
{
	Thread	   *thread = arg;
	Client	   *client = &thread->client;
	char		owner[96];
	char		key[256];

	while (client_next(client))
	{
		if (client->mode == KEY_HOT)
			snprintf(key, sizeof(key), "%s", thread->prefix);
		else
			snprintf(key, sizeof(key), "%s:%d", thread->prefix, client->key);
		next_owner(owner, sizeof(owner), client->number);
		while (!take(thread->conn, key, owner))
			;
		client_locked(client);
		client_unlocking(client);
		give_back(thread->conn, key, owner);
	}
	return NULL;
}

static void
run_clients(Board *board, const char *line)
{
	static char text[HISTOGRAM_TEXT];
	static Client sum;
	char		kind[16];
	char		prefix[128];
	char		mode[16];
	int			port;
	int			clients;
	int			base;
	long long	start;
	long long	until;
	long long	hold;
	long long	pause;

	if (board == NULL)
		die("started without a board");
	if (sscanf(line, "run %d %d %15s %d %lld %lld %127s %15s %lld %lld",
			   &port, &clients, kind, &base, &start, &until, prefix, mode,
			   &hold, &pause) != 10)
		die("unknown request: %s", line);

	for (int i = 0; i < clients; i++)
	{
		Client	   *client = &threads[i].client;

		threads[i].conn = connection(port, i);
		threads[i].prefix = prefix;
		memset(client, 0, sizeof(Client));
		client->board = board;
		client->number = base + i;
		client->start = start;
		client->until = until;
		client->hold_ns = hold * 1000;
		client->pause_ns = pause * 1000;
		if (!client_set_mode(client, mode))
			die("unknown mode: %s", mode);
	}
	for (int i = 0; i < clients; i++)
	{
		if (pthread_create(&threads[i].id, NULL, work, &threads[i]) != 0)
			die("could not create a thread");
	}
	memset(&sum, 0, sizeof(sum));
	for (int i = 0; i < clients; i++)
	{
		Client	   *client = &threads[i].client;

		pthread_join(threads[i].id, NULL);
		sum.pairs += client->pairs;
		sum.steps += client->steps;
		histogram_merge(&sum.lock, &client->lock);
		histogram_merge(&sum.pair, &client->pair);
		histogram_merge(&sum.wake, &client->wake);
	}
	printf("ok %lld %lld 0", (long long) sum.pairs, (long long) sum.steps);
	fputs(histogram_text(&sum.lock, text), stdout);
	fputs(histogram_text(&sum.pair, text), stdout);
	puts(histogram_text(&sum.wake, text));
}

static void
run_pairs(Connection *conn, const char *key, long pairs)
{
	double		wall = seconds_of(CLOCK_MONOTONIC);
	double		cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

	for (long i = 0; i < pairs; i++)
	{
		char		owner[96];

		next_owner(owner, sizeof(owner), 0);
		if (!take(conn, key, owner))
			die("the lock is not free");
		give_back(conn, key, owner);
	}
	printf("%.6f %.6f\n", seconds_of(CLOCK_MONOTONIC) - wall,
		   seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

static int
compare(const void *a, const void *b)
{
	int64_t		x = *(const int64_t *) a;
	int64_t		y = *(const int64_t *) b;

	return (x > y) - (x < y);
}

static void
run_pings(const char *line)
{
	static int64_t taken[10000];
	const char *argv[] = {"PING"};
	int			port;
	int			times;

	if (sscanf(line, "ping %d %d", &port, &times) != 2 || times < 1 ||
		times > (int) (sizeof(taken) / sizeof(taken[0])))
		die("unknown request: %s", line);
	for (int i = 0; i < times; i++)
	{
		Connection *conn = connection(port, 0);
		int64_t		begin = bench_now();

		freeReplyObject(command(conn, 1, argv));
		taken[i] = bench_now() - begin;
	}
	qsort(taken, times, sizeof(taken[0]), compare);
	printf("%lld\n", (long long) taken[times / 2]);
}

int
main(int argc, char **argv)
{
	Board	   *board = NULL;
	const char *key = "bare";
	char		line[512];
	int			port = 6379;
	int			opt;

	while ((opt = getopt(argc, argv, "b:c:k:p:s:")) != -1)
	{
		switch (opt)
		{
			case 'b':
				board = bench_map_board(optarg);
				if (board == NULL)
					die("could not map \"%s\"", optarg);
				break;
			case 'c':
				use_tls(optarg);
				break;
			case 'k':
				key = optarg;
				break;
			case 'p':
				port = atoi(optarg);
				break;
			case 's':
				socket_path = optarg;
				break;
			default:
				fprintf(stderr, "usage: bare_hiredis [-p port] [-s socket] [-c CA for TLS] "
						"[-k key] [-b board]\n");
				return 2;
		}
	}

	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		long		pairs = strtol(line, NULL, 10);

		if (strncmp(line, "run ", 4) == 0)
			run_clients(board, line);
		else if (strncmp(line, "ping ", 5) == 0)
			run_pings(line);
		else if (pairs > 0)
			run_pairs(connection(port, 0), key, pairs);
		else
			die("unknown request: %s", line);
		fflush(stdout);
	}
	return 0;
}
