/*-------------------------------------------------------------------------
 *
 * quorum_ask.c
 *	  What several masters are asked before an operation has its outcome; see quorum.h.
 *
 * A create that gets no majority is released wherever it was granted, or may have been,
 * by a release behind it on the same connection; others may take the lock at once.  If
 * nobody has a majority, it is tried again after a moment, with the same owner.  That is
 * safe, because nothing of an attempt is in flight any more when the next one begins.
 * Nodes that have not answered its release, or may get it twice, are left out.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_ask.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/nodes.h"
#include "store/redis/quorum.h"

/*
 * quorum_put_group --- copy operations for this node; returns how many were copied
 *
 * A group has one answer, so only the last copy is made a vote to be heard.
 */
int
quorum_put_group(QuorumBatch *b, int row, int which, int n, StoreOpKind kind)
{
	int			first;
	int			put = link_put_group(b->link[row], &b->batch.ops[which], n, kind, &first);

	for (int k = 0; k < n; k++)
		b->states[which + k].copy[row] =
			link_vote(b->link[row], first < 0 ? -1 : first + k, k == n - 1 ? which : -1);
	return put;
}

/*
 * quorum_is_undone --- can nothing of an earlier attempt still be in flight to this
 * node?
 */
static bool
quorum_is_undone(const QuorumBatch *b, int row, int which, int n)
{
	for (int k = 0; k < n; k++)
	{
		int			undo = b->states[which + k].undo[row];

		if (undo >= 0 && !copy_is_plain(&b->link[row]->copies[undo]))
			return false;
	}
	return (b->states[which].left_out & (1U << row)) == 0;
}

/*
 * quorum_ask_rest --- ask all nodes that were not asked yet, for one operation or a
 * group
 */
void
quorum_ask_rest(QuorumBatch *b, int which, int n)
{
	QuorumOp   *s = &b->states[which];

	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		int			put;

		if (l == NULL || s->copy[i] >= 0 || !quorum_is_undone(b, i, which, n))
			continue;
		put = quorum_put_group(b, i, which, n, b->batch.ops[which].kind);
		link_ask(l, put, b->batch.deadline);
	}
}

/*
 * quorum_undo --- an attempt has failed: release what was granted, or may have been
 *
 * "quiet": somebody else has a majority, so what we had of the lock makes it available
 * to nobody.  If it were announced, the session that waits here would hear of it as
 * well, ask again at once, fail, and so on until the holder's lease ends.
 */
void
quorum_undo(QuorumBatch *b, int which, int n, bool quiet)
{
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		int			put = 0;

		if (l == NULL)
			continue;
		for (int k = 0; k < n; k++)
		{
			QuorumOp   *s = &b->states[which + k];
			StoreOutcome outcome;

			if (s->copy[i] < 0)
				continue;
			outcome = l->copies[s->copy[i]].outcome;
			if (s->undo[i] >= 0 && !copy_is_plain(&l->copies[s->undo[i]]))
				b->states[which].left_out |= 1U << i;
			if (outcome == STORE_UNKNOWN || l->copies[s->copy[i]].resent)
				b->states[which].left_out |= 1U << i;
			if (outcome == STORE_PENDING && s->phase != PHASE_RAISE &&
				l->copies[s->copy[i]].sent_at == 0)
			{
				link_cancel_one(&l->copies[s->copy[i]]);
				s->copy[i] = -1;
			}
			else if (outcome == STORE_OK || outcome == STORE_UNKNOWN ||
					 outcome == STORE_PENDING || s->phase == PHASE_RAISE)
			{
				/* The answer to a mint says nothing about the create before it. */
				s->undo[i] = link_put(l, &b->batch.ops[which + k], STORE_RELEASE);
				if (s->undo[i] < 0)
					continue;
				l->copies[s->undo[i]].quiet = quiet;
				put++;
				if (b->batch.ops[which].token != NULL)
					link_watch(l, s->undo[i], COPY_UNDOES, 0);
			}
		}
		link_ask(l, put, b->batch.deadline);
	}
}

/*
 * quorum_undoes_all --- after quorum_undo(): will nothing be left behind?
 *
 * That is so as long as the connections last: on each of them the release follows the
 * create, and it has been sent when the batch is over.  Should one break nevertheless, a
 * minority keeps the lock until its lease ends.  That needs no record, as the lock was
 * never held by a majority.
 */
