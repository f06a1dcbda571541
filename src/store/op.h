/*-------------------------------------------------------------------------
 *
 * op.h
 *	  The operations of a store, and how they end.
 *
 * Apart from store.h, which has the rest of the interface, since the kinds of
 * locks are described in these terms.
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

/* The largest fencing token: what Lua and JSON still have exactly, 2^53 - 1. */
#define STORE_TOKEN_MAX		INT64CONST(9007199254740991)

/*
 * Of that token and so many more, which are asked for at once; it is the only one if the
 * range does not reach that far.
 */
static inline int64
store_last_token(int64 first, int64 more)
{
	return more > STORE_TOKEN_MAX - first ? first : first + more;
}

/* Bytes of what a lock is known by apart from its owner; see StoreOp.id. */
#define STORE_ID_LEN		20

/* Times to live (ms): for ever, and the longest that is calculated with. */
#define STORE_NO_TTL		(-1)
#define STORE_TTL_MAX		(LR_NEVER / LR_US_PER_MS - 1)

typedef enum StoreOpKind
{
	STORE_CREATE,				/* take a lock that nobody has */
	STORE_SET,					/* own lock: lengthen the lease, and wait a moment
								 * for all of several nodes */
	STORE_RELEASE,				/* own lock: give it back, wake its waiters */
	STORE_RENEW,				/* the same; those of several nodes that lack the
								 * lock get it again */
	STORE_MINT,					/* own lock: new fencing tokens above floor */
	STORE_FORCE,				/* anybody's lock, by the owner text read before */
	STORE_INSPECT,				/* who has it, for how long */
	STORE_DEFINE,				/* the number at a name: change it */
	STORE_VALUE,				/* what it is */
	STORE_NOTIFY,				/* own lock: tell those who wait for a condition */
	STORE_TALLY,				/* give so many back to it, or count it down */
	STORE_CALLS,				/* so many concern a lock, and go by its kind */
	STORE_PROBE = STORE_CALLS,	/* would it do our operations? no key */
	STORE_FACTS,				/* what it says of itself, for node.c; no key */
	STORE_TIME					/* the store's clock */
} StoreOpKind;

typedef enum StoreOutcome
{
	STORE_PENDING = 0,			/* no outcome yet */
	STORE_OK,
	STORE_BUSY,					/* create: another owner; ttl_ms and holder say */
	STORE_GONE,					/* the owner is not there; holder says who is */
	STORE_LATE,					/* create: read after not_after, nothing done */
	STORE_WRONG_TYPE,			/* the key holds something else; see type_name */
	STORE_MISSING,				/* nobody has said how many there are */
	STORE_REFUSED,				/* the node answered with an error */
	STORE_DENIED,				/* the node refused user or password, or the
								 * rights of that user */
	STORE_BLOCKED,				/* somebody's transaction is in the way; it was not
								 * done, and whether anybody has the key is not
								 * known */
	STORE_UNCONFIRMED,			/* done, but fewer replicas have confirmed it than
								 * was asked for: nobody may rely on it */
	STORE_DOWN,					/* surely never reached the store */
	STORE_UNKNOWN				/* may have run: no reply was read */
} StoreOutcome;

/* What STORE_DEFINE does to the number of a name. */
typedef enum StoreChange
{
	CHANGE_SET,					/* it is that, whatever it was */
	CHANGE_INIT,				/* it is that, unless there is one */
	CHANGE_ADD,					/* so many more, if there is one */
	CHANGE_DRAIN,				/* none are left; tells how many there were */
	CHANGE_DELETE				/* there is none any more */
} StoreChange;

/* Is it handed to the store once, since it would do twice what it does? */
static inline bool
store_runs_once(StoreOpKind kind)
{
	return kind == STORE_CREATE || kind == STORE_DEFINE || kind == STORE_NOTIFY;
}

typedef enum StoreValueKind
{
	STORE_VALUE_NONE,			/* nothing at the key */
	STORE_VALUE_LOCK,			/* a lock of ours or of Redisson */
	STORE_VALUE_TOKEN,			/* a string: a token lock (redis-py, redsync) */
	STORE_VALUE_NUMBER,			/* a number: permits that nobody has, or the like */
	STORE_VALUE_OTHER			/* no lock at all */
} StoreValueKind;

#endif							/* LR_STORE_OP_H */
