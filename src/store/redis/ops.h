/*-------------------------------------------------------------------------
 *
 * ops.h
 *	  One operation of the store interface on the wire, and back.
 *
 * What an operation on a lock looks like is in the description of the lock's
 * kind (kinds/kind.h): which script, which keys and arguments, how its reply is
 * read.  Here they are put and taken, whatever kind it is.  What concerns no
 * lock (probe, clock, facts) is here alone.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/ops.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_OPS_H
#define LR_REDIS_OPS_H

#include "lockredis.h"

#include "store/redis/resp.h"
#include "store/redis/scripts.h"
#include "store/store.h"

/* A set of scripts. */
typedef uint64 ScriptSet;

#define SCRIPT_BIT(id)		((ScriptSet) 1 << (id))

StaticAssertDecl(LUA_COUNT <= 64, "more scripts than a set can have");

/* What the reply for one operation says, beside the results in it. */
typedef struct RedisAnswer
{
	StoreOutcome outcome;
	int64		clock;			/* the node's, microseconds; 0 = not told */
	const char *info;			/* the reply of INFO, or NULL */
} RedisAnswer;

/* Are operations like this one calls of a script?  Which is in *script. */
extern bool redis_op_script(const StoreOp *op, LuaId *script);

/*
 * So many operations like this one, with the same script, go into one
 * command.  With more than 1 the reply is an array with an element for each,
 * however many there are.
 */
extern int	redis_op_group(const StoreOp *op);
extern bool redis_ops_are_alike(const StoreOp *one, const StoreOp *other);

/*
 * Put ops[0 .. n), which are alike, as one command; "in_full" has the scripts
 * that are sent as text.  "sharded": messages are told to the shard.
 */
extern void redis_put_ops(RespOut *out, const StoreOp *ops, int n,
						  ScriptSet in_full, bool sharded);

/*
 * Take the reply, or the part of it, for one operation that is no error.
 * "repeated": the same request may have run before.  False: it is none of the
 * replies that there can be.
 */
extern bool redis_take_op(StoreOp *op, const RedisValue *v, bool repeated,
						  RedisAnswer *answer);

/*
 * The same of creates that are taken together.  *which: the one that is in the
 * way of the others, -1 if none is.
 */
extern bool redis_take_together(StoreOp *ops, int n, const RedisValue *v, int *which,
								RedisAnswer *answer);

/*
 * The script that shows whether the node runs scripts at all: with no key it does
 * nothing.
 */
#define REDIS_PROOF_SCRIPT	LUA_REENTRANT_RENEW

extern void redis_put_proof(RespOut *out, ScriptSet in_full);
extern bool redis_take_proof(const RedisValue *v);

/*
 * Ask how many replicas have all that this connection has written, and have the
 * node wait until so many have, but not longer than that.
 */
extern void redis_put_wait(RespOut *out, int replicas, int64 ms);

/* That it has run need not be remembered any more; the reply is a number, or an error. */
extern void redis_put_forget(RespOut *out, const StoreOp *op);

/* So many bytes has a command that gives back up to n locks, at most. */
extern size_t redis_release_size(int n);

#endif							/* LR_REDIS_OPS_H */
