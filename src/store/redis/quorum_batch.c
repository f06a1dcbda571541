/*-------------------------------------------------------------------------
 *
 * quorum_batch.c
 *	  A batch of operations at several independent masters; see quorum_batch.h.
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
 *	  src/store/redis/quorum_batch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"

#include "instance.h"
#include "settings.h"
#include "store/masters.h"
#include "store/redis/quorum.h"
#include "store/redis/quorum_batch.h"

/*
 * A node that is behind by so many answers is asked nothing more that it need not know;
 * by so many operations nothing at all.
 */
#define OWED_MAX			64
#define OWED_MOST			4096

/* Tries of a create that nobody has got, and the pause between two (microseconds). */
#define ATTEMPTS_MAX		6
#define PAUSE_MIN			(4 * LR_US_PER_MS)
#define PAUSE_MAX			(50 * LR_US_PER_MS)

/*
 * Who did not get it then need not believe for longer (ms) that it is not to be had: who
 * has a part of the nodes gives that back, and may tell nobody.
 */
#define SPLIT_TTL			500

/*
 * A token is used again by the next request, so a node where a release of one may yet run
 * is not asked for a lock with that token for so long.
 */
#define TAINT_TIME			(60 * LR_US_PER_S)

/*
 * What a majority has done waits so long at most for connections that are just being made,
 * and for what is still to be sent: so that all nodes have the lock, or none of them.
 */
#define LINGER_TIME			(20 * LR_US_PER_MS)

/* No node is asked for having run longer than that (ms). */
#define LEASE_BELIEVED		(INT64CONST(366) * SECS_PER_DAY * (LR_US_PER_S / LR_US_PER_MS))

#define FIRST_SIZE			32
#define FIRST_TEXT_SIZE		8192

void
quorum_batch_init(QuorumBatch *b, const char *role, bool patient)
{
	memset(b, 0, sizeof(QuorumBatch));
	strlcpy(b->role, role, sizeof(b->role));
	b->patient = patient;
}

/* ----------
 * Links
 * ----------
 */

/*
 * link_has_room --- for so many more; makes it if there is memory
 */
static bool
link_has_room(QuorumLink *l, int more, size_t more_text)
{
	if (l->used + more > l->size)
	{
		int			size = Max(2 * l->size, Max(FIRST_SIZE, l->used + more));
		StoreOp    *copies = realloc(l->copies, sizeof(StoreOp) * size);
		CopyNote   *notes;

		if (copies == NULL)
			return false;
		l->copies = copies;
		if (l->node.batch.active)
			l->node.batch.ops = copies;
		notes = realloc(l->notes, sizeof(CopyNote) * size);
		if (notes == NULL)
			return false;
		l->notes = notes;
		l->size = size;
	}
	if (l->text_used + more_text > l->text_size)
	{
		size_t		size = Max(2 * l->text_size,
							   Max(FIRST_TEXT_SIZE, l->text_used + more_text));
		char	   *texts = malloc(size);

		if (texts == NULL)
			return false;
		for (int i = 0; i < l->used; i++)
		{
			StoreOp    *copy = &l->copies[i];

			if (copy->name != NULL)
				copy->name = texts + (copy->name - l->texts);
			if (copy->token != NULL)
				copy->token = texts + (copy->token - l->texts);
			if (copy->owner_text != NULL)
				copy->owner_text = texts + (copy->owner_text - l->texts);
		}
		if (l->text_used > 0)
			memcpy(texts, l->texts, l->text_used);
		free(l->texts);
		l->texts = texts;
		l->text_size = size;
	}
	return true;
}

static void
link_reset(QuorumLink *l)
{
	l->used = l->mine = l->nheard = l->heard_to = 0;
	l->text_used = 0;
}

/*
 * link_make --- NULL without memory
 */
static QuorumLink *
link_make(QuorumBatch *b, int row)
{
	QuorumLink *l = calloc(1, sizeof(QuorumLink));

	if (l == NULL)
		return NULL;
	if (!link_has_room(l, FIRST_SIZE, FIRST_TEXT_SIZE) ||
		!node_batch_make(&l->node, NODE_MASTER + row, b->role, b->patient, false))
	{
		free(l->copies);
		free(l->notes);
		free(l->texts);
		free(l);
		return NULL;
	}
	l->node.unread = true;
	return l;
}

/*
 * link_put_text --- "old": where the texts were before, one of which it may be
 */
