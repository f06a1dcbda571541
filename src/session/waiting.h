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
 * True: the lock is had, *hold is its hold.  False: somebody else had it for
 * all of wait_us.  Raises for everything else; whatever was or will be taken
 * in the store is given back then.
 */
extern bool wait_for_lock(const LrName *name, const AcquireRequest *request,
						  LrIndex *hold);

/*
 * Clean up an acquire that was left by an error or by the end of the session.
 * Does nothing if there is none.  Never raises.
 */
extern void wait_abandon(void);

#endif							/* LR_WAITING_H */
