/*-------------------------------------------------------------------------
 *
 * permit.c
 *	  Permits of a semaphore: Redisson's RPermitExpirableSemaphore.
 *
 * The key has the number of free permits, and a sorted set beside it the ids of those that
 * are held, with the end of each lease.  An id is computed from the owner number and the
 * secret of this instance, without which it cannot be guessed (names.h).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/permit.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

/* Permits in one script: more would hold up Redis. */
#define RENEW_GROUP			100
#define RELEASE_GROUP		50

#define PERMIT_KEYS			{NAME_LOCK, NAME_PERMITS, NAME_PERMITS_CHANNEL}

const LockKind permit_kind = {
	.name = "permit",
	.unlock = "redis_permit_unlock",
	.made_by = "redis_permit_init",
	.alike = KIND_BIT(KIND_PERMIT),
	.held_as = KIND_PERMIT,
	.each_own = true,
	.one_asks = true,
	.handed_over = true,
	.shared = true,
	.topic = TOPIC_PERMITS,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_PERMIT_CREATE,
			.keys = PERMIT_KEYS,
			.once = {ARG_PUBLISH},
			.each = {ARG_LEASE, ARG_PERMIT, ARG_NOT_AFTER},
			.reply = REPLY_QUEUED,
		},
		[STORE_RELEASE] = {
			.script = LUA_PERMIT_RELEASE,
			.keys = PERMIT_KEYS,
			.once = {ARG_PUBLISH},
			.each = {ARG_PERMIT},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		[STORE_RENEW] = {
			.script = LUA_PERMIT_RENEW,
			.keys = PERMIT_KEYS,
			.once = {ARG_PUBLISH},
			.each = {ARG_PERMIT, ARG_LEASE},
			.unusual = {ARG_WRITE},
			.group = RENEW_GROUP,
			.reply = REPLY_DONE,
		},
		[STORE_DEFINE] = {
			.script = LUA_PERMIT_DEFINE,
			.keys = PERMIT_KEYS,
			.once = {ARG_PUBLISH},
			.each = {ARG_NOT_AFTER, ARG_CHANGE, ARG_AMOUNT},
			.reply = REPLY_VALUE,
		},
		[STORE_VALUE] = {
			.script = LUA_PERMIT_DEFINE,
			.keys = PERMIT_KEYS,
			.once = {ARG_PUBLISH},
			.reply = REPLY_VALUE,
		},
		CALLS_OF_ANY_LOCK,
	},
};
