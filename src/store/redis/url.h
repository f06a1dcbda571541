/*-------------------------------------------------------------------------
 *
 * url.h
 *	  lockredis.url: from text to a plain structure.
 *
 * The parser allocates nothing and raises nothing, because it runs in a GUC
 * check hook (in the postmaster too).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/url.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_URL_H
#define LR_REDIS_URL_H

#include "lockredis.h"

#define LR_HOST_MAX			256
#define LR_USER_MAX			256
#define LR_SECRET_MAX		512
#define LR_SOCKET_PATH_MAX	108
#define LR_SERVICE_MAX		128

#define LR_MAX_SENTINELS	8
#define LR_MAX_SEEDS		16

/* Independent masters: so many URLs, or one. */
#define LR_MIN_MASTERS		3
#define LR_MAX_MASTERS		9

/* Not isalnum(), which knows more letters in some locales. */
#define LR_ASCII_ALNUM		"abcdefghijklmnopqrstuvwxyz" \
							"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

typedef enum RedisScheme
{
	REDIS_TCP,					/* redis:// and rediss:// */
	REDIS_UNIX					/* unix:// */
} RedisScheme;

typedef struct RedisHost
{
	char		host[LR_HOST_MAX];	/* without brackets */
	bool		host_is_numeric;
	int			port;
} RedisHost;

static inline bool
redis_host_is_same(const RedisHost *a, const RedisHost *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

typedef struct RedisUrl
{
	RedisScheme scheme;
	bool		tls;			/* rediss:// and rediss-sentinel:// */
	char		host[LR_HOST_MAX];	/* without brackets; empty for unix, and with
									 * Sentinels, which name it */
	bool		host_is_numeric;
	int			port;
	char		path[LR_SOCKET_PATH_MAX];	/* unix */
	int			db;
	char		user[LR_USER_MAX];	/* percent-decoded; empty = none */
	char		password[LR_SECRET_MAX];	/* percent-decoded */
	bool		has_password;

	/* redis-sentinel://: whom to ask for the master, and of what */
	int			nsentinels;
	RedisHost	sentinel[LR_MAX_SENTINELS];
	char		service[LR_SERVICE_MAX];

	/* redis-cluster://: nodes to ask for its map */
	int			nseeds;
	RedisHost	seed[LR_MAX_SEEDS];
} RedisUrl;

typedef enum RedisUrlVerdict
{
	REDIS_URL_OK,
	REDIS_URL_MALFORMED
} RedisUrlVerdict;

typedef struct RedisUrlError
{
	char		detail[256];	/* a sentence: what is wrong and where; never
								 * shows a password */
} RedisUrlError;

/* Does it name a host that has to be looked up? */
static inline bool
redis_url_has_name(const RedisUrl *url)
{
	return url->scheme == REDIS_TCP && !url->host_is_numeric && url->host[0] != '\0';
}

/* Is the node that it means found by asking others? */
static inline bool
redis_url_is_followed(const RedisUrl *url)
{
	return url->nsentinels > 0;
}

/* Is it a cluster, whose nodes have some of the keys each? */
static inline bool
redis_url_is_cluster(const RedisUrl *url)
{
	return url->nseeds > 0;
}

/* For the server log and pg_monitor. */
extern void redis_host_show(const RedisHost *at, char *out, size_t size);

/* Is this text an address, of either family?  Else it is a name. */
extern bool redis_host_is_numeric(const char *host);

/*
 * Into "urls", which has room for LR_MAX_MASTERS; so many are there.  Both are
 * meaningful only with REDIS_URL_OK, *error only without.
 */
extern RedisUrlVerdict redis_url_parse(const char *text, RedisUrl *urls, int *nurls,
									   RedisUrlError *error);

#endif							/* LR_REDIS_URL_H */
