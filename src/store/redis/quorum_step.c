/*-------------------------------------------------------------------------
 *
 * quorum_step.c
 *	  What several masters are asked for an operation, and what they have said about it;
 *	  see quorum.h.
 *
 * An operation is evaluated when a node has answered it, or when something else has
 * changed that its outcome depends on.  Operations that are taken together are evaluated
 * as one.
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
 *	  src/store/redis/quorum_step.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"

#include "names.h"
#include "settings.h"
#include "stats.h"
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

/* How long to wait for an answer that is wanted (StoreArgs.wanted). */
#define WANTED_TIME			(100 * LR_US_PER_MS)

/* ----------
 * Votes
 * ----------
 */

/*
 * quorum_copy --- by which copy that node was asked for an operation; NULL: it was not
 */
static StoreOp *
quorum_copy(const QuorumBatch *b, int row, int which)
{
	const QuorumLink *l = quorum_link(b, row);
	int			at = b->states[which].copy[row];

	return l != NULL && at >= 0 ? &l->copies[at] : NULL;
}

/*
 * quorum_may_vote --- does it count that this node has granted this create?
 */
static bool
quorum_may_vote(const QuorumLink *l, const StoreOp *copy)
{
	return copy->sent.topology == l->node.conn.facts.life &&
		masters_may_vote(l->node.conn.facts.since, copy->sent.at);
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
	QuorumLink *l = quorum_link(b, row);
	uint32		life = node_generation(NODE_MASTER + row);

	if (life == b->life[row] || l == NULL)
		return;
	b->life[row] = life;
	for (int i = 0; i < l->used; i++)
		if (l->copies[i].outcome != STORE_PENDING && l->copies[i].sent.topology != 0 &&
			l->copies[i].sent.topology != life)
			l->copies[i].outcome = STORE_UNKNOWN;
}

/*
 * quorum_votes --- what the nodes have said about an operation so far
 *
 * Do not wait for silent nodes.  A create granted over a connection that was lost since
 * does not count, as the node may have been restarted without the lock.  Nor does one
 * granted behind a release of the same token that was sent twice: the second may still
 * run and release it.  That is known when the answer to the release has been heard, so a
 * grant counts when it has been heard, too (quorum_hear); until then it is awaited.
 */
static void
quorum_votes(const QuorumBatch *b, int which, QuorumVote *votes)
{
	const QuorumOp *s = &b->states[which];

	memset(votes, 0, sizeof(QuorumVote) * LR_MAX_MASTERS);
	for (int i = 0; i < b->set.n; i++)
	{
		const QuorumLink *l = quorum_link(b, i);
		const StoreOp *copy = quorum_copy(b, i, which);
		bool		heard;

		if (copy == NULL ||
			(s->phase == PHASE_RAISE && copy->outcome == STORE_OK && copy->answer.fence < s->token))
			continue;
		heard = l->notes[s->copy[i]].heard;
		votes[i].copy = copy;
		votes[i].awaited = copy->outcome == STORE_PENDING ?
			!b->set.over && l->node.batch.active && (b->silent & (1U << i)) == 0 : !heard;
		votes[i].counts = copy->outcome == STORE_OK && heard && l->node.conn.state == CONN_READY &&
			!link_is_tainted(l, copy, copy->sent.at) && quorum_may_vote(l, copy);
	}
}

/* ----------
 * What they are asked before an operation has its outcome
 *
 * "which": index of an operation of the batch, or of the first of n that are taken
 * together.
 * ----------
 */

/*
 * quorum_put --- copy operations for this node, to be sent by link_ask(); all or none
 *
 * Returns how many were copied.  A group has one answer, so only the last copy is made a
 * vote to be heard.
 */
int
quorum_put(QuorumBatch *b, int row, int which, const StoreOp *ops, int n, StoreOpKind kind)
{
	QuorumLink *l = quorum_link(b, row);
	int			used = l->used;
	int			put = 0;

	while (put < n && link_put(l, &ops[put], kind) >= 0)
		put++;
	if (put < n)
	{
		link_cut(l, used);
		put = 0;
	}
	for (int k = 0; k < n; k++)
		b->states[which + k].copy[row] = put > 0 ? used + k : -1;
	if (put > 0)
		l->notes[l->used - 1].op = which;
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

		if (undo >= 0 && !copy_is_plain(&quorum_link(b, row)->copies[undo]))
			return false;
	}
	return (b->states[which].left_out & (1U << row)) == 0;
}