static const char *
link_put_text(QuorumLink *l, const char *old, const char *text, int len)
{
	char	   *at = l->texts + l->text_used;

	if (text == NULL)
		return NULL;
	if (text >= old && text < old + l->text_used)
		text = l->texts + (text - old);
	memcpy(at, text, len);
	l->text_used += len;
	return at;
}

/*
 * link_put --- a copy of an operation, as that kind of one; -1 without memory
 *
 * It is asked for by link_ask().
 */
static int
link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind)
{
	StoreOp		from = *op;		/* it may be a copy itself: both arrays can move */
	const char *texts = l->texts;
	StoreOp    *copy;

	if (!link_has_room(l, 1, from.name_len + from.token_len + from.owner_text_len))
		return -1;
	copy = &l->copies[l->used];
	*copy = from;
	copy->kind = kind;
	copy->name = link_put_text(l, texts, from.name, from.name_len);
	copy->token = link_put_text(l, texts, from.token, from.token_len);
	copy->owner_text = link_put_text(l, texts, from.owner_text, from.owner_text_len);
	if (kind != STORE_CREATE)
		copy->together = 0;
	if (kind != from.kind)
		copy->keep_ms = 0;		/* of what was never had */
	copy->min_replicas = 0;		/* a vote is the master's */
	copy->outcome = STORE_PENDING;
	copy->part = copy->slot = copy->redirects = 0;
	copy->sent_at = copy->not_after = 0;
	copy->fence = copy->store_ms = copy->ttl_ms = 0;
	copy->receivers = copy->hold_count = 0;
	copy->asking = copy->quiet = copy->resent = copy->done = copy->own_fault = false;
	copy->value = STORE_VALUE_NONE;
	copy->holder[0] = copy->type_name[0] = copy->digest[0] = '\0';
	l->notes[l->used].fate = COPY_PLAIN;
	l->notes[l->used].heard = false;
	l->notes[l->used].op = -1;
	return l->used++;
}

/*
 * link_ask --- the last n copies are for the node
 */
static void
link_ask(QuorumLink *l, int n, int64 deadline)
{
	if (n > 0)
		node_batch_join(&l->node, l->copies, l->used, 0, n, deadline);
}

/*
 * link_cancel_one --- a copy that was not sent yet is not to be sent any more
 *
 * It becomes a harmless question, so that a connection that is being made is made all
 * the same.
 */
static void
link_cancel_one(StoreOp *copy)
{
	copy->kind = STORE_TIME;
	copy->together = 0;
}

/*
 * link_cancel --- nor is anything else, but for releases, renewals, and repairs
 */
static void
link_cancel(QuorumLink *l)
{
	for (int i = 0; i < l->used && l->node.batch.active; i++)
	{
		StoreOp    *copy = &l->copies[i];

		if (copy->outcome == STORE_PENDING && copy->sent_at == 0 &&
			copy->kind != STORE_RELEASE && copy->kind != STORE_RENEW &&
			l->notes[i].fate == COPY_PLAIN)
			link_cancel_one(copy);
	}
}

/*
 * link_watch --- what is to be done about a copy when it has its answer
 */
static void
link_watch(QuorumLink *l, int copy, CopyFate fate, int other)
{
	l->notes[copy].fate = fate;
	l->notes[copy].other = other;
}

/*
 * link_put_group --- copies of operations that are taken together, or of one; all of
 * them or none.  Returns how many; the first has the number *first, -1 if none.
 */
static int
link_put_group(QuorumLink *l, const StoreOp *ops, int n, StoreOpKind kind, int *first)
{
	int			used = l->used;
	size_t		text_used = l->text_used;

	for (int k = 0; k < n; k++)
		if (link_put(l, &ops[k], kind) < 0)
		{
			l->used = used;
			l->text_used = text_used;
			*first = -1;
			return 0;
		}
	*first = used;
	return n;
}

static int
quorum_group(const StoreOp *op)
{
	return Max(op->together, 1);
}

/*
 * link_vote --- that copy is the vote of its node; returns it
 */
static int
link_vote(QuorumLink *l, int copy, int which)
{
	if (copy >= 0)
		l->notes[copy].op = which;
	return copy;
}

/*
 * link_has_news --- has a copy an answer that was not heard?
 */
static bool
link_has_news(const QuorumLink *l)
{
	int			left = l->node.batch.active ? l->node.batch.left : 0;

	return l->nheard < l->used - left;
}

