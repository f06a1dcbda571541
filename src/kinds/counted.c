/*-------------------------------------------------------------------------
 *
 * counted.c
 *	  What is counted: the semaphore without owners, Redisson's RSemaphore, and the latch,
 *	  RCountDownLatch.
 *
 * The key of a semaphore is the number of free permits.  Nobody owns a permit: anybody may
 * return it, and it never returns by itself.  Each request has a ticket, which a key of ours
 * keeps for an hour, so that a request whose reply was not read can be undone, or repeated
 * without counting twice.  The ticket of an answered request that was sent only once is
 * removed.
 *
 * A latch is a number that is counted down; at zero the key is deleted, and the sessions
 * that wait for it go on.  A wait takes nothing, so its "create" only looks.  A ticket
 * identifies each count, as with a semaphore.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/counted.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

/* Requests in one script: more would hold up Redis. */
#define RELEASE_GROUP		50

const LockKind semaphore_kind = {
	.name = "semaphore",
	.excludes = KIND_BIT(KIND_SEMAPHORE),
	.alike = KIND_BIT(KIND_SEMAPHORE),
	.held_as = KIND_SEMAPHORE,
	.ownerless = true,
	.topic = TOPIC_PERMITS,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_SEMAPHORE_CREATE,
			.keys = {NAME_LOCK, NAME_TICKETS},
			.each = {ARG_NOT_AFTER, ARG_AMOUNT, ARG_OWNER},
			.reply = REPLY_QUEUED,
		},
		[STORE_RELEASE] = {
			.script = LUA_SEMAPHORE_RELEASE,
			.keys = {NAME_LOCK, NAME_TICKETS, NAME_PERMITS_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_AMOUNT, ARG_OWNER},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		[STORE_DEFINE] = {
			.script = LUA_SEMAPHORE_DEFINE,
			.keys = {NAME_LOCK, NAME_PERMITS_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_NOT_AFTER, ARG_CHANGE, ARG_AMOUNT, ARG_LEASE},
			.reply = REPLY_VALUE,
		},
		[STORE_VALUE] = {
			.script = LUA_SEMAPHORE_VALUE,
			.keys = {NAME_LOCK},
			.reply = REPLY_VALUE,
		},
		[STORE_TALLY] = {
			.script = LUA_SEMAPHORE_COUNT,
			.keys = {NAME_LOCK, NAME_TICKETS, NAME_PERMITS_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_AMOUNT, ARG_OWNER},
			.reply = REPLY_VALUE,
		},
	},
};

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
			.reply = REPLY_QUEUED,
		},
		[STORE_DEFINE] = {
			.script = LUA_LATCH_DEFINE,
			.keys = {NAME_LOCK, NAME_LATCH_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_NOT_AFTER, ARG_CHANGE, ARG_AMOUNT},
			.reply = REPLY_VALUE,
		},
		[STORE_VALUE] = {
			.script = LUA_LATCH_VALUE,
			.keys = {NAME_LOCK},
			.reply = REPLY_VALUE,
		},
		[STORE_TALLY] = {
			.script = LUA_LATCH_COUNT,
			.keys = {NAME_LOCK, NAME_TICKETS, NAME_LATCH_CHANNEL},
			.once = {ARG_PUBLISH},
			.each = {ARG_AMOUNT, ARG_OWNER},
			.reply = REPLY_VALUE,
		},
	},
};
