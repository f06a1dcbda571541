/*-------------------------------------------------------------------------
 *
 * quorum_after.c
 *	  What masters are asked after an operation has its outcome; see quorum.h.
 *
 * Its caller goes on meanwhile, and may release the lock.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/quorum_after.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "stats.h"
#include "store/redis/quorum.h"

/* ----------
 * What a minority has forgotten
 * ----------
 */

/*
 * quorum_repair --- create the lock again at a node that has forgotten it
 *
 * Otherwise a lock would be lost when servers are restarted one by one, although a
 * majority had it at any time.  The repair cannot create a majority: it happens only if
 * there is one.
 */
static void
quorum_repair(QuorumLink *l, int which, int other)
{
	const StoreOp *renewal = &l->copies[which];
	int			create;

	if (renewal->outcome != STORE_GONE || renewal->holder[0] != '\0' ||
		renewal->lease_ms <= 0)
		return;
	create = link_put(l, renewal, STORE_CREATE);
	if (create < 0)
		return;
	link_watch(l, create, COPY_REPAIRS, other);
	link_ask(l, 1, lr_now() + lr_call_budget());
}

/*
 * quorum_watch --- the lock was renewed: repair it where that has failed, or fails later
 */
void
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
 * quorum_ask_witness --- after a repair: was the lock released meanwhile?
 *
 * Its session releases it at all nodes at once, so the release may have come here before
 * the repair.  Ask a node that had the lock a moment ago, by a renewal with a lease of 1
 * ms, which does not lengthen it.
 */
static void
quorum_ask_witness(QuorumBatch *b, int row, int which)
{
	QuorumLink *l = b->link[row];
	QuorumLink *other = b->link[l->notes[which].other];
	int			copy;

	if (l->copies[which].outcome != STORE_OK)
		return;
	lr_count(STAT_REPAIRS);
	if (other == NULL)
		return;
	copy = link_put(other, &l->copies[which], STORE_RENEW);
	if (copy < 0)
		return;
	other->copies[copy].lease_ms = 1;
	link_watch(other, copy, COPY_WITNESS, row);
	link_ask(other, 1, lr_now() + lr_call_budget());
}

/*
 * quorum_hear_witness --- if the lock has been released there, release it at the
 * repaired node, too
 */
static void
quorum_hear_witness(QuorumBatch *b, QuorumLink *witness, int which)
{
	QuorumLink *l = b->link[witness->notes[which].other];

	/*
	 * After a lost connection the witness may have forgotten the lock itself, which
	 * proves nothing.
	 */
	if (witness->copies[which].outcome == STORE_GONE && !witness->copies[which].resent &&
		l != NULL)
		link_ask(l, link_put(l, &witness->copies[which], STORE_RELEASE) >= 0,
				 lr_now() + lr_call_budget());
}

/*
 * quorum_look_after --- a copy was answered, perhaps after the outcome of its operation
 */
void
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
