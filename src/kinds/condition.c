/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  A wait for a condition: a monitor whose lock is the reentrant one.
 *
 * The store has a list of the waiting sessions, in the order of arrival; each has a time
 * until which it counts.  The first create of a session also releases its lock, in the same
 * script; the next ones ask whether it was notified.  What the session then holds is the
 * notification: it has a lease like a lock, and the session keeps it until it holds the
 * lock again.  A release passes the notification on to the next session.
 *
 * Conditions work between servers with lockredis only: Redisson has nothing like them.
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
	.condition_of = KIND_REENTRANT,
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
			.each = {ARG_OWNER, ARG_AMOUNT},
			.reply = REPLY_NOTIFIED,
		},
	},
};
