/*-------------------------------------------------------------------------
 *
 * quorum.c
 *	  Combines what independent masters say about one operation into one outcome; see
 *	  quorum.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/nodes.h"
#include "store/redis/quorum.h"

/* How many nodes have said what. */
typedef struct QuorumCount
{
	int			n;				/* configured nodes */
	int			q;				/* a majority of them */
	int			open;			/* still awaited */
	int			ok;				/* have done it, and cannot have forgotten a lock */
	int			busy;			/* somebody else has it */
	int			late;
	int			lost;			/* the owner is not there, or something else is */
	int			wrong;			/* those of "lost" where something else is */
	int			refused;		/* have answered with an error */
	int			denied;			/* the user lacks a right */
	int			own_fault;		/* the error concerns this operation only */
	bool		may_have_run;	/* on some node */
} QuorumCount;

int64
quorum_drift_ms(int64 lease_ms)
{
	return lease_ms / 100 + 2;
}

/*
 * quorum_count --- count the votes by outcome; a create counts only where the node has a
 * vote
 */
static void
quorum_count(const QuorumVote *votes, int n, QuorumCount *c)
{
	memset(c, 0, sizeof(QuorumCount));
	c->n = n;
	c->q = masters_quorum(n);
	for (int i = 0; i < n; i++)
	{
		const StoreOp *copy = votes[i].copy;

		if (copy == NULL)
			continue;
		c->own_fault += copy->answer.own_fault;
		switch (copy->outcome)
		{
			case STORE_OK:
				if (copy->kind != STORE_CREATE || votes[i].counts)
					c->ok++;
				else
					c->open += votes[i].awaited;
				c->may_have_run = true;
				break;
			case STORE_BUSY:
				c->busy++;
				break;
			case STORE_WRONG_TYPE:
				c->busy++;
				c->wrong++;
				c->lost++;
				break;
			case STORE_GONE:
				c->lost++;
				break;
			case STORE_LATE:
				c->late++;
				break;
			case STORE_DENIED:
				c->denied++;
				break;
			case STORE_REFUSED:
				c->refused++;
				break;
			case STORE_UNKNOWN:
				c->may_have_run = true;
				break;
			case STORE_PENDING:
				c->open += votes[i].awaited;
				c->may_have_run = c->may_have_run || copy->sent.at != 0;
				break;
			default:
				break;
		}
	}
}

/* The number of nodes that prevents a majority. */
static int
quorum_bar(const QuorumCount *c)
{
	return c->n - c->q + 1;
}

/*
 * quorum_failed --- the outcome if there is no majority for anything
 */
static StoreOutcome
quorum_failed(StoreOp *op, const QuorumCount *c)
{
	op->answer.own_fault = c->own_fault >= quorum_bar(c);
	if (c->may_have_run)
		return STORE_UNKNOWN;
	if (c->denied >= quorum_bar(c))
		return STORE_DENIED;
	if (c->denied + c->refused >= quorum_bar(c))
		return STORE_REFUSED;
	return STORE_DOWN;
}

/* ----------
 * Results
 * ----------
 */

/*
 * quorum_note_sent --- when the first byte was sent to any of them
 */
static void
quorum_note_sent(StoreOp *op, const QuorumVote *votes, int n)
{
	for (int i = 0; i < n; i++)
	{
		const StoreOp *copy = votes[i].copy;

		if (copy == NULL || copy->sent.at == 0)
			continue;
		if (op->sent.at == 0 || copy->sent.at < op->sent.at)
			op->sent.at = copy->sent.at;
		op->sent.again = op->sent.again || copy->sent.again;
	}
}

/*
 * quorum_take_done --- what nodes that have done it have answered: the highest token, the
 * highest count of notified waiters, and else what the first one has
 */
static void
quorum_take_done(StoreOp *op, const QuorumVote *votes, int n)
{
	int64		fence = 0;
	int			count = 0;

	for (int i = n - 1; i >= 0; i--)
	{
		const StoreOp *copy = votes[i].copy;

		if (copy == NULL || copy->outcome != STORE_OK)
			continue;
		op->answer = copy->answer;
		fence = Max(fence, copy->answer.fence);
		count = Max(count, copy->answer.count);
	}
	op->answer.fence = fence;
	op->answer.count = count;
}

/* Do both answers show the same holder? */
static bool
quorum_same(const StoreAnswer *one, const StoreAnswer *other)
{
	return one->value == other->value && strcmp(one->holder, other->holder) == 0 &&
		strcmp(one->digest, other->digest) == 0;
}

/*
 * quorum_most_named --- of the answers with this outcome, the most frequent; *named: how
 * many
 */
static const StoreOp *
quorum_most_named(const QuorumVote *votes, int n, StoreOutcome outcome, int *named)
{
	const StoreOp *most = NULL;

	*named = 0;
	for (int i = 0; i < n; i++)
	{
		const StoreOp *copy = votes[i].copy;
		int			same = 0;

		if (copy == NULL || copy->outcome != outcome)
			continue;
		for (int j = 0; j < n; j++)
			if (votes[j].copy != NULL && votes[j].copy->outcome == outcome &&
				quorum_same(&copy->answer, &votes[j].copy->answer))
				same++;
		if (same > *named)
		{
			*named = same;
			most = copy;
		}
	}
	return most;
}

/*
 * quorum_ttl --- when a majority may be free at the earliest: the q-th smallest TTL
 *
 * A node that has not answered may be free now.
 */
