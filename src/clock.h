/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clock by which all leases and deadlines are measured.
 *
 * Times are microseconds of CLOCK_BOOTTIME where the system has it: that clock
 * never jumps, all processes of the host share it, and unlike CLOCK_MONOTONIC it
 * goes on while the machine sleeps, as the lease in the store does.  The wall clock
 * (TimestampTz) is only for display, and for rows of the table of locks that outlive
 * the server; nothing else may be decided by it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/clock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CLOCK_H
#define LR_CLOCK_H

#include <time.h>

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

#endif							/* LR_CLOCK_H */
