/*-------------------------------------------------------------------------
 *
 * target.c
 *	  What a connection is opened to: one Redis node, and as whom.
 *
 * The only file below the store interface that reads where lockredis.url and its
 * neighbours point.  Raises and allocates nothing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/target.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/redis/target.h"
#include "settings.h"

/*
 * redis_target_set --- see target.h
 *
 * There is but one URL, so it is that of every node.
 */
void
redis_target_set(RedisTarget *t, NodeId node)
{
	explicit_bzero(t, sizeof(RedisTarget));
	t->node = node;
	t->version = lr_url_epoch;
	t->place = lr_place;
	t->url = *lr_redis_url;
	t->tls = t->url.tls;
	if (lr_tls_server_name != NULL)
		strlcpy(t->tls_name, lr_tls_server_name, sizeof(t->tls_name));
	if (lr_password_file != NULL)
		strlcpy(t->password_file, lr_password_file, sizeof(t->password_file));
}

bool
redis_target_is_outdated(const RedisTarget *t)
{
	return t->node != NODE_NONE && t->version != lr_url_epoch;
}

void
redis_target_leave(RedisTarget *t)
{
	t->node = NODE_NONE;
}

void
redis_target_show(const RedisTarget *t, char *out, size_t size)
{
	const RedisUrl *url = &t->url;

	if (url->scheme == REDIS_UNIX)
		strlcpy(out, url->path, size);
	else
		snprintf(out, size, strchr(url->host, ':') ? "[%s]:%d" : "%s:%d",
				 url->host, url->port);
}

/*
 * redis_target_want_addresses --- see target.h
 *
 * Who has not read yet that the settings were changed asks for a name of theirs
 * that is of no interest any more; one process resolves all names, one by one.
 */
void
redis_target_want_addresses(const RedisTarget *t, uint32 why)
{
	if (t->node != NODE_NONE && redis_url_has_name(&t->url) &&
		!node_place_is_other(t->place))
		addresses_want(t->node, t->url.host, t->url.port, why);
}

void
redis_target_set_silent(const RedisTarget *t, bool silent)
{
	if (t->node != NODE_NONE && (silent || node_is_silent(t->node)))
		node_set_silent(t->node, silent);
}