bool
quorum_undoes_all(const QuorumBatch *b, int which, int n)
{
	const QuorumOp *s = &b->states[which];
	int			told = 0;

	if (s->left_out != 0 || s->phase == PHASE_RAISE)
		return false;
	for (int i = 0; i < b->n; i++)
	{
		const QuorumLink *l = b->link[i];

		if (l == NULL || s->copy[i] < 0 ||
			(l->copies[s->copy[i]].outcome != STORE_OK &&
			 l->copies[s->copy[i]].outcome != STORE_PENDING))
			continue;
		for (int k = 0; k < n; k++)
			if (s[k].undo[i] < 0)
				return false;
		if (l->node.conn.state != CONN_READY)
			return false;
		told++;
	}
	return told < masters_quorum(b->n);
}

/*
 * quorum_begin_attempt --- try again, asking one node before the others
 *
 * Servers that try at the same time usually choose the same node, so one of them wins.
 * It must be a node that owes no answer, as the others are asked only after it has
 * answered.
 */
void
quorum_begin_attempt(QuorumBatch *b, int which, int n)
{
	QuorumOp   *s = &b->states[which];

	s->attempt++;
	s->first = -1;
	for (int i = 0; i < b->n && s->first < 0; i++)
		if (b->link[i] != NULL && quorum_is_undone(b, i, which, n) &&
			node_batch_is_connected(&b->link[i]->node) && !b->link[i]->node.batch.active &&
			!node_is_silent(NODE_MASTER + i))
			s->first = i;
	for (int k = 0; k < n; k++)
	{
		b->batch.ops[which + k].sent_at = 0;
		for (int i = 0; i < LR_MAX_MASTERS; i++)
			b->states[which + k].copy[i] = -1;
	}
	s->phase = PHASE_ASKED;
	if (s->first >= 0)
	{
		int			put = quorum_put_group(b, s->first, which, n, STORE_CREATE);

		s->phase = PHASE_FIRST;
		link_ask(b->link[s->first], put, b->batch.deadline);
	}
	else
		quorum_ask_rest(b, which, n);
}

/*
 * quorum_raise --- raise the counters of tokens where they are behind; false if a
 * majority is not behind
 *
 * The majority of the next holder has a node in common with this one.
 */
bool
quorum_raise(QuorumBatch *b, int which, const QuorumVote *votes)
{
	StoreOp    *op = &b->batch.ops[which];
	QuorumOp   *s = &b->states[which];
	int			level = 0;
	StoreOp		mint;

	for (int i = 0; i < b->n; i++)
		if (votes[i].copy != NULL && votes[i].copy->outcome == STORE_OK &&
			votes[i].copy->fence == op->fence)
			level++;
	if (level >= masters_quorum(b->n))
		return false;

	mint = *op;
	mint.floor = op->fence - 1;
	s->token = op->fence;
	s->phase = PHASE_RAISE;
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		int			copy;

		if (votes[i].copy == NULL || votes[i].copy->outcome != STORE_OK ||
			votes[i].copy->fence == op->fence)
			continue;
		copy = link_vote(l, link_put(l, &mint, STORE_MINT), which);
		s->copy[i] = copy;
		link_ask(l, copy >= 0, b->batch.deadline);
	}
	return true;
}

/*
 * quorum_turn_force --- where a node has said who holds the lock, have it taken from
 * that owner
 *
 * If the caller has read one owner at a majority, the lock is taken only from that
 * owner: somebody else may have acquired it since.  Otherwise (RedissonRedLock has
 * another owner at each node) it is taken from whichever owner each node shows.
 */
void
quorum_turn_force(QuorumBatch *b, int which)
{
	const StoreOp *op = &b->batch.ops[which];
	QuorumOp   *s = &b->states[which];

	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		StoreOp    *seen;
		StoreOp		force;
		char		owner[LR_OWNER_MAX];

		if (l == NULL || s->copy[i] < 0)
			continue;
		seen = &l->copies[s->copy[i]];
		if (seen->kind != STORE_INSPECT || seen->outcome != STORE_OK)
			continue;
		if (seen->value != STORE_VALUE_LOCK && seen->value != STORE_VALUE_TOKEN)
		{
			seen->kind = STORE_FORCE;
			seen->outcome = seen->value == STORE_VALUE_OTHER ? STORE_WRONG_TYPE : STORE_GONE;
			continue;
		}
		strlcpy(owner, seen->digest[0] != '\0' ? seen->digest : seen->holder, sizeof(owner));
		if (op->owner_text_len > 0 && !store_names_owner(op, owner))
		{
			seen->kind = STORE_FORCE;
			seen->outcome = STORE_GONE;
			continue;
		}
		force = *seen;
		force.owner_text = owner;
		force.owner_text_len = strlen(owner);
		s->copy[i] = link_vote(l, link_put(l, &force, STORE_FORCE), which);
		link_ask(l, s->copy[i] >= 0, b->batch.deadline);
	}
}
