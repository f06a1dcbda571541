/*-------------------------------------------------------------------------
 *
 * bare_hiredis.c
 *	  What a pair of lock and unlock costs with nothing but hiredis.
 *
 * Runs the extension's own create and release scripts in a loop on one
 * blocking connection: two commands and two round trips a pair, and no check
 * that a real client would leave out.  test/bench/pair compares with it.
 * Prints one line for each line read from standard input, so that rounds can
 * be interleaved with those of others on a warm connection:
 *
 *	  N				run N pairs; prints "SECONDS CPU_SECONDS"
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/bench/bare_hiredis.c
 *
 *-------------------------------------------------------------------------
 */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define OWNER_UUID	"6f1c1f6e-0b0f-4c0e-9a3b-5d8a1c2e7f40"
#define LEASE		"30000"
#define MAX_ARGS	12

static redisContext *conn;

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

static redisReply *
command(int argc, const char **argv)
{
	size_t		lengths[MAX_ARGS];
	redisReply *reply;

	for (int i = 0; i < argc; i++)
		lengths[i] = strlen(argv[i]);
	reply = redisCommandArgv(conn, argc, argv, lengths);
	if (reply == NULL)
		die("%s", conn->errstr);
	if (reply->type == REDIS_REPLY_ERROR)
		die("%s", reply->str);
	return reply;
}

/* Load a script of src/lua and remember its digest. */
static void
load_script(const char *dir, const char *name, char *sha1)
{
	char		path[1024];
	char		text[16384];
	const char *argv[] = {"SCRIPT", "LOAD", text};
	size_t		len;
	FILE	   *file;
	redisReply *reply;

	snprintf(path, sizeof(path), "%s/%s.lua", dir, name);
	file = fopen(path, "r");
	if (file == NULL)
		die("could not open \"%s\"", path);
	len = fread(text, 1, sizeof(text) - 1, file);
	if (len == sizeof(text) - 1)
		die("\"%s\" is too long", path);
	text[len] = '\0';
	fclose(file);

	reply = command(3, argv);
	if (reply->type != REDIS_REPLY_STRING || reply->len != 40)
		die("unexpected reply to SCRIPT LOAD");
	memcpy(sha1, reply->str, 41);
	freeReplyObject(reply);
}

static long long
first_integer(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
		reply->element[0]->type != REDIS_REPLY_INTEGER)
		die("unexpected reply");
	return reply->element[0]->integer;
}

static void
run_pair(const char *create, const char *release, const char *key,
		 const char *channel)
{
	static unsigned long long number = 0;
	char		owner[80];
	char		not_after[32];
	const char *create_argv[] = {"EVALSHA", create, "1", key, LEASE, owner,
	not_after};
	const char *release_argv[] = {"EVALSHA", release, "2", key, channel,
	"PUBLISH", "0", owner, "0"};
	redisReply *reply;

	snprintf(owner, sizeof(owner), "%s:%llu", OWNER_UUID, ++number);
	snprintf(not_after, sizeof(not_after), "%lld",
			 (long long) (seconds_of(CLOCK_REALTIME) * 1000) + 60000);

	reply = command(7, create_argv);
	if (first_integer(reply) != 0)
		die("the lock is not free");
	freeReplyObject(reply);

	reply = command(9, release_argv);
	if (first_integer(reply) < 0)
		die("the lock was lost");
	freeReplyObject(reply);
}

int
main(int argc, char **argv)
{
	const char *key = "bare";
	const char *dir = "src/lua";
	const char *host = "127.0.0.1";
	const char *socket_path = NULL;
	int			port = 6379;
	char		channel[512];
	char		create[41];
	char		release[41];
	char		line[64];
	int			opt;

	while ((opt = getopt(argc, argv, "d:h:k:p:s:")) != -1)
	{
		switch (opt)
		{
			case 'd':
				dir = optarg;
				break;
			case 'h':
				host = optarg;
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
				fprintf(stderr, "usage: bare_hiredis [-h host] [-p port] "
						"[-s socket] [-k key] [-d directory of scripts]\n");
				return 2;
		}
	}

	conn = socket_path ? redisConnectUnix(socket_path) :
		redisConnect(host, port);
	if (conn == NULL || conn->err)
		die("could not connect: %s", conn ? conn->errstr : "out of memory");

	load_script(dir, "create", create);
	load_script(dir, "release", release);
	snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", key);

	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		long		pairs = strtol(line, NULL, 10);
		double		wall = seconds_of(CLOCK_MONOTONIC);
		double		cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

		if (pairs <= 0)
			die("how many pairs?");
		for (long i = 0; i < pairs; i++)
			run_pair(create, release, key, channel);
		printf("%.6f %.6f\n", seconds_of(CLOCK_MONOTONIC) - wall,
			   seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
		fflush(stdout);
	}

	redisFree(conn);
	return 0;
}
