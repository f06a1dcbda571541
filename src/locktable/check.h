/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The lock table: is it as it has to be?  In builds with assertions only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/check.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_CHECK_H
#define LR_LOCKTABLE_CHECK_H

#include "locktable/locktable_int.h"

#ifdef USE_ASSERT_CHECKING

/*
 * Each of these says what is wrong, in memory that the next one uses again; NULL:
 * nothing.
 */

/* A key with its holds and queue, or what a session waits with: partition lock held. */
extern const char *lt_check_key(LrIndex key);
extern const char *lt_check_wait(LrIndex session);

/* Numbers over all, and due times: while nobody is in the middle of anything. */
extern const char *lt_check_counts(void);
extern const char *lt_check_due_times(void);

/* For the code of the lock table; all of them end the process if something is wrong. */

/* A partition was changed, whose lock is held; and so many are to be woken. */
extern void lt_check_change(LWLock *lock);
extern void lt_check_wakes(LWLock *lock, const LrIndex *sessions, int n);

/* This session has ended. */
extern void lt_check_session_end(void);

/* For those who check. */
extern const char *lt_check_says(const char *format,...) pg_attribute_printf(1, 2);
extern void lt_check_insist(const char *says, const char *when);
extern const char *const lt_state_names[];

/* The first of several that finds something says so. */
#define CHECK(call) \
	do { \
		const char *says_ = (call); \
		if (says_ != NULL) \
			return says_; \
	} while (0)

/* Of a key or a hold. */
static inline bool
lt_is_index(LrIndex i)
{
	return i >= 0 && i < lt_table->max_locks;
}

#else

#define lt_check_change(lock)			((void) 0)
#define lt_check_wakes(lock, sessions, n)	((void) 0)
#define lt_check_session_end()			((void) 0)

#endif							/* USE_ASSERT_CHECKING */

#endif							/* LR_LOCKTABLE_CHECK_H */
