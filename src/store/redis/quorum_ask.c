/*-------------------------------------------------------------------------
 *
 * quorum_ask.c
 *	  What several masters are asked on the way to an outcome; see quorum.h.
 *
 * A create that gets no majority is given back where it was granted, or may have been,
 * by a release behind it on the same connection; others may take the lock at once.  If
 * nobody has a majority it is tried again after a moment, by the same owner.  That is
 * safe as nothing of an attempt is under way any more when the next one begins, but
 * at nodes that have not answered its release, or may get it twice: those are left out.
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
 * quorum_put_group --- for that node; returns how many were put
 *
 * They have one answer, so it is enough to hear the last of them.
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
 * quorum_is_undone --- can nothing of an attempt before be under way at this node?
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
 * quorum_ask_rest --- all nodes that were not asked yet, for operations which are taken
 * together or one
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
 * quorum_undo --- an attempt has failed: give back what was granted, or may have been
 *
 * "quiet": somebody has a majority, so nobody waits for what we had of it.  He who waits
 * here would hear of it as well, ask again at once, and so on until that lease ends.
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
				/* The answer to a mint says nothing of the create before it. */
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
 * quorum_undoes_all --- behind quorum_undo(): will nothing of it stay?
 *
 * So it is as long as the connections last: the release is behind the create on each of
 * them, and has been sent when the batch is over.  Should one break nevertheless, what is
 * left is at a minority and ends with its lease: nobody needs a record for that, as there
 * is none of what others were ahead of.
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
 * quorum_begin_attempt --- once more: one node before the others
 *
 * Those who try at the same time agree on it, so one of them is ahead.  It is one that owes
 * no answer, as the others wait for it.
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
 * quorum_raise --- have the counters of a majority reach the token; false: they have
 *
 * The next who gets it has a node in common with those that were raised.
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
 * quorum_turn_force --- a node has said who has the lock there: take it from him
 *
 * If the caller has read who has it at most of them, only from that one: somebody may have
 * taken it since.  Whoever has it at some of them only, as RedissonRedLock has it by
 * another owner at each, has it from there as he is shown.
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
		if (op->owner_text_len > 0 &&
			(op->owner_text_len != (int) strlen(owner) ||
			 memcmp(owner, op->owner_text, op->owner_text_len) != 0))
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
