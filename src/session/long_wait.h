/*-------------------------------------------------------------------------
 *
 * long_wait.h
 *	  What happens when a wait for a key lasts longer than deadlock_timeout.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/long_wait.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LONG_WAIT_H
#define LR_LONG_WAIT_H

#include "lockredis.h"

#include "keyname.h"

/* An acquire begins; it may have to wait. */
extern void long_wait_reset(void);

/* It falls asleep for the first time. */
extern void long_wait_begin(void);

/* When to call long_wait_look(), which returns at once before. */
extern int64 long_wait_look_at(void);

/* Raises 40P01 if this session has to break a deadlock. */
extern void long_wait_look(const LrName *name);

/* The lock was had in the end. */
extern void long_wait_acquired(const LrName *name);

#endif							/* LR_LONG_WAIT_H */
