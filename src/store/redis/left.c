/*-------------------------------------------------------------------------
 *
 * left.c
 *	  Releases whose batch has ended before they were answered.
 *
 * The node answers them before anything that is sent over the connection later, so the
 * next batch reads their replies first.  They are kept in an array of fixed size.  If
 * the connection is lost, or a reply is an error, the caller is notified: the watchdog
 * then repeats the release, and the session's next request may overtake it.  After that,
 * and on a new connection, the next release waits for its answer, because the node may
 * no longer have the script.
 *
 * Nothing in here waits, raises or allocates.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/left.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/redis/node_batch.h"

/*
 * left_may_begin --- may the batch end before its releases are answered?
 *
 * Each must have been sent exactly once, in the order in which it will be answered, and
 * the node must have its script.  No other reply may be owed, since that would come in
 * between.
 */
static bool
left_may_begin(const NodeBatch *b)
{
	const StoreBatch *batch = &b->batch;

	if (!batch->active || b->conn.state != CONN_READY || !resp_out_is_empty(&b->conn.out) ||
		b->next < batch->nops || b->passes != 1 || b->reconnected || b->doubt || b->drop ||
		b->owed > 0 || b->left_n + batch->nops > LEFT_MAX)
		return false;
	for (int i = 0; i < batch->nops; i++)
	{
		LuaId		script;

		if (batch->ops[i].outcome != STORE_PENDING ||
			!redis_op_script(&batch->ops[i], &script) ||
			(b->ran & SCRIPT_BIT(script)) == 0)
			return false;
	}
	return true;
}

bool
left_begin(NodeBatch *b, StoreAnswered answered)
{
	RedisCommand *cmd;

	if (!left_may_begin(b))
		return false;
	while ((cmd = flight_oldest(b)) != NULL)
	{
		Assert(cmd->kind == COMMAND_OPS);
		for (int i = 0; i < cmd->nops; i++)
		{
			const StoreOp *op = &b->batch.ops[cmd->first + i];
			LeftRelease *left = &b->left[b->left_n++];

			left->nops = cmd->nops;
			left->kind = op->lock_kind;
			left->store = op->store;
			left->hold = op->hold;
			left->owner = op->owner;
			left->topology = op->topology;
		}
		flight_land_oldest(b);
	}
	b->answered = answered;
	batch_forget(&b->batch);
	return true;
}

/*
 * left_take_one --- take the reply to one release; v is NULL if it will not come
 */
static bool
left_take_one(NodeBatch *b, const LeftRelease *left, const RedisValue *v)
{
	StoreOp		op = {.kind = STORE_RELEASE,.lock_kind = left->kind,.store = left->store,
	.hold = left->hold,.owner = left->owner,.topology = left->topology};
	RedisAnswer answer = {.outcome = STORE_UNKNOWN};

	if (v == NULL || v->type == REDIS_REPLY_ERROR)
		b->ran = 0;
	else if (!redis_take_op(&op, v, false, &answer))
		return false;
	op.outcome = answer.outcome;
	b->answered(&op);
	return true;
}

void
left_lose(NodeBatch *b)
{
	for (int i = 0; i < b->left_n; i++)
		(void) left_take_one(b, &b->left[i], NULL);
	b->left_n = 0;
}

/*
 * left_take --- see node_batch.h
 *
 * After a reply that is not valid the connection is closed; what it did not answer is
 * lost with that.
 */
bool
left_take(NodeBatch *b, const RedisValue *v)
{
	int			n = b->left[0].nops;
	int			taken = 0;
	StoreOp		like = {.kind = STORE_RELEASE,.lock_kind = b->left[0].kind};
	bool		single = redis_op_group(&like) == 1 ||
		(n == 1 && v->type == REDIS_REPLY_INTEGER);
	bool		good = single || v->type == REDIS_REPLY_ERROR ||
		(v->type == REDIS_REPLY_ARRAY && v->elements == n);

	for (; good && taken < n; taken += good)
		good = left_take_one(b, &b->left[taken],
							 single || v->type == REDIS_REPLY_ERROR ? v : &v[1 + taken]);
	b->left_n -= taken;
	memmove(b->left, b->left + taken, sizeof(LeftRelease) * b->left_n);
	return good;
}
