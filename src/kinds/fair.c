/*-------------------------------------------------------------------------
 *
 * fair.c
 *	  The fair lock: Redisson's RFairLock.
 *
 * Who waits for it stands in a queue in the store, in the order in which all of them,
 * of whatever server or program, came there.  Once had it is the reentrant lock of the
 * name, and its session and all others deal with it as with that.
 *
 * Redisson's queue has for each who waits the time until which he counts, which the
 * others judge by their own clocks and change by what they themselves would wait.  So
 * the places of sessions with lockredis stand in a key of ours, too, with a time by
 * Redis's clock, by which ours judge them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/fair.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/calls.h"

/* Locks in one script: more would hold up Redis. */
#define RELEASE_GROUP		50

const LockKind fair_kind = {
	.name = "fair",
	.unlock = "redis_unlock",
	.excludes = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE) |
		KIND_BIT(KIND_FAIR) | KIND_BIT(KIND_TOKEN),
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
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER, ARG_WAIT},
			.group = 1,
			.reply = REPLY_QUEUED,
		},
		[STORE_RELEASE] = {
			.script = LUA_FAIR_RELEASE,
			.keys = {NAME_LOCK, NAME_LOCK_CHANNEL, NAME_QUEUE, NAME_PATIENCE, NAME_PLACES},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_KEEP},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		CALLS_OF_HAD_REENTRANT,
		CALLS_OF_ANY_LOCK,
	},
};
