/*-------------------------------------------------------------------------
 *
 * session_int.h
 *	  What the files of sessions share.
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

#include "lockredis.h"

#include "datatype/timestamp.h"
#include "storage/lock.h"

#include "keyname.h"
#include "locktable/hold.h"
#include "session/session.h"
#include "store/store.h"

/* ----------
 * waiting.c: One acquire, from the request to the lock.
 * ----------
 */

/*
 * True: the lock is had, *hold is its hold, unless its kind is ownerless.  False:
 * somebody else had it for all of wait_us.  Raises for everything else; whatever was or will be taken
 * in the store is given back then.
 */
extern bool wait_for_lock(const LrName *name, const AcquireRequest *request,
						  LrIndex *hold);

/*
 * What has to be so before a store is asked for a lock, and raises if it is not: a
 * lock that is to be renewed needs a watchdog, which is waited for a little; and
 * lockredis.url has to mean the same place to this session as to that.
 */
extern void wait_require_watchdog(const LockTerms *terms);
extern void wait_require_place(void);

/* The store gave a lock on these terms after its lease had ended. */
extern void wait_report_too_late(const LockTerms *terms);

/*
 * Clean up an acquire that was left by an error or by the end of the session.
 * Does nothing if there is none.  Never raises.
 */
extern void wait_abandon(void);

/* ----------
 * release.c: Giving back: a batch of releases.
 * ----------
 */

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

/* ----------
 * at_once.c: Several locks by one request, all of them or none.
 * ----------
 */

typedef enum AtOnceResult
{
	AT_ONCE_HAD,
	AT_ONCE_BUSY,				/* somebody has or awaits one of them */
	AT_ONCE_NOT					/* for another reason, or not all: ask one by one */
} AtOnceResult;

/*
 * Take locks that this session has not, of a kind that excludes itself.  Room for
 * all, and their rows, have been reserved; the names stay until it has returned.
 * Waits for nobody who has one.  With AT_ONCE_NOT and when it raises some may be
 * had: they are in the index (held.c).
 */
extern AtOnceResult at_once_take(const LrName *const *names, int n,
								 const AcquireRequest *request);

/*
 * Bring one that was left by an error, or by the end of the session, to its end.
 * Never raises.
 */
extern void at_once_abandon(void);

/* ----------
 * monitor.c: A lock is given back, a condition awaited, the lock taken again.
 * ----------
 */

/*
 * Wait for the condition with that id of a lock that this session has at session level
 * only, as the view says.  True: notified, or nobody knows; false: wait_us (or
 * WAIT_FOREVER) are over.  The session has the lock again, under another hold.  Raises for
 * everything else, and then the lock is lost to it.
 */
extern bool monitor_wait(const LrName *name, const HeldEntry *entry,
						 const HoldView *view, const uint8 *id, int64 wait_us);

/*
 * Clean up a wait that was left by an error or by the end of the session.  Does nothing if
 * there is none.  Never raises.
 */
extern void monitor_abandon(void);

/* ----------
 * guard.c: May the transaction commit, by the locks that the session has?
 * ----------
 */

/* Raise if a session-level lock was lost and unlocked in this transaction. */
extern void guard_refuse_unlocked_loss(void);

/*
 * Raise if a lock of this transaction was lost, or is about to be.  "has_xid": it
 * has written, so that session-level locks count, too.
 */
extern void guard_check_holds(bool has_xid);

/* ----------
 * long_wait.c: What happens when a wait for a key lasts longer than deadlock_timeout.
 * ----------
 */

/* An acquire begins; it may have to wait. */
extern void long_wait_reset(void);

/* It falls asleep for the first time. */
extern void long_wait_begin(void);

/* When to call long_wait_look(), which returns at once before. */
extern int64 long_wait_look_at(void);

/* Raises 40P01 if this session has to break a deadlock. */
extern void long_wait_look(const LrName *name);

/* The lock was had in the end. */
extern void long_wait_acquired(const LrName *name);

/* ----------
 * deadlock.c: Sessions of this server that wait for each other in a circle.
 * ----------
 */

typedef struct Deadlock Deadlock;

/*
 * For a session that waits for a key: is it in a cycle, and the one that has to
 * break it?  NULL if not.  "For all": suspects others that wait for the key, too.
 * Allocates in the current memory context.
 */
extern Deadlock *deadlock_find(bool for_all);

/* Raises 40P01. */
extern void deadlock_report(const Deadlock *deadlock);

/* ----------
 * lock_waits.c: Who waits for whom in PostgreSQL's lock manager.
 * ----------
 */

/* What one search has learned so far; in the current memory context. */
typedef struct LockWaits LockWaits;

/* Told of an edge.  Both are processes, parallel workers as their leader. */
typedef void (*LockEdgeFound) (void *arg, LrIndex waiter, LrIndex blocker);

