/*-------------------------------------------------------------------------
 *
 * quorum_link.c
 *	  The link to one of several masters: what it is asked, and what it has answered;
 *	  see quorum.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_link.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "store/redis/quorum.h"

/*
 * How long a node is not asked for locks with a token if a release with that token may
 * still run there; the next request uses the same token again.
 */
#define TAINT_TIME			(60 * LR_US_PER_S)

#define FIRST_SIZE			32

/*
 * link_has_room --- make room for another copy; false when out of memory
 */
static bool
link_has_room(QuorumLink *l)
{
	int			size = Max(2 * l->size, FIRST_SIZE);
	StoreOp    *copies;
	CopyNote   *notes;

	if (l->used < l->size)
		return true;
	copies = realloc(l->copies, sizeof(StoreOp) * size);
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
	return true;
}

void
link_cut(QuorumLink *l, int from)
{
	for (; l->used > from; l->used--)
		free(l->notes[l->used - 1].texts);
}

/*
 * link_reset --- forget all copies
 *
 * After a change of the settings, unanswered releases are never heard; but the new
 * settings may name the same node.
 */
void
link_reset(QuorumLink *l)
{
	for (int i = l->heard_to; i < l->used; i++)
		if (l->notes[i].fate == COPY_UNDOES)
			link_hear_release(l, &l->copies[i]);
	link_cut(l, 0);
	l->mine = l->nheard = l->heard_to = 0;
}

/* ----------
 * Copies
 * ----------
 */

/*
 * link_put --- copy an operation, as one of this kind; returns the index, -1 when out of
 * memory
 *
 * link_ask() sends it.
 */
int
link_put(QuorumLink *l, const StoreOp *op, StoreOpKind kind)
{
	StoreOp		from = *op;		/* op may be a copy itself, and the array can move */
	char	   *texts = malloc(from.name_len + from.text_len + 1);
	StoreOp    *copy;

	if (texts == NULL || !link_has_room(l))
	{
		free(texts);
		return -1;
	}
	copy = &l->copies[l->used];
	*copy = from;
	copy->kind = kind;
	if (from.name != NULL)
		copy->name = memcpy(texts, from.name, from.name_len);
	if (from.text != NULL)
		copy->text = memcpy(texts + from.name_len, from.text, from.text_len);
	if (kind != STORE_CREATE)
		copy->args.together = 0;
	if (kind != from.kind)
		copy->keep_ms = 0;		/* nothing to keep: it was never held */
	copy->min_replicas = 0;		/* a vote is that of the master alone */
	copy->outcome = STORE_PENDING;
	memset(&copy->sent, 0, sizeof(StoreSent));
	memset(&copy->answer, 0, sizeof(StoreAnswer));
	l->notes[l->used].fate = kind == STORE_RELEASE && lr_kind(from.lock_kind)->ownerless ?
		COPY_UNDOES : COPY_PLAIN;
	l->notes[l->used].texts = texts;
	l->notes[l->used].heard = false;
	l->notes[l->used].op = -1;
	return l->used++;
}

/*
 * link_ask --- hand the last n copies over to the batch of the node
 */
void
link_ask(QuorumLink *l, int n, int64 deadline)
{
	if (n > 0)
		node_batch_join(&l->node, l->copies, l->used, 0, n, deadline);
}

/*
 * link_cancel_one --- do not send this copy, which was not sent yet
 *
 * It becomes a harmless question, so that a connection which is being made is completed
 * all the same.
 */
void
link_cancel_one(StoreOp *copy)
{
	copy->kind = STORE_TIME;
	copy->args.together = 0;
}

/*
 * link_cancel --- cancel all copies not sent yet, but for releases, renewals and repairs
 */
void
link_cancel(QuorumLink *l)
{
	for (int i = 0; i < l->used && l->node.batch.active; i++)
	{
		StoreOp    *copy = &l->copies[i];

		if (copy->outcome == STORE_PENDING && copy->sent.at == 0 &&
			copy->kind != STORE_RELEASE && copy->kind != STORE_RENEW &&
			l->notes[i].fate == COPY_PLAIN)
			link_cancel_one(copy);
	}
}

/* ----------
 * Answers
 * ----------
 */

/*
 * copy_is_plain --- was this release answered, and sent only once?
 *
 * If not it may still run, even behind the next create of the same owner: because it was
 * sent over a connection that was lost since, and perhaps again over another one.
 */
bool
copy_is_plain(const StoreOp *copy)
{
	return (copy->outcome == STORE_OK || copy->outcome == STORE_GONE) && !copy->sent.again;
}

/*
 * link_taint --- a release with this token may still run at the node
 *
 * There is hardly ever more than one such token; if there is, all tokens count as
 * tainted.
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

/*
 * link_hear_release --- a release with a token has been answered, or never will be
 */
void
link_hear_release(QuorumLink *l, const StoreOp *release)
{
	if (!copy_is_plain(release) && (release->sent.at != 0 || release->sent.again))
		link_taint(l, release);
}

/*
 * link_hear_create --- a create with a token has been answered
 *
 * A release before it that has not been answered yet runs behind it: its script was not
 * loaded, and it goes out again.
 */
void
link_hear_create(QuorumLink *l, int which)
{
	for (int i = l->heard_to; i < which; i++)
		if (l->notes[i].fate == COPY_UNDOES && l->copies[i].outcome == STORE_PENDING &&
			memcmp(l->copies[i].id, l->copies[which].id, STORE_ID_LEN) == 0)
			link_taint(l, &l->copies[i]);
}

bool
link_is_tainted(const QuorumLink *l, const StoreOp *op, int64 now)
{
	return op->text != NULL && op->kind == STORE_CREATE && now < l->tainted_until &&
		(l->all_tainted || memcmp(l->tainted_id, op->id, STORE_ID_LEN) == 0);
}
