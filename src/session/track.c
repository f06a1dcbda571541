/*-------------------------------------------------------------------------
 *
 * track.c
 *	  What a transaction remembers for each of its subtransactions.
 *
 * This is a stack of what was done in them, and a note of a loss.  A subtransaction
 * that commits leaves both to its parent; one that aborts removes its entries, and
 * forgets its losses.
 *
 * This file only remembers: transaction.c does what has to be done for an entry when it
 * goes.  Nothing but track_reserve() and track_reserve_many() raises or allocates.
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

/* The number of entries for transaction-level holds. */
static int	nholds = 0;

/* A lost session-level lock that was unlocked in this transaction. */
typedef struct UnlockedLoss
{
	bool		active;
	SubTransactionId taken_in;	/* InvalidSubTransactionId: taken before the transaction,
								 * or in its top level */
	LrName		name;
	HoldView	view;
} UnlockedLoss;

static UnlockedLoss unlocked_loss;

static bool warned_snapshot = false;
static bool warned_unlock = false;
static int	procedural_depth = 0;

/* ----------
 * The stack
 * ----------
 */

/*
 * track_still_matters --- can the entry still be needed?
 *
 * A session-level hold that was released, and was not lost then, cannot be lost any
 * more.  If it was lost, the note of the loss has all that is needed.  The key of an
 * entry may be read only if the hold exists.
 */
static bool
track_still_matters(const Track *t)
{
	HeldEntry  *entry;

	if (t->kind != TRACK_TAKEN)
		return true;
	if (!lt_has_session_part(t->hold, t->owner))
		return false;
	entry = held_find_key(&t->key);
	return entry != NULL && entry->hold == t->hold && entry->taken == t->number;
}

static void
track_drop_what_is_over(void)
{
	int			n = 0;

	for (int i = 0; i < ntracks; i++)
		if (track_still_matters(&tracks[i]))
			tracks[n++] = tracks[i];
	ntracks = n;
}

#define TRACKS_FIRST		8

/* An array up to this size is not made smaller. */
#define TRACKS_KEPT			128

/*
 * track_reserve_many --- see session.h
 *
 * When the room is used up, entries that are not needed any more are removed first.  If
 * more than half of the room is needed even so, the array grows.  So each entry is
 * looked at twice on average, and the array has at most four times the room that is
 * needed.
 */
void
track_reserve_many(int n)
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
	track_drop_what_is_over();
	size = Max(tracks_size, TRACKS_FIRST);
	while (size < 2 * (ntracks + n))
		size *= 2;
	if (size == tracks_size)
		return;
	if (tracks == NULL)
		tracks = MemoryContextAlloc(TopMemoryContext, sizeof(Track) * size);
	else
		tracks = repalloc_huge(tracks, sizeof(Track) * (Size) size);
	tracks_size = size;
}

void
track_reserve(void)
{
	track_reserve_many(1);
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
track_hold(const HeldKey *key, LrIndex hold)
{
	Track	   *t = track_push(TRACK_HOLD);

	t->key = *key;
	t->hold = hold;
	nholds++;
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
			nholds--;
			return;
		}
}

/*
 * track_taken --- see session.h
 *
 * Outside of subtransactions no entry is needed: only the rollback of a subtransaction
 * can forget a loss.
 */
void
track_taken(HeldEntry *entry)
{
	static uint64 last_number = 0;
	Track	   *t;

	entry->taken = 0;
	if (!IsSubTransaction())
		return;
	t = track_push(TRACK_TAKEN);
	t->key = entry->key;
	t->hold = entry->hold;
	t->owner = lt_owner(entry->hold);
	t->number = ++last_number;
	entry->taken = t->number;
}

/*
 * track_forget_taken --- see session.h
 *
 * Only the newest entry is looked at, which is enough for most loops.  Others are
 * removed when the room is used up.
 */
void
track_forget_taken(uint64 owner)
{
	if (ntracks > 0 && tracks[ntracks - 1].kind == TRACK_TAKEN &&
		tracks[ntracks - 1].owner == owner)
		ntracks--;
}

/*
 * track_retaken --- see session.h
 *
 * The entry stays in its subtransaction.
 */
