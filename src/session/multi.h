/*-------------------------------------------------------------------------
 *
 * multi.h
 *	  Several keys at once, all of them or none.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/multi.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_MULTI_H
#define LR_MULTI_H

#include "lockredis.h"

#include "keyname.h"
#include "session/request.h"

/* So many keys in a call; Redis is held up for as long as it takes their locks. */
#define MULTI_MAX			1000

/*
 * Take the locks of these keys, different ones in the order of their bytes; again
 * where this session has them.  False: one of them was busy for all of the time,
 * and all is as it was before.  So it is when this raises.
 */
extern bool session_multi_lock(const LrName *const *names, int n,
							   const AcquireRequest *request);

#endif							/* LR_MULTI_H */
