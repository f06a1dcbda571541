/*-------------------------------------------------------------------------
 *
 * url.c
 *	  Fuzzer of the parser of lockredis.url.
 *
 *		url [SEED [CASES]]
 *
 * Linked with src/store/redis/url.c and PostgreSQL's libpgport, with the address and
 * undefined-behaviour sanitizers.  Half of the cases are texts: a good URL
 * that was cut, spliced and flipped, in a block of memory that ends where the
 * text does.  For each of them holds what the header of the parser promises.
 * The other half are URLs put together from parts; those have to come out of
 * the parser again, or be refused if one of the parts was bad.
 *
 * Ends with status 1, and the URL, at the first one that fails.
 *
 * With -DGUIDED it is a target of test/fuzz/guided: the first half, driven by coverage.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/url.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <limits.h>

#include "store/redis/url.h"

#define TEXT_MAX	2048
#define SECRET		"Tr0ub4dor"

static uint64 state;
static const char *current = "";

static uint32
any(uint32 n)
{
	state = state * UINT64CONST(6364136223846793005) + UINT64CONST(1442695040888963407);
	return (uint32) ((state >> 33) % n);
}

#define PICK(list)	((list)[any(lengthof(list))])

static void
fail(const char *what)
{
	fprintf(stderr, "url: %s: \"", what);
	for (const unsigned char *p = (const unsigned char *) current; *p; p++)
		fprintf(stderr, *p >= 0x20 && *p < 0x7f ? "%c" : "\\x%02x", *p);
	fprintf(stderr, "\"\n");
	abort();
}

static void
must(bool condition, const char *what)
{
	if (!condition)
		fail(what);
}

static bool
is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static void
check_host(const char *host, int port)
{
	must(is_terminated(host, LR_HOST_MAX) && host[0] != '\0', "no host");
	must(port >= 1 && port <= 65535, "no port");
}

static void
check_sentinels(const RedisUrl *url)
{
	must(url->nhosts <= LR_MAX_SENTINELS, "too many Sentinels");
	for (int i = 0; i < url->nhosts; i++)
		check_host(url->hosts[i].host, url->hosts[i].port);
	must(is_terminated(url->service, sizeof(url->service)) &&
		 url->service[0] != '\0', "no service");
	must(url->at.host[0] == '\0' && url->at.port == 0, "a host beside the Sentinels");
}

static void
check_seeds(const RedisUrl *url)
{
	must(url->nhosts >= 1 && url->nhosts <= LR_MAX_SEEDS, "too many nodes");
	for (int i = 0; i < url->nhosts; i++)
		check_host(url->hosts[i].host, url->hosts[i].port);
	must(url->service[0] == '\0', "Sentinels beside the nodes");
	must(url->at.host[0] == '\0' && url->at.port == 0, "a host beside the nodes");
	must(url->db == 0, "a database in a cluster");
}

static void
check_url(const RedisUrl *url)
{
	must(is_terminated(url->at.host, sizeof(url->at.host)) &&
		 is_terminated(url->path, sizeof(url->path)) &&
		 is_terminated(url->user, sizeof(url->user)) &&
		 is_terminated(url->password, sizeof(url->password)), "not terminated");
	must(url->db >= 0, "negative database");
	switch (url->scheme)
	{
		case REDIS_TCP:
		case REDIS_SENTINEL:
		case REDIS_CLUSTER:
			if (redis_url_is_followed(url))
				check_sentinels(url);
			else if (redis_url_is_cluster(url))
				check_seeds(url);
			else
				check_host(url->at.host, url->at.port);
			must(url->path[0] == '\0', "a path");
			break;
		case REDIS_UNIX:
			must(url->path[0] == '/' && url->path[1] != '\0', "no path");
			must(url->at.host[0] == '\0', "a host");
			break;
		default:
			fail("no such scheme");
	}
}

/*
 * check_list --- several are single nodes, and none of them is there twice
 */
