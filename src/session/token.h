/*-------------------------------------------------------------------------
 *
 * token.h
 *	  Token locks: they belong to whoever knows the token, not to a session.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/token.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TOKEN_H
#define LR_TOKEN_H

#include "lockredis.h"

#include "keyname.h"
#include "session/request.h"

/* A token as the stores of this server's mode are told it. */
typedef struct LockToken
{
	const char *data;			/* what the lock is made with; not terminated */
	int			len;
	uint8		id[STORE_ID_LEN];	/* what it is known by from then on */
} LockToken;

/* Of the token's bytes, which have to stay. */
extern void token_make(const char *bytes, int len, LockToken *out);

/* Complete the request with the token, and take the lock.  False: busy. */
extern bool session_token_lock(const LrName *name, AcquireRequest *request,
							   const LockToken *token);

/* Has the token the key?  If it has: lengthen its lease, or give it back. */
extern bool session_token_is_held(const LrName *name, const LockToken *token);
extern bool session_token_extend(const LrName *name, const LockToken *token,
								 int64 lease_ms);
extern bool session_token_unlock(const LrName *name, const LockToken *token);

#endif							/* LR_TOKEN_H */
