/*-------------------------------------------------------------------------
 *
 * quorum_step.c
 *	  Evaluates what several masters have said about an operation; see quorum.h.
 *
 * An operation is evaluated when a node has answered it, or when something else has
 * changed that its outcome depends on.  Operations that are taken together are evaluated
 * as one.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_step.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"

#include "names.h"
#include "store/nodes.h"
#include "store/redis/quorum.h"

/* Attempts of a create while nobody has a majority, and the pause between two. */
#define ATTEMPTS_MAX		6
#define PAUSE_MIN			(4 * LR_US_PER_MS)
#define PAUSE_MAX			(50 * LR_US_PER_MS)

/*
 * Longest TTL (ms) reported if no attempt got a majority.  The others that have a part
 * of the nodes will release that, perhaps without notifying anybody.
 */
#define SPLIT_TTL			500

/* How long to wait for an answer that is wanted (StoreOp.wanted). */
#define WANTED_TIME			(100 * LR_US_PER_MS)

/* ----------
 * Votes
 * ----------
 */

/*
 * quorum_may_vote --- does it count that this node has granted this create?
 */
static bool
quorum_may_vote(const QuorumLink *l, const StoreOp *copy)
{
	return copy->topology == l->node.conn.facts.life &&
		masters_may_vote(l->node.conn.facts.since, copy->sent_at);
}

/*
 * quorum_void_others --- if there is another server in that row by now, void answers of
 * the former one
 *
 * The new server knows nothing of them, and the former one may be in another row now,
 * and have answered there, too.  A server is in one row at a time, so this way none has
 * two votes.
 */
static void
quorum_void_others(QuorumBatch *b, int row)
{
	QuorumLink *l = b->link[row];
	uint32		life = masters_life(row);

	if (life == b->life[row] || l == NULL)
		return;
	b->life[row] = life;
	for (int i = 0; i < l->used; i++)
		if (l->copies[i].outcome != STORE_PENDING && l->copies[i].topology != 0 &&
			l->copies[i].topology != life)
			l->copies[i].outcome = STORE_UNKNOWN;
}

/*
 * quorum_votes --- what the nodes have said about an operation so far
 *
 * Do not wait for silent nodes.  A create granted over a connection that was lost since
 * does not count, as the node may have been restarted without the lock.  Nor does one
 * granted behind a release of the same token that was sent twice: the second may still
 * run and release it.
 */
static void
quorum_votes(const QuorumBatch *b, int which, QuorumVote *votes)
{
	const QuorumOp *s = &b->states[which];

	memset(votes, 0, sizeof(QuorumVote) * LR_MAX_MASTERS);
	for (int i = 0; i < b->n; i++)
	{
		const QuorumLink *l = b->link[i];
		const StoreOp *copy;

		if (l == NULL || s->copy[i] < 0)
			continue;
		copy = &l->copies[s->copy[i]];
		if (s->phase == PHASE_RAISE && copy->outcome == STORE_OK && copy->fence < s->token)
			continue;
		votes[i].copy = copy;
		votes[i].awaited = !b->over && l->node.batch.active && (b->silent & (1U << i)) == 0;
		votes[i].counts = copy->outcome == STORE_OK && l->node.conn.state == CONN_READY &&
			!link_is_tainted(l, copy, copy->sent_at) && quorum_may_vote(l, copy);
	}
}

/* ----------
 * Outcomes
 * ----------
 */

/*
 * quorum_explain --- the reason of a failure, with a line for each node
 */
