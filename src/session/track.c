/*-------------------------------------------------------------------------
 *
 * track.c
 *	  What a transaction remembers for each of its subtransactions.
 *
 * This is a stack of what was done in them, and a note of a loss.  A subtransaction
 * that aborts removes its entries, and forgets its losses.
 *
 * Numbers of subtransactions grow within a transaction, and only the innermost one ends.
 * So what an aborting one has done, itself or by others that have committed into it, is
 * what has its number or a greater one; and nothing has to be passed on to a parent.
 *
 * This file only remembers: transaction.c does what has to be done for an entry when it
 * goes.  Nothing but track_reserve() raises or allocates.
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

#include "session/session.h"

static Track *tracks = NULL;
static int	ntracks = 0;
static int	tracks_size = 0;

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
 * The stack
 * ----------
 */

#define TRACKS_FIRST		8

/* An array up to this size is not made smaller. */
#define TRACKS_KEPT			128

void
track_reserve(int n)
{
	int			size;

	if (ntracks == 0 && tracks_size > TRACKS_KEPT)
	{
		pfree(tracks);
		tracks = NULL;
		tracks_size = 0;
	}
	if (ntracks + n <= tracks_size)
		return;
	size = Max(tracks_size, TRACKS_FIRST);
	while (size < ntracks + n)
		size *= 2;
	if (tracks == NULL)
		tracks = MemoryContextAlloc(TopMemoryContext, sizeof(Track) * size);
	else
		tracks = repalloc_huge(tracks, sizeof(Track) * (Size) size);
	tracks_size = size;
}

static Track *
track_push(TrackKind kind)
{
	Track	   *t = &tracks[ntracks++];

	Assert(ntracks <= tracks_size);
	memset(t, 0, sizeof(Track));
	t->kind = kind;
	t->subid = GetCurrentSubTransactionId();
	return t;
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
		Track	   *t = track_push(TRACK_HOLD);

		t->key = entry->key;
		t->hold = entry->hold;
	}
}

/*
 * track_forget_hold --- see session.h
 *
 * The hold was acquired together with others, of which one was not free.  They are
 * released in reverse order, so this is the newest entry, or nearly.
 */
void
track_forget_hold(LrIndex hold)
{
	for (int i = ntracks - 1; i >= 0; i--)
		if (tracks[i].kind == TRACK_HOLD && tracks[i].hold == hold)
		{
			memmove(&tracks[i], &tracks[i + 1], sizeof(Track) * (ntracks - 1 - i));
			ntracks--;
			return;
		}
}

void
track_recorded(HeldEntry *entry, int64 token)
{
	Track	   *t = track_push(TRACK_RECORDED);

	t->key = entry->key;
	t->owner = lt_owner(entry->hold);
	t->before = entry->recorded;
	entry->recorded = token;
	entry->recorded_here = true;
}

/*
 * track_count_later --- see session.h
 *
 * If the newest entry is of the same record, and of this subtransaction or one that has
 * committed into it, it gets the amount: most transactions count one name.
 */
void
track_count_later(const HeldKey *key, LrIndex hold, int64 amount, bool first)
{
	Track	   *t = ntracks > 0 ? &tracks[ntracks - 1] : NULL;

	if (!first && t != NULL && t->kind == TRACK_COUNT && t->hold == hold &&
		t->subid >= GetCurrentSubTransactionId())
	{
		t->amount += amount;
		return;
	}
	t = track_push(TRACK_COUNT);
	t->key = *key;
	t->hold = hold;
	t->amount = amount;
	t->first = first;
}

int
track_count(void)
{
	return ntracks;
}

const Track *
track_at(int i)
{
	return &tracks[i];
}

bool
track_has(TrackKind kind)
{
	for (int i = 0; i < ntracks; i++)
		if (tracks[i].kind == kind)
			return true;
	return false;
}

int
track_first_of(SubTransactionId subid)
{
	int			first = ntracks;

	while (first > 0 && tracks[first - 1].subid >= subid)
		first--;
	return first;
}

void
track_cut(int first)
{
	ntracks = first;
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

const LrName *
track_get_unlocked_loss(const HoldView **view)
{
	*view = &unlocked_loss.view;
	return unlocked_loss.active ? &unlocked_loss.name : NULL;
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
			 errmsg("a Redis lock is given back before the changes of the transaction are visible"),
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