static QuorumLink *
batch_link(const QuorumBatch *b, int row)
{
	return row < b->n ? b->link[row] : NULL;
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

/* ----------
 * Votes
 * ----------
 */

/*
 * quorum_longest_lease --- that a node shows which has the lock for somebody else
 *
 * One that was started since may have forgotten the same lock.
 */
static int64
quorum_longest_lease(const QuorumBatch *b, int which)
{
	int64		longest = 0;

	for (int i = 0; i < b->n; i++)
	{
		int			copy = b->states[which].copy[i];

		if (b->link[i] != NULL && copy >= 0 &&
			b->link[i]->copies[copy].outcome == STORE_BUSY)
			longest = Max(longest, b->link[i]->copies[copy].ttl_ms);
	}
	return Min(longest, LEASE_BELIEVED);
}

/*
 * quorum_votes --- what the nodes have said of an operation so far
 *
 * A node that let others wait in vain is not waited for.  What one has granted over a
 * connection that was lost since it may have forgotten since.
 */
static void
quorum_votes(const QuorumBatch *b, int which, QuorumVote *votes)
{
	const QuorumOp *s = &b->states[which];
	int64		longest = quorum_longest_lease(b, which);

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
			masters_may_vote(l->node.conn.facts.booted_by, copy->sent_at,
							 Max(copy->lease_ms, longest));
	}
}

/*
 * quorum_put_group --- for that node; returns how many were put
 *
 * They have one answer, so it is enough to hear the last of them.
 */
static int
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
 * copy_is_plain --- was this release answered, and sent but once?
 *
 * If not it may yet run, behind the next create of the same owner: sent again, as its
 * script was not loaded; or over a connection that was lost since.
 */
static bool
copy_is_plain(const StoreOp *copy)
{
	return (copy->outcome == STORE_OK || copy->outcome == STORE_GONE) && !copy->resent;
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
static void
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
static void
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

/* ----------
 * Outcomes
 * ----------
 */

/*
 * quorum_explain --- a line for each node
 */
static void
quorum_explain(QuorumBatch *b, int which, StoreOutcome outcome)
{
	StoreError *error = &b->batch.error;
	size_t		len = 0;

	error->sqlstate = ERRCODE_CONNECTION_FAILURE;
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
			words = copy->kind != STORE_CREATE ||
				masters_may_vote(l->node.conn.facts.booted_by, copy->sent_at, copy->lease_ms) ?
				"It has answered." : "It has no vote, since it was started lately.";
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
		else if (copy != NULL && b->over)
			words = "It did not answer in time.";
		len += snprintf(error->detail + len, sizeof(error->detail) - len, "%sMaster %d: %s",
						i > 0 ? "\n" : "", i + 1, words);
	}
}

/*
 * quorum_settle --- this is the outcome
 *
 * The promise of several nodes is as good as that of the slowest clock.
 */
static void
quorum_settle(QuorumBatch *b, int which, StoreOutcome outcome)
{
	StoreOp    *op = &b->batch.ops[which];

	if (outcome >= STORE_REFUSED || (outcome == STORE_BUSY && op->kind != STORE_CREATE))
		quorum_explain(b, which, outcome);
	if (outcome == STORE_OK && op->lease_ms > 0 && op->sent_at != 0)
		op->sent_at -= quorum_drift_ms(op->lease_ms) * LR_US_PER_MS;
	if (op->kind == STORE_TIME)
		op->store_ms = op->sent_at / LR_US_PER_MS;
	if (outcome == STORE_BUSY)
		masters_saw_lease(op->ttl_ms);
	if (op->sent_at != 0 && store_runs_once(op->kind))
		op->not_after = b->batch.deadline / LR_US_PER_MS;
	batch_settle(&b->batch, op, outcome);
}

/*
 * quorum_give_up --- the lock is lost: nor is it to stay at those that still have it
 *
 * One that is asked for by something else than its owner is somebody else's.
 */
static void
quorum_give_up(QuorumBatch *b, int which)
{
	const StoreOp *op = &b->batch.ops[which];

	if (op->owner == 0 || op->kind == STORE_RELEASE || op->kind >= STORE_CALLS)
		return;
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];
		int			copy = b->states[which].copy[i];

		if (l == NULL || copy < 0 || l->copies[copy].outcome == STORE_GONE ||
			l->copies[copy].outcome == STORE_WRONG_TYPE ||
			l->copies[copy].outcome == STORE_DOWN)
			continue;
		link_ask(l, link_put(l, op, STORE_RELEASE) >= 0, b->batch.deadline);
	}
}

/*
 * quorum_repair --- a node that has forgotten the lock, which a majority still has, gets
 * it again
 *
 * Else servers that are restarted one by one would lose locks although most of them had
 * them at any time.  It makes no majority, as there has to be one.
 */