static void
check_list(const RedisUrl *urls, int n)
{
	must(n == 1 || (n >= LR_MIN_MASTERS && n <= LR_MAX_MASTERS), "so many URLs");
	for (int i = 0; i < n; i++)
	{
		check_url(&urls[i]);
		must(n == 1 || (!redis_url_is_followed(&urls[i]) && !redis_url_is_cluster(&urls[i])),
			 "several of these");
		for (int j = 0; j < i; j++)
			must(urls[i].at.port != urls[j].at.port || strcmp(urls[i].at.host, urls[j].at.host) != 0 ||
				 strcmp(urls[i].path, urls[j].path) != 0, "the same twice");
	}
}

/*
 * check --- parse a text, and look whether the result can be; of several URLs the first
 */
static bool
check(const char *text, RedisUrl *url)
{
	static RedisUrl urls[LR_MAX_MASTERS];
	int			n = -1;
	RedisUrlError error;
	bool		good;

	current = text;
	memset(urls, 0x55, sizeof(urls));
	memset(&error, 0x55, sizeof(error));
	good = redis_url_parse(text, urls, &n, &error);

	must(is_terminated(error.detail, sizeof(error.detail)), "detail not terminated");
	if (!good)
	{
		size_t		len = strlen(error.detail);

		must(len > 0 && error.detail[len - 1] == '.', "the detail is no sentence");
		must(strstr(error.detail, SECRET) == NULL, "the detail shows the password");
		return false;
	}
	check_list(urls, n);
	*url = urls[0];
	return true;
}

/* In memory of its own, so that the sanitizer sees a read behind the end. */
static bool
check_copy(const char *data, size_t len, RedisUrl *url)
{
	char	   *text = malloc(len + 1);
	bool		good;

	memcpy(text, data, len);
	text[len] = '\0';
	good = check(text, url);
	current = "";
	free(text);
	return good;
}

#ifdef GUIDED

extern void fuzz_url(const uint8 *data, size_t size);

void
fuzz_url(const uint8 *data, size_t size)
{
	RedisUrl	url;

	check_copy((const char *) data, size, &url);
}

#else

/* ----------
 * Texts
 * ----------
 */

static const char *const good_urls[] = {
	"redis://localhost", "redis://user@redis.example.com:6379/15",
	"redis://user:" SECRET "@10.0.0.1:1/0", "redis://:" SECRET "@[::1]:65535/",
	"unix:///var/run/redis.sock?db=3", "unix:///a%20b%3f", "rediss://h:1/2",
	"redis-sentinel://u:" SECRET "@h1:1,h2:2,h3/mymaster/4",
	"rediss-sentinel://[::1],h/s",
	"redis-cluster://u@h1:1,[fe80::1]:2/", "redis://a redis://u:" SECRET "@b/1 unix:///c",
	"redis://a:1 redis://b:1 redis://c:1 rediss://d unix:///e redis://f redis://g redis://h redis://i",
	"REDIS://u%40x:p%3A" SECRET "%2f@host_name-1.x./2147483647"
};
static const char *const pieces[] = {
	"://", ":", "/", "@", "%", "%0", "%00", "%41", "%zz", "[", "]", "[::", "?",
	"?db=", "&", "#", ",", " ", ".", "..", "redis", "unix", "rediss", "0", "65536",
	"2147483648", "99999999999999999999", "-1", "+1", "\x7f", "\x80", "\xff", "\t",
	SECRET, "::ffff:1.2.3.4", "256.1.1.1", "1.2.3"
};

static size_t
put(char *out, size_t len, const char *piece, size_t n)
{
	n = Min(n, TEXT_MAX - len);
	memcpy(out + len, piece, n);
	return len + n;
}

static void
try_text(void)
{
	static const size_t repeats[] = {1, 2, 100, 107, 108, 255, 256, 511, 512, 600};
	char		text[TEXT_MAX];
	size_t		len = 0;
	RedisUrl	url;
	const char *base = PICK(good_urls);

	len = put(text, 0, base, strlen(base));
	for (int i = any(5); i >= 0; i--)
	{
		const char *piece = PICK(pieces);
		char		tail[TEXT_MAX];
		size_t		at = any((uint32) len + 1);
		size_t		skip = any(4) == 0 ? any((uint32) (len - at) + 1) : 0;
		size_t		ntail = len - at - skip;
		size_t		times = any(8) == 0 ? PICK(repeats) : 1;
		char		byte = (char) any(256);

		memcpy(tail, text + at + skip, ntail);
		len = at;
		if (any(3) == 0)
			len = put(text, len, &byte, 1);
		else
			while (times-- > 0)
				len = put(text, len, piece, strlen(piece));
		len = put(text, len, tail, ntail);
	}
	check_copy(text, len, &url);
}

