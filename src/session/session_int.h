/*-------------------------------------------------------------------------
 *
 * session_int.h
 *	  The index of the holds of this backend, for session.c, transaction.c,
 *	  fence.c and job.c only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/session_int.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SESSION_INT_H
#define LR_SESSION_INT_H

#include "report.h"
#include "session/session.h"

typedef struct HeldKey
{
	const char *data;			/* in the lock table, once held */
	int			len;
	uint32		hash;
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
	uint64		taken;			/* number of its TRACK_TAKEN, see transaction.c */
	char		status;
} HeldEntry;

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

/* Has this backend used a lock function yet? */
extern bool session_is_entered(void);

/* Is there anything held, or left over by an interrupted call? */
extern bool session_has_holds(void);

/* The entry of a name or key; NULL if there is none. */
extern HeldEntry *session_find(const LrName *name);
extern HeldEntry *session_find_key(const HeldKey *key);

/* Whose loss it is, if it is one. */
extern LossLevel session_loss_level(const HeldEntry *entry, const HoldView *view);

/* Walk over all entries; nothing may be deleted meanwhile. */
typedef void (*HeldCallback) (HeldEntry *entry, void *arg);
extern void session_walk(HeldCallback callback, void *arg);

/* Bring an acquire or release that was left by an error to its end. */
extern void session_clean_up(void);

/*
 * A batch of releases.  Add entries (each is gone from the index then; false:
 * it was lost, *view says how, and has been dropped), then run it.  Adding, and
 * running with STORE_POLL, never raise.  Losses that either finds are noted for
 * the commit, see xact_note_unlocked_loss().
 */
extern bool session_batch_add(HeldEntry *entry, HoldView *view);

/*
 * A hold that stays has fewer holds than the store shows: have the right count
 * written with the batch.  *view is what it is now.
 */
extern void session_batch_set_count(const HeldEntry *entry, const HoldView *view);
extern void session_batch_run(int64 deadline, StoreStep how,
							  ReleaseTally *tally);

/* Run it at the end of a (sub)transaction.  Never raises, and is brief. */
extern void session_batch_run_at_end(void);

/*
 * Run some operations, each in its store, until each has an outcome; as
 * session_run().
 */
extern void session_run_many(StoreOp *ops, int nops, StoreStep how);

/*
 * An owner-checked operation of a lock that we hold was answered: repeat it while
 * the lock has been moved since, mark the hold lost if the answer says so.  True:
 * it is lost.
 */
extern bool session_settle_held(LrIndex hold, StoreOp *op);

/* The shortest deadline of all holds is not before this. */
extern int64 session_deadline_floor;

/* How many entries have GUARD_VERIFY. */
extern int	session_nverified;

#endif							/* LR_SESSION_INT_H */
