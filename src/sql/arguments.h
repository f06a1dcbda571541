/*-------------------------------------------------------------------------
 *
 * arguments.h
 *	  What SQL functions are passed, and whether they may be called here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/arguments.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_ARGUMENTS_H
#define LR_ARGUMENTS_H

#include "lockredis.h"

#include "fmgr.h"

#include "keyname.h"
#include "session/session.h"

/* The first argument: a key.  Raises if it is none, or without the preload. */
extern void arg_key(FunctionCallInfo fcinfo, LrName *name);

/*
 * The kind of lock that an argument names; if the function has none, that which the
 * session has of the key.
 */
extern KindId arg_kind(FunctionCallInfo fcinfo, int argno, const LrName *name);

/* A number of permits that is at least that, and the count of a new latch. */
extern int64 arg_permits(FunctionCallInfo fcinfo, int argno, int32 least);
extern int64 arg_latch_count(FunctionCallInfo fcinfo, int argno);

/* For how long a function waits. */
typedef enum WaitRule
{
	WAITS,						/* without a limit: it has no argument "wait" */
	TRIES,						/* until its limit, which must not be null */
	TRIES_OR_WAITS				/* the same, but null is no limit */
} WaitRule;

/*
 * On which terms a lock is wanted.  The arguments are "wait", unless the function waits
 * without a limit, and "lease", from number "first" on.
 */
extern void arg_request(FunctionCallInfo fcinfo, KindId kind, LockScope scope,
						WaitRule rule, int first, AcquireRequest *request);

/* The same for a function that takes a lock; raises if that is not allowed here. */
extern void arg_take(FunctionCallInfo fcinfo, KindId kind, LockScope scope,
					 WaitRule rule, int first, AcquireRequest *request);

/* The same for what has no lease: the argument is "wait" only. */
extern void arg_wait(FunctionCallInfo fcinfo, KindId kind, WaitRule rule, int argno,
					 AcquireRequest *request);

/* A lease; not given: that of the settings, and renewed. */
extern int64 arg_lease_ms(FunctionCallInfo fcinfo, int argno, bool *renewed);

/* Raises if it is not given: nobody renews what belongs to no session. */
extern void arg_require_lease(FunctionCallInfo fcinfo, int argno);

/* For how long something is to be there, in milliseconds; not given: 0. */
extern int64 arg_ttl_ms(FunctionCallInfo fcinfo, int argno);

/* A time limit in microseconds, or WAIT_FOREVER. */
extern int64 arg_wait_us(FunctionCallInfo fcinfo, WaitRule rule, int argno);

/* hold_at_least of redis_with_lock; not given: 0. */
extern int64 arg_keep_us(FunctionCallInfo fcinfo, int argno);

/*
 * The names of the keys in an array, the first argument, each once, in the order of their
 * bytes.
 */
extern const LrName *const *arg_keys(FunctionCallInfo fcinfo, int *n);

/* A token; the second returns it, and makes a new one if none is given. */
extern void arg_token(FunctionCallInfo fcinfo, int argno, LockToken *token);
extern text *arg_new_token(FunctionCallInfo fcinfo, int argno, LockToken *token);

/* The id of a permit, of LR_SECRET_ID_LEN bytes, and its text. */
extern void arg_id(FunctionCallInfo fcinfo, int argno, uint8 *id);
extern text *id_to_text(const uint8 *id);

/* The id, of STORE_ID_LEN bytes, of the condition that an argument names. */
extern void arg_condition(FunctionCallInfo fcinfo, int argno, uint8 *id);

/* May what the session holds be touched here?  Raises if not. */
extern void require_unrestricted(void);

/* May session-level locks be taken here?  Raises if not. */
extern void require_session_locks(void);

/* A result of type integer: a number that other programs may have set; raises if it is
 * too large. */
extern int32 int_result(int64 number);

/* A result of type interval */
extern Datum interval_from_us(int64 us);

#endif							/* LR_ARGUMENTS_H */