static void
quorum_explain(QuorumBatch *b, int which, StoreOutcome outcome)
{
	StoreError *error = &b->batch.error;
	size_t		len = 0;

	error->sqlstate = ERRCODE_STORE_FAILED;
	error->hint = NULL;
	error->detail[0] = error->address[0] = '\0';
	for (int i = 0; i < b->n && len < sizeof(error->detail); i++)
	{
		const QuorumLink *l = b->link[i];
		const StoreOp *copy = l != NULL && b->states[which].copy[i] >= 0 ?
			&l->copies[b->states[which].copy[i]] : NULL;
		const char *words = "Its answer would have changed nothing.";

		if (l == NULL)
			words = "Out of memory.";
		else if (copy != NULL && copy->outcome == STORE_OK)
			words = copy->kind != STORE_CREATE || quorum_may_vote(l, copy) ?
				"It has answered." :
				masters_may_vote(l->node.conn.facts.booted_by, copy->sent_at) ?
				"It has no vote, since another server was there until lately." :
				"It has no vote, since it was started lately.";
		else if (copy != NULL && copy->outcome > STORE_OK && copy->outcome < STORE_REFUSED)
			words = "It has answered.";
		else if (l->node.batch.error.sqlstate != 0)
		{
			words = l->node.batch.error.detail;
			if (outcome == STORE_DENIED && copy != NULL && copy->outcome == STORE_DENIED)
			{
				error->sqlstate = l->node.batch.error.sqlstate;
				error->hint = l->node.batch.error.hint;
			}
		}
		else if (copy != NULL && (b->over || (b->silent & (1U << i)) != 0))
			words = "It did not answer in time.";
		len += snprintf(error->detail + len, sizeof(error->detail) - len, "%sMaster %d: %s",
						i > 0 ? "\n" : "", i + 1, words);
	}
}

/*
 * quorum_note_without --- note which nodes may not have the lock that a majority has
 *
 * A node that has not answered yet may still find that somebody else has it there, or
 * that it is too late; nobody reads that then.
 */
static void
quorum_note_without(const QuorumBatch *b, int which)
{
	StoreOp    *op = &b->batch.ops[which];
	const QuorumOp *s = &b->states[which];

	for (int i = 0; i < b->n; i++)
	{
		const StoreOp *copy = b->link[i] != NULL && s->copy[i] >= 0 ?
			&b->link[i]->copies[s->copy[i]] : NULL;

		if (copy == NULL || (copy->outcome != STORE_OK && copy->kind == STORE_CREATE))
			op->without |= 1U << i;
	}
}

/*
 * copy_may_have --- may this node have the lock after a create or renewal?
 *
 * A node that has forgotten it is given it again, so it may.
 */
static bool
copy_may_have(const StoreOp *copy, const QuorumLink *l)
{
	if (copy->kind == STORE_MINT)
		return true;			/* follows its create */
	if (copy->outcome == STORE_PENDING)
		return copy->sent_at != 0 || l->node.conn.state == CONN_READY;
	return copy->outcome == STORE_OK ||
		copy->outcome == (copy->kind == STORE_CREATE ? STORE_UNKNOWN : STORE_GONE);
}

/*
 * copy_may_keep --- may this node still have the lock after a release?
 *
 * A release sent over a connection that still stands will arrive, unless the connection
 * is lost before the answer.  If the answer was wanted, it has been waited for.
 */
static bool
copy_may_keep(const StoreOp *copy, const QuorumLink *l)
{
	if (copy->outcome == STORE_PENDING)
		return copy->wanted != 0 || copy->sent_at == 0 || l->node.conn.state != CONN_READY;
	return copy->outcome != STORE_OK && copy->outcome != STORE_GONE &&
		copy->outcome != STORE_WRONG_TYPE;
}

/*
 * quorum_cancel_late --- a majority has granted the lock: cancel creates that wait for a
 * connection
 *
 * Otherwise, until a node is known to be down, the watchdog would have to look there for
 * each lock taken meanwhile.
 */
static void
quorum_cancel_late(const QuorumBatch *b, int which)
{
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		int			copy = b->states[which].copy[i];

		if (l != NULL && copy >= 0 && l->copies[copy].outcome == STORE_PENDING &&
			!copy_may_have(&l->copies[copy], l))
			link_cancel_one(&l->copies[copy]);
	}
}

/*
 * quorum_nodes --- the nodes that may have the lock, or may still have it after a
 * release
 */
static uint32
quorum_nodes(const QuorumBatch *b, int which)
{
	StoreOpKind kind = b->batch.ops[which].kind;
	uint32		nodes = 0;

	for (int i = 0; i < b->n; i++)
	{
		const QuorumLink *l = b->link[i];
		int			at = b->states[which].copy[i];
		const StoreOp *copy = l != NULL && at >= 0 ? &l->copies[at] : NULL;
		bool		may;

		if (kind == STORE_RELEASE)
			may = copy == NULL || copy_may_keep(copy, l);
		else
			may = copy != NULL && copy_may_have(copy, l);
		if (may)
			nodes |= 1U << i;
	}
	return nodes;
}

