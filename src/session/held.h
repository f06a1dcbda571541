/*-------------------------------------------------------------------------
 *
 * held.h
 *	  The index of the holds of this backend.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/held.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_HELD_H
#define LR_HELD_H

#include "lockredis.h"

#include "keyname.h"
#include "kinds/kind.h"
#include "locktable/hold.h"
#include "report.h"

typedef struct HeldKey
{
	const char *data;			/* in the lock table, once held */
	int			len;
	uint32		hash;			/* of the name */
	KindId		kind;			/* of an entry: LockKind.held_as */
	uint64		number;			/* of an entry of a kind of which each is one more:
								 * which one it is; else 0 */
} HeldKey;

typedef struct HeldEntry
{
	HeldKey		key;
	LrIndex		hold;			/* LR_NONE: reserved by an acquire */
	int			job_count;		/* session-level holds that only the job runner
								 * gives back */
	int			failed_jobs;	/* of these, to be given back by the abort */
	CommitGuard guard;			/* as in the lock table */
	int64		recorded;		/* fencing token that this hold recorded in the
								 * fence table, 0 = none */
	bool		recorded_here;	/* and has its row locked in this transaction */
	uint64		taken;			/* number of its TRACK_TAKEN, see track.h */
	uint64		older;			/* numbers of its neighbours of the same key; 0 = */
	uint64		newer;			/* it is the last */
	uint32		hash;			/* of simplehash, */
	char		status;			/* likewise */
} HeldEntry;

/* The key as the index has it; points into *name. */
static inline HeldKey
held_key(const LrName *name, KindId kind)
{
	HeldKey		key = {name->data, name->len, name->hash, kind, 0};

	return key;
}

/* And back: a copy of the name. */
extern void held_copy_name(const HeldKey *key, LrName *name);

/* Before anything else of this file.  May raise. */
extern void held_open(void);

/* How many are there, one that was left by an interrupted acquire included? */
extern int	held_count(void);

/*
 * The entry of a lock of that kind, or one that it takes again; NULL: there is none.  Of
 * a kind of which each is one more: the newest, the one before another, and the one
 * with that owner number.
 */
extern HeldEntry *held_find(const LrName *name, KindId kind);
extern HeldEntry *held_older(const HeldEntry *entry);
extern HeldEntry *held_find_owner(const LrName *name, KindId kind, uint64 owner);
extern HeldEntry *held_find_key(const HeldKey *key);

/*
 * As which kind the session has the key: "first" if it has it as that, or not at all.
 * Of several kinds the one that its session took first: the write lock.
 */
extern KindId held_kind_of(const LrName *name, KindId first);

/* Walk over all entries; nothing may be deleted meanwhile. */
typedef void (*HeldCallback) (HeldEntry *entry, void *arg);
extern void held_walk(HeldCallback callback, void *arg);

/*
 * An acquire makes its entry before it asks the store, because afterwards
 * nothing may fail, and completes it with the hold.
 */
extern void held_reserve(const LrName *name, KindId kind);
extern HeldEntry *held_complete(LrIndex hold, CommitGuard guard);

/*
 * The same for several at once, whose names have to stay until all are completed or
 * forgotten.
 */
extern void held_reserve_all(const LrName *const *names, int n, KindId kind);
extern HeldEntry *held_complete_one(const LrName *name, KindId kind, LrIndex hold,
									CommitGuard guard);

/*
 * Remove what was reserved and not completed; the next call that looks does so,
 * too.
 */
extern void held_forget_reserved(void);

/* The same lock, taken again after it was given back: another hold. */
extern void held_replace(HeldEntry *entry, LrIndex hold);

/* Moves other entries. */
extern void held_delete(HeldEntry *entry);

/* A stricter guard is asked for; or that was taken back. */
extern void held_tighten_guard(HeldEntry *entry, CommitGuard guard);
extern void held_set_guard(HeldEntry *entry, CommitGuard guard);

/* Whose loss it is, if it is one. */
extern LossLevel held_loss_level(const HeldEntry *entry, const HoldView *view);

/*
 * No hold has so little left of its lease before this that a commit has to ask for
 * more.  A lease that is set later is to be noted.
 */
extern int64 held_commit_floor;
extern void held_note_lease(const HeldEntry *entry);

/* How many entries have GUARD_VERIFY. */
extern int	held_nverified;

#endif							/* LR_HELD_H */
