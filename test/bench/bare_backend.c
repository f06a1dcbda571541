/*-------------------------------------------------------------------------
 *
 * bare_backend.c
 *	  The least that a backend can do for a lock in Redis.
 *
 *	  SELECT bare_lock(PORT, KEY);
 *	  SELECT bare_unlock(PORT, KEY);
 *
 * Each is one send and one blocking read on the session's own connection, and
 * runs a script that is as short as Redisson's semantics allow: it counts
 * re-entries, sets the lease, and announces the release.  Nothing is renewed,
 * waited for, cleaned up or shared, so no extension that asks Redis from a
 * statement can be faster than this.  A lock that somebody else has is an error.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/bench/bare_backend.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bare_lock);
PG_FUNCTION_INFO_V1(bare_unlock);

#define SHA1_LEN	40

static const char *const lock_script =
"if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
"redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return 1 end "
"return -1";
static const char *const unlock_script =
"if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return -1 end "
"if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then return 1 end "
"redis.call('del', KEYS[1]) redis.call('publish', ARGV[1], '0') return 1";

static int	sock = -1;
static char lock_sha1[SHA1_LEN + 1];
static char unlock_sha1[SHA1_LEN + 1];

/*
 * ask --- send a command, and read the answer, which has to fit and to come in one piece
 */
static void
ask(const char *request, int len, char *answer, int size)
{
	int			got;

	if (send(sock, request, len, 0) != len)
		ereport(ERROR, (errmsg("could not send to Redis: %m")));
	got = recv(sock, answer, size - 1, 0);
	if (got <= 0)
		ereport(ERROR, (errmsg("could not receive from Redis: %m")));
	answer[got] = '\0';
	if (answer[0] == '-' || answer[1] == '-')
		ereport(ERROR, (errmsg("Redis said: %s", answer)));
}

static void
load(const char *script, char *sha1)
{
	char		request[1024];
	char		answer[256];
	int			len = snprintf(request, sizeof(request),
							   "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%zu\r\n%s\r\n",
							   strlen(script), script);

	ask(request, len, answer, sizeof(answer));
	strlcpy(sha1, answer + strlen("$40\r\n"), SHA1_LEN + 1);
}

static void
connect_once(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int			one = 1;

	if (sock >= 0)
		return;
	sock = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_port = htons(port);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (connect(sock, (struct sockaddr *) &address, sizeof(address)) != 0 ||
		setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0)
		ereport(ERROR, (errmsg("could not connect to Redis: %m")));
	load(lock_script, lock_sha1);
	load(unlock_script, unlock_sha1);
}

/*
 * run --- run a script for a key; "what" is its first argument
 */
static void
run(const char *sha1, const char *key, const char *what)
{
	char		request[2048];
	char		answer[256];
	char		owner[64];
	int			len;

	snprintf(owner, sizeof(owner), "6f1c1f6e-0b0f-4c0e-9a3b-5d8a1c2e7f40:%d", MyProcPid);
	len = snprintf(request, sizeof(request),
				   "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n"
				   "$%zu\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
				   sha1, strlen(key), key, strlen(what), what, strlen(owner), owner);
	ask(request, len, answer, sizeof(answer));
}

Datum
bare_lock(PG_FUNCTION_ARGS)
{
	connect_once(PG_GETARG_INT32(0));
	run(lock_sha1, text_to_cstring(PG_GETARG_TEXT_PP(1)), "30000");
	PG_RETURN_VOID();
}

Datum
bare_unlock(PG_FUNCTION_ARGS)
{
	char	   *key = text_to_cstring(PG_GETARG_TEXT_PP(1));
	char		channel[512];

	connect_once(PG_GETARG_INT32(0));
	snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", key);
	run(unlock_sha1, key, channel);
	PG_RETURN_VOID();
}
