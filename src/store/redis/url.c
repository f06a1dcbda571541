/*-------------------------------------------------------------------------
 *
 * url.c
 *	  Parser of lockredis.url.
 *
 * Runs in a GUC check hook, in the postmaster too: it allocates nothing, raises nothing
 * and looks nothing up.  An error is described by its position and the name of the part.
 * The text of the URL is never repeated, because any part of a malformed URL may be a
 * password.
 *
 * Several URLs are a list of independent masters, each of which could be given alone.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/url.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>

#include "store/redis/url.h"

#define REDIS_DEFAULT_PORT	6379
#define SENTINEL_DEFAULT_PORT	26379

/* What the name of a host or service may consist of. */
#define WORD_CHARACTERS		LR_ASCII_ALNUM ".-_"

/* One of the URLs: [at, end).  Positions in errors count from base. */
typedef struct UrlCursor
{
	const char *base;
	const char *at;
	const char *end;
	RedisUrlError *error;
} UrlCursor;

static const struct
{
	const char *name;
	RedisScheme scheme;
	bool		tls;
}			url_forms[] =
{
	{"redis", REDIS_TCP, false},
	{"unix", REDIS_UNIX, false},
	{"rediss", REDIS_TCP, true},
	{"redis-sentinel", REDIS_SENTINEL, false},
	{"rediss-sentinel", REDIS_SENTINEL, true},
	{"redis-cluster", REDIS_CLUSTER, false},
	{"rediss-cluster", REDIS_CLUSTER, true},
};

/*
 * url_malformed --- say what is wrong and where; returns false, like all that parse a part
 */
static bool
url_malformed(const UrlCursor *c, const char *where, const char *what)
{
	snprintf(c->error->detail, sizeof(c->error->detail),
			 "%s at position %d.", what, (int) (where - c->base) + 1);
	return false;
}

/*
 * url_decode --- percent-decode [from, to) into a buffer, as a C string
 *
 * "too_long" and "control" are the messages for these two errors.
 */
static bool
url_decode(const UrlCursor *c, const char *from, const char *to,
		   char *out, size_t size, const char *too_long, const char *control)
{
	size_t		n = 0;

	for (const char *p = from; p < to; p++)
	{
		unsigned char ch = (unsigned char) *p;

		if (ch == '%')
		{
			char		hex[3] = {p[1], p[1] != '\0' ? p[2] : '\0', '\0'};

			if (to - p < 3 || !isxdigit((unsigned char) hex[0]) || !isxdigit((unsigned char) hex[1]))
				return url_malformed(c, p, "Invalid percent-escape (two hexadecimal digits must follow the percent sign)");
			ch = (unsigned char) strtoul(hex, NULL, 16);
			if (ch < 0x20 || ch == 0x7f)
				return url_malformed(c, p, control);
			p += 2;
		}
		if (n + 1 >= size)
			return url_malformed(c, p, too_long);
		out[n++] = (char) ch;
	}
	out[n] = '\0';
	return true;
}

/*
 * url_parse_number --- the number [from, to), behind which there is no digit; -1 if it is
 * not valid, or greater than "max"
 */
static int
url_parse_number(const char *from, const char *to, int max)
{
	char	   *end;
	int64		value;

	if (!isdigit((unsigned char) *from))
		return -1;
	value = strtoi64(from, &end, 10);
	return end == to && value <= max ? (int) value : -1;
}

static bool
url_parse_db(const UrlCursor *c, const char *from, RedisUrl *url)
{
	url->db = url_parse_number(from, c->end, INT_MAX);
	return url->db >= 0 ||
		url_malformed(c, from, "Invalid database number (a number from 0 to 2147483647 is expected)");
}

/*
 * url_check_name --- may this be a host, without brackets around it?  It begins at "from".
 */
static bool
url_check_name(const UrlCursor *c, const char *from, const char *host)
{
	size_t		len = strlen(host);
	size_t		nword = strspn(host, WORD_CHARACTERS);
	const char *label = host[0] == '.' ? host : strstr(host, "..");

	if (nword < len)
		return url_malformed(c, from + nword, "Invalid character in host");
	if (label != NULL)
		return url_malformed(c, from + (label - host) + (label > host ? 1 : 0), "Empty label in host");
	if (strspn(host, "0123456789.") == len && !redis_host_is_numeric(host))
		return url_malformed(c, from, "Invalid IPv4 address");
	return true;
}

/*
 * url_parse_host --- host[:port] or [v6][:port]
 */
