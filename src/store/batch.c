/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  A batch under way: the state that every store keeps, and how it ends; see
 *	  store.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/store.h"

void
batch_join(StoreBatch *batch, StoreOp *ops, int nops, int part, int n, int64 deadline)
{
	if (!batch->active)
	{
		batch->active = true;
		batch->left = 0;
		batch_set_error(batch, 0, "");
	}
	batch->ops = ops;
	batch->nops = nops;
	batch->part = part;
	batch->left += n;
	batch->deadline = deadline;
}

/*
 * batch_start --- see store.h
 */
void
batch_start(StoreBatch *batch, StoreOp *ops, int nops, int64 deadline)
{
	batch->active = false;
	batch_join(batch, ops, nops, 0, nops, deadline);
	batch->active = nops > 0;
	for (int i = 0; i < nops; i++)
	{
		ops[i].outcome = STORE_PENDING;
		memset(&ops[i].sent, 0, sizeof(StoreSent));
		memset(&ops[i].answer, 0, sizeof(StoreAnswer));
	}
}

void
batch_hand_on(StoreBatch *batch, StoreOp *op, int part)
{
	Assert(batch_has(batch, op) && op->outcome == STORE_PENDING);
	op->sent.part = part;
	batch->left--;
}

void
batch_settle(StoreBatch *batch, StoreOp *op, StoreOutcome outcome)
{
	Assert(op >= batch->ops && op < batch->ops + batch->nops);
	Assert(op->outcome == STORE_PENDING && outcome != STORE_PENDING);
	op->outcome = outcome;
	batch->left--;
}

void
batch_mark_unsent(StoreOp *op)
{
	op->sent.at = 0;
	op->sent.not_after = 0;
}

void
batch_give_up(StoreBatch *batch, StoreOutcome unsent)
{
	for (int i = 0; i < batch->nops && batch->left > 0; i++)
	{
		StoreOp    *op = &batch->ops[i];

		if (op->outcome == STORE_PENDING && batch_has(batch, op))
			batch_settle(batch, op, op->sent.at != 0 ? STORE_UNKNOWN : unsent);
	}
}

bool
batch_finish(StoreBatch *batch)
{
	if (!batch->active || batch->left > 0)
		return false;
	batch_forget(batch);
	return true;
}

void
batch_forget(StoreBatch *batch)
{
	batch->active = false;
	batch->ops = NULL;
	batch->nops = 0;
	batch->left = 0;
}

void
batch_set_error(StoreBatch *batch, int sqlstate, const char *detail)
{
	batch->error.sqlstate = sqlstate;
	strlcpy(batch->error.detail, detail, sizeof(batch->error.detail));
	batch->error.address[0] = '\0';
	batch->error.hint = NULL;
}
