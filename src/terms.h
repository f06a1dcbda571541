/*-------------------------------------------------------------------------
 *
 * terms.h
 *	  The terms on which a lock can be held: enums that settings, SQL functions,
 *	  sessions and the lock table share.
 *
 * The file contains nothing else, since it lies below all others.
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

#endif							/* LR_TERMS_H */