static void
quorum_repair(QuorumLink *l, int which, int other)
{
	const StoreOp *renewal = &l->copies[which];
	int			create;
	int			set;
	int			n = 1;

	if (renewal->outcome != STORE_GONE || renewal->holder[0] != '\0' ||
		renewal->lease_ms <= 0)
		return;
	create = link_put(l, renewal, STORE_CREATE);
	if (create < 0)
		return;
	set = link_put(l, &l->copies[which], STORE_SET);
	link_watch(l, create, COPY_REPAIRS, other);
	if (set >= 0)
	{
		link_watch(l, set, COPY_COUNTS, other);
		n++;
	}
	link_ask(l, n, lr_now() + lr_call_budget());
}

/*
 * quorum_ask_witness --- the lock was created again: was it given back meanwhile?
 *
 * Its session gives it back everywhere at once, so that may have been before the create.
 * A node that had it a moment ago is asked, by a renewal that lengthens nothing.
 */
static void
quorum_ask_witness(QuorumBatch *b, int row, int which)
{
	QuorumLink *l = b->link[row];
	QuorumLink *other = b->link[l->notes[which].other];
	int			copy;

	if (l->copies[which].outcome != STORE_OK || other == NULL)
		return;
	copy = link_put(other, &l->copies[which], STORE_RENEW);
	if (copy < 0)
		return;
	other->copies[copy].lease_ms = 1;
	link_watch(other, copy, COPY_WITNESS, row);
	link_ask(other, 1, lr_now() + lr_call_budget());
}

/*
 * quorum_hear_witness --- it is had no more: nor is it to be where it was created again
 */
static void
quorum_hear_witness(QuorumBatch *b, QuorumLink *witness, int which)
{
	QuorumLink *l = b->link[witness->notes[which].other];

	/* Over another connection it may be one that has forgotten the lock itself. */
	if (witness->copies[which].outcome == STORE_GONE && !witness->copies[which].resent &&
		l != NULL)
		link_ask(l, link_put(l, &witness->copies[which], STORE_RELEASE) >= 0,
				 lr_now() + lr_call_budget());
}

/*
 * quorum_watch --- the lock was renewed: what of those that have not?
 */
static void
quorum_watch(QuorumBatch *b, int which)
{
	const int  *copies = b->states[which].copy;
	int			other = 0;

	while (b->link[other] == NULL || copies[other] < 0 ||
		   b->link[other]->copies[copies[other]].outcome != STORE_OK)
		other++;
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];

		if (l == NULL || copies[i] < 0)
			continue;
		if (l->copies[copies[i]].outcome == STORE_PENDING)
			link_watch(l, copies[i], COPY_RENEWS, other);
		else
			quorum_repair(l, copies[i], other);
	}
}

/*
 * link_taint --- a release with that token may yet run there
 *
 * More than one are hardly ever known at a time: then it may be any.
 */
static void
link_taint(QuorumLink *l, const StoreOp *release)
{
	int64		now = lr_now();

	l->all_tainted = now < l->tainted_until &&
		(l->all_tainted || memcmp(l->tainted_id, release->id, STORE_ID_LEN) != 0);
	memcpy(l->tainted_id, release->id, STORE_ID_LEN);
	l->tainted_until = now + TAINT_TIME;
}

static bool
link_is_tainted(const QuorumLink *l, const StoreOp *op, int64 now)
{
	return op->token != NULL && op->kind == STORE_CREATE && now < l->tainted_until &&
		(l->all_tainted || memcmp(l->tainted_id, op->id, STORE_ID_LEN) == 0);
}

/*
 * quorum_look_after --- an answer that may have come after the outcome
 */
static void
quorum_look_after(QuorumBatch *b, int row, int which)
{
	QuorumLink *l = b->link[row];
	CopyFate	fate = l->notes[which].fate;

	l->notes[which].fate = COPY_PLAIN;
	if (fate == COPY_UNDOES)
	{
		if (!copy_is_plain(&l->copies[which]))
			link_taint(l, &l->copies[which]);
	}
	else if (fate == COPY_RENEWS)
		quorum_repair(l, which, l->notes[which].other);
	else if (fate == COPY_REPAIRS)
		quorum_ask_witness(b, row, which);
	else if (fate == COPY_WITNESS)
		quorum_hear_witness(b, l, which);
}

/*
 * quorum_raise --- have the counters of a majority reach the token; false: they have
 *
 * The next who gets it has a node in common with those that were raised.
 */