static bool
url_parse_host(const UrlCursor *c, const char *from, const char *to,
			   int default_port, RedisHost *at)
{
	bool		v6 = from < to && *from == '[';
	const char *mark = memchr(from, v6 ? ']' : ':', to - from);
	const char *host = v6 ? from + 1 : from;
	const char *end = mark != NULL ? mark : to;
	const char *rest = v6 ? end + 1 : end;

	if (v6 && mark == NULL)
		return url_malformed(c, from, "Missing closing bracket of the IPv6 address that starts");
	if (!v6 && mark != NULL && memchr(mark + 1, ':', to - mark - 1) != NULL)
		return url_malformed(c, from, "Several colons (an IPv6 address must be in brackets) in the host and port");
	if (host == end)
		return url_malformed(c, from, "Empty host");
	if (end - host >= LR_HOST_MAX)
		return url_malformed(c, from, "Host too long (255 characters at most)");

	strlcpy(at->host, host, end - host + 1);
	if (!v6 && !url_check_name(c, host, at->host))
		return false;
	if (v6 && (strchr(at->host, ':') == NULL || !redis_host_is_numeric(at->host)))
		return url_malformed(c, host, "Invalid IPv6 address");

	at->port = default_port;
	if (rest == to)
		return true;
	if (*rest != ':')
		return url_malformed(c, rest, "Only a port may follow the closing bracket: unexpected text");
	at->port = url_parse_number(rest + 1, to, 65535);
	return at->port > 0 ||
		url_malformed(c, rest + 1, "Invalid port (a number from 1 to 65535 is expected)");
}

/*
 * url_parse_userinfo --- user, user:password or :password
 */
static bool
url_parse_userinfo(const UrlCursor *c, const char *from, const char *to,
				   RedisUrl *url)
{
	const char *colon = memchr(from, ':', to - from);

	if (from == to)
		return url_malformed(c, from, "Empty user name");
	if (!url_decode(c, from, colon ? colon : to, url->user, sizeof(url->user),
					"User name too long (255 bytes at most)",
					"Control character in the user name"))
		return false;
	if (colon == NULL)
		return true;
	if (colon + 1 == to)
		return url_malformed(c, to, "Empty password");
	return url_decode(c, colon + 1, to, url->password, sizeof(url->password),
					  "Password too long (511 bytes at most)",
					  "Control character in the password");
}

/*
 * url_parse_hosts --- several hosts separated by commas: Sentinels, or nodes of a cluster
 */
static bool
url_parse_hosts(const UrlCursor *c, const char *from, const char *to, RedisUrl *url)
{
	bool		sentinels = url->scheme == REDIS_SENTINEL;
	const char *comma;

	do
	{
		if (url->nhosts == (sentinels ? LR_MAX_SENTINELS : LR_MAX_SEEDS))
			return url_malformed(c, from, sentinels ? "Too many Sentinels (8 at most): one more" :
								 "Too many nodes (16 at most): one more");
		comma = memchr(from, ',', to - from);
		if (!url_parse_host(c, from, comma ? comma : to,
							sentinels ? SENTINEL_DEFAULT_PORT : REDIS_DEFAULT_PORT,
							&url->hosts[url->nhosts++]))
			return false;
		from = comma + 1;
	} while (comma != NULL);
	return true;
}

/*
 * url_parse_authority --- [userinfo@]host[:port], or a list of hosts
 */
static bool
url_parse_authority(const UrlCursor *c, const char *to, RedisUrl *url)
{
	const char *from = c->at;

	for (const char *p = to; p-- > c->at;)
	{
		if (*p != '@')
			continue;
		if (!url_parse_userinfo(c, c->at, p, url))
			return false;
		from = p + 1;
		break;
	}
	return url->scheme == REDIS_TCP ?
		url_parse_host(c, from, to, REDIS_DEFAULT_PORT, &url->at) :
		url_parse_hosts(c, from, to, url);
}

/*
 * url_parse_unix --- what follows unix://
 */
static bool
url_parse_unix(const UrlCursor *c, RedisUrl *url)
{
	const char *query = c->at + strcspn(c->at, "? ");

	if (c->at == query)
		return url_malformed(c, c->at, "Empty socket path");
	if (*c->at != '/')
		return url_malformed(c, c->at, "The socket path must be absolute (unix:///path): relative path");
	if (c->at + 1 == query)
		return url_malformed(c, c->at, "The socket path names no file");
	if (!url_decode(c, c->at, query, url->path, sizeof(url->path),
					"Socket path too long (107 bytes at most)",
					"Control character in the socket path"))
		return false;
	if (query == c->end)
		return true;
	if (strncmp(query, "?db=", 4) != 0)
		return url_malformed(c, query + 1, "Unknown query parameter (only db is known)");
	if (memchr(query, '&', c->end - query) != NULL)
		return url_malformed(c, memchr(query, '&', c->end - query),
							 "Unknown query parameter (only one db is allowed)");
	return url_parse_db(c, query + 4, url);
}

/*
 * url_parse_service --- a slash and the name of a service; *rest becomes what follows
 */
static bool
url_parse_service(const UrlCursor *c, const char **rest, RedisUrl *url)
{
	const char *from = *rest + 1;
	size_t		len;
	size_t		nword;

	if (*rest == c->end || from == c->end || *from == '/')
		return url_malformed(c, *rest, "Missing service name");
	len = strcspn(from, "/ ");
	nword = strspn(from, WORD_CHARACTERS);
	if (nword < len)
		return url_malformed(c, from + nword, "Invalid character in service name");
	if (len >= LR_SERVICE_MAX)
		return url_malformed(c, from, "Service name too long (127 characters at most)");
	strlcpy(url->service, from, len + 1);
	*rest = from + len;
	return true;
}

/*
 * url_parse_tcp --- what follows the scheme of a URL with hosts
 */
