/*-------------------------------------------------------------------------
 *
 * fair.c
 *	  The fair lock: Redisson's RFairLock.
 *
 * The clients that wait for it, of whatever server or program, stand in a queue in the
 * store, in the order of arrival.  Once held, it is the reentrant lock of the name, for
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
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER, ARG_WAIT, ARG_HERE},
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
