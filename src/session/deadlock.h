/*-------------------------------------------------------------------------
 *
 * deadlock.h
 *	  Sessions of this server that wait for each other in a circle.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/deadlock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_DEADLOCK_H
#define LR_DEADLOCK_H

#include "lockredis.h"

typedef struct Deadlock Deadlock;

/*
 * For a session that waits for a key: is it in a cycle, and the one that has to
 * break it?  NULL if not.  "For all": suspects others that wait for the key, too.
 * Allocates in the current memory context.
 */
extern Deadlock *deadlock_find(bool for_all);

/* Raises 40P01. */
extern void deadlock_report(const Deadlock *deadlock);

#endif							/* LR_DEADLOCK_H */