static bool
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

/* ----------
 * Step by step
 * ----------
 */

/*
 * quorum_begin_attempt --- once more: one node before the others
 *
 * Those who try at the same time agree on it, so one of them is ahead.
 */
static void
quorum_begin_attempt(QuorumBatch *b, int which, int n)
{
	QuorumOp   *s = &b->states[which];

	s->attempt++;
	s->first = -1;
	for (int i = 0; i < b->n && s->first < 0; i++)
		if (b->link[i] != NULL && quorum_is_undone(b, i, which, n) &&
			node_batch_is_connected(&b->link[i]->node) && !node_is_silent(NODE_MASTER + i))
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

static int64
quorum_ttl_of_split(const StoreOp *op)
{
	return op->ttl_ms == STORE_NO_TTL ? SPLIT_TTL : Min(op->ttl_ms, SPLIT_TTL);
}

/*
 * quorum_fail_attempt --- of a create; try again, if that may help
 */
static void
quorum_fail_attempt(QuorumBatch *b, int which, int n, StoreOutcome outcome, bool split)
{
	QuorumOp   *s = &b->states[which];
	int64		now = lr_now();
	int64		pause = Min(PAUSE_MIN << (s->attempt - 1), PAUSE_MAX);

	/*
	 * It was busy, and now some were left out: no more is known than that.  What may
	 * have run stays so, since the watchdog has to give it back if a link cannot.
	 */
	if (s->attempt > 1 && outcome == STORE_DOWN)
		outcome = STORE_BUSY;
	quorum_undo(b, which, n, outcome == STORE_BUSY && !split);
	pause = pause / 8 + murmurhash32((uint32) now ^ (uint32) MyProcPid) % pause;
	if (outcome == STORE_BUSY && split && s->attempt < ATTEMPTS_MAX && !b->over &&
		now + pause < b->batch.deadline)
	{
		s->phase = PHASE_PAUSE;
		s->again_at = now + pause;
		b->look_at = Min(b->look_at, s->again_at);
		return;
	}
	for (int k = 0; k < n; k++)
	{
		quorum_settle(b, which + k, outcome);
		if (outcome == STORE_BUSY && split)
			b->batch.ops[which + k].ttl_ms = quorum_ttl_of_split(&b->batch.ops[which + k]);
	}
}

/*
 * quorum_turn_force --- a node has said who has the lock there: take it from him
 */
static void
quorum_turn_force(QuorumBatch *b, int which)
{
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
		if (seen->value != STORE_VALUE_LOCK)
		{
			seen->kind = STORE_FORCE;
			seen->outcome = seen->value == STORE_VALUE_NONE ? STORE_GONE : STORE_WRONG_TYPE;
			continue;
		}
		force = *seen;
		strlcpy(owner, seen->digest[0] != '\0' ? seen->digest : seen->holder, sizeof(owner));
		force.owner_text = owner;
		force.owner_text_len = strlen(owner);
		s->copy[i] = link_vote(l, link_put(l, &force, STORE_FORCE), which);
		link_ask(l, s->copy[i] >= 0, b->batch.deadline);
	}
}

/*
 * link_sends_soon --- it is connected, or just about to be
 *
 * A connection that takes longer is waited for once, not by each call that comes meanwhile.
 */
static bool
link_sends_soon(QuorumLink *l, int64 now)
{
	const RedisConn *c = &l->node.conn;

	if (c->state == CONN_READY)
		return true;
	if (l->linger_epoch != c->socket.epoch)
	{
		l->linger_epoch = c->socket.epoch;
		l->linger_until = now + LINGER_TIME;
	}
	return now < l->linger_until;
}

/*
 * quorum_lingers --- done by a majority, but some nodes were not even asked yet
 *
 * Nobody may step us for long: what is not sent now may be sent much later.
 */
static bool
quorum_lingers(QuorumBatch *b, int which)
{
	QuorumOp   *s = &b->states[which];
	int64		now = lr_now();

	if (s->linger_until == 0)
		s->linger_until = now + LINGER_TIME;
	if (s->phase == PHASE_RAISE || now >= s->linger_until || b->over)
		return false;
	for (int i = 0; i < b->n; i++)
	{
		QuorumLink *l = b->link[i];

		if (l == NULL || s->copy[i] < 0 ||
			l->copies[s->copy[i]].outcome != STORE_PENDING ||
			l->copies[s->copy[i]].sent_at != 0 ||
			node_is_silent(NODE_MASTER + i) || !link_sends_soon(l, now))
			continue;
		b->look_at = Min(b->look_at, s->linger_until);
		if (l->node.conn.state != CONN_READY)
			b->look_at = Min(b->look_at, l->linger_until);
		return true;
	}
	return false;
}

