/*-------------------------------------------------------------------------
 *
 * track.h
 *	  What a transaction remembers by subtransaction.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/track.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TRACK_H
#define LR_TRACK_H

#include "lockredis.h"

#include "session/held.h"

/* ---- the stack ---- */

typedef enum TrackKind
{
	TRACK_HOLD,					/* a transaction-level hold */
	TRACK_TAKEN,				/* a session-level hold was taken */
	TRACK_RECORDED,				/* a token was written to the fence table */
	TRACK_COUNT					/* so much is to be counted after the commit */
} TrackKind;

typedef struct Track
{
	TrackKind	kind;
	SubTransactionId subid;
	HeldKey		key;			/* stays while it is held */
	LrIndex		hold;			/* hold and taken; count: the record */
	uint64		owner;			/* taken and recorded: which acquire it was */
	uint64		number;			/* taken: HeldEntry.taken of the newest */
	int64		before;			/* recorded: the token recorded until then */
	int64		amount;			/* count: */
	bool		first;			/* count: this has made the record */
} Track;

/* Room for one entry, or for n, before they are made.  May raise. */
extern void track_reserve(void);
extern void track_reserve_many(int n);

/*
 * Remember for the present subtransaction, without raising: a transaction-level
 * hold was taken, a session-level one was taken, a token was recorded.
 */
extern void track_hold(const HeldKey *key, LrIndex hold);
extern void track_taken(HeldEntry *entry);
extern void track_recorded(HeldEntry *entry, int64 token);

/* And that so much was added to what is counted after the commit. */
extern void track_count_later(const HeldKey *key, LrIndex hold, int64 amount, bool first);

/* A transaction-level hold goes before the end of its subtransaction. */
extern void track_forget_hold(LrIndex hold);

/* A session-level hold was given back and taken again, as another one. */
extern void track_retaken(LrIndex before, LrIndex hold);

/* A session-level hold was given back, and had not been lost. */
extern void track_forget_taken(uint64 owner);

/* All entries, the oldest first; and how many of them are TRACK_HOLD. */
extern int	track_count(void);
extern const Track *track_at(int i);
extern int	track_nholds(void);

/* Where those of the present, innermost subtransaction begin. */
extern int	track_first_of(SubTransactionId subid);

/* Forget all; or from there on, what an aborted subtransaction did. */
extern void track_cut_all(void);
extern void track_cut_aborted(int first, SubTransactionId parent);

/* ---- unlocked losses ---- */

/*
 * A lost hold goes: if it was a session-level one, the commit must know.  Never
 * raises, and comes before the record of the loss is dropped.
 */
extern void track_unlocked_loss(const HeldKey *key, const HoldView *view);

/* One that was not forgotten, or NULL; *view is that of a lost hold. */
extern const LrName *track_get_unlocked_loss(const HoldView **view);

/*
 * The transaction has ended, or has done nothing under those locks: it is that
 * of a DISCARD ALL, or began when a job had ended.
 */
extern void track_forget_unlocked_losses(void);

/* ---- subtransactions end ---- */

/* Its entries and losses are its parent's. */
extern void track_commit_sub(SubTransactionId subid, SubTransactionId parent);

/* Its losses are forgotten; its entries are what track_cut_aborted() takes away. */
extern void track_abort_sub(SubTransactionId subid);

#endif							/* LR_TRACK_H */
