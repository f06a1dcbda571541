/*-------------------------------------------------------------------------
 *
 * lock_waits.h
 *	  Who waits for whom in PostgreSQL's lock manager.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/lock_waits.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCK_WAITS_H
#define LR_LOCK_WAITS_H

#include "lockredis.h"

#include "datatype/timestamp.h"
#include "storage/lock.h"

/* What one search has learned so far; in the current memory context. */
typedef struct LockWaits LockWaits;

/* Told of an edge.  Both are processes, parallel workers as their leader. */
typedef void (*LockEdgeFound) (void *arg, LrIndex waiter, LrIndex blocker);

/* Does somebody lead to this process already? */
typedef bool (*LockIsReached) (void *arg, LrIndex process);

extern LockWaits *lock_waits_create(LockEdgeFound found,
									LockIsReached is_reached, void *arg);

/*
 * Tells of edges until all who keep the process from what it waits for are
 * reached, and likewise for those who are reached by that and wait for the same
 * lock ahead of it.
 */
extern void lock_waits_follow(LockWaits *waits, LrIndex process);

/* For who wants to know what a search costs. */
extern int	lock_waits_looks(const LockWaits *waits);
extern Size lock_waits_memory(const LockWaits *waits);

/* One edge. */
typedef struct LockWait
{
	int			pid;			/* who sleeps: the waiter or its worker */
	int			blocker_pid;
	LOCKTAG		tag;
	LOCKMODE	mode;
	TimestampTz since;
} LockWait;

/* Is the one kept from a lock by the other? */
extern bool lock_wait_between(LrIndex waiter, LrIndex blocker, LockWait *wait);

#endif							/* LR_LOCK_WAITS_H */
