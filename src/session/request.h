/*-------------------------------------------------------------------------
 *
 * request.h
 *	  How a lock is asked for.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/request.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REQUEST_H
#define LR_REQUEST_H

#include "lockredis.h"

#include "locktable/hold.h"

#define WAIT_FOREVER		INT64CONST(-1)

typedef struct AcquireRequest
{
	LockTerms	terms;
	int64		wait_us;		/* 0 = do not wait, or WAIT_FOREVER */
	int64		began;			/* from when on that counts, and lock_timeout;
								 * 0 = from now on */
	bool		fenced;			/* take a fencing token too */
	const char *token;			/* of a token lock, as in StoreOp; not terminated */
	int			token_len;
	LrIndex		gives_back;		/* wait for a condition: hold of the lock that goes by
								 * that; else not looked at */
} AcquireRequest;

/*
 * Raise if the request wants a fencing token that this store cannot give in the
 * present mode.
 */
extern void request_require_counter(const AcquireRequest *request, StoreId store);

/* Raise if that store, which is in use, has no locks of the kind in the present mode. */
extern void request_require_store(KindId kind, StoreId store);

/* Raises unless the store can keep a lock of this name. */
extern void request_require_name(const LrName *name, StoreId store);

/* All of that for a number of that kind, where numbers are counted at present. */
extern void request_require_number(KindId kind, const LrName *name);

/* Has the hold a fencing token that is good for this request? */
extern bool request_is_met_by(const AcquireRequest *request, const HoldView *view);

/* The time to live (ms) that a request on these terms asks for. */
extern int64 request_ttl_ms(const LockTerms *terms);

#endif							/* LR_REQUEST_H */