void
track_retaken(LrIndex before, LrIndex hold)
{
	uint64		owner = lt_owner(before);

	for (int i = 0; i < ntracks; i++)
		if (tracks[i].kind == TRACK_TAKEN && tracks[i].hold == before &&
			tracks[i].owner == owner)
		{
			tracks[i].hold = hold;
			tracks[i].owner = lt_owner(hold);
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
 * If the newest entry is of the same record and subtransaction, it gets the amount:
 * most transactions count one name.
 */
void
track_count_later(const HeldKey *key, LrIndex hold, int64 amount, bool first)
{
	Track	   *t = ntracks > 0 ? &tracks[ntracks - 1] : NULL;

	if (!first && t != NULL && t->kind == TRACK_COUNT && t->hold == hold &&
		t->subid == GetCurrentSubTransactionId())
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

int
track_nholds(void)
{
	return nholds;
}

int
track_first_of(SubTransactionId subid)
{
	int			first = ntracks;

	while (first > 0 && tracks[first - 1].subid == subid)
		first--;
	return first;
}

void
track_cut_all(void)
{
	ntracks = 0;
	nholds = 0;
}

/*
 * track_cut_aborted --- see session.h
 *
 * Session-level locks that the subtransaction has acquired are kept.  They count as
 * acquired in its parent: if that is rolled back, so is everything that was done under
 * them.
 */
void
track_cut_aborted(int first, SubTransactionId parent)
{
	int			keep = first;

	for (int i = first; i < ntracks; i++)
	{
		Track	   *t = &tracks[i];

		if (t->kind == TRACK_HOLD)
			nholds--;
		if (t->kind != TRACK_TAKEN || !track_still_matters(t))
			continue;
		t->subid = parent;
		tracks[keep++] = *t;
	}
	ntracks = keep;
}

/* ----------
 * Unlocked losses
 * ----------
 */

/*
 * track_unlocked_loss --- see session.h
 *
 * Unlocking does not undo what the loss may have done to this transaction.
 *
 * We keep one loss: that of the lock that was acquired at the lowest nesting level, as
 * a rollback that forgets it forgets the others, too.  So this needs no memory, and can
 * be called wherever a loss is found; also at the end of a subtransaction, while its
 * entries still exist.  If the loss that we have is one that no rollback of a
 * subtransaction forgets, there is no need to search the stack: thousands may be lost
 * at once.
 */
void
track_unlocked_loss(const HeldKey *key, const HoldView *view)
{
	SubTransactionId taken_in = InvalidSubTransactionId;

	if (view->guard == GUARD_OFF || view->scope[SCOPE_SESSION].count == 0 ||
		(unlocked_loss.active && unlocked_loss.taken_in <= TopSubTransactionId))
		return;
	for (int i = ntracks - 1; i >= 0 && taken_in == InvalidSubTransactionId; i--)
		if (tracks[i].kind == TRACK_TAKEN && tracks[i].owner == view->owner)
			taken_in = tracks[i].subid;
	if (unlocked_loss.active && unlocked_loss.taken_in <= taken_in)
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

/* ----------
 * Subtransactions end
 * ----------
 */

void
track_commit_sub(SubTransactionId subid, SubTransactionId parent)
{
	for (int i = track_first_of(subid); i < ntracks; i++)
		tracks[i].subid = parent;
	if (unlocked_loss.taken_in == subid)
		unlocked_loss.taken_in = parent;
}

void
track_abort_sub(SubTransactionId subid)
{
	if (unlocked_loss.taken_in == subid)
		unlocked_loss.active = false;
}

/* ----------
 * Warnings, each once per transaction
 * ----------
 */

void
track_enter_procedural(void)
{
	procedural_depth++;
}

void
track_leave_procedural(void)
{
	if (procedural_depth > 0)
		procedural_depth--;
}

bool
track_in_outermost_procedural(void)
{
	return procedural_depth == 1;
}

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
	if (scope == SCOPE_SESSION && !IsTransactionBlock() && procedural_depth == 0)
		return;
	warned_snapshot = true;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("a Redis lock taken in a transaction of this isolation level does not protect what the transaction reads"),
			 errdetail("Its snapshot is older than the lock."),
			 errhint("Take a session-level lock before BEGIN, or use READ COMMITTED.")));
}

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
track_forget_warnings(void)
{
	warned_snapshot = false;
	warned_unlock = false;
}
