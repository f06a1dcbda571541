/*-------------------------------------------------------------------------
 *
 * waiting.h
 *	  One acquire, from the request to the lock.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/waiting.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WAITING_H
#define LR_WAITING_H

#include "lockredis.h"

#include "keyname.h"
#include "session/request.h"

/*
 * True: the lock is had, *hold is its hold, unless its kind is ownerless.  False:
 * somebody else had it for all of wait_us.  Raises for everything else; whatever was or will be taken
 * in the store is given back then.
 */
extern bool wait_for_lock(const LrName *name, const AcquireRequest *request,
						  LrIndex *hold);

/*
 * What has to be so before a store is asked for a lock, and raises if it is not: a
 * lock that is to be renewed needs a watchdog, which is waited for a little; and
 * lockredis.url has to mean the same place to this session as to that.
 */
extern void wait_require_watchdog(const LockTerms *terms);
extern void wait_require_place(void);

/* The store gave a lock on these terms after its lease had ended. */
extern void wait_report_too_late(const LockTerms *terms);

/*
 * Clean up an acquire that was left by an error or by the end of the session.
 * Does nothing if there is none.  Never raises.
 */
extern void wait_abandon(void);

#endif							/* LR_WAITING_H */
