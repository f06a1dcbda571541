/*-------------------------------------------------------------------------
 *
 * latch.c
 *	  The latch: Redisson's RCountDownLatch.
 *
 * A latch is a number that is counted down; at zero the key is deleted, and the sessions
 * that wait for it go on.  A wait takes nothing, so its "create" only looks.  A ticket
 * identifies each count, as with a semaphore.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/latch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

const LockKind latch_kind = {
	.name = "latch",
	.alike = KIND_BIT(KIND_LATCH),
	.held_as = KIND_LATCH,
	.ownerless = true,
	.topic = TOPIC_LATCH,
	.untagged = true,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_LATCH_CREATE,
			.keys = {NAME_LOCK},
			.group = 1,
			.reply = REPLY_QUEUED,
		},
		[STORE_DEFINE] = {
			.script = LUA_LATCH_DEFINE,
			.keys = {NAME_LOCK, NAME_LATCH_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_NOT_AFTER, ARG_CHANGE, ARG_AMOUNT},
			.group = 1,
			.reply = REPLY_VALUE,
		},
		[STORE_VALUE] = {
			.script = LUA_LATCH_VALUE,
			.keys = {NAME_LOCK},
			.group = 1,
			.reply = REPLY_VALUE,
		},
		[STORE_TALLY] = {
			.script = LUA_LATCH_COUNT,
			.keys = {NAME_LOCK, NAME_TICKETS, NAME_LATCH_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_AMOUNT, ARG_OWNER},
			.group = 1,
			.reply = REPLY_VALUE,
		},
	},
};
