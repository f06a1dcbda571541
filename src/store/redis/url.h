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

/* Number of URLs for independent masters; otherwise there is one URL. */
#define LR_MIN_MASTERS		3
#define LR_MAX_MASTERS		9

/* isalnum() would accept more letters in some locales. */
#define LR_ASCII_ALNUM		"abcdefghijklmnopqrstuvwxyz" \
							"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

typedef enum RedisScheme
{
	REDIS_TCP,					/* redis:// and rediss:// */
	REDIS_UNIX,					/* unix:// */
	REDIS_SENTINEL,				/* redis-sentinel:// and rediss-sentinel:// */
	REDIS_CLUSTER				/* redis-cluster:// and rediss-cluster:// */
} RedisScheme;

typedef struct RedisHost
{
	char		host[LR_HOST_MAX];	/* without brackets */
	int			port;
} RedisHost;

/* Do the two mean the same host and port, by their texts? */
static inline bool
redis_host_is_same(const RedisHost *a, const RedisHost *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

typedef struct RedisUrl
{
	RedisScheme scheme;
	bool		tls;			/* never for unix:// */
	RedisHost	at;				/* no host for unix://, and with Sentinels or a
								 * cluster, which name the nodes */
	char		path[LR_SOCKET_PATH_MAX];	/* unix */
	int			db;
	char		user[LR_USER_MAX];	/* percent-decoded; empty = none */
	char		password[LR_SECRET_MAX];	/* percent-decoded; empty = none */

	/* The Sentinels to ask for the service, or the nodes to ask for the map of the cluster. */
	int			nhosts;
	RedisHost	hosts[LR_MAX_SEEDS];
	char		service[LR_SERVICE_MAX];
} RedisUrl;

typedef struct RedisUrlError
{
	char		detail[256];	/* a sentence saying what is wrong and where;
								 * never contains a password */
} RedisUrlError;

/* Do others have to be asked for the node? */
static inline bool
redis_url_is_followed(const RedisUrl *url)
{
	return url->scheme == REDIS_SENTINEL;
}

/* Does it name a cluster, whose nodes each have some of the slots? */
static inline bool
redis_url_is_cluster(const RedisUrl *url)
{
	return url->scheme == REDIS_CLUSTER;
}

/* The address as text, for the server log and for pg_monitor. */
extern void redis_host_show(const RedisHost *at, char *out, size_t size);

/* Is this text an IPv4 or IPv6 address, rather than a name? */
extern bool redis_host_is_numeric(const char *host);

/* Does the URL contain a host name that has to be resolved? */
static inline bool
redis_url_has_name(const RedisUrl *url)
{
	return url->at.host[0] != '\0' && !redis_host_is_numeric(url->at.host);
}

/*
 * Parse lockredis.url into urls[], which has room for LR_MAX_MASTERS, and set *nurls.
 * Both are valid only if the result is true, and *error only if it is false.
 */
extern bool redis_url_parse(const char *text, RedisUrl *urls, int *nurls, RedisUrlError *error);

#endif							/* LR_REDIS_URL_H */
