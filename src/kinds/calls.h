/*-------------------------------------------------------------------------
 *
 * calls.h
 *	  Script calls that several kinds of locks have in common.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/calls.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CALLS_H
#define LR_CALLS_H

#include "kinds/kind.h"

/* These scripts look at what the key holds, so they serve all kinds of locks. */
#define CALLS_OF_ANY_LOCK \
	[STORE_FORCE] = { \
		.script = LUA_REENTRANT_FORCE, \
		.keys = {NAME_LOCK}, \
		.once = {ARG_PUBLISH, ARG_RELEASED}, \
		.each = {ARG_OWNER_TEXT, ARG_READ_WRITE_CHANNEL, ARG_PREFIX, \
				 ARG_PERMITS_CHANNEL, ARG_CHANNEL}, \
		.group = 1, \
		.reply = REPLY_TOLD, \
	}, \
	[STORE_INSPECT] = { \
		.script = LUA_REENTRANT_INSPECT, \
		.keys = {NAME_LOCK}, \
		.each = {ARG_PREFIX}, \
		.group = 1, \
		.reply = REPLY_INSPECTED, \
	}

/* Locks in one script: more would hold up Redis. */
#define REENTRANT_RENEW_GROUP	200

/* For kinds that are the reentrant lock once they are held (held_as). */
#define CALLS_OF_HAD_REENTRANT \
	[STORE_SET] = { \
		.script = LUA_REENTRANT_RENEW, \
		.keys = {NAME_LOCK}, \
		.each = {ARG_OWNER, ARG_LEASE}, \
		.unusual = {ARG_WRITE}, \
		.group = REENTRANT_RENEW_GROUP, \
		.reply = REPLY_DONE, \
	}, \
	[STORE_RENEW] = { \
		.script = LUA_REENTRANT_RENEW, \
		.keys = {NAME_LOCK}, \
		.each = {ARG_OWNER, ARG_LEASE}, \
		.unusual = {ARG_WRITE}, \
		.group = REENTRANT_RENEW_GROUP, \
		.reply = REPLY_DONE, \
	}, \
	[STORE_MINT] = { \
		.script = LUA_REENTRANT_MINT, \
		.keys = {NAME_LOCK, NAME_COUNTER}, \
		.each = {ARG_OWNER, ARG_FLOOR, ARG_AMOUNT}, \
		.group = 1, \
		.reply = REPLY_TOKEN, \
	}

#endif							/* LR_CALLS_H */
