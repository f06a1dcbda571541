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
#include "locktable/locktable.h"

#define WAIT_FOREVER		INT64CONST(-1)

typedef struct AcquireRequest
{
	LockTerms	terms;
	int64		wait_us;		/* 0 = do not wait, or WAIT_FOREVER */
	bool		fenced;			/* take a fencing token too */
} AcquireRequest;

/*
 * True: the lock is had, *hold is its hold.  False: somebody else had it for
 * all of wait_us.  Raises for everything else; whatever was or will be taken
 * in the store is given back then.
 */
extern bool wait_for_lock(const LrName *name, const AcquireRequest *request,
						  LrIndex *hold);

/*
 * Raise if the request wants a fencing token that this store cannot give in the
 * present mode.
 */
extern void require_counter(const AcquireRequest *request, StoreId store);

/* The time to live that a request on these terms asks for. */
extern int64 lock_ttl_ms(const LockTerms *terms);

/*
 * Clean up an acquire that was left by an error or by the end of the session.
 * Does nothing if there is none.  Never raises.
 */
extern void wait_abandon(void);

#endif							/* LR_WAITING_H */