/*
 * quorum_settle --- give an operation its outcome
 *
 * A lease counts only for as long as the slowest clock of the nodes allows.
 */
void
quorum_settle(QuorumBatch *b, int which, StoreOutcome outcome)
{
	StoreOp    *op = &b->batch.ops[which];

	if (outcome >= STORE_REFUSED || (outcome == STORE_BUSY && op->kind != STORE_CREATE))
		quorum_explain(b, which, outcome);
	if (outcome == STORE_OK && op->lease_ms > 0 && op->sent_at != 0)
		op->sent_at -= quorum_drift_ms(op->lease_ms) * LR_US_PER_MS;
	if (outcome == STORE_OK && op->kind == STORE_CREATE)
	{
		quorum_note_without(b, which);
		quorum_cancel_late(b, which);
	}
	if (op->kind == STORE_RELEASE ||
		(outcome == STORE_OK && (op->kind == STORE_CREATE || op->kind == STORE_RENEW)))
		op->nodes = quorum_nodes(b, which);
	if (op->kind == STORE_TIME)
		op->store_ms = op->sent_at / LR_US_PER_MS;
	if (op->sent_at != 0 && store_runs_once(op->kind))
		op->not_after = b->batch.deadline / LR_US_PER_MS;
	batch_settle(&b->batch, op, outcome);
}

/*
 * quorum_settle_split --- we have no majority, and nobody else has one either
 */
static void
quorum_settle_split(QuorumBatch *b, int which, int n)
{
	for (int k = 0; k < n; k++)
	{
		StoreOp    *op = &b->batch.ops[which + k];

		quorum_settle(b, which + k, STORE_BUSY);
		op->ttl_ms = op->ttl_ms == STORE_NO_TTL ? SPLIT_TTL : Min(op->ttl_ms, SPLIT_TTL);
	}
}

/*
 * quorum_fail_attempt --- an attempt of a create has failed; try again if that may help
 */
static void
quorum_fail_attempt(QuorumBatch *b, int which, int n, StoreOutcome outcome, bool split)
{
	QuorumOp   *s = &b->states[which];
	int64		now = lr_now();
	int64		pause = Min(PAUSE_MIN << (s->attempt - 1), PAUSE_MAX);

	/*
	 * An earlier attempt found it busy, and now some nodes had to be left out; so busy
	 * is all that is known.  STORE_UNKNOWN stays: the watchdog has to release the lock
	 * if a link cannot.
	 */
	if (s->attempt > 1 && outcome == STORE_DOWN)
		outcome = STORE_BUSY;
	quorum_undo(b, which, n, outcome == STORE_BUSY && !split);

	/*
	 * While a majority is down, each call asks the others in vain.  A record of each
	 * call would stay until the majority is back, and the lock table would soon be full.
	 */
	if (outcome == STORE_UNKNOWN && quorum_undoes_all(b, which, n))
		outcome = STORE_DOWN;
	pause = pause / 8 + murmurhash32((uint32) now ^ (uint32) MyProcPid) % pause;
	if (outcome == STORE_BUSY && split && s->attempt < ATTEMPTS_MAX && !b->over &&
		now + pause < b->batch.deadline)
	{
		s->phase = PHASE_PAUSE;
		s->again_at = now + pause;
		b->look_at = Min(b->look_at, s->again_at);
		return;
	}
	if (outcome == STORE_BUSY && split)
		quorum_settle_split(b, which, n);
	else
		for (int k = 0; k < n; k++)
			quorum_settle(b, which + k, outcome);
}

/*
 * quorum_lingers --- should an operation that a majority has done wait for other nodes?
 *
 * The handle may not be stepped for a long time, so what is not sent now may be sent
 * much later.  That concerns a connection which is just being made.  Over an existing
 * one everything is sent at once, unless the node is behind with its answers, and then
 * each call would have to wait for it.  A force also waits for nodes that have not said
 * yet who holds the lock, since only then can they be asked to remove it.
 */