/*
 * quorum_ask_rest --- ask all nodes that were not asked yet, unless they have to be left
 * out
 */
static void
quorum_ask_rest(QuorumBatch *b, int which, int n)
{
	const StoreOp *ops = &b->set.batch.ops[which];

	for (int i = 0; i < b->set.n; i++)
		if (quorum_link(b, i) != NULL && b->states[which].copy[i] < 0 &&
			quorum_is_undone(b, i, which, n))
			link_ask(quorum_link(b, i), quorum_put(b, i, which, ops, n, ops->kind),
					 b->set.batch.deadline);
}

/*
 * quorum_undo_one --- release one operation of an attempt at a node; true: link_ask() has
 * to send that
 */
static bool
quorum_undo_one(QuorumBatch *b, int row, int which, uint32 *left_out, bool quiet)
{
	QuorumLink *l = quorum_link(b, row);
	QuorumOp   *s = &b->states[which];
	const StoreOp *op = &b->set.batch.ops[which];
	StoreOp    *copy = quorum_copy(b, row, which);
	StoreOutcome outcome;

	if (copy == NULL)
		return false;
	outcome = copy->outcome;
	if (outcome == STORE_UNKNOWN || copy->sent.again ||
		(s->undo[row] >= 0 && !copy_is_plain(&l->copies[s->undo[row]])))
		*left_out |= 1U << row;
	if (outcome == STORE_PENDING && s->phase != PHASE_RAISE && copy->sent.at == 0)
	{
		link_cancel_one(copy);
		s->copy[row] = -1;
	}
	else if (outcome == STORE_OK || outcome == STORE_UNKNOWN || outcome == STORE_PENDING ||
			 s->phase == PHASE_RAISE)
	{
		/* The answer to a mint says nothing about the create before it. */
		s->undo[row] = link_put(l, op, STORE_RELEASE);
		if (s->undo[row] < 0)
			return false;
		l->copies[s->undo[row]].args.quiet = quiet;
		return true;
	}
	return false;
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
	for (int i = 0; i < b->set.n; i++)
	{
		int			put = 0;

		for (int k = 0; k < n; k++)
			put += quorum_undo_one(b, i, which + k, &b->states[which].left_out, quiet);
		link_ask(quorum_link(b, i), put, b->set.batch.deadline);
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
static bool
quorum_undoes_all(const QuorumBatch *b, int which, int n)
{
	const QuorumOp *s = &b->states[which];
	int			reached = 0;

	if (s->left_out != 0 || s->phase == PHASE_RAISE)
		return false;
	for (int i = 0; i < b->set.n; i++)
	{
		const StoreOp *copy = quorum_copy(b, i, which);

		if (copy == NULL ||
			(copy->outcome != STORE_OK && copy->outcome != STORE_PENDING))
			continue;
		for (int k = 0; k < n; k++)
			if (s[k].undo[i] < 0)
				return false;
		if (quorum_link(b, i)->node.conn.state != CONN_READY)
			return false;
		reached++;
	}
	return reached < masters_quorum(b->set.n);
}

/*
 * quorum_begin_attempt --- try again, asking one node before the others
 *
 * Servers that try at the same time usually choose the same node, so one of them wins.
 * It must be a node that owes no answer, as the others are asked only after it has
 * answered.
 */
static void
quorum_begin_attempt(QuorumBatch *b, int which, int n)
{
	QuorumOp   *s = &b->states[which];

	s->attempt++;
	s->first = -1;
	for (int i = 0; i < b->set.n && s->first < 0; i++)
		if (quorum_link(b, i) != NULL && quorum_is_undone(b, i, which, n) &&
			node_batch_is_connected(&quorum_link(b, i)->node) && !quorum_link(b, i)->node.batch.active &&
			!node_is_silent(NODE_MASTER + i))
			s->first = i;
	for (int k = 0; k < n; k++)
	{
		b->set.batch.ops[which + k].sent.at = 0;
		for (int i = 0; i < LR_MAX_MASTERS; i++)
			b->states[which + k].copy[i] = -1;
	}
	s->phase = s->first >= 0 ? PHASE_FIRST : PHASE_ASKED;
	if (s->first >= 0)
		link_ask(quorum_link(b, s->first),
				 quorum_put(b, s->first, which, &b->set.batch.ops[which], n, STORE_CREATE),
				 b->set.batch.deadline);
	else
		quorum_ask_rest(b, which, n);
}

/*
 * quorum_raise --- raise the counters of tokens where they are behind; false if a
 * majority is not behind
 *
 * The majority of the next holder has a node in common with this one.
 */
static bool
quorum_raise(QuorumBatch *b, int which, const QuorumVote *votes)
{
	StoreOp    *op = &b->set.batch.ops[which];
	QuorumOp   *s = &b->states[which];
	int			level = 0;
	StoreOp		mint;

	for (int i = 0; i < b->set.n; i++)
		if (votes[i].copy != NULL && votes[i].copy->outcome == STORE_OK &&
			votes[i].copy->answer.fence == op->answer.fence)
			level++;
	if (level >= masters_quorum(b->set.n))
		return false;

	/* The reserve is taken there, too: it is level with the others then, and no further. */
	mint = *op;
	mint.args.floor = store_last_token(op->answer.fence, op->amount) - 1;
	mint.amount = 0;
	s->token = op->answer.fence;
	s->phase = PHASE_RAISE;
	for (int i = 0; i < b->set.n; i++)
		if (votes[i].copy != NULL && votes[i].copy->outcome == STORE_OK &&
			votes[i].copy->answer.fence != op->answer.fence)
			link_ask(quorum_link(b, i), quorum_put(b, i, which, &mint, 1, STORE_MINT),
					 b->set.batch.deadline);
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
static void
quorum_turn_force(QuorumBatch *b, int which)
{
	const StoreOp *op = &b->set.batch.ops[which];

	for (int i = 0; i < b->set.n; i++)
	{
		StoreOp    *seen = quorum_copy(b, i, which);
		StoreOp		force;
		char		owner[LR_OWNER_MAX];

		if (seen == NULL || seen->kind != STORE_INSPECT || seen->outcome != STORE_OK)
			continue;
		strlcpy(owner, store_owners(&seen->answer), sizeof(owner));
		if ((seen->answer.value != STORE_VALUE_LOCK && seen->answer.value != STORE_VALUE_TOKEN) ||
			(op->text_len > 0 && !store_names_owner(op, owner)))
		{
			seen->kind = STORE_FORCE;
			seen->outcome = seen->answer.value == STORE_VALUE_OTHER ? STORE_WRONG_TYPE : STORE_GONE;
			continue;
		}
		force = *seen;
		force.text = owner;
		force.text_len = strlen(owner);
		link_ask(quorum_link(b, i), quorum_put(b, i, which, &force, 1, STORE_FORCE),
				 b->set.batch.deadline);
	}
}

/* ----------
 * What they are asked after it
 *
 * Its caller goes on meanwhile, and may release the lock.
 * ----------
 */

/*
 * quorum_repair --- create the lock again at a node that has forgotten it
 *
 * Otherwise a lock would be lost when servers are restarted one by one, although a
 * majority had it at any time.  The repair cannot create a majority: it happens only if
 * there is one.
 *
 * Its answer may be read much later, or by nobody.  So whether the lock was released
 * meanwhile is asked before the create, too:
 *
 *	 COMMIT: renews, a majority answers; releases; returns
 *	 the next call of the session: the third has answered that it has not got the lock
 */
static void
quorum_repair(QuorumLink *l, int which)
{
	const StoreOp *renewal = &l->copies[which];
	int			create;

	if (renewal->outcome != STORE_GONE || renewal->answer.holder[0] != '\0' ||
		renewal->lease_ms <= 0 || !renewal->is_held(renewal))
		return;
	create = link_put(l, renewal, STORE_CREATE);
	if (create < 0)
		return;
	l->notes[create].fate = COPY_REPAIRS;
	link_ask(l, 1, lr_now() + lr_call_budget());
}

/*
 * quorum_watch --- the lock was renewed: repair it where that has failed, or fails later
 */
static void
quorum_watch(QuorumBatch *b, int which)
{
	for (int i = 0; i < b->set.n; i++)
	{
		const StoreOp *copy = quorum_copy(b, i, which);
		int			at = b->states[which].copy[i];

		if (copy != NULL && copy->outcome == STORE_PENDING)
			quorum_link(b, i)->notes[at].fate = COPY_RENEWS;
		else if (copy != NULL)
			quorum_repair(quorum_link(b, i), at);
	}
}

/*
 * quorum_check_repair --- after a repair: was the lock released meanwhile?
 *
 * Its session releases it at all nodes at once, so the release may have come here before
 * the repair.  It has noted that before, so if it has not by now, its release comes
 * behind the repair.
 */
static void
quorum_check_repair(QuorumLink *l, int which)
{
	const StoreOp *repair = &l->copies[which];

	if (repair->outcome != STORE_OK)
		return;
	lr_count(STAT_REPAIRS);
	if (!repair->is_held(repair))
		link_ask(l, link_put(l, repair, STORE_RELEASE) >= 0, lr_now() + lr_call_budget());
}

/*
 * quorum_look_after --- a copy was answered, perhaps after the outcome of its operation
 */
static void
quorum_look_after(QuorumLink *l, int which)
{
	CopyFate	fate = l->notes[which].fate;

	l->notes[which].fate = COPY_PLAIN;
	if (l->copies[which].kind == STORE_CREATE && l->copies[which].text != NULL)
		link_hear_create(l, which);
	if (fate == COPY_UNDOES)
		link_hear_release(l, &l->copies[which]);
	else if (fate == COPY_RENEWS)
		quorum_repair(l, which);
	else if (fate == COPY_REPAIRS)
		quorum_check_repair(l, which);
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
	StoreError *error = &b->set.batch.error;
	size_t		len = 0;

	error->sqlstate = ERRCODE_STORE_FAILED;
	error->hint = NULL;
	error->detail[0] = error->address[0] = '\0';
	for (int i = 0; i < b->set.n && len < sizeof(error->detail); i++)
	{
		const QuorumLink *l = quorum_link(b, i);
		const StoreOp *copy = quorum_copy(b, i, which);
		const char *words = "Its answer would have changed nothing.";

		if (l == NULL)
			words = "Out of memory.";
		else if (copy != NULL && copy->outcome == STORE_OK)
			words = copy->kind != STORE_CREATE || quorum_may_vote(l, copy) ?
				"It has answered." :
				masters_may_vote(l->node.conn.facts.booted_by, copy->sent.at) ?
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
		else if (copy != NULL && (b->set.over || (b->silent & (1U << i)) != 0))
			words = "It did not answer in time.";
		len += snprintf(error->detail + len, sizeof(error->detail) - len, "%sMaster %d: %s",
						i > 0 ? "\n" : "", i + 1, words);
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
		return copy->sent.at != 0 || l->node.conn.state == CONN_READY;
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
		return copy->args.wanted != 0 || copy->sent.at == 0 || l->node.conn.state != CONN_READY;
	return copy->outcome != STORE_OK && copy->outcome != STORE_GONE &&
		copy->outcome != STORE_WRONG_TYPE;
}

/*
 * quorum_note_nodes --- note which nodes may have the lock, or may still have it after a
 * release, and which may lack it after a create
 *
 * A node that has not answered a create yet may still find that somebody else has the
 * lock there, or that it is too late; nobody reads that then.  A create that waits for a
 * connection is cancelled: otherwise, until a node is known to be down, the watchdog
 * would have to look there for each lock taken meanwhile.
 */
static void
quorum_note_nodes(const QuorumBatch *b, int which)
{
	StoreOp    *op = &b->set.batch.ops[which];

	for (int i = 0; i < b->set.n; i++)
	{
		StoreOp    *copy = quorum_copy(b, i, which);
		bool		has = copy != NULL && copy_may_have(copy, quorum_link(b, i));

		if (op->kind == STORE_RELEASE ? copy == NULL || copy_may_keep(copy, quorum_link(b, i)) : has)
			op->sent.nodes |= 1U << i;
		if (op->kind == STORE_CREATE &&
			(copy == NULL || (copy->outcome != STORE_OK && copy->kind == STORE_CREATE)))
			op->sent.without |= 1U << i;
		if (op->kind == STORE_CREATE && copy != NULL && copy->outcome == STORE_PENDING && !has)
			link_cancel_one(copy);
	}
}

/*
 * quorum_settle --- give an operation its outcome
 *
 * A lease counts only for as long as the slowest clock of the nodes allows.
 */
void
quorum_settle(QuorumBatch *b, int which, StoreOutcome outcome)
{
	StoreOp    *op = &b->set.batch.ops[which];

	if (outcome >= STORE_REFUSED || (outcome == STORE_BUSY && op->kind != STORE_CREATE))
		quorum_explain(b, which, outcome);
	if (outcome == STORE_OK && op->lease_ms > 0 && op->sent.at != 0)
		op->sent.at -= quorum_drift_ms(op->lease_ms) * LR_US_PER_MS;
	if (op->kind == STORE_RELEASE ||
		(outcome == STORE_OK && (op->kind == STORE_CREATE || op->kind == STORE_RENEW)))
		quorum_note_nodes(b, which);
	if (op->kind == STORE_TIME)
		op->answer.store_ms = op->sent.at / LR_US_PER_MS;
	if (op->sent.at != 0 && store_runs_once(op->kind))
		op->sent.not_after = b->set.batch.deadline / LR_US_PER_MS;
	batch_settle(&b->set.batch, op, outcome);
}

/*
 * quorum_settle_split --- we have no majority, and nobody else has one either
 */
static void
quorum_settle_split(QuorumBatch *b, int which, int n)
{
	for (int k = 0; k < n; k++)
	{
		StoreOp    *op = &b->set.batch.ops[which + k];

		quorum_settle(b, which + k, STORE_BUSY);
		op->answer.ttl_ms = op->answer.ttl_ms == STORE_NO_TTL ? SPLIT_TTL :
			Min(op->answer.ttl_ms, SPLIT_TTL);
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
	if (outcome == STORE_BUSY && split && s->attempt < ATTEMPTS_MAX && !b->set.over &&
		now + pause < b->set.batch.deadline)
	{
		s->phase = PHASE_PAUSE;
		s->again_at = now + pause;
		b->set.look_at = Min(b->set.look_at, s->again_at);
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
 * much later.  That concerns a connection which is just being made; if it takes longer,
 * only the first call waits, not each one that comes meanwhile.  Over an existing
 * one everything is sent at once, unless the node is behind with its answers, and then
 * each call would have to wait for it.  A force also waits for nodes that have not said
 * yet who holds the lock, since only then can they be asked to remove it; and a release
 * waits for those whose answer is wanted.
 */
static bool
quorum_lingers(QuorumBatch *b, int which)
{
	QuorumOp   *s = &b->states[which];
	const StoreOp *op = &b->set.batch.ops[which];
	uint32		wanted = op->kind == STORE_FORCE ? PG_UINT32_MAX : op->args.wanted;
	int64		now = lr_now();

	if (s->linger_until == 0)
		s->linger_until = now + (op->args.wanted != 0 ? WANTED_TIME : LINGER_TIME);
	for (int i = 0; i < b->set.n && s->phase != PHASE_RAISE && !b->set.over; i++)
	{
		const StoreOp *copy = quorum_copy(b, i, which);
		const RedisConn *c = copy != NULL ? &quorum_link(b, i)->node.conn : NULL;
		int64		until = s->linger_until;

		if (copy == NULL || copy->outcome != STORE_PENDING || (b->silent & (1U << i)) != 0)
			continue;
		if ((wanted & (1U << i)) == 0)
			until = c->state == CONN_READY ? 0 :
				c->connect.opened_at >= b->began_at ? until :
				Min(until, c->connect.opened_at + LINGER_TIME);
		if (now >= until)
			continue;
		b->set.look_at = Min(b->set.look_at, until);
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
	StoreOp    *ops = &b->set.batch.ops[which];
	QuorumOp   *s = &b->states[which];
	QuorumVote	votes[LR_MAX_MASTERS];
	StoreOutcome outcome = STORE_OK;
	bool		split = false;

	for (int k = n - 1; k >= 0; k--)
	{
		StoreOutcome its;

		quorum_votes(b, which + k, votes);
		its = quorum_decide(&ops[k], votes, b->set.n);
		if (its == STORE_PENDING)
			return;
		if (its != STORE_OK)
			outcome = its;
		split = split || quorum_is_split(votes, b->set.n);
	}
	if ((ops->args.wanted != 0 || (outcome == STORE_OK && quorum_is_for_all(ops->kind))) &&
		quorum_lingers(b, which))
		return;
	if (outcome == STORE_OK && s->phase == PHASE_RAISE)
		ops->answer.fence = s->token;
	else if (outcome == STORE_OK && (ops->args.fenced || ops->kind == STORE_MINT) &&
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
	StoreOp    *op = &b->set.batch.ops[which];
	QuorumOp   *s = &b->states[which];

	if (s->phase == PHASE_PAUSE)
	{
		if (b->set.over)
		{
			quorum_settle_split(b, which, n);
			return;
		}
		if (lr_now() < s->again_at)
		{
			b->set.look_at = Min(b->set.look_at, s->again_at);
			return;
		}
		quorum_begin_attempt(b, which, n);
	}
	if (s->phase == PHASE_FIRST)
	{
		const StoreOp *copy = quorum_copy(b, s->first, which);

		if (copy != NULL && copy->outcome == STORE_PENDING && !b->set.over &&
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
 * quorum_hear --- take the new answers of a node; false if there are none
 *
 * Answers mostly come in the order of the requests, so copies before "heard_to" are not
 * looked at again.
 */
bool
quorum_hear(QuorumBatch *b, int row)
{
	QuorumLink *l = quorum_link(b, row);
	bool		heard = false;

	for (int i = l->heard_to; i < l->used && link_has_news(l); i++)
	{
		int			op = l->notes[i].op;

		if (l->notes[i].heard || l->copies[i].outcome == STORE_PENDING)
			continue;
		l->notes[i].heard = heard = true;
		l->nheard++;
		quorum_look_after(l, i);
		if (b->set.batch.active && i >= l->mine && op >= 0 &&
			b->set.batch.ops[op].outcome == STORE_PENDING)
			quorum_look_at(b, op, quorum_group(&b->set.batch.ops[op]));
	}
	while (l->heard_to < l->used && l->notes[l->heard_to].heard)
		l->heard_to++;
	return heard;
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
		for (int i = 0; i < b->set.n; i++)
			if (quorum_link(b, i) != NULL)
				news = quorum_hear(b, i) || news;
	}
}

/*
 * quorum_send_behind --- send what was put behind requests in flight
 *
 * We may not be stepped again for long.
 */
void
quorum_send_behind(QuorumBatch *b)
{
	for (int i = 0; i < b->set.n; i++)
		if (quorum_link(b, i) != NULL && quorum_link(b, i)->node.batch.active)
			node_batch_process(&quorum_link(b, i)->node, false, false);
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

	for (int i = 0; i < b->set.n; i++)
	{
		if (node_is_silent(NODE_MASTER + i) && (b->set.patient || lr_watchdog_running()))
			silent |= 1U << i;
		if (quorum_link(b, i) != NULL)
			epochs += quorum_link(b, i)->node.conn.socket.epoch + quorum_link(b, i)->node.connection;
		quorum_void_others(b, i);
		epochs += b->life[i];
	}
	changed = silent != b->silent || epochs != b->epochs || b->set.over != b->was_over;
	b->silent = silent;
	b->epochs = epochs;
	b->was_over = b->set.over;
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

	if (quorum_is_changed(b) || lr_now() >= b->set.look_at)
	{
		b->set.look_at = LR_NEVER;
		for (int i = 0; i < b->set.batch.nops && b->set.batch.left > 0; i += n)
		{
			n = quorum_group(&b->set.batch.ops[i]);
			if (b->set.batch.ops[i].outcome == STORE_PENDING)
				quorum_look_at(b, i, n);
		}
	}
	quorum_hear_all(b);
	if (!batch_finish(&b->set.batch))
		return;
	for (int i = 0; i < b->set.n; i++)
		if (quorum_link(b, i) != NULL)
			link_cancel(quorum_link(b, i));
	quorum_send_behind(b);
}
