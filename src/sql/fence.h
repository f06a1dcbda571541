/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Locks with fencing tokens.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/fence.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FENCE_H
#define LR_FENCE_H

#include "lockredis.h"

#include "keyname.h"
#include "session/request.h"

/*
 * Take a lock with its token, and at transaction level record that in this transaction, in
 * the table beside that SQL function.  False: busy.
 */
extern bool fence_take(const LrName *name, AcquireRequest *request, Oid function,
					   int64 *token);

#endif							/* LR_FENCE_H */
