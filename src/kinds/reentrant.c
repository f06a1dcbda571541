/*-------------------------------------------------------------------------
 *
 * reentrant.c
 *	  The reentrant lock: Redisson's RLock and, with a token, RFencedLock.
 *
 * The key is a hash with one field, the owner, whose value is 1: only its session counts
 * how often it holds the lock.  The lock excludes everybody else.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/reentrant.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/calls.h"

/* Locks in one script: more would hold up Redis. */
#define RELEASE_GROUP		100

/* The most locks that are taken together: see session/session.h. */
#define TOGETHER_GROUP		1000

const LockKind reentrant_kind = {
	.name = "reentrant",
	.unlock = "redis_unlock",
	.excludes = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE) |
		KIND_BIT(KIND_FAIR) | KIND_BIT(KIND_TOKEN),
	.alike = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_FAIR),
	.held_as = KIND_REENTRANT,
	.handed_over = true,
	.falls_back = true,
	.voted = true,
	.topic = TOPIC_LOCK,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_REENTRANT_CREATE,
			.keys = {NAME_LOCK},
			.fenced_key = NAME_COUNTER,
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER},
			.group = 1,
			.reply = REPLY_CREATED,
		},
		[STORE_RELEASE] = {
			.script = LUA_REENTRANT_RELEASE,
			.keys = {NAME_LOCK},
			.each = {ARG_OWNER, ARG_CHANNEL},
			.unusual = {ARG_PUBLISH, ARG_KEEP},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		CALLS_OF_HAD_REENTRANT,
		CALLS_OF_ANY_LOCK,
	},
	.together = {
		.script = LUA_REENTRANT_TOGETHER,
		.keys = {NAME_LOCK},
		.once = {ARG_LEASE, ARG_NOT_AFTER},
		.each = {ARG_OWNER},
		.group = TOGETHER_GROUP,
		.reply = REPLY_TOGETHER,
	},
};
