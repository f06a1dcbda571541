/*-------------------------------------------------------------------------
 *
 * at_once.h
 *	  Several locks by one request, all of them or none.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/at_once.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_AT_ONCE_H
#define LR_AT_ONCE_H

#include "lockredis.h"

#include "keyname.h"
#include "session/request.h"

typedef enum AtOnceResult
{
	AT_ONCE_HAD,
	AT_ONCE_BUSY,				/* somebody has or awaits one of them */
	AT_ONCE_NOT					/* for another reason, or not all: ask one by one */
} AtOnceResult;

/*
 * Take locks that this session has not, of a kind that excludes itself.  Room for
 * all, and their rows, have been reserved; the names stay until it has returned.
 * Waits for nobody who has one.  With AT_ONCE_NOT and when it raises some may be
 * had: they are in the index (held.h).
 */
extern AtOnceResult at_once_take(const LrName *const *names, int n,
								 const AcquireRequest *request);

/*
 * Bring one that was left by an error, or by the end of the session, to its end.
 * Never raises.
 */
extern void at_once_abandon(void);

#endif							/* LR_AT_ONCE_H */
