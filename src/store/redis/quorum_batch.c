/*-------------------------------------------------------------------------
 *
 * quorum_batch.c
 *	  A batch of operations at several independent masters; see quorum.h.
 *
 * This file decides what happens when.  What the nodes are asked, how their answers
 * combine to an outcome, and what follows from that is in quorum_step.c and quorum.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/quorum.h"

/*
 * A node that owes more than OWED_MAX answers is only asked for releases; one whose link
 * has OWED_MOST copies is asked nothing.
 */
#define OWED_MAX			64
#define OWED_MOST			4096

/*
 * quorum_batch_init --- a client for several masters; does not connect yet
 */
void
quorum_batch_init(QuorumBatch *b, const char *role, bool patient)
{
	memset(b, 0, sizeof(QuorumBatch));
	strlcpy(b->role, role, sizeof(b->role));
	b->patient = patient;
}

/*
 * quorum_batch_drop --- drop a batch that a longjmp has left; its operations may be gone
 */
void
quorum_batch_drop(QuorumBatch *b)
{
	batch_forget(&b->batch);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (b->link[i] != NULL)
			link_cancel(b->link[i]);
}

/*
 * quorum_catch_up --- take what a node owes to batches that have ended, without waiting
 */
static void
quorum_catch_up(QuorumBatch *b, int row)
{
	NodeBatch  *node = &b->link[row]->node;

	node_batch_process(node, true, false);
	node_batch_check_time(node);
	quorum_hear(b, row);
}

/*
 * quorum_look_where --- prepare the links to the masters that the settings name now
 *
 * Answers owed by former masters are given up.
 */
static void
quorum_look_where(QuorumBatch *b)
{
	b->n = lr_nmasters;
	for (int i = 0; i < LR_MAX_MASTERS; i++)
	{
		QuorumLink *l = b->link[i];

		if (l == NULL && i < b->n)
			l = b->link[i] = link_make(NODE_MASTER + i, b->role, b->patient);
		if (l == NULL)
			continue;
		if (l->node.batch.active &&
			(i >= b->n || redis_target_is_outdated(&l->node.target)))
			node_batch_abandon(&l->node);
		if (l->node.batch.active)
			quorum_catch_up(b, i);
		if (!l->node.batch.active)
			link_reset(l);
		l->mine = l->used;
		if (i >= b->n)
			redis_conn_close(&l->node.conn);
	}
}

/*
 * quorum_may_ask --- may the node be asked for this, or is it too far behind?
 */
static bool
quorum_may_ask(const QuorumLink *l, int owed, StoreOpKind kind)
{
	if (owed == 0)
		return true;
	return l->used < OWED_MOST && (owed <= OWED_MAX || kind == STORE_RELEASE);
}

void
quorum_batch_start(QuorumBatch *b, StoreOp *ops, int nops, int64 deadline)
{
	int64		now = lr_now();

	quorum_batch_drop(b);
	quorum_look_where(b);
	batch_start(&b->batch, ops, nops, deadline);
	b->over = b->was_over = false;
	b->look_at = 0;
	if (nops > b->nstates)
	{
		QuorumOp   *states = realloc(b->states, sizeof(QuorumOp) * nops);

		if (states == NULL)
		{
			batch_set_error(&b->batch, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
			batch_give_up(&b->batch, STORE_DOWN);
			(void) batch_finish(&b->batch);
			return;
		}
		b->states = states;
		b->nstates = nops;
	}
	for (int i = 0; i < nops; i++)
	{
		memset(&b->states[i], 0, sizeof(QuorumOp));
		b->states[i].attempt = 1;
		ops[i].topology = 0;
		for (int row = 0; row < LR_MAX_MASTERS; row++)
			b->states[i].copy[row] = b->states[i].undo[row] = -1;
	}
	for (int row = 0; row < b->n; row++)
	{
		QuorumLink *l = b->link[row];
		int			owed;
		int			put = 0;

		if (l == NULL)
			continue;
		owed = l->node.batch.active ? l->node.batch.left : 0;
		for (int i = 0; i < nops; i += quorum_group(&ops[i]))
		{
			StoreOpKind kind = ops[i].kind == STORE_FORCE ? STORE_INSPECT : ops[i].kind;

			if (quorum_may_ask(l, owed, kind) && !link_is_tainted(l, &ops[i], now))
				put += quorum_put(b, row, i, &ops[i], quorum_group(&ops[i]), kind);
		}
		link_ask(l, put, b->batch.deadline);
	}
	quorum_batch_process(b, false);
}

void
quorum_batch_process(QuorumBatch *b, bool readable)
{
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];

		if (l == NULL || !l->node.batch.active)
			continue;
		node_batch_process(&l->node, readable, false);
	}
	if (b->batch.active)
		quorum_look(b);
	else
		quorum_hear_all(b);
}