/* Is it worth a moment that all nodes do it? */
static bool
quorum_is_for_all(StoreOpKind kind)
{
	return kind == STORE_CREATE || kind == STORE_SET || kind == STORE_RELEASE;
}

/*
 * quorum_decide_group --- operations that are taken together, or one
 *
 * A node takes all of them or none, so they have the same votes.
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
		if (outcome == STORE_GONE || outcome == STORE_WRONG_TYPE)
			quorum_give_up(b, which + k);
		quorum_settle(b, which + k, outcome);
	}
}

/*
 * quorum_look_at --- has anything changed for these?
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
			for (int k = 0; k < n; k++)
				quorum_settle(b, which + k, STORE_BUSY);
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
 * quorum_hear --- what a node has answered since it was heard last
 *
 * Mostly in the order in which it was asked: what lies behind is not looked at again.
 */
static void
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
 * quorum_hear_all --- what one has said can be a reason to ask another, and that to refuse
 * at once
 */
static void
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
 * quorum_is_changed --- is there anything but an answer that may decide something?
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
	}
	changed = silent != b->silent || epochs != b->epochs || b->over != b->was_over;
	b->silent = silent;
	b->epochs = epochs;
	b->was_over = b->over;
	return changed;
}

/*
 * quorum_look --- decide what can be decided
 *
 * Only what has an answer more than before is looked at, unless something else has changed:
 * a batch may be of thousands, and is answered bit by bit.
 */
static void
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

	/* What was put behind an operation that is under way goes out: nobody may step us. */
	for (int i = 0; i < b->n; i++)
		if (b->link[i] != NULL)
		{
			link_cancel(b->link[i]);
			if (b->link[i]->node.batch.active)
				node_batch_process(&b->link[i]->node, false, false, 0);
		}
}

/* ----------
 * The batch
 * ----------
 */

/*
 * quorum_batch_drop --- what a longjmp has left; its operations may be gone
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
 * quorum_look_where --- the nodes that the settings name now
 *
 * What is owed by others is of no interest.
 */
static void
quorum_look_where(QuorumBatch *b)
{
	b->n = lr_nmasters;
	for (int i = 0; i < LR_MAX_MASTERS; i++)
	{
		QuorumLink *l = b->link[i];

		if (l == NULL && i < b->n)
			l = b->link[i] = link_make(b, i);
		if (l == NULL)
			continue;
		if (l->node.batch.active &&
			(i >= b->n || redis_target_is_outdated(&l->node.target)))
			node_batch_abandon(&l->node);
		if (l->node.batch.active)
		{
			node_batch_process(&l->node, true, false, 0);
			node_batch_check_time(&l->node);
			quorum_hear(b, i);
		}
		if (!l->node.batch.active)
			link_reset(l);
		l->mine = l->used;
		if (i >= b->n)
			redis_conn_close(&l->node.conn);
	}
}

/*
 * quorum_may_ask --- a node that is far behind is not asked more
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
		if (ops[i].kind == STORE_CREATE)
			masters_saw_lease(ops[i].lease_ms);
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
				put += quorum_put_group(b, row, i, quorum_group(&ops[i]), kind);
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
		QuorumLink *l = batch_link(b, i);

		if (l == NULL || !l->node.batch.active)
			continue;
		node_batch_process(&l->node, readable, false, 0);
	}
	if (b->batch.active)
		quorum_look(b);
	else
		quorum_hear_all(b);
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
 * quorum_batch_abandon --- see quorum_batch.h
 *
 * Nobody awaits the answers any more, but the connections are good: what was granted is
 * given back over them.
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
			node_batch_process(&b->link[i]->node, false, false, 0);
		}
	batch_set_error(&b->batch, ERRCODE_CONNECTION_FAILURE,
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

		if (l == NULL)
			continue;
		if (l->node.batch.active)
		{
			node_batch_process(&l->node, true, false, 0);
			node_batch_check_time(&l->node);
			quorum_hear(b, i);
		}
		else if (l->node.conn.state == CONN_READY)
			(void) node_batch_check_connection(&l->node, false);
	}
}

/*
 * quorum_batch_is_connected --- to a majority
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
 * quorum_batch_let_go --- as node_batch_let_go(), of each of them; in a signal handler
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