/* Does somebody lead to this process already? */
typedef bool (*LockIsReached) (void *arg, LrIndex process);

extern LockWaits *lock_waits_create(LockEdgeFound found,
									LockIsReached is_reached, void *arg);

/*
 * Tells of edges until all who keep the process from what it waits for are
 * reached, and likewise for those who are reached by that and wait for the same
 * lock ahead of it.
 */
extern void lock_waits_follow(LockWaits *waits, LrIndex process);

/* For who wants to know what a search costs. */
extern int	lock_waits_looks(const LockWaits *waits);
extern Size lock_waits_memory(const LockWaits *waits);

/* One edge. */
typedef struct LockWait
{
	int			pid;			/* who sleeps: the waiter or its worker */
	int			blocker_pid;
	LOCKTAG		tag;
	LOCKMODE	mode;
	TimestampTz since;
} LockWait;

/* Is the one kept from a lock by the other? */
extern bool lock_wait_between(LrIndex waiter, LrIndex blocker, LockWait *wait);

/* ----------
 * ask.c: What this backend asks the stores.
 * ----------
 */

/* Handles of the stores of this server's mode; connects to none.  May raise. */
extern void ask_open(void);
extern bool ask_is_open(void);

/* Room for a batch of n releases, which may then not raise. */
extern void ask_reserve(int n);

/*
 * So many replicas have to confirm what lengthens the lease of that.  By its
 * scopes, which may be those that are wanted.
 */
static inline int
ask_min_replicas(const HoldView *view)
{
	int			n = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (view->scope[i].count > 0)
			n = Max(n, view->scope[i].min_replicas);
	return n;
}

/* An operation on a lock, with nothing but its name and kind. */
extern void ask_prepare(StoreOp *op, StoreOpKind kind, const HeldKey *key,
						StoreId store);

/*
 * One on a lock that we hold: as its owner, and where it was when it was looked
 * at.
 */
extern void ask_prepare_held(StoreOp *op, StoreOpKind kind, const HeldKey *key,
							 const HoldView *view);

/*
 * Run operations, each in its store, until each has an outcome.  Raises only
 * what CHECK_FOR_INTERRUPTS does, and only with STORE_WAIT; the operations have
 * outcomes then, too.
 */
extern void ask_run(StoreOp *op, StoreStep how);
extern void ask_run_many(StoreOp *ops, int nops, StoreStep how);

/* The same of one until that time at most, interruptible. */
extern void ask_run_within(StoreOp *op, int64 deadline);

/*
 * The same until that time at most, and whoever catches what it raises has to
 * call ask_abandon() himself, which is what gives those an outcome that were under
 * way.
 */
extern void ask_run_until(StoreOp *ops, int nops, int64 deadline, StoreStep how);
extern void ask_abandon(void);

/*
 * The same of releases in one store, with STORE_POLL; but true if that has them and
 * nobody has to wait: see leave() of a store.
 */
extern bool ask_send(StoreOp *ops, int nops, int64 deadline, StoreAnswered answered);

/*
 * A former master's answer says nothing of what the present one has: then it is not
 * known what was done.
 */
extern void ask_distrust(StoreOp *op);

/*
 * This request of a semaphore or a latch was answered, and is settled: the store need not
 * know that it has run.  Before the end of the session: all that is left of that is sent.
 */
extern void ask_forget(const StoreOp *op);
extern void ask_close(void);

/*
 * Run an operation on a lock that we hold in the store where that is: sets store
 * and moves.
 */
extern void ask_run_held(LrIndex hold, StoreOp *op);

/* And the hold is marked lost if the answer says so.  True: it is lost. */
extern bool ask_held(LrIndex hold, StoreOp *op);

/*
 * Have the store lengthen the lease of a lock that we hold, of which that is a view, to
 * lease_ms; "keep": even if this server crashes.  The outcome may be that it is lost.
 */
extern void ask_lengthen(const HeldEntry *entry, const HoldView *view,
						 int64 lease_ms, bool keep, StoreOp *op);

/*
 * An owner-checked operation of a lock that we hold was answered: repeat it while
 * the lock has been moved since, mark the hold lost if the answer says so.  True:
 * it is lost.
 */
extern bool ask_settle(LrIndex hold, StoreOp *op);

/* The answer says that our owner is not there; and so the hold is lost. */
extern bool ask_says_lost(const StoreOp *op);
extern void ask_lose_hold(LrIndex hold, const StoreOp *op);

/* Of the store that failed last */
extern const StoreError *ask_error(void);

/* Raise or warn of it. */
extern void ask_report_failure(int elevel, StoreOutcome outcome);

#endif							/* LR_SESSION_INT_H */
