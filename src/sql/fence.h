/*-------------------------------------------------------------------------
 *
 * fence.h
 *	  Fencing tokens, and the table in which PostgreSQL decides by them.
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

/* Take a lock with its token.  False: busy. */
extern bool fence_lock(const LrName *name, AcquireRequest *request,
					   int64 *token);

/*
 * The same at transaction level, and record the token in the fence table in
 * "schema" in this transaction.
 */
extern bool fence_xact_lock(const LrName *name, AcquireRequest *request,
							Oid schema, int64 *token);

/* Record a token issued elsewhere; raises if a higher one was recorded. */
extern void fence_check(const LrName *name, Oid schema, int64 token);

/* Delete the key's row; false: there was none. */
extern bool fence_forget(const LrName *name, Oid schema);

#endif							/* LR_FENCE_H */
