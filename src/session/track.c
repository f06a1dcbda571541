/*-------------------------------------------------------------------------
 *
 * track.c
 *	  What a transaction remembers by subtransaction.
 *
 * A stack of what was done in it, and a note of a loss.  A subtransaction that
 * commits leaves both to its parent; when one aborts its entries are taken away
 * and its losses forgotten.
 *
 * What has to be done for an entry when it goes is transaction.c's; here is only
 * what is remembered.  Nothing but track_reserve() raises or allocates.
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

/* Of the tracks, transaction-level holds. */
static int	nholds = 0;

/* A lost session-level lock that was unlocked in this transaction. */
typedef struct UnlockedLoss
{
	bool		active;
	SubTransactionId taken_in;	/* InvalidSubTransactionId: before it */
	LrName		name;
	HoldView	view;
} UnlockedLoss;

static UnlockedLoss unlocked_loss;

/* ----------
 * The stack
 * ----------
 */

/*
 * track_still_matters --- can what it tells still be asked for?
 *
 * A session-level hold that was given back, and found fine then, cannot be lost
 * any more; of a loss that was noted the note knows all.  The key of an entry
 * may be looked at only if the hold is there.
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

/* An array of that size is not worth to be made smaller. */
#define TRACKS_KEPT			128

/*
 * track_reserve_many --- room for n more
 *
 * What is over goes when the room is used up.  If more than half of it is needed
 * even so it grows, so each entry is looked at twice on average, and the array
 * has no more than four times what is needed.
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
 * track_forget_hold --- it was taken together with others, which could not be had
 *
 * They go in the reverse order, so it is the newest, or nearly.
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
 * track_taken --- only a subtransaction can be rolled back and leave the loss
 * unseen
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
 * track_forget_taken --- it was given back and had not been lost
 *
 * Only the newest entry is looked at, which is enough for most loops; others go
 * when the room is used up.
 */
void
track_forget_taken(uint64 owner)
{
	if (ntracks > 0 && tracks[ntracks - 1].kind == TRACK_TAKEN &&
		tracks[ntracks - 1].owner == owner)
		ntracks--;
}

/*
 * track_retaken --- the level at which it was taken stays
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
 * track_count_later --- the newest entry can take it, too: most of them count one name
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
 * track_cut_aborted --- what a subtransaction did has been undone
 *
 * But for what it took at session level: that is kept, and was taken in its parent
 * then, with which all that may have been done under it is rolled back too.
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
 * track_unlocked_loss --- unlocking does not undo what the loss may have done to
 * this transaction
 *
 * Of several losses one is kept: that whose lock was taken at the lowest nesting
 * level, as a rollback that forgets it forgets the others too.  So it takes no
 * memory, and each of them can be noted wherever it is found: at the end of a
 * subtransaction too, where the entries of what was taken in it are still there.  After
 * one that no subtransaction's rollback forgets there is nothing to look for: all of
 * thousands may be lost at once.
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
