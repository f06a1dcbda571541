/*-------------------------------------------------------------------------
 *
 * lockredis.h
 *	  What every file of the extension shares: limits, basic types, the clock, and
 *	  which part of a lease suffices for which purpose.
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

#include <time.h>

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

/* ----------
 * The terms on which a lock can be held
 * ----------
 */

typedef enum LockScope
{
	SCOPE_SESSION,
	SCOPE_XACT,
	SCOPE_COUNT
} LockScope;

/* lockredis.commit_guard; the greater value is the stricter one. */
typedef enum CommitGuard
{
	GUARD_OFF,
	GUARD_LEASE,				/* enough of the lease must be left */
	GUARD_VERIFY				/* the store must confirm that we hold it */
} CommitGuard;

/* lockredis.on_lost; the greater value is the stricter one. */
typedef enum OnLost
{
	ON_LOST_MARK,
	ON_LOST_CANCEL,
	ON_LOST_TERMINATE
} OnLost;

/* ----------
 * The clock by which all leases and deadlines are measured
 *
 * Times are microseconds of CLOCK_BOOTTIME where the system has it: that clock never
 * jumps, all processes of the host share it, and unlike CLOCK_MONOTONIC it goes on while
 * the machine sleeps, as the lease in the store does.  The wall clock (TimestampTz) is only
 * for display, and for rows of the table of locks that outlive the server; nothing else may
 * be decided by it.
 * ----------
 */

#ifdef CLOCK_BOOTTIME
#define LR_CLOCK_ID CLOCK_BOOTTIME
#else
#define LR_CLOCK_ID CLOCK_MONOTONIC
#endif

#define LR_NS_PER_US	1000
#define LR_US_PER_MS	INT64CONST(1000)
#define LR_US_PER_S		INT64CONST(1000000)

/* A time that never comes; it is small enough that something can be added to it. */
#define LR_NEVER		(PG_INT64_MAX / 4)

/* Microseconds of LR_CLOCK_ID, which does not jump. */
static inline int64
lr_now(void)
{
	struct timespec ts;

	clock_gettime(LR_CLOCK_ID, &ts);
	return (int64) ts.tv_sec * LR_US_PER_S + ts.tv_nsec / LR_NS_PER_US;
}

/* Convert microseconds to milliseconds, rounding up. */
static inline int64
lr_ms_up(int64 us)
{
	return (us + LR_US_PER_MS - 1) / LR_US_PER_MS;
}

/*
 * The earlier and the later of two times.  Min() and Max() evaluate the argument that
 * they return twice: if it reads a clock or shared memory, the second value may be one
 * that was never compared.
 */
static inline int64
lr_earlier(int64 a, int64 b)
{
	return a < b ? a : b;
}

/* The later of two times; unlike Max() it reads a clock once. */
static inline int64
lr_later(int64 a, int64 b)
{
	return a > b ? a : b;
}

/*
 * Milliseconds left until "until", rounded up and at least 0, as a timeout of a wait.
 */
static inline long
lr_ms_until(int64 until, int64 now)
{
	if (until <= now)
		return 0;
	return (long) Min(lr_ms_up(until - now), (int64) (PG_INT32_MAX / 2));
}

/* ----------
 * Which part of a lease suffices for which purpose
 *
 * Several parts of the code have to agree on these limits: a lock is renewed early enough
 * to outlive a change to another store, and is not passed on with less of its lease than
 * the next commit requires.
 * ----------
 */

/* The longest possible lease. */
#define LR_LEASE_MAX_MS		(INT64CONST(24) * 24 * 60 * 60 * 1000)

/*
 * When a lease ends for its holder whose request was sent at that time.  Redis counts the
 * lease from the beginning of the millisecond in which it runs the request, and since
 * version 8 may remove the key as soon as that time is over.
 */
static inline int64
lr_lease_deadline(int64 sent_at, int64 lease_ms)
{
	return sent_at + (lease_ms - 1) * LR_US_PER_MS;
}

/* The shortest lease, asked for from now on, that ends no earlier than what is left. */
static inline int64
lr_lease_to_keep(int64 left)
{
	return left > 0 ? lr_ms_up(left) + 1 : 0;
}

#define LR_MARGIN_MAX		LR_US_PER_S

/* A commit requires that more than this is left of a lease: a tenth of it, at most a second. */
static inline int64
lr_commit_margin(int64 lease)
{
	return Min(lease / 10, LR_MARGIN_MAX);
}

/* How much of a lease is left when it is renewed, after a third of it. */
static inline int64
lr_left_at_renewal(int64 lease)
{
	return lease * 2 / 3;
}

/*
 * The watchdog sends renewals that are due soon together with those that are due now:
 * up to a twelfth of their lease early, but at most this.
 */
#define LR_EARLY_MAX		(2 * LR_US_PER_S)

/* How much earlier than needed a renewal may run, to go along with others. */
static inline int64
lr_early_renewal(int64 lease)
{
	return Min(lease / 12, LR_EARLY_MAX);
}

#endif							/* LOCKREDIS_H */
