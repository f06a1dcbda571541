/*-------------------------------------------------------------------------
 *
 * target.h
 *	  What a connection is opened to: one Redis node, and as whom.
 *
 * Below the store nothing reads lockredis.url or the password's setting: who
 * opens a connection makes a target and passes it down.  Today there is one, of
 * the present settings; what finds nodes by itself makes as many as there are.
 *
 * A target is a copy.  The settings are replaced as a whole by a reload, and a
 * connection that is being made must not change its mind halfway.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/target.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_TARGET_H
#define LR_REDIS_TARGET_H

#include "lockredis.h"

#include <limits.h>

#include "store/addresses.h"
#include "store/node.h"
#include "store/redis/url.h"

/* Not in the table of nodes. */
#define NODE_NONE			(-1)

typedef struct RedisTarget
{
	NodeId		node;			/* its row in the table of nodes; NODE_NONE: it
								 * is not one of this server's any more, see
								 * redis_target_leave */
	uint32		version;		/* lr_url_epoch of the settings it was made of, */
	uint32		place;			/* and their lr_place */
	RedisUrl	url;			/* where, which database, as whom */
	bool		tls;			/* not for a unix socket */

	/* With TLS: what its certificate has to name, when that is not url.host. */
	char		tls_name[LR_HOST_MAX];

	/*
	 * Where the password is, if not in the URL; empty: there.  A path too long
	 * for here is too long for open() too, cut or not.
	 */
	char		password_file[PATH_MAX + 1];
} RedisTarget;

/* This node, as the settings have it now. */
extern void redis_target_set(RedisTarget *t, NodeId node);

/* Have the settings been changed since?  Not of interest for one that was left. */
extern bool redis_target_is_outdated(const RedisTarget *t);

/*
 * What is connected there stays so, whatever the settings say, but nobody else's
 * business: what it says or fails to say is put down to no node.
 */
extern void redis_target_leave(RedisTarget *t);

/* For the server log and pg_monitor: no user, no password. */
extern void redis_target_show(const RedisTarget *t, char *out, size_t size);

/* Have the host name resolved again, if it has one; WANT_xxx of addresses.h. */
extern void redis_target_want_addresses(const RedisTarget *t, uint32 why);

/* It has let all of a time limit pass without a sign of life, or has answered. */
extern void redis_target_set_silent(const RedisTarget *t, bool silent);

#endif							/* LR_REDIS_TARGET_H */
