/*-------------------------------------------------------------------------
 *
 * ops.c
 *	  Target "ops": the answer of a script.
 *
 * Of each operation that a kind of lock has: it makes no sense, or what it says is within what
 * callers count on.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/ops.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "store/redis/resp.h"

#define OPS_MAX 4

static StoreOp ops[OPS_MAX];

static bool
has_call(const StoreOp *op)
{
	const LockKind *kind = lr_kind(op->lock_kind);

	if (op->args.together > 0)
		return kind->together.keys[0] != NULL;
	return op->kind >= STORE_CALLS || lr_call(op->lock_kind, op->kind)->keys[0] != NULL;
}

static void
check(const StoreOp *op, StoreOutcome outcome)
{
	fuzz_must(memchr(op->answer.holder, '\0', sizeof(op->answer.holder)) != NULL, "the holder");
	fuzz_must(memchr(op->answer.type_name, '\0', sizeof(op->answer.type_name)) != NULL, "the type");
	fuzz_must(memchr(op->answer.digest, '\0', sizeof(op->answer.digest)) != NULL, "the digest");
	fuzz_must(op->answer.ttl_ms >= STORE_NO_TTL && op->answer.ttl_ms <= STORE_TTL_MAX, "the TTL");
	fuzz_must(op->answer.fence >= 0 && op->answer.fence <= STORE_TOKEN_MAX, "the token");
	fuzz_must(op->answer.store_ms >= 0 && op->answer.store_ms <= STORE_TOKEN_MAX, "the clock");
	fuzz_must(op->answer.count >= 0 || op->kind == STORE_INSPECT, "how many were told");
	if (op->kind == STORE_RENEW || op->kind == STORE_SET)
		fuzz_must(op->answer.ttl_ms >= 0, "until when to watch");
	if (op->kind == STORE_MINT && outcome == STORE_OK)
		fuzz_must(op->answer.fence > op->args.floor, "a token that is not above its floor");
	if (op->kind == STORE_CREATE && op->args.fenced && outcome == STORE_OK)
		fuzz_must(op->answer.fence > 0, "no token");
	if (outcome == STORE_BUSY)
		fuzz_must(op->kind == STORE_CREATE || op->kind == STORE_DEFINE ||
				  op->kind == STORE_TALLY, "busy");
	fuzz_must(outcome == STORE_OK || outcome == STORE_BUSY ||
			  outcome == STORE_GONE || outcome == STORE_LATE ||
			  outcome == STORE_WRONG_TYPE || outcome == STORE_MISSING ||
			  outcome == STORE_UNKNOWN, "the outcome");
}

void
fuzz_ops(const uint8 *data, size_t size)
{
	FuzzInput	in = {data, size};
	uint8		kind = fuzz_byte(&in);
	uint8		lock_kind = fuzz_byte(&in);
	uint8		how = fuzz_byte(&in);
	int			n = how & 1 ? 2 + (how >> 6) % (OPS_MAX - 1) : 1;
	const redisReply *v;
	StoreOutcome outcome;

	memset(ops, 0, sizeof(ops));
	for (int i = 0; i < n; i++)
	{
		ops[i].kind = kind % (STORE_TIME + 1);
		ops[i].lock_kind = lock_kind % KIND_COUNT;
		ops[i].args.fenced = (how & 2) != 0;
		ops[i].args.floor = how & 4 ? STORE_TOKEN_MAX / 2 : 0;
		ops[i].args.together = n > 1 ? n : 0;
		if (n > 1)
			ops[i].kind = STORE_CREATE;
	}
	if (!has_call(ops))
		return;
	while ((v = fuzz_value(&in)) != NULL)
	{
		for (int i = 0; i < n; i++)
			memset(&ops[i].answer, 0, sizeof(StoreAnswer));
		if (n > 1)
		{
			int			which;

			outcome = redis_take_together(ops, n, v, &which);
			if (outcome == STORE_PENDING)
				continue;
			fuzz_must(which >= -1 && which < n, "which one is in the way");
			check(&ops[Max(which, 0)], outcome);
			continue;
		}
		outcome = redis_take_op(ops, v, (how & 8) != 0);
		if (outcome != STORE_PENDING)
			check(ops, outcome);
	}
}
