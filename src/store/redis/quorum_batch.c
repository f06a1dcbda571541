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
 * quorum_batch_drop --- drop a batch that a longjmp has left; its operations may be gone
 */
void
quorum_batch_drop(NodeSet *s)
{
	QuorumBatch *b = (QuorumBatch *) s;

	batch_forget(&b->set.batch);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (quorum_link(b, i) != NULL)
			link_cancel(quorum_link(b, i));
}

/*
 * quorum_catch_up --- take what a node owes to batches that have ended, without waiting
 */
static void
quorum_catch_up(QuorumBatch *b, int row)
{
	NodeBatch  *node = &quorum_link(b, row)->node;

	node_batch_process(node, true, false);
	node_batch_check_time(node);
	(void) quorum_hear(b, row);
}

/*
 * quorum_look_where --- prepare the links to the masters that the settings name now
 *
 * Answers owed by former masters are given up.
 */
static void
quorum_look_where(QuorumBatch *b)
{
	b->set.n = lr_nmasters;
	b->set.needed = masters_quorum(lr_nmasters);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
	{
		QuorumLink *l = i < b->set.n ? (QuorumLink *) node_set_link(&b->set, i) : quorum_link(b, i);

		if (l == NULL)
			continue;
		if (l->node.batch.active &&
			(i >= b->set.n || redis_target_is_outdated(&l->node.target)))
			node_batch_abandon(&l->node);
		if (l->node.batch.active)
			quorum_catch_up(b, i);
		if (!l->node.batch.active)
			link_reset(l);
		l->mine = l->used;
		if (i >= b->set.n)
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
quorum_batch_start(NodeSet *s, StoreOp *ops, int nops, int64 deadline)
{
	QuorumBatch *b = (QuorumBatch *) s;
	int64		now = lr_now();

	quorum_batch_drop(s);
	b->began_at = now;
	quorum_look_where(b);
	batch_start(&b->set.batch, ops, nops, deadline);
	s->over = b->was_over = false;
	s->look_at = 0;
	if (nops > b->nstates)
	{
		QuorumOp   *states = realloc(b->states, sizeof(QuorumOp) * nops);

		if (states == NULL)
		{
			batch_set_error(&b->set.batch, ERRCODE_OUT_OF_MEMORY, "Out of memory.");
			batch_give_up(&b->set.batch, STORE_DOWN);
			(void) batch_finish(&b->set.batch);
			return;
		}
		b->states = states;
		b->nstates = nops;
	}
	for (int i = 0; i < nops; i++)
	{
		memset(&b->states[i], 0, sizeof(QuorumOp));
		b->states[i].attempt = 1;
		for (int row = 0; row < LR_MAX_MASTERS; row++)
			b->states[i].copy[row] = b->states[i].undo[row] = -1;
	}
	for (int row = 0; row < b->set.n; row++)
	{
		QuorumLink *l = quorum_link(b, row);
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
		link_ask(l, put, b->set.batch.deadline);
	}
	for (int row = 0; row < s->n; row++)
		if (node_set_is_busy(s, row))
			node_batch_process(s->node[row], false, false);
	quorum_batch_look(s);
}

void
quorum_batch_look(NodeSet *s)
{
	QuorumBatch *b = (QuorumBatch *) s;

	if (b->set.batch.active)
		quorum_look(b);
	else
	{
		quorum_hear_all(b);
		quorum_send_behind(b);
	}
}

/*
 * quorum_batch_abandon --- see NodeSetMethod
 *
 * Nobody waits for the answers any more, but the connections are good: they are used to
 * release what was granted.
 */
void
quorum_batch_abandon(NodeSet *s)
{
	QuorumBatch *b = (QuorumBatch *) s;
	int			n;

	if (!b->set.batch.active)
		return;
	for (int i = 0; i < b->set.batch.nops; i += n)
	{
		n = quorum_group(&b->set.batch.ops[i]);
		if (b->set.batch.ops[i].outcome == STORE_PENDING && b->set.batch.ops[i].kind == STORE_CREATE)
			quorum_undo(b, i, n, false);
		for (int k = i; k < i + n; k++)
			if (b->set.batch.ops[k].outcome == STORE_PENDING)
				quorum_settle(b, k, STORE_UNKNOWN);
	}
	for (int i = 0; i < b->set.n; i++)
		if (quorum_link(b, i) != NULL)
		{
			link_cancel(quorum_link(b, i));
			node_batch_process(&quorum_link(b, i)->node, false, false);
		}
	batch_set_error(&b->set.batch, ERRCODE_STORE_FAILED,
					"The request was given up before it was answered.");
	batch_forget(&b->set.batch);
}

void
quorum_batch_closed(NodeSet *s)
{
	QuorumBatch *b = (QuorumBatch *) s;

	for (int i = 0; i < s->n; i++)
		if (quorum_link(b, i) != NULL)
			link_reset(quorum_link(b, i));
}
