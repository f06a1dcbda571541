/*-------------------------------------------------------------------------
 *
 * reentrant.c
 *	  The reentrant lock: Redisson's RLock and, with a token, RFencedLock.
 *
 * A hash with one field, the owner, whose value is the hold count.  Everybody
 * else is excluded; its session may take it again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/reentrant.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

/* Locks in one script: more would hold up Redis. */
#define RENEW_GROUP			200
#define RELEASE_GROUP		100

/* More are not taken together at all: see session/multi.h. */
#define TOGETHER_GROUP		1000

const LockKind reentrant_kind = {
	.name = "reentrant",
	.unlock = "redis_unlock",
	.excludes = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE) |
		KIND_BIT(KIND_FAIR),
	.alike = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_FAIR),
	.held_as = KIND_REENTRANT,
	.handed_over = true,
	.counted = true,
	.topic = TOPIC_LOCK,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_REENTRANT_CREATE,
			.keys = {KEY_LOCK},
			.fenced_key = KEY_COUNTER,
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER},
			.group = 1,
			.reply = REPLY_CREATED,
		},
		[STORE_SET] = {
			.script = LUA_REENTRANT_SET,
			.keys = {KEY_LOCK},
			.each = {ARG_OWNER, ARG_HOLDS, ARG_LEASE},
			.confirmed_arg = ARG_WRITE,
			.group = 1,
			.reply = REPLY_DONE,
		},
		[STORE_RELEASE] = {
			.script = LUA_REENTRANT_RELEASE,
			.keys = {KEY_LOCK, KEY_CHANNEL},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_KEEP},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		[STORE_RENEW] = {
			.script = LUA_REENTRANT_RENEW,
			.keys = {KEY_LOCK},
			.each = {ARG_OWNER, ARG_LEASE},
			.confirmed_arg = ARG_WRITE,
			.group = RENEW_GROUP,
			.reply = REPLY_DONE,
		},
		[STORE_MINT] = {
			.script = LUA_REENTRANT_MINT,
			.keys = {KEY_LOCK, KEY_COUNTER},
			.each = {ARG_OWNER, ARG_FLOOR},
			.group = 1,
			.reply = REPLY_TOKEN,
		},
		[STORE_FORCE] = {
			.script = LUA_REENTRANT_FORCE,
			.keys = {KEY_LOCK, KEY_CHANNEL},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER_TEXT, ARG_READ_WRITE_CHANNEL, ARG_PREFIX},
			.group = 1,
			.reply = REPLY_TOLD,
		},
		[STORE_INSPECT] = {
			.script = LUA_REENTRANT_INSPECT,
			.keys = {KEY_LOCK},
			.group = 1,
			.reply = REPLY_INSPECTED,
		},
	},
	.together = {
		.script = LUA_REENTRANT_TOGETHER,
		.keys = {KEY_LOCK},
		.once = {ARG_LEASE, ARG_NOT_AFTER},
		.each = {ARG_OWNER},
		.group = TOGETHER_GROUP,
		.reply = REPLY_TOGETHER,
	},
};
