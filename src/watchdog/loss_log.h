/*-------------------------------------------------------------------------
 *
 * loss_log.h
 *	  Losses of locks, for the server log.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/loss_log.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOSS_LOG_H
#define LR_LOSS_LOG_H

#include "lockredis.h"

#include "locktable/locktable.h"

extern Size loss_log_shmem_size(void);
extern int	loss_log_lwlocks(void);
extern void loss_log_shmem_init(int first_lwlock);

/*
 * A session has lost a lock that it had in these scopes.  Raises nothing and
 * allocates nothing; may be called with a partition of the lock table locked.
 * Wake the watchdog afterwards.
 */
extern void loss_log_add(int pid, const char *name, int len,
						 const ScopeHold *scope, LostReason reason,
						 const char *taken_by);

/* For the watchdog: write what has come, and when to look again. */
extern void loss_log_write(void);
extern int64 loss_log_next(void);

/* It ends: what was left out must not wait. */
extern void loss_log_finish(void);

#endif							/* LR_LOSS_LOG_H */