static bool
quorum_lingers(QuorumBatch *b, int which)
{
	QuorumOp   *s = &b->states[which];
	bool		is_force = b->batch.ops[which].kind == STORE_FORCE;
	int64		now = lr_now();

	if (s->linger_until == 0)
		s->linger_until = now + LINGER_TIME;
	if (s->phase == PHASE_RAISE || now >= s->linger_until || b->over)
		return false;
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		bool		ready = l != NULL && l->node.conn.state == CONN_READY;

		if (l == NULL || s->copy[i] < 0 ||
			l->copies[s->copy[i]].outcome != STORE_PENDING ||
			(ready && !is_force) || (!ready && !link_is_soon_ready(l, now)) ||
			node_is_silent(NODE_MASTER + i))
			continue;
		b->look_at = Min(b->look_at, s->linger_until);
		if (!ready)
			b->look_at = Min(b->look_at, l->linger_until);
		return true;
	}
	return false;
}

/*
 * quorum_awaits_wanted --- a majority has released the lock: wait for nodes whose answer
 * is wanted?
 */
static bool
quorum_awaits_wanted(QuorumBatch *b, int which, const QuorumVote *votes)
{
	QuorumOp   *s = &b->states[which];
	int64		now = lr_now();

	if (s->linger_until == 0)
		s->linger_until = now + WANTED_TIME;
	if (now >= s->linger_until)
		return false;
	for (int i = 0; i < b->n; i++)
		if ((b->batch.ops[which].wanted & (1U << i)) != 0 && votes[i].awaited &&
			votes[i].copy->outcome == STORE_PENDING)
		{
			b->look_at = Min(b->look_at, s->linger_until);
			return true;
		}
	return false;
}

/* Is it worth a short wait that all nodes do it? */
static bool
quorum_is_for_all(StoreOpKind kind)
{
	return kind == STORE_CREATE || kind == STORE_SET || kind == STORE_RELEASE ||
		kind == STORE_FORCE;
}

/*
 * quorum_decide_group --- decide about one operation, or a group that is taken together
 *
 * A node takes all operations of a group or none, so they have the same votes.
 */
static void
quorum_decide_group(QuorumBatch *b, int which, int n)
{
	StoreOp    *ops = &b->batch.ops[which];
	QuorumOp   *s = &b->states[which];
	QuorumVote	votes[LR_MAX_MASTERS];
	StoreOutcome outcome = STORE_OK;
	bool		split = false;

	for (int k = n - 1; k >= 0; k--)
	{
		StoreOutcome its;

		quorum_votes(b, which + k, votes);
		its = quorum_decide(&ops[k], votes, b->n);
		if (its == STORE_PENDING)
			return;
		if (its != STORE_OK)
			outcome = its;
		split = split || quorum_is_split(votes, b->n);
	}
	if (ops->wanted != 0 && quorum_awaits_wanted(b, which, votes))
		return;
	if (outcome == STORE_OK && quorum_is_for_all(ops->kind) && quorum_lingers(b, which))
		return;
	if (outcome == STORE_OK && s->phase == PHASE_RAISE)
		ops->fence = s->token;
	else if (outcome == STORE_OK && (ops->fenced || ops->kind == STORE_MINT) &&
			 quorum_raise(b, which, votes))
		return;

	if (outcome != STORE_OK && ops->kind == STORE_CREATE)
	{
		quorum_fail_attempt(b, which, n, outcome, split);
		return;
	}
	for (int k = 0; k < n; k++)
	{
		if (outcome == STORE_OK && ops[k].kind == STORE_RENEW)
			quorum_watch(b, which + k);
		quorum_settle(b, which + k, outcome);
	}
}

/* ----------
 * Step by step
 * ----------
 */

/*
 * quorum_look_at --- go on with this operation, or group, if possible
 */
