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
#define IPV6_TEXT_MAX		64

/* A part of the text: [at, end).  Positions in errors count from base. */
typedef struct UrlCursor
{
	const char *base;
	const char *at;
	const char *end;
	RedisUrlError *error;
} UrlCursor;

typedef enum UrlForm
{
	FORM_REDIS,
	FORM_SENTINEL,
	FORM_CLUSTER,
	FORM_UNIX
} UrlForm;

static const struct
{
	const char *scheme;
	UrlForm		form;
	bool		tls;
}			url_forms[] =
{
	{"redis", FORM_REDIS, false},
	{"unix", FORM_UNIX, false},
	{"rediss", FORM_REDIS, true},
	{"redis-sentinel", FORM_SENTINEL, false},
	{"rediss-sentinel", FORM_SENTINEL, true},
	{"redis-cluster", FORM_CLUSTER, false},
	{"rediss-cluster", FORM_CLUSTER, true},
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

static int
url_hex_value(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	if (ch >= 'a' && ch <= 'f')
		return ch - 'a' + 10;
	if (ch >= 'A' && ch <= 'F')
		return ch - 'A' + 10;
	return -1;
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
			int			high = p + 1 < to ? url_hex_value(p[1]) : -1;
			int			low = p + 2 < to ? url_hex_value(p[2]) : -1;

			if (high < 0 || low < 0)
				return url_malformed(c, p, "Invalid percent-escape (two hexadecimal digits must follow the percent sign)");
			ch = (unsigned char) (high * 16 + low);
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
 * url_parse_number --- the number [from, to), up to "max"; -1 if it is not valid
 */
static int64
url_parse_number(const char *from, const char *to, int64 max)
{
	int64		value = 0;

	if (from == to)
		return -1;
	for (const char *p = from; p < to; p++)
	{
		if (!isdigit((unsigned char) *p))
			return -1;
		value = value * 10 + (*p - '0');
		if (value > max)
			return -1;
	}
	return value;
}

static bool
url_parse_db(const UrlCursor *c, const char *from, const char *to, int *db)
{
	int64		value = url_parse_number(from, to, INT_MAX);

	if (value < 0)
		return url_malformed(c, from, "Invalid database number (a number from 0 to 2147483647 is expected)");
	*db = (int) value;
	return true;
}

/*
 * url_is_word --- may this character be in the name of a host or service?
 */
static bool
url_is_word(char c)
{
	return c != '\0' && strchr(LR_ASCII_ALNUM ".-_", c) != NULL;
}

/*
 * url_parse_host --- a name or address without brackets around it
 */
static bool
url_parse_host(const UrlCursor *c, const char *from, const char *to, RedisUrl *url)
{
	bool		only_digits = true;
	struct in_addr v4;

	if (from == to)
		return url_malformed(c, from, "Empty host");
	if (to - from >= LR_HOST_MAX)
		return url_malformed(c, from, "Host too long (255 characters at most)");

	for (const char *p = from; p < to; p++)
	{
		if (!url_is_word(*p))
			return url_malformed(c, p, "Invalid character in host");
		if (*p == '.' && (p == from || p[-1] == '.'))
			return url_malformed(c, p, "Empty label in host");
		if (!isdigit((unsigned char) *p) && *p != '.')
			only_digits = false;
	}

	memcpy(url->host, from, to - from);
	url->host[to - from] = '\0';
	url->host_is_numeric = inet_pton(AF_INET, url->host, &v4) == 1;
	if (only_digits && !url->host_is_numeric)
		return url_malformed(c, from, "Invalid IPv4 address");
	return true;
}

/*
 * url_parse_host_port --- host[:port] or [v6][:port]
 */
static bool
url_parse_host_port(const UrlCursor *c, const char *from, const char *to,
					int default_port, RedisUrl *url)
{
	const char *port = NULL;

	url->port = default_port;

	if (from < to && *from == '[')
	{
		const char *close = memchr(from, ']', to - from);
		struct in6_addr v6;
		int			len;

		if (close == NULL)
			return url_malformed(c, from, "Missing closing bracket of the IPv6 address that starts");
		len = (int) (close - from) - 1;
		if (len == 0)
			return url_malformed(c, from, "Empty host");
		if (len >= IPV6_TEXT_MAX)
			return url_malformed(c, from, "Invalid IPv6 address");
		memcpy(url->host, from + 1, len);
		url->host[len] = '\0';
		if (inet_pton(AF_INET6, url->host, &v6) != 1)
			return url_malformed(c, from + 1, "Invalid IPv6 address");
		url->host_is_numeric = true;
		if (close + 1 < to)
		{
			if (close[1] != ':')
				return url_malformed(c, close + 1, "Only a port may follow the closing bracket: unexpected text");
			port = close + 2;
		}
	}
	else
	{
		const char *colon = memchr(from, ':', to - from);

		if (colon != NULL)
		{
			if (memchr(colon + 1, ':', to - colon - 1) != NULL)
				return url_malformed(c, from, "Several colons (an IPv6 address must be in brackets) in the host and port");
			port = colon + 1;
		}
		if (!url_parse_host(c, from, colon ? colon : to, url))
			return false;
	}

	if (port != NULL)
	{
		int64		value = url_parse_number(port, to, 65535);

		if (value < 1)
			return url_malformed(c, port, "Invalid port (a number from 1 to 65535 is expected)");
		url->port = (int) value;
	}
	return true;
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
	url->has_password = url_decode(c, colon + 1, to, url->password, sizeof(url->password),
								   "Password too long (511 bytes at most)",
								   "Control character in the password");
	return url->has_password;
}

/*
 * url_parse_list --- several hosts separated by commas: Sentinels, or nodes of a cluster
 */
static bool
url_parse_list(const UrlCursor *c, const char *from, const char *to,
			   UrlForm form, RedisUrl *url)
{
	bool		sentinels = form == FORM_SENTINEL;
	int			port = sentinels ? SENTINEL_DEFAULT_PORT : REDIS_DEFAULT_PORT;
	const char *comma;

	do
	{
		RedisHost  *host;

		if (sentinels && url->nsentinels == LR_MAX_SENTINELS)
			return url_malformed(c, from, "Too many Sentinels (8 at most): one more");
		if (!sentinels && url->nseeds == LR_MAX_SEEDS)
			return url_malformed(c, from, "Too many nodes (16 at most): one more");
		comma = memchr(from, ',', to - from);
		if (!url_parse_host_port(c, from, comma ? comma : to, port, url))
			return false;
		host = sentinels ? &url->sentinel[url->nsentinels++] : &url->seed[url->nseeds++];
		strlcpy(host->host, url->host, LR_HOST_MAX);
		host->host_is_numeric = url->host_is_numeric;
		host->port = url->port;
		memset(url->host, 0, sizeof(url->host));
		url->host_is_numeric = false;
		url->port = 0;
		from = comma + 1;
	} while (comma != NULL);
	return true;
}

/*
 * url_parse_authority --- [userinfo@]host[:port], or a list of hosts
 */
static bool
url_parse_authority(const UrlCursor *c, const char *from, const char *to,
					UrlForm form, RedisUrl *url)
{
	const char *at = NULL;

	for (const char *p = from; p < to; p++)
	{
		if (*p == '@')
			at = p;
	}
	if (at != NULL)
	{
		if (!url_parse_userinfo(c, from, at, url))
			return false;
		from = at + 1;
	}

	if (form == FORM_SENTINEL || form == FORM_CLUSTER)
		return url_parse_list(c, from, to, form, url);
	return url_parse_host_port(c, from, to, REDIS_DEFAULT_PORT, url);
}

/*
 * url_parse_unix --- what follows unix://
 */
static bool
url_parse_unix(const UrlCursor *c, RedisUrl *url)
{
	const char *query = memchr(c->at, '?', c->end - c->at);
	const char *path_end = query ? query : c->end;

	if (c->at == path_end)
		return url_malformed(c, c->at, "Empty socket path");
	if (*c->at != '/')
		return url_malformed(c, c->at, "The socket path must be absolute (unix:///path): relative path");
	if (c->at + 1 == path_end)
		return url_malformed(c, c->at, "The socket path names no file");

	url->scheme = REDIS_UNIX;
	if (!url_decode(c, c->at, path_end, url->path, sizeof(url->path),
					"Socket path too long (107 bytes at most)",
					"Control character in the socket path"))
		return false;
	if (query == NULL)
		return true;
	if (c->end - query < 4 || strncmp(query, "?db=", 4) != 0)
		return url_malformed(c, query + 1, "Unknown query parameter (only db is known)");
	if (memchr(query, '&', c->end - query) != NULL)
		return url_malformed(c, memchr(query, '&', c->end - query),
							 "Unknown query parameter (only one db is allowed)");
	return url_parse_db(c, query + 4, c->end, &url->db);
}

/*
 * url_parse_tcp --- what follows the scheme of a URL with hosts
 */
static bool
url_parse_tcp(const UrlCursor *c, UrlForm form, bool tls, RedisUrl *url)
{
	const char *path = c->at;
	const char *db;

	for (const char *p = c->at; p < c->end; p++)
	{
		if (*p == '?')
			return url_malformed(c, p, "Unknown query parameter (none is known for this scheme)");
		if (*p == '#')
			return url_malformed(c, p, "Unexpected fragment");
	}
	while (path < c->end && *path != '/')
		path++;

	url->scheme = REDIS_TCP;
	url->tls = tls;
	if (!url_parse_authority(c, c->at, path, form, url))
		return false;

	db = path;
	if (form == FORM_SENTINEL)
	{
		const char *service = path + 1;

		if (path == c->end || service == c->end || *service == '/')
			return url_malformed(c, path, "Missing service name");
		for (db = service; db < c->end && *db != '/'; db++)
		{
			if (!url_is_word(*db))
				return url_malformed(c, db, "Invalid character in service name");
		}
		if (db - service >= LR_SERVICE_MAX)
			return url_malformed(c, service, "Service name too long (127 characters at most)");
		memcpy(url->service, service, db - service);
	}

	/* Nothing, a lone slash, or a slash and the database. */
	if (db == c->end || db + 1 == c->end)
		return true;
	if (form == FORM_CLUSTER)
		return url_malformed(c, db + 1, "A cluster has no database numbers: unexpected text");
	return url_parse_db(c, db + 1, c->end, &url->db);
}

/*
 * url_parse_one --- one URL of the list
 */
static bool
url_parse_one(UrlCursor *c, RedisUrl *url)
{
	const char *scheme_end = c->at;

	memset(url, 0, sizeof(*url));

	while (scheme_end + 3 <= c->end && strncmp(scheme_end, "://", 3) != 0)
		scheme_end++;
	if (scheme_end + 3 > c->end || scheme_end == c->at)
		return url_malformed(c, c->at, "Missing scheme (redis://, rediss:// or unix:// is expected)");

	for (int i = 0; i < lengthof(url_forms); i++)
	{
		size_t		len = strlen(url_forms[i].scheme);

		if (len != (size_t) (scheme_end - c->at) ||
			pg_strncasecmp(c->at, url_forms[i].scheme, len) != 0)
			continue;

		c->at = scheme_end + 3;
		return url_forms[i].form == FORM_UNIX ? url_parse_unix(c, url) :
			url_parse_tcp(c, url_forms[i].form, url_forms[i].tls, url);
	}
	return url_malformed(c, c->at, "Unknown scheme (redis://, rediss:// or unix:// is expected)");
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
 * url_is_same_server --- do both URLs name the same server, ignoring the database?
 */
static bool
url_is_same_server(const RedisUrl *a, const RedisUrl *b)
{
	if (a->scheme != b->scheme)
		return false;
	if (a->scheme == REDIS_UNIX)
		return strcmp(a->path, b->path) == 0;
	return a->port == b->port && pg_strncasecmp(a->host, b->host, LR_HOST_MAX) == 0;
}

/*
 * url_check_member --- may the last of these URLs be in a list?
 */
static bool
url_check_member(const UrlCursor *c, const char *start, const RedisUrl *urls, int n)
{
	const RedisUrl *last = &urls[n - 1];

	if (redis_url_is_followed(last) || redis_url_is_cluster(last))
		return url_malformed(c, start, "Only redis://, rediss:// and unix:// can be several: another scheme");
	for (int i = 0; i < n - 1; i++)
		if (url_is_same_server(&urls[i], last))
			return url_malformed(c, start, "The same server twice: again");
	return true;
}

/*
 * url_parse_all --- all URLs, separated by single spaces
 */
static bool
url_parse_all(UrlCursor *c, RedisUrl *urls, int *nurls)
{
	const char *text = c->base;
	bool		is_list = strchr(text, ' ') != NULL;

	*nurls = 0;
	for (const char *start = text; start != NULL;)
	{
		const char *space = strchr(start, ' ');

		if (*nurls == LR_MAX_MASTERS)
			return url_malformed(c, start, "Too many URLs (9 at most): one more");
		c->at = start;
		c->end = space ? space : text + strlen(text);
		if (!url_parse_one(c, &urls[(*nurls)++]) ||
			(is_list && !url_check_member(c, start, urls, *nurls)))
			return false;
		if (space == NULL && is_list && *nurls < LR_MIN_MASTERS)
			return url_malformed(c, start, "Too few URLs (one, or 3 to 9 independent masters): the last one");
		start = space ? space + 1 : NULL;
	}
	return true;
}

/*
 * redis_url_parse --- parse the value of lockredis.url
 */
bool
redis_url_parse(const char *text, RedisUrl *urls, int *nurls, RedisUrlError *error)
{
	UrlCursor	c = {text, text, text + strlen(text), error};

	*nurls = 0;
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
