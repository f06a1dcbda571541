/*-------------------------------------------------------------------------
 *
 * release.h
 *	  Giving back: a batch of releases.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/release.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_RELEASE_H
#define LR_RELEASE_H

#include "lockredis.h"

#include "keyname.h"
#include "locktable/hold.h"
#include "session/held.h"
#include "store/store.h"

/* How a batch of releases ended. */
typedef struct ReleaseTally
{
	int			released;
	int			gone;			/* found lost by the release itself */
	int			unanswered;
	StoreOutcome failure;		/* of one that was not answered */
	LrName		gone_name;		/* the first of those that were gone, */
	HoldView	gone_view;		/* as a lost hold */
} ReleaseTally;

/* Room to release n holds at once, before they are taken.  May raise. */
extern void release_reserve(int n);

/* Only n holds are left: no more room than they need.  May raise. */
extern void release_trim(int n);

/*
 * A batch of releases.  Add entries (each is gone from the index then; false:
 * it was lost, *view says how, and has been dropped), then run it.  Adding, and
 * running with STORE_POLL, never raise.  Losses that either finds are noted for
 * the commit, see track_unlocked_loss().
 */
extern bool release_add(HeldEntry *entry, HoldView *view);

/* The same of one that nobody was told to have: its loss is nobody's. */
extern void release_add_untold(HeldEntry *entry);

/*
 * With STORE_WAIT it can be left by an interrupt; the holds are gone for the
 * session all the same.
 */
extern void release_run(int64 deadline, StoreStep how, ReleaseTally *tally);

/* How many go to a store with the batch so far. */
extern int	release_added(void);

/*
 * The locks that the batch which has just ended found lost, one after the other, from
 * *i = 0 on: how many had been added before each.  False: there are no more.
 */
extern bool release_next_gone(int *i, int *before, HoldView *view);

/* Run it at the end of a (sub)transaction.  Never raises, and is brief. */
extern void release_run_at_end(void);

/* The same, of a whole transaction: lockredis.release_wait says whether it waits. */
extern void release_end_transaction(void);

/* For how long the end of a transaction waits for so many answers. */
extern int64 release_patience(int n);

/*
 * All that the session has, at its end and by DISCARD ALL.  Never raises, and
 * lasts at most command_timeout.
 */
extern void release_everything(ReleaseTally *tally);

/* Bring a batch that was left by an error to its end.  Never raises. */
extern void release_clean_up(void);

#endif							/* LR_RELEASE_H */
