/*-------------------------------------------------------------------------
 *
 * op.h
 *	  The operations of a store, and how they end.
 *
 * This is separate from store.h, which has the rest of the interface, since the
 * descriptions of kinds of locks use these terms.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/op.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_STORE_OP_H
#define LR_STORE_OP_H

#include "lockredis.h"

/* The largest fencing token, which Lua and JSON still represent exactly: 2^53 - 1. */
#define STORE_TOKEN_MAX		INT64CONST(9007199254740991)

/*
 * The last of "more" + 1 tokens from "first" on that were requested at once.  If the
 * range does not reach that far, "first" is the only one.
 */
static inline int64
store_last_token(int64 first, int64 more)
{
	return more > STORE_TOKEN_MAX - first ? first : first + more;
}

/* Length of StoreOp.id. */
#define STORE_ID_LEN		20

/* Times to live (ms): endless, and the longest that we calculate with. */
#define STORE_NO_TTL		(-1)
#define STORE_TTL_MAX		(LR_NEVER / LR_US_PER_MS - 1)

typedef enum StoreOpKind
{
	STORE_CREATE,				/* take a lock that nobody holds */
	STORE_SET,					/* own lock: extend the lease; with several nodes, wait a
								 * moment for all of them */
	STORE_RELEASE,				/* own lock: release it, notify its waiters */
	STORE_RENEW,				/* as STORE_SET, but nodes of several that lack the lock
								 * get it again */
	STORE_MINT,					/* own lock: new fencing tokens above floor */
	STORE_FORCE,				/* anybody's lock, by the owner text read before */
	STORE_INSPECT,				/* who holds it, and for how long */
	STORE_DEFINE,				/* change the number at a name */
	STORE_VALUE,				/* read the number at a name */
	STORE_NOTIFY,				/* own lock: notify those who wait for a condition */
	STORE_TALLY,				/* add to the number, or count it down, exactly once */
	STORE_CALLS,				/* number of those that go by the kind of a lock */
	STORE_PROBE = STORE_CALLS,	/* does the store do our operations? no key */
	STORE_FACTS,				/* what the store reports of itself, for nodes.c; no key */
	STORE_TIME					/* the store's clock */
} StoreOpKind;

typedef enum StoreOutcome
{
	STORE_PENDING = 0,			/* no outcome yet */
	STORE_OK,
	STORE_BUSY,					/* create: held by another owner; see ttl_ms, holder */
	STORE_GONE,					/* the owner is not there; see holder */
	STORE_LATE,					/* create: read after not_after, nothing done */
	STORE_WRONG_TYPE,			/* the key holds something else; see type_name */
	STORE_MISSING,				/* the number of permits is not defined */
	STORE_REFUSED,				/* the node answered with an error */
	STORE_DENIED,				/* the node refused user or password, or the
								 * rights of that user */
	STORE_BLOCKED,				/* another transaction is in the way; it was not done, and
								 * it is not known whether anybody holds the key */
	STORE_UNCONFIRMED,			/* done, but too few replicas have confirmed it: it must
								 * not be relied on */
	STORE_DOWN,					/* surely never reached the store */
	STORE_UNKNOWN				/* may have run: no reply was read */
} StoreOutcome;

/* What STORE_DEFINE does to the number of a name. */
typedef enum StoreChange
{
	CHANGE_SET,					/* set it, whatever it was */
	CHANGE_INIT,				/* set it, unless there is a number */
	CHANGE_ADD,					/* add to it */
	CHANGE_DRAIN,				/* set it to 0; returns what it was */
	CHANGE_DELETE				/* delete it */
} StoreChange;

/* Must the store get it only once, since a repetition would have another effect? */
static inline bool
store_runs_once(StoreOpKind kind)
{
	return kind == STORE_CREATE || kind == STORE_DEFINE || kind == STORE_NOTIFY;
}

typedef enum StoreValueKind
{
	STORE_VALUE_NONE,			/* no such key */
	STORE_VALUE_LOCK,			/* a lock of ours or of Redisson */
	STORE_VALUE_TOKEN,			/* a string: a token lock (redis-py, redsync) */
	STORE_VALUE_NUMBER,			/* a number, such as permits of which none is held */
	STORE_VALUE_OTHER			/* no lock at all */
} StoreValueKind;

#endif							/* LR_STORE_OP_H */
