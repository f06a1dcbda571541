/*-------------------------------------------------------------------------
 *
 * guard.h
 *	  May the transaction commit, by the locks that the session has?
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/guard.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_GUARD_H
#define LR_GUARD_H

#include "lockredis.h"

/* Raise if a session-level lock was lost and unlocked in this transaction. */
extern void guard_refuse_unlocked_loss(void);

/*
 * Raise if a lock of this transaction was lost, or is about to be.  "has_xid": it
 * has written, so that session-level locks count, too.
 */
extern void guard_check_holds(bool has_xid);

#endif							/* LR_GUARD_H */