/* ----------
 * Parts
 * ----------
 */

/* Percent-encodes what has to be, and now and then what has not. */
static void
append_encoded(char *out, const char *part)
{
	char	   *p = out + strlen(out);

	for (; *part; part++)
	{
		unsigned char c = *part;

		if ((isalnum(c) || strchr("-._~", c)) && any(10) > 0)
			*p++ = c;
		else
			p += sprintf(p, any(2) ? "%%%02x" : "%%%02X", c);
	}
	*p = '\0';
}

/* A part of so many bytes, now and then one more than allowed. */
static size_t
random_part(char *out, size_t size)
{
	size_t		len = any(6) == 0 ? size - 1 + any(2) : 1 + any(20);

	for (size_t i = 0; i < len; i++)
	{
		do
			out[i] = (char) (0x20 + any(0xe0));
		while (out[i] == 0x7f);
	}
	out[len] = '\0';
	return len;
}

static void
try_parts(void)
{
	static const char *const hosts[] = {
		"localhost", "a.b-c_d", "10.1.2.3", "[::1]", "[2001:db8::1]", "x."
	};
	char		user[LR_USER_MAX + 1] = "";
	char		password[LR_SECRET_MAX + 1] = "";
	char		path[LR_SOCKET_PATH_MAX + 1] = "";
	char		text[8192];
	const char *host = PICK(hosts);
	int			port = any(20) ? 1 + any(65535) : any(2) * 65536;
	int64		db = any(3) ? any(20) : INT_MAX + (int64) any(2);
	bool		is_unix = any(4) == 0;
	bool		fits = db <= INT_MAX && (is_unix || (port >= 1 && port <= 65535));
	RedisUrl	url;

	if (is_unix)
	{
		fits = random_part(path + 1, LR_SOCKET_PATH_MAX - 1) + 1 < LR_SOCKET_PATH_MAX &&
			fits;
		path[0] = '/';
		strcpy(text, "unix:///");
		append_encoded(text, path + 1);
		sprintf(text + strlen(text), "?db=" INT64_FORMAT, db);
	}
	else
	{
		strcpy(text, "redis://");
		if (any(2))
		{
			fits = random_part(user, LR_USER_MAX) < LR_USER_MAX && fits;
			append_encoded(text, user);
		}
		if (any(2))
		{
			fits = random_part(password, LR_SECRET_MAX) < LR_SECRET_MAX && fits;
			strcat(text, ":");
			append_encoded(text, password);
		}
		if (user[0] || password[0])
			strcat(text, "@");
		sprintf(text + strlen(text), "%s:%d/" INT64_FORMAT, host, port, db);
	}

	if (check_copy(text, strlen(text), &url) != fits)
	{
		current = text;
		fail(fits ? "refused" : "accepted, though a part is too long or large");
	}
	if (!fits)
		return;
	current = text;
	must(url.db == db, "another database");
	must(strcmp(url.user, user) == 0, "another user");
	must(strcmp(url.password, password) == 0, "another password");
	if (is_unix)
		must(url.scheme == REDIS_UNIX && strcmp(url.path, path) == 0, "another path");
	else
	{
		size_t		len = strlen(url.at.host);

		host += host[0] == '[';
		must(url.scheme == REDIS_TCP && strncmp(url.at.host, host, len) == 0 &&
			 (host[len] == '\0' || host[len] == ']'), "another host");
		must(url.at.port == port, "another port");
	}
}

int
main(int argc, char **argv)
{
	uint64		seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	long		cases = argc > 2 ? atol(argv[2]) : 100000;

	for (long i = 0; i < cases; i++)
	{
		state = seed * 1000003 + i;
		for (int j = 0; j < 4; j++)
			(void) any(2);
		if (i % 2 == 0)
			try_text();
		else
			try_parts();
	}
	printf("%ld cases, seed %llu\n", cases, (unsigned long long) seed);
	return 0;
}

#endif
