/*-------------------------------------------------------------------------
 *
 * confirm.c
 *	  Waiting for replicas of a Redis node to confirm operations.
 *
 * The operations of a pass are followed by one WAIT, in the same write, for the most
 * replicas that one of them asks for.  Its reply is the number of replicas that have the
 * last write of this connection.  Then each operation that was carried out gets its
 * outcome, by its own number.
 *
 * - Only the last write of this very connection counts.  So each operation to be
 *	 confirmed writes something (ARG_WRITE), and none is confirmed over another
 *	 connection: on a new one that has written nothing, WAIT returns the number of
 *	 replicas, whatever they lack.  When the connection is lost before the confirmation, a
 *	 create is unknown; everything else is sent again, with a WAIT of its own.
 * - A WAIT blocks what follows it on the connection.  A session whose create is busy
 *	 does not wait for it: the reply is owed, and the next batch takes it.
 * - Only a number says that anything was replicated.  A node that has become a replica
 *	 meanwhile answers with an error, and may have served nobody but us for a while.
 *
 * Nothing in here waits, raises or allocates in a memory context.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/confirm.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "stats.h"
#include "store/redis/node_batch.h"

/*
 * The reply must be here (ms) before command_timeout and the call are over.  A node
 * checks every 100 ms whether a WAIT has ended.
 */
#define WAIT_MARGIN			250

static const char *const replicas_hint =
gettext_noop("Check the replicas of the lock store, and \"lockredis.min_replicas\".");

/* ----------
 * Asking
 * ----------
 */

void
confirm_want(NodeBatch *b, const StoreOp *op)
{
	b->wanted = Max(b->wanted, op->min_replicas);
}

/*
 * confirm_wait_ms --- how long the node is to wait; never 0, which means for ever
 *
 * If the reply to a WAIT of an earlier batch is owed, this one begins when that ends.
 */
static int64
confirm_wait_ms(const NodeBatch *b, int64 now)
{
	int64		ms = lr_replica_timeout;
	int64		begins = b->owed > b->owed_idle ? Max(now, b->wait_until) : now;
	int64		left = (b->batch.deadline - begins) / LR_US_PER_MS;

	ms = Min(ms, Max(lr_command_timeout - WAIT_MARGIN, lr_command_timeout / 2));
	ms = Min(ms, left - WAIT_MARGIN);
	return Max(ms, 1);
}

bool
confirm_put(NodeBatch *b)
{
	RespOut    *out = &b->conn.out;
	uint64		starts_at = out->put;
	int64		now = lr_now();

	b->wait_ms = confirm_wait_ms(b, now);
	b->wait_until = now + b->wait_ms * LR_US_PER_MS;
	redis_put_wait(out, b->wanted, b->wait_ms);
	if (out->failed)
	{
		resp_out_undo(out, starts_at);
		return false;
	}
	b->wanted = 0;
	flight_push(b, COMMAND_WAIT, 0, 0, starts_at, now);
	return true;
}

/* ----------
 * Answers
 * ----------
 */

void
confirm_done(NodeBatch *b, StoreOp *op)
{
	if (op->min_replicas == 0)
	{
		batch_settle(&b->batch, op, STORE_OK);
		return;
	}
	op->done = true;
	b->ndone++;
}

/*
 * confirm_settle --- so many replicas have everything: settle the operations carried out
 */
static void
confirm_settle(NodeBatch *b, int64 replicas)
{
	for (int i = 0; i < b->batch.nops && b->ndone > 0; i++)
	{
		StoreOp    *op = &b->batch.ops[i];

		if (!op->done || op->outcome != STORE_PENDING || !batch_has(&b->batch, op))
			continue;
		b->ndone--;
		if (replicas < op->min_replicas)
			lr_count(STAT_UNREPLICATED);
		batch_settle(&b->batch, op, replicas < op->min_replicas ?
					 STORE_UNCONFIRMED : STORE_OK);
	}
}

/*
 * confirm_too_few --- report that too few replicas have confirmed, if so
 */
static void
confirm_too_few(NodeBatch *b, int64 replicas)
{
	StoreError *error = &b->batch.error;
	int			wanted = 0;

	for (int i = 0; i < b->batch.nops; i++)
	{
		const StoreOp *op = &b->batch.ops[i];

		if (op->done && op->outcome == STORE_PENDING && op->min_replicas > replicas &&
			batch_has(&b->batch, op))
			wanted = Max(wanted, op->min_replicas);
	}
	if (wanted == 0)
		return;
	*error = b->conn.failure.error;
	error->sqlstate = ERRCODE_STORE_FAILED;
	error->hint = replicas_hint;
	if (b->wait_ms % 1000 == 0)
		snprintf(error->detail, sizeof(error->detail),
				 "%d of %d replicas confirmed it within %d s.",
				 (int) replicas, wanted, (int) (b->wait_ms / 1000));
	else
		snprintf(error->detail, sizeof(error->detail),
				 "%d of %d replicas confirmed it within %d ms.",
				 (int) replicas, wanted, (int) b->wait_ms);
	refusal_report(b);
}

/*
 * confirm_take --- see node_batch.h
 *
 * An error is reported in the node's words: a right is missing, or the node is no longer
 * a master.  In that case another one is, or soon will be.
 */
bool
confirm_take(NodeBatch *b, const RedisValue *v)
{
	if (v->type == REDIS_REPLY_ERROR)
	{
		/* If no operation was carried out, their own errors have been reported. */
		if (b->ndone > 0)
			refusal_of_wait(b, v);
		confirm_settle(b, 0);
		return true;
	}
	if (v->type != REDIS_REPLY_INTEGER || v->integer < 0)
		return false;
	confirm_too_few(b, v->integer);
	confirm_settle(b, Min(v->integer, PG_INT32_MAX));
	return true;
}

/*
 * confirm_lost --- see node_batch.h
 *
 * A create was carried out, but nobody knows on how many replicas; like one without a
 * reply it is unknown, and will be released.  Everything else may be sent again.
 */
void
confirm_lost(NodeBatch *b)
{
	b->wanted = 0;
	for (int i = 0; i < b->batch.nops && b->ndone > 0; i++)
	{
		StoreOp    *op = &b->batch.ops[i];

		if (!op->done || op->outcome != STORE_PENDING || !batch_has(&b->batch, op))
			continue;
		b->ndone--;
		op->done = false;
		if (store_runs_once(op->kind))
			batch_settle(&b->batch, op, STORE_UNKNOWN);
	}
}

/* ----------
 * Replies owed
 * ----------
 */

bool
confirm_is_awaited(NodeBatch *b)
{
	const RedisCommand *cmd = flight_oldest(b);

	if (b->owed > 0)
		return b->owed > b->owed_idle;
	return cmd != NULL && cmd->kind == COMMAND_WAIT;
}

void
confirm_leave(NodeBatch *b)
{
	b->owed += b->flight_n;
	b->flight_n = 0;
	b->wanted = 0;
}

bool
confirm_swallow(NodeBatch *b, const RedisValue *v)
{
	b->owed--;
	b->owed_idle = Min(b->owed_idle, b->owed);
	return v->type == REDIS_REPLY_INTEGER || v->type == REDIS_REPLY_ERROR;
}
