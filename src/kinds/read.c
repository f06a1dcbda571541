/*-------------------------------------------------------------------------
 *
 * read.c
 *	  The read lock of Redisson's RReadWriteLock.
 *
 * The key is a hash with a field "mode" and one for each reader.  Each reader also has a
 * key that lives as long as its lease; the hash lives as long as the longest of them.  A
 * session takes the lock once in the store, and counts its own holds itself.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/read.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/calls.h"

/* Locks in one script: more would hold up Redis. */
#define RENEW_GROUP			100
#define RELEASE_GROUP		50

/*
 * Redisson's default interval of renewals.  When it renews a reader, it sets the time
 * to live of the whole hash, perhaps to less than the lease of another reader.
 */
#define LOOK_EACH_MS		10000

const LockKind read_kind = {
	.name = "read",
	.unlock = "redis_read_unlock",
	.excludes = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_WRITE) | KIND_BIT(KIND_FAIR) |
		KIND_BIT(KIND_TOKEN),
	.held_as = KIND_READ,
	.alike = KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE),
	.shared = true,
	.watched_ms = LOOK_EACH_MS,
	.topic = TOPIC_READ_WRITE,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_READ_CREATE,
			.keys = {NAME_LOCK, NAME_TIMEOUT, NAME_WRITERS},
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER, ARG_SINCE, ARG_BESIDE},
			.group = 1,
			.reply = REPLY_QUEUED,
		},
		[STORE_SET] = {
			.script = LUA_READ_RENEW,
			.keys = {NAME_LOCK, NAME_TIMEOUT},
			.each = {ARG_OWNER, ARG_LEASE},
			.unusual = {ARG_WRITE},
			.group = RENEW_GROUP,
			.reply = REPLY_WATCHED,
		},
		[STORE_RELEASE] = {
			.script = LUA_READ_RELEASE,
			.keys = {NAME_LOCK, NAME_READ_WRITE_CHANNEL, NAME_TIMEOUT},
			.once = {ARG_PUBLISH},
			.each = {ARG_OWNER, ARG_PREFIX},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		[STORE_RENEW] = {
			.script = LUA_READ_RENEW,
			.keys = {NAME_LOCK, NAME_TIMEOUT},
			.each = {ARG_OWNER, ARG_LEASE},
			.unusual = {ARG_WRITE},
			.group = RENEW_GROUP,
			.reply = REPLY_WATCHED,
		},
		CALLS_OF_ANY_LOCK,
	},
};
