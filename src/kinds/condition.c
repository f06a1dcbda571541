/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  A wait for a condition: a monitor of which the lock is the reentrant one.
 *
 * Who waits stands in a list in the store, in the order of arrival; each has a time until
 * which he counts.  His first create gives his lock back in the same script, the next ones
 * ask whether he was told.  What is had by that is the notification, which is kept, leased
 * like a lock, until its session has the lock again; a release passes it on to the next.
 *
 * It is between servers with lockredis only: Redisson knows nothing like it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/condition.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

/* Waits in one script: more would hold up Redis. */
#define RENEW_GROUP			100
#define RELEASE_GROUP		50

const LockKind condition_kind = {
	.name = "condition",
	.alike = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_FAIR),
	.held_as = KIND_CONDITION,
	.announced = true,
	.placed = true,
	.passing = true,
	.topic = TOPIC_LOCK,
	.turn_topic = TOPIC_CONDITION,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_CONDITION_CREATE,
			.keys = {NAME_LOCK, NAME_LOCK_CHANNEL, NAME_CONDITION_CHANNEL, NAME_WAITING,
			NAME_ALIVE, NAME_TOLD},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_NOT_AFTER, ARG_LEASE, ARG_WAIT, ARG_GIVES_BACK},
			.group = 1,
			.reply = REPLY_AWAITED,
		},
		[STORE_RELEASE] = {
			.script = LUA_CONDITION_RELEASE,
			.keys = {NAME_CONDITION_CHANNEL, NAME_WAITING, NAME_ALIVE,
			NAME_TOLD},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_ACTED},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		[STORE_RENEW] = {
			.script = LUA_CONDITION_RENEW,
			.keys = {NAME_CONDITION_CHANNEL, NAME_WAITING, NAME_ALIVE,
			NAME_TOLD},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_LEASE},
			.group = RENEW_GROUP,
			.reply = REPLY_DONE,
		},
		[STORE_NOTIFY] = {
			.script = LUA_CONDITION_NOTIFY,
			.keys = {NAME_LOCK, NAME_CONDITION_CHANNEL, NAME_WAITING,
			NAME_ALIVE, NAME_TOLD},
			.once = {ARG_PUBLISH, ARG_RELEASED},
			.each = {ARG_OWNER, ARG_COUNT},
			.group = 1,
			.reply = REPLY_NOTIFIED,
		},
	},
};
