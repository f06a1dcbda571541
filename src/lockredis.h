/*-------------------------------------------------------------------------
 *
 * lockredis.h
 *	  What every file of the extension shares: limits and basic types.
 *
 * Each .c file includes this first, since it includes postgres.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/lockredis.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LOCKREDIS_H
#define LOCKREDIS_H

#include "postgres.h"

#include "clock.h"
#include "compat.h"

/* Limits in bytes of UTF-8: of the caller's key, the prefix, and both together. */
#define LR_KEY_MAX			255
#define LR_PREFIX_MAX		64
#define LR_NAME_MAX			(LR_PREFIX_MAX + LR_KEY_MAX)

/*
 * Longest owner that is displayed.  "<uuid>:<number>" has at most 57 bytes, Redisson's
 * writers and transactional locks have a few more.  A longer foreign owner is truncated
 * for display; a truncated one never counts as an owner.
 */
#define LR_OWNER_MAX		96

#define LR_UUID_LEN			36

/* Index into one of the pools in shared memory, or LR_NONE. */
typedef int32 LrIndex;

#define LR_NONE				((LrIndex) -1)

/* The stores that can keep locks; fallback mode has both. */
typedef enum StoreId
{
	STORE_REDIS,
	STORE_TABLE,
	STORE_COUNT
} StoreId;

#endif							/* LOCKREDIS_H */
