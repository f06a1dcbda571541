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

typedef enum RedisScheme
{
	REDIS_TCP,					/* redis:// and rediss:// */
	REDIS_UNIX					/* unix:// */
} RedisScheme;

typedef struct RedisUrl
{
	RedisScheme scheme;
	bool		tls;			/* rediss:// */
	char		host[LR_HOST_MAX];	/* without brackets; empty for unix */
	bool		host_is_numeric;
	int			port;
	char		path[LR_SOCKET_PATH_MAX];	/* unix */
	int			db;
	char		user[LR_USER_MAX];	/* percent-decoded; empty = none */
	char		password[LR_SECRET_MAX];	/* percent-decoded */
	bool		has_password;
} RedisUrl;

typedef enum RedisUrlVerdict
{
	REDIS_URL_OK,
	REDIS_URL_MALFORMED,
	REDIS_URL_NOT_SERVED		/* valid, but not offered by this version */
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
	return url->scheme == REDIS_TCP && !url->host_is_numeric;
}

extern RedisUrlVerdict redis_url_parse(const char *text, RedisUrl *url,
									   RedisUrlError *error);

#endif							/* LR_REDIS_URL_H */
