/*-------------------------------------------------------------------------
 *
 * read_write.c
 *	  The read lock and the write lock of Redisson's RReadWriteLock.
 *
 * The key is a hash with a field "mode" and one for each reader.  Each reader also has a
 * key that lives as long as its lease; the hash lives at least as long as the longest of
 * them.  A session takes the lock once in the store, and counts its own holds itself.
 *
 * The write lock excludes all others, but its own session can hold the read lock, too, and
 * keeps that when it releases the write lock.  A session that waits for it is announced in a
 * key of ours, and sessions that come later, of any server with lockredis, let it go first.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/read_write.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

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
	.excludes = KINDS_APART & ~KIND_BIT(KIND_READ),
	.held_as = KIND_READ,
	.alike = KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE),
	.beside = KIND_BIT(KIND_WRITE),
	.shared = true,
	.watched_ms = LOOK_EACH_MS,
	.topic = TOPIC_READ_WRITE,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_READ_CREATE,
			.keys = {NAME_LOCK, NAME_TIMEOUT, NAME_WRITERS},
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER, ARG_SINCE, ARG_BESIDE},
			.reply = REPLY_QUEUED,
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

const LockKind write_kind = {
	.name = "write",
	.unlock = "redis_write_unlock",
	.excludes = KINDS_APART,
	.held_as = KIND_WRITE,
	.alike = KIND_BIT(KIND_READ) | KIND_BIT(KIND_WRITE),
	.handed_over = true,
	.announced = true,
	.shared = true,
	.topic = TOPIC_READ_WRITE,
	.calls = {
		[STORE_CREATE] = {
			.script = LUA_WRITE_CREATE,
			.keys = {NAME_LOCK, NAME_WRITERS},
			.fenced_key = NAME_COUNTER,
			.each = {ARG_LEASE, ARG_OWNER, ARG_NOT_AFTER, ARG_WAIT, ARG_SINCE},
			.unusual = {ARG_AMOUNT},
			.reply = REPLY_QUEUED,
		},
		[STORE_RELEASE] = {
			.script = LUA_WRITE_RELEASE,
			.keys = {NAME_LOCK, NAME_READ_WRITE_CHANNEL, NAME_WRITERS},
			.once = {ARG_PUBLISH},
			.each = {ARG_OWNER, ARG_PREFIX},
			.group = RELEASE_GROUP,
			.reply = REPLY_TOLD,
		},
		[STORE_RENEW] = {
			.script = LUA_WRITE_RENEW,
			.keys = {NAME_LOCK},
			.each = {ARG_OWNER, ARG_LEASE},
			.unusual = {ARG_WRITE},
			.group = RENEW_GROUP,
			.reply = REPLY_DONE,
		},
		[STORE_MINT] = {
			.script = LUA_WRITE_MINT,
			.keys = {NAME_LOCK, NAME_COUNTER},
			.each = {ARG_OWNER, ARG_FLOOR, ARG_AMOUNT},
			.reply = REPLY_TOKEN,
		},
		CALLS_OF_ANY_LOCK,
	},
};