int
quorum_batch_busy(QuorumBatch *b, NodeBatch **out)
{
	int			n = 0;

	for (int i = 0; i < b->n; i++)
		if (b->link[i] != NULL && b->link[i]->node.batch.active)
			out[n++] = &b->link[i]->node;
	return n;
}

void
quorum_batch_check_time(QuorumBatch *b)
{
	for (int i = 0; i < b->n; i++)
		if (b->link[i] != NULL && b->link[i]->node.batch.active)
			node_batch_check_time(&b->link[i]->node);
	if (!b->batch.active)
		return;
	b->over = lr_now() >= b->batch.deadline;
	quorum_look(b);
}

int64
quorum_batch_until(const QuorumBatch *b)
{
	int64		until = b->batch.active ? b->batch.deadline : LR_NEVER;

	for (int i = 0; i < b->n; i++)
	{
		const QuorumLink *l = b->link[i];

		if (l == NULL || !l->node.batch.active)
			continue;
		until = Min(until, node_batch_until(&l->node));
	}
	if (b->batch.active)
		until = Min(until, b->look_at);
	return until;
}

/*
 * quorum_batch_abandon --- see quorum.h
 *
 * Nobody waits for the answers any more, but the connections are good: they are used to
 * release what was granted.
 */
void
quorum_batch_abandon(QuorumBatch *b)
{
	int			n;

	if (!b->batch.active)
		return;
	for (int i = 0; i < b->batch.nops; i += n)
	{
		n = quorum_group(&b->batch.ops[i]);
		if (b->batch.ops[i].outcome == STORE_PENDING && b->batch.ops[i].kind == STORE_CREATE)
			quorum_undo(b, i, n, false);
		for (int k = i; k < i + n; k++)
			if (b->batch.ops[k].outcome == STORE_PENDING)
				quorum_settle(b, k, STORE_UNKNOWN);
	}
	for (int i = 0; i < b->n; i++)
		if (b->link[i] != NULL)
		{
			link_cancel(b->link[i]);
			node_batch_process(&b->link[i]->node, false, false);
		}
	batch_set_error(&b->batch, ERRCODE_STORE_FAILED,
					"The request was given up before it was answered.");
	batch_forget(&b->batch);
}

void
quorum_batch_reserve(QuorumBatch *b, int n)
{
	for (int i = 0; i < b->n; i++)
		if (b->link[i] != NULL)
			(void) link_has_room(b->link[i], n, (size_t) n * 64);
}

/* ----------
 * Between batches
 * ----------
 */

void
quorum_batch_check_connections(QuorumBatch *b)
{
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];

		if (l != NULL && l->node.batch.active)
			quorum_catch_up(b, i);
		else if (l != NULL && l->node.conn.state == CONN_READY)
			(void) node_batch_check_connection(&l->node, false);
	}
}

/*
 * quorum_batch_is_connected --- to a majority?
 */
bool
quorum_batch_is_connected(const QuorumBatch *b)
{
	int			n = 0;

	for (int i = 0; i < b->n; i++)
		n += b->link[i] != NULL && node_batch_is_connected(&b->link[i]->node);
	return b->n > 0 && n >= masters_quorum(b->n);
}

/*
 * quorum_batch_let_go --- like node_batch_let_go(), for all links; in a signal handler
 */
int64
quorum_batch_let_go(QuorumBatch *b, int64 unused_since)
{
	int64		used = STORE_NOT_CONNECTED;
	bool		gone = false;

	if (b->batch.active)
		return lr_now();
	for (int i = 0; i < b->n; i++)
	{
		int64		its_use = b->link[i] == NULL ? STORE_NOT_CONNECTED :
			node_batch_let_go(&b->link[i]->node, unused_since);

		gone = gone || its_use == STORE_LET_GO;
		used = Max(used, its_use);
	}
	return used == STORE_NOT_CONNECTED && gone ? STORE_LET_GO : used;
}

void
quorum_batch_close(QuorumBatch *b)
{
	quorum_batch_abandon(b);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
	{
		QuorumLink *l = b->link[i];

		if (l == NULL)
			continue;
		node_batch_abandon(&l->node);
		redis_conn_close(&l->node.conn);
		redis_target_set(&l->node.target, NODE_MASTER + i);
		link_reset(l);
	}
}

uint32
quorum_batch_connections(const QuorumBatch *b)
{
	uint32		n = 0;

	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (b->link[i] != NULL)
			n += b->link[i]->node.connections;
	return n;
}