static bool
url_parse_tcp(const UrlCursor *c, RedisUrl *url)
{
	const char *surplus = c->at + strcspn(c->at, "?# ");
	const char *db = c->at + strcspn(c->at, "/ ");

	if (*surplus == '?')
		return url_malformed(c, surplus, "Unknown query parameter (none is known for this scheme)");
	if (*surplus == '#')
		return url_malformed(c, surplus, "Unexpected fragment");
	if (!url_parse_authority(c, db, url))
		return false;
	if (url->scheme == REDIS_SENTINEL && !url_parse_service(c, &db, url))
		return false;

	/* Nothing, a lone slash, or a slash and the database. */
	if (db == c->end || db + 1 == c->end)
		return true;
	if (url->scheme == REDIS_CLUSTER)
		return url_malformed(c, db + 1, "A cluster has no database numbers: unexpected text");
	return url_parse_db(c, db + 1, url);
}

/*
 * url_parse_one --- one URL of the list
 */
static bool
url_parse_one(UrlCursor *c, RedisUrl *url)
{
	const char *end = strstr(c->at, "://");

	memset(url, 0, sizeof(*url));
	if (end == NULL || end > c->end || end == c->at)
		return url_malformed(c, c->at, "Missing scheme (redis, redis-sentinel, redis-cluster, the same with rediss, or unix is expected)");

	for (int i = 0; i < lengthof(url_forms); i++)
	{
		size_t		len = strlen(url_forms[i].name);

		if (len != (size_t) (end - c->at) || pg_strncasecmp(c->at, url_forms[i].name, len) != 0)
			continue;
		url->scheme = url_forms[i].scheme;
		url->tls = url_forms[i].tls;
		c->at = end + 3;
		return url->scheme == REDIS_UNIX ? url_parse_unix(c, url) : url_parse_tcp(c, url);
	}
	return url_malformed(c, c->at, "Unknown scheme (redis, redis-sentinel, redis-cluster, the same with rediss, or unix is expected)");
}

void
redis_host_show(const RedisHost *at, char *out, size_t size)
{
	snprintf(out, size, strchr(at->host, ':') ? "[%s]:%d" : "%s:%d", at->host, at->port);
}

bool
redis_host_is_numeric(const char *host)
{
	struct in6_addr address;

	return inet_pton(AF_INET, host, &address) == 1 ||
		inet_pton(AF_INET6, host, &address) == 1;
}

/*
 * url_check_member --- may the last of these URLs be in a list?
 *
 * Two may not name the same server, whatever the databases are.
 */
static bool
url_check_member(const UrlCursor *c, const char *start, const RedisUrl *urls, int n)
{
	const RedisUrl *last = &urls[n - 1];

	if (last->scheme != REDIS_TCP && last->scheme != REDIS_UNIX)
		return url_malformed(c, start, "Only redis://, rediss:// and unix:// can be several: another scheme");
	for (int i = 0; i < n - 1; i++)
		if (urls[i].at.port == last->at.port && strcmp(urls[i].path, last->path) == 0 &&
			pg_strncasecmp(urls[i].at.host, last->at.host, LR_HOST_MAX) == 0)
			return url_malformed(c, start, "The same server twice: again");
	return true;
}

/*
 * url_parse_all --- all URLs, separated by single spaces
 */
static bool
url_parse_all(UrlCursor *c, RedisUrl *urls, int *nurls)
{
	bool		is_list = strchr(c->base, ' ') != NULL;

	*nurls = 0;
	for (const char *start = c->base;; start = c->end + 1)
	{
		if (*nurls == LR_MAX_MASTERS)
			return url_malformed(c, start, "Too many URLs (9 at most): one more");
		c->at = start;
		c->end = start + strcspn(start, " ");
		if (!url_parse_one(c, &urls[(*nurls)++]) ||
			(is_list && !url_check_member(c, start, urls, *nurls)))
			return false;
		if (*c->end == ' ')
			continue;
		return !is_list || *nurls >= LR_MIN_MASTERS ||
			url_malformed(c, start, "Too few URLs (one, or 3 to 9 independent masters): the last one");
	}
}

/*
 * redis_url_parse --- parse the value of lockredis.url
 */
bool
redis_url_parse(const char *text, RedisUrl *urls, int *nurls, RedisUrlError *error)
{
	UrlCursor	c = {.base = text,.error = error};

	error->detail[0] = '\0';

	if (*text == '\0')
	{
		strlcpy(error->detail, "The URL is empty.", sizeof(error->detail));
		return false;
	}

	for (const char *p = text; *p; p++)
	{
		unsigned char ch = (unsigned char) *p;

		if (ch == ' ')
		{
			if (p == text || p[1] == '\0' || p[1] == ' ')
				return url_malformed(&c, p, "Unexpected space (single spaces separate several URLs)");
		}
		else if (ch < 0x20 || ch == 0x7f)
			return url_malformed(&c, p, "Control character");
		else if (ch >= 0x80)
			return url_malformed(&c, p, "Character that is not ASCII (it must be percent-encoded)");
	}
	return url_parse_all(&c, urls, nurls);
}
