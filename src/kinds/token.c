/*-------------------------------------------------------------------------
 *
 * token.c
 *	  The token lock: that of redis-py, redsync and node-redlock.
 *
 * The key is a string with a time to live, whose value is the token.  Anybody who knows
 * the token may release the lock or extend its lease; no session holds it.  It excludes
 * everything else that the key could hold.
 *
 * Only the create sends the token itself to Redis.  All other requests, also those of the
 * watchdog, send its SHA-1.  The table gets only its SHA-256 (session/unowned.c).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/token.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

/* Locks in one script: more would hold up Redis. */
#define RELEASE_GROUP		100

const LockKind token_kind = {
	.name = "token",
	.unlock = "redis_token_unlock",
	.excludes = KINDS_APART,
	.alike = PG_UINT16_MAX,
	.held_as = KIND_TOKEN,
	.ownerless = true,
	.voted = true,
	.topic = TOPIC_LOCK,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_TOKEN_CREATE,
			.keys = {NAME_LOCK},
			.each = {ARG_LEASE, ARG_TEXT, ARG_NOT_AFTER},
			.reply = REPLY_CREATED,
		},
		[STORE_RENEW] = {
			.script = LUA_TOKEN_SET,
			.keys = {NAME_LOCK},
			.each = {ARG_DIGEST, ARG_LEASE},
			.unusual = {ARG_WRITE},
			.reply = REPLY_DONE,
		},
		[STORE_RELEASE] = {
			.script = LUA_TOKEN_RELEASE,
			.keys = {NAME_LOCK},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_DIGEST, ARG_CHANNEL},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
	},
};