static int64
quorum_ttl(const QuorumVote *votes, int n)
{
	int64		ttls[LR_MAX_MASTERS];
	int			count = 0;

	for (int i = 0; i < n; i++)
	{
		const StoreOp *copy = votes[i].copy;
		int64		ttl = 0;
		int			at;

		if (copy != NULL && (copy->outcome == STORE_BUSY || copy->outcome == STORE_WRONG_TYPE ||
							 (copy->outcome == STORE_OK && copy->kind == STORE_INSPECT &&
							  copy->answer.value != STORE_VALUE_NONE)))
			ttl = copy->answer.ttl_ms == STORE_NO_TTL ? STORE_TTL_MAX : copy->answer.ttl_ms;
		else if (copy != NULL && copy->outcome != STORE_OK && copy->outcome != STORE_PENDING)
			continue;
		for (at = count++; at > 0 && ttls[at - 1] > ttl; at--)
			ttls[at] = ttls[at - 1];
		ttls[at] = ttl;
	}
	if (count == 0)
		return 0;
	count = Min(count, masters_quorum(n));
	return ttls[count - 1] == STORE_TTL_MAX ? STORE_NO_TTL : ttls[count - 1];
}

/* ----------
 * Operation by operation
 * ----------
 */

/*
 * quorum_decide_create --- granted by a majority, or too many nodes have another holder
 *
 * Wait while awaited nodes could complete a majority, or while it depends on them
 * whether the lock is busy or its state is unknown.
 */
static StoreOutcome
quorum_decide_create(StoreOp *op, const QuorumVote *votes, const QuorumCount *c)
{
	const StoreOp *most;
	int			named;
	int			answered = c->ok + c->busy + c->late;

	if (c->ok >= c->q)
	{
		quorum_take_done(op, votes, c->n);
		return STORE_OK;
	}
	if (c->ok + c->open >= c->q || (answered < c->q && answered + c->open >= c->q))
		return STORE_PENDING;
	if (answered < c->q)
		return quorum_failed(op, c);
	if (c->busy == 0)
		return STORE_LATE;

	most = quorum_most_named(votes, c->n,
							 c->wrong >= quorum_bar(c) || c->wrong == c->busy ?
							 STORE_WRONG_TYPE : STORE_BUSY, &named);
	op->answer = most->answer;
	op->answer.ttl_ms = quorum_ttl(votes, c->n);
	return most->outcome;
}

/*
 * quorum_decide_owned --- what only the owner may do, and what concerns no lock
 */
static StoreOutcome
quorum_decide_owned(StoreOp *op, const QuorumVote *votes, const QuorumCount *c)
{
	int			named;

	if (c->ok >= c->q)
	{
		quorum_take_done(op, votes, c->n);
		return STORE_OK;
	}
	if (c->lost >= quorum_bar(c))
	{
		StoreOutcome lost = c->wrong > c->lost / 2 ? STORE_WRONG_TYPE : STORE_GONE;

		op->answer = quorum_most_named(votes, c->n, lost, &named)->answer;
		return lost;
	}
	if (c->ok + c->open >= c->q || (c->lost > 0 && c->lost + c->open >= quorum_bar(c)))
		return STORE_PENDING;

	/* A release is done if a majority does not have our owner any more. */
	if (op->kind == STORE_RELEASE && c->ok + c->lost >= c->q)
	{
		quorum_take_done(op, votes, c->n);
		return STORE_OK;
	}
	return quorum_failed(op, c);
}

/*
 * quorum_decide_force --- taken from the owner that each node had
 */
static StoreOutcome
quorum_decide_force(StoreOp *op, const QuorumVote *votes, const QuorumCount *c)
{
	if (c->ok < c->q && c->open > 0)
		return STORE_PENDING;
	if (c->ok + c->lost < c->q)
		return quorum_failed(op, c);
	if (c->ok == 0)
		return STORE_GONE;
	quorum_take_done(op, votes, c->n);
	return STORE_OK;
}

/*
 * quorum_decide_inspect --- what a majority shows; else that no owner has a majority
 */
static StoreOutcome
quorum_decide_inspect(StoreOp *op, const QuorumVote *votes, const QuorumCount *c)
{
	int			named;
	const StoreOp *most = quorum_most_named(votes, c->n, STORE_OK, &named);

	if (named < c->q && c->open > 0)
		return STORE_PENDING;
	if (c->ok < c->q)
		return quorum_failed(op, c);
	op->answer = most->answer;
	op->answer.ttl_ms = quorum_ttl(votes, c->n);
	if (named >= c->q)
		return STORE_OK;

	/* There are several owners: nobody holds the lock, and nobody can acquire it. */
	op->answer.holder[0] = op->answer.digest[0] = '\0';
	op->answer.count = 0;
	if (most->answer.value == STORE_VALUE_NONE)
	{
		op->answer.value = STORE_VALUE_LOCK;
		strlcpy(op->answer.type_name, "hash", sizeof(op->answer.type_name));
	}
	return STORE_OK;
}

StoreOutcome
quorum_decide(StoreOp *op, const QuorumVote *votes, int n)
{
	QuorumCount c;

	quorum_count(votes, n, &c);
	quorum_note_sent(op, votes, n);
	switch (op->kind)
	{
		case STORE_CREATE:
			return quorum_decide_create(op, votes, &c);
		case STORE_FORCE:
			return quorum_decide_force(op, votes, &c);
		case STORE_INSPECT:
			return quorum_decide_inspect(op, votes, &c);
		default:
			return quorum_decide_owned(op, votes, &c);
	}
}

bool
quorum_is_split(const QuorumVote *votes, int n)
{
	int			named;

	(void) quorum_most_named(votes, n, STORE_BUSY, &named);
	return named < masters_quorum(n);
}
