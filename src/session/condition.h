/*-------------------------------------------------------------------------
 *
 * condition.h
 *	  The conditions of the locks that this backend has: wait, notify.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/condition.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CONDITION_H
#define LR_CONDITION_H

#include "lockredis.h"

#include "keyname.h"

/* "id" of a condition: STORE_ID_LEN bytes, the digest of its name. */

/*
 * Give the lock back, wait for its condition, take it again.  False: wait_us (or
 * WAIT_FOREVER) are over.
 */
extern bool session_condition_wait(const LrName *name, const uint8 *id, int64 wait_us);

/* Tell as many of those who wait for it, or all there are (CONDITION_ALL); how many. */
#define CONDITION_ALL		PG_INT32_MAX
extern int64 session_condition_notify(const LrName *name, const uint8 *id, int most);

#endif							/* LR_CONDITION_H */
