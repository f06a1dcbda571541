/*-------------------------------------------------------------------------
 *
 * target.h
 *	  What a connection is opened to: one Redis node, and as whom.
 *
 * Below the store nothing reads lockredis.url or the password's setting: who
 * opens a connection makes a target and passes it down.  It is of the present
 * settings: the node that they name, the master that the Sentinels have named, or
 * one of these.
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
#include "store/cluster.h"
#include "store/node.h"
#include "store/redis/url.h"

/* Not in the table of nodes. */
#define NODE_NONE			(-1)

typedef enum TargetKind
{
	TARGET_NODE,				/* what the URL names */
	TARGET_MASTER,				/* what the Sentinels name */
	TARGET_CLAIMANT,			/* another one, that is asked whether it is a master */
	TARGET_SHARD,				/* a master of the cluster */
	TARGET_VOTER,				/* one of the independent masters */
	TARGET_SEED,				/* a node of it that is asked for its map */
	TARGET_SENTINEL
} TargetKind;

/* May a connection be made to it? */
typedef enum TargetAnswer
{
	TARGET_OPEN,
	TARGET_NOT_YET,				/* look again soon */
	TARGET_CLOSED				/* the sentence says why */
} TargetAnswer;

typedef struct RedisTarget
{
	TargetKind	kind;
	bool		scout;			/* master: the watchdog's own, see topology.h */
	uint32		topology;		/* master: its epoch there; shard: generation of
								 * its row (cluster.h) */
	NodeId		node;			/* its row in the table of nodes; NODE_NONE: it
								 * is not one of this server's any more, see
								 * redis_target_leave */
	uint32		version;		/* lr_url_epoch of the settings it was made of, */
	uint32		tls_version;	/* their lr_tls_epoch, */
	uint32		place;			/* and their lr_place */
	char		id[CLUSTER_ID_LEN + 1]; /* shard: which node of the cluster */
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

/* The node that takes locks, as settings and Sentinels have it now. */
extern void redis_target_set(RedisTarget *t, NodeId node);

/*
 * A node of the cluster that is asked for its map: one that the settings name, or one
 * of the masters.
 */
extern void redis_target_set_seed(RedisTarget *t, const RedisHost *at);

/* What is to say whether it is a master, and nothing else. */
extern void redis_target_set_claimant(RedisTarget *t, const RedisHost *at);

/* One of the Sentinels that the settings name. */
extern void redis_target_set_sentinel(RedisTarget *t, int number);

/*
 * Have the settings been changed since, or is another one the master?  Not of
 * interest for one that was left.  Files of TLS that cannot be used change nothing
 * for connections that there are.
 */
extern bool redis_target_is_outdated(const RedisTarget *t);

/*
 * May a connection be made, and may one that there is be used?  Always, but for
 * a master that is not known for sure.
 */
extern TargetAnswer redis_target_look(const RedisTarget *t, char *why, size_t size);
extern bool redis_target_is_trusted(const RedisTarget *t, int64 now);

/*
 * What is connected there stays so, whatever the settings say, but nobody else's
 * business: what it says or fails to say is put down to no node.
 */
extern void redis_target_leave(RedisTarget *t);

/* For the server log and pg_monitor: no user, no password. */
extern void redis_target_show(const RedisTarget *t, char *out, size_t size);

/*
 * Has a Redis server answered there, as these settings say, since this server was started?
 * Then what goes wrong now is no sign of wrong settings.
 */
extern void redis_target_note_answered(const RedisTarget *t);
extern bool redis_target_has_answered(const RedisTarget *t);

/* Have the host name resolved again, if it has one; WANT_xxx of addresses.h. */
extern void redis_target_want_addresses(const RedisTarget *t, uint32 why);

/* The watchdog is connected there; that has ended, or it could not. */
extern void redis_target_confirm(const RedisTarget *t);
extern void redis_target_lost(const RedisTarget *t);

/* It takes no writes, or has said that it is no master. */
extern void redis_target_is_no_master(const RedisTarget *t);

/* It has let all of a time limit pass without a sign of life, or has answered. */
extern void redis_target_set_silent(const RedisTarget *t, bool silent);

#endif							/* LR_REDIS_TARGET_H */
