/*-------------------------------------------------------------------------
 *
 * track.c
 *	  What a transaction remembers for each of its subtransactions.
 *
 * This is a list of what was done in them, and a note of a loss.  A subtransaction
 * that aborts removes its entries, and forgets its losses.
 *
 * Numbers of subtransactions grow within a transaction, and only the innermost one ends.
 * So what an aborting one has done, itself or by others that have committed into it, is
 * what has its number or a greater one; and nothing has to be passed on to a parent.
 *
 * This file only remembers: transaction.c does what has to be done for an entry when it
 * goes.  The entry of a hold is in the index (held.c); others live as long as the transaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/track.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "report.h"
#include "session/session.h"
#include "stats.h"

dlist_head	tracks = DLIST_STATIC_INIT(tracks);

/* For the next count that needs an entry. */
static Track *spare_count = NULL;

/* A lost session-level lock that was unlocked in this transaction. */
typedef struct UnlockedLoss
{
	bool		active;
	SubTransactionId taken_in;	/* see track_taken_in() */
	LrName		name;
	HoldView	view;
} UnlockedLoss;

static UnlockedLoss unlocked_loss;

/* Number of this transaction in the session */
static uint64 xact_number = 1;

static bool warned_snapshot = false;
static bool warned_unlock = false;
int			track_procedural_depth = 0;

/* ----------
 * What was done
 * ----------
 */

bool
track_has(TrackKind kind)
{
	dlist_iter	at;

	dlist_foreach(at, &tracks)
	{
		if (dlist_container(Track, link, at.cur)->kind == kind)
			return true;
	}
	return false;
}

static void
track_push(Track *t, TrackKind kind)
{
	t->kind = kind;
	t->subid = GetCurrentSubTransactionId();
	dlist_push_tail(&tracks, &t->link);
}

void
track_acquired(HeldEntry *entry, LockScope scope)
{
	if (scope == SCOPE_SESSION)
	{
		entry->taken_in = GetCurrentSubTransactionId();
		entry->taken_by = xact_number;
	}
	else
	{
		entry->track.entry = entry;
		track_push(&entry->track, TRACK_HOLD);
	}
}

void
track_forget_hold(HeldEntry *entry)
{
	dlist_delete(&entry->track.link);
}

void
track_recorded(HeldEntry *entry, int64 token)
{
	Track	   *t = MemoryContextAllocZero(TopMemoryContext, sizeof(Track));

	t->entry = entry;
	t->before = entry->recorded;
	track_push(t, TRACK_RECORDED);
	entry->recorded = token;
	entry->recorded_here = true;
}

/*
 * track_for_count --- see session.h
 *
 * If the newest entry is of the same record, and of this subtransaction or one that has
 * committed into it, it gets the amount: most transactions count one name.
 */
Track *
track_for_count(LrIndex hold)
{
	if (hold != LR_NONE && !dlist_is_empty(&tracks))
	{
		Track	   *t = dlist_tail_element(Track, link, &tracks);

		if (t->kind == TRACK_COUNT && t->hold == hold &&
			t->subid >= GetCurrentSubTransactionId())
			return t;
	}
	if (spare_count == NULL)
		spare_count = MemoryContextAllocZero(TopMemoryContext, sizeof(Track));
	return spare_count;
}

void
track_count_later(Track *t, const HeldKey *key, LrIndex hold, int64 amount)
{
	t->amount += amount;
	if (t != spare_count)
		return;
	spare_count = NULL;
	t->key = *key;
	t->hold = hold;
	track_push(t, TRACK_COUNT);
}

/* ----------
 * Unlocked losses
 * ----------
 */

SubTransactionId
track_taken_in(const HeldEntry *entry)
{
	return entry->taken_by == xact_number ? entry->taken_in : InvalidSubTransactionId;
}

/*
 * track_unlocked_loss --- see session.h
 *
 * Unlocking does not undo what the loss may have done to this transaction.
 *
 * We keep one loss: that of the lock that was acquired in the earliest subtransaction, as
 * a rollback that forgets it forgets the others, too.  So this needs no memory, and can
 * be called wherever a loss is found.
 */
void
track_unlocked_loss(const HeldKey *key, const HoldView *view, SubTransactionId taken_in)
{
	if (view->guard == GUARD_OFF || view->scope[SCOPE_SESSION].count == 0 ||
		(unlocked_loss.active && unlocked_loss.taken_in <= taken_in))
		return;
	unlocked_loss.active = true;
	unlocked_loss.taken_in = taken_in;
	held_copy_name(key, &unlocked_loss.name);
	unlocked_loss.view = *view;
	unlocked_loss.view.scope[SCOPE_SESSION].count = 0;
}

void
track_refuse_unlocked_loss(void)
{
	if (!unlocked_loss.active)
		return;
	lr_count(STAT_COMMITS_REFUSED);
	report_commit_refused(&unlocked_loss.name, &unlocked_loss.view, LOSS_UNLOCKED);
}

void
track_forget_unlocked_losses(void)
{
	unlocked_loss.active = false;
}

void
track_abort_sub(SubTransactionId subid)
{
	if (unlocked_loss.taken_in >= subid)
		unlocked_loss.active = false;
}

/* ----------
 * Warnings, each once per transaction
 * ----------
 */

/*
 * track_warn_snapshot --- warn that the transaction's snapshot is older than the lock
 *
 * The lock does not protect what is read from such a snapshot.
 */
void
track_warn_snapshot(LockScope scope)
{
	if (warned_snapshot || !IsolationUsesXactSnapshot())
		return;
	if (scope == SCOPE_SESSION && !IsTransactionBlock() && track_procedural_depth == 0)
		return;
	warned_snapshot = true;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("a Redis lock taken in a transaction of this isolation level does not protect what the transaction reads"),
			 errdetail("Its snapshot is older than the lock."),
			 errhint("Take a session-level lock before BEGIN, or use READ COMMITTED.")));
}

/* Warn that a lock is released while others do not see the changes of the transaction. */
void
track_warn_early_unlock(void)
{
	if (warned_unlock || !TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	warned_unlock = true;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("a Redis lock is released before the changes of the transaction are visible"),
			 errhint("Unlock after COMMIT, or use redis_xact_lock.")));
}

void
track_end_transaction(void)
{
	track_forget_unlocked_losses();
	xact_number++;
	warned_snapshot = false;
	warned_unlock = false;
}
