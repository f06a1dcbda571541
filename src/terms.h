/*-------------------------------------------------------------------------
 *
 * terms.h
 *	  On which terms a lock can be had: words that settings, SQL functions,
 *	  sessions and the lock table share.
 *
 * Nothing but enums: it stands below everything.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/terms.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TERMS_H
#define LR_TERMS_H

typedef enum LockScope
{
	SCOPE_SESSION,
	SCOPE_XACT,
	SCOPE_COUNT
} LockScope;

/* lockredis.commit_guard; of two the greater is the stricter. */
typedef enum CommitGuard
{
	GUARD_OFF,
	GUARD_LEASE,				/* enough of the lease must be left */
	GUARD_VERIFY				/* the store must say that it is ours */
} CommitGuard;

/* lockredis.on_lost; of two the greater is the stricter. */
typedef enum OnLost
{
	ON_LOST_MARK,
	ON_LOST_CANCEL,
	ON_LOST_TERMINATE
} OnLost;

#endif							/* LR_TERMS_H */