static void
quorum_look_at(QuorumBatch *b, int which, int n)
{
	StoreOp    *op = &b->batch.ops[which];
	QuorumOp   *s = &b->states[which];

	if (s->phase == PHASE_PAUSE)
	{
		if (b->over)
		{
			quorum_settle_split(b, which, n);
			return;
		}
		if (lr_now() < s->again_at)
		{
			b->look_at = Min(b->look_at, s->again_at);
			return;
		}
		quorum_begin_attempt(b, which, n);
	}
	if (s->phase == PHASE_FIRST)
	{
		const QuorumLink *l = b->link[s->first];
		const StoreOp *copy = s->copy[s->first] >= 0 ? &l->copies[s->copy[s->first]] : NULL;

		if (copy != NULL && copy->outcome == STORE_PENDING && !b->over &&
			!node_is_silent(NODE_MASTER + s->first))
			return;
		if (copy != NULL && copy->outcome == STORE_BUSY)
		{
			quorum_fail_attempt(b, which, n, STORE_BUSY, true);
			return;
		}
		s->phase = PHASE_ASKED;
		quorum_ask_rest(b, which, n);
	}
	if (op->kind == STORE_FORCE)
		quorum_turn_force(b, which);
	quorum_decide_group(b, which, n);
}

/*
 * quorum_hear --- take the new answers of a node
 *
 * Answers mostly come in the order of the requests, so copies before "heard_to" are not
 * looked at again.
 */
void
quorum_hear(QuorumBatch *b, int row)
{
	QuorumLink *l = b->link[row];

	for (int i = l->heard_to; i < l->used && link_has_news(l); i++)
	{
		int			op = l->notes[i].op;

		if (l->notes[i].heard || l->copies[i].outcome == STORE_PENDING)
			continue;
		l->notes[i].heard = true;
		l->nheard++;
		quorum_look_after(b, row, i);
		if (b->batch.active && i >= l->mine && op >= 0 &&
			b->batch.ops[op].outcome == STORE_PENDING)
			quorum_look_at(b, op, quorum_group(&b->batch.ops[op]));
	}
	while (l->heard_to < l->used && l->notes[l->heard_to].heard)
		l->heard_to++;
}

/*
 * quorum_hear_all --- take the new answers of all nodes
 *
 * An answer may lead to a request to another node, which can be refused at once; hence
 * the loop.
 */
void
quorum_hear_all(QuorumBatch *b)
{
	bool		news = true;

	while (news)
	{
		news = false;
		for (int i = 0; i < b->n; i++)
		{
			int			nheard = b->link[i] != NULL ? b->link[i]->nheard : 0;

			if (b->link[i] == NULL || !link_has_news(b->link[i]))
				continue;
			quorum_hear(b, i);
			news = news || b->link[i]->nheard > nheard;
		}
	}
}

/*
 * quorum_is_changed --- has something changed, besides answers, that may decide an
 * operation?
 */
static bool
quorum_is_changed(QuorumBatch *b)
{
	uint32		silent = 0;
	uint32		epochs = 0;
	bool		changed;

	for (int i = 0; i < b->n; i++)
	{
		if (node_is_silent(NODE_MASTER + i) && (b->patient || lr_watchdog_running()))
			silent |= 1U << i;
		if (b->link[i] != NULL)
			epochs += b->link[i]->node.conn.socket.epoch + b->link[i]->node.connections;
		quorum_void_others(b, i);
		epochs += b->life[i];
	}
	changed = silent != b->silent || epochs != b->epochs || b->over != b->was_over;
	b->silent = silent;
	b->epochs = epochs;
	b->was_over = b->over;
	return changed;
}

/*
 * quorum_look --- settle what can be settled
 *
 * Unless something else has changed, only operations with a new answer are looked at: a
 * batch may have thousands, which are answered bit by bit.
 */
void
quorum_look(QuorumBatch *b)
{
	int			n;

	if (quorum_is_changed(b) || lr_now() >= b->look_at)
	{
		b->look_at = LR_NEVER;
		for (int i = 0; i < b->batch.nops && b->batch.left > 0; i += n)
		{
			n = quorum_group(&b->batch.ops[i]);
			if (b->batch.ops[i].outcome == STORE_PENDING)
				quorum_look_at(b, i, n);
		}
	}
	quorum_hear_all(b);
	if (!batch_finish(&b->batch))
		return;

	/*
	 * Send what was put behind requests in flight; we may not be stepped again for long.
	 */
	for (int i = 0; i < b->n; i++)
		if (b->link[i] != NULL)
		{
			link_cancel(b->link[i]);
			if (b->link[i]->node.batch.active)
				node_batch_process(&b->link[i]->node, false, false, 0);
		}
}
