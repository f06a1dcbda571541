/*-------------------------------------------------------------------------
 *
 * check.h
 *	  The lock table: checks of its consistency, in builds with assertions only.
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
 * Each of these returns what is wrong, in memory that the next call uses again, or NULL if
 * nothing is.
 */

/* A key with its holds and queue, or the wait of a session: partition lock held. */
extern const char *lt_check_key(LrIndex key);
extern const char *lt_check_wait(LrIndex session);

/* All counters, and all due times: only while no process changes the lock table. */
extern const char *lt_check_counts(void);
extern const char *lt_check_due_times(void);

/* The code of the lock table calls these; they end the process if something is wrong. */

/* Before a changed partition is unlocked; and for the sessions that are woken then. */
extern void lt_check_change(LWLock *lock);
extern void lt_check_wakes(LWLock *lock, const LrIndex *sessions, int n);

/* This session has ended. */
extern void lt_check_session_end(void);

/* For the checks themselves. */
extern const char *lt_check_says(const char *format,...) pg_attribute_printf(1, 2);
extern void lt_check_insist(const char *says, const char *when);
extern const char *const lt_state_names[];

/* Return what a check has found, if anything. */
#define CHECK(call) \
	do { \
		const char *says_ = (call); \
		if (says_ != NULL) \
			return says_; \
	} while (0)

/* Can it be the index of a key or of a hold? */
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
