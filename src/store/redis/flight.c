/*-------------------------------------------------------------------------
 *
 * flight.c
 *	  Commands of a batch that are in flight to one Redis node.
 *
 * They are kept in a ring of fixed size, in the order in which the node answers them, so
 * that nothing has to be allocated.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/flight.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/redis/node_batch.h"

RedisCommand *
flight_oldest(NodeBatch *b)
{
	return b->flight_n > 0 ? &b->flight[b->flight_first] : NULL;
}

/* An empty ring starts again at its first entry, which is in the cache. */
void
flight_land_oldest(NodeBatch *b)
{
	b->flight_n--;
	b->flight_first = b->flight_n > 0 ? (b->flight_first + 1) % FLIGHT_MAX : 0;
}

/*
 * flight_limit --- until when to wait for the reply to a command sent now
 */
int64
flight_limit(const NodeBatch *b, int64 now)
{
	return Min(b->batch.deadline, now + lr_command_timeout * LR_US_PER_MS);
}

void
flight_note_progress(NodeBatch *b, int64 now)
{
	b->progress_at = now;
	b->reply_until = flight_limit(b, now);
}

/*
 * flight_push --- add a command for ops[first .. first + n), which has just been encoded
 */
void
flight_push(NodeBatch *b, RedisCommandKind kind, int first, int n,
			uint64 starts_at, int64 now)
{
	RedisCommand *cmd = &b->flight[(b->flight_first + b->flight_n) % FLIGHT_MAX];

	if (b->flight_n == 0)
		flight_note_progress(b, now);
	b->flight_n++;
	cmd->kind = kind;
	cmd->first = first;
	cmd->nops = n;
	cmd->starts_at = starts_at;
	cmd->encoded_at = now;
}

/*
 * flight_never_ran --- this command certainly did not run for this operation
 *
 * An earlier command for the same operation, on a connection that was lost, may have
 * run.
 */
void
flight_never_ran(StoreOp *op, const RedisCommand *cmd)
{
	if (op->sent_at >= cmd->encoded_at)
		batch_mark_unsent(op);
}

/*
 * flight_ground --- the connection is gone: decide about the commands in flight
 *
 * A command counts as not sent if the node cannot have read a byte of it.  Any other may
 * have run: an operation that must run only once is settled as unknown, and all others
 * stay open and may be repeated.
 */
void
flight_ground(NodeBatch *b)
{
	RedisCommand *cmd;

	while ((cmd = flight_oldest(b)) != NULL)
	{
		bool		sent = cmd->starts_at < b->conn.out.sent;

		for (int i = cmd->first; i < cmd->first + cmd->nops; i++)
		{
			StoreOp    *op = &b->batch.ops[i];

			if (!sent)
				flight_never_ran(op, cmd);
			else if (store_runs_once(op->kind))
				batch_settle(&b->batch, op, STORE_UNKNOWN);
		}
		flight_land_oldest(b);
	}
}

/*
 * flight_start_pass --- start again at the first operation, for those that are still
 * open
 */
void
flight_start_pass(NodeBatch *b)
{
	b->next = 0;
	b->in_full = b->missing;
	b->missing = 0;
	b->proving = false;
}
