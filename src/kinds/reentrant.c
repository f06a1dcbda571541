/*-------------------------------------------------------------------------
 *
 * reentrant.c
 *	  The reentrant lock: Redisson's RLock and, with a token, RFencedLock; and the fair
 *	  lock, RFairLock, which is another way to get it.
 *
 * The key is a hash with one field, the owner, whose value is 1: only its session counts
 * how often it holds the lock.  The lock excludes everybody else.
 *
 * The clients that wait for a fair lock, of whatever server or program, stand in a queue in
 * the store, in the order of arrival.  Once held, it is the reentrant lock of the name, for
 * its session as for everybody else.
 *
 * Redisson's queue has a time for each client until which it counts; but Redisson's
 * clients compare that with their own clocks, and change it by their own wait times.
 * Therefore a key of ours also has the places of sessions with lockredis, with a time by
 * Redis's clock, and sessions with lockredis go by that.
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
#define RELEASE_GROUP		100
#define FAIR_RELEASE_GROUP	50

/* The most locks that are taken together: see session/session.h. */
#define TOGETHER_GROUP		1000

const LockKind reentrant_kind = {
	.name = "reentrant",
	.unlock = "redis_unlock",
	.excludes = KINDS_APART,
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
			.unusual = {ARG_AMOUNT},
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

const LockKind fair_kind = {
	.name = "fair",
	.unlock = "redis_unlock",
	.excludes = KINDS_APART,
	.alike = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_FAIR),
	.held_as = KIND_REENTRANT,
	.announced = true,
	.placed = true,
	.turn_topic = TOPIC_PLACE,
	.falls_back = true,
	.topic = TOPIC_LOCK,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_FAIR_CREATE,
			.keys = {NAME_LOCK, NAME_LOCK_CHANNEL, NAME_QUEUE, NAME_PATIENCE, NAME_PLACES},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER, ARG_WAIT, ARG_HERE},
			.reply = REPLY_QUEUED,
		},
		[STORE_RELEASE] = {
			.script = LUA_FAIR_RELEASE,
			.keys = {NAME_LOCK, NAME_LOCK_CHANNEL, NAME_QUEUE, NAME_PATIENCE, NAME_PLACES},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_KEEP},
			.group = FAIR_RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		CALLS_OF_HAD_REENTRANT,
		CALLS_OF_ANY_LOCK,
	},
};
