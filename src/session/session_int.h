/*-------------------------------------------------------------------------
 *
 * session_int.h
 *	  Declarations shared by the files of src/session.
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

#include "names.h"
#include "session/session.h"
#include "store/store.h"

/* ----------
 * waiting.c: One acquire, from the request to the lock.
 * ----------
 */

/*
 * Acquire a lock that this session does not hold.  True: *hold is its hold, unless its
 * kind is ownerless.  False: another client held it for all of wait_us.  Raises for
 * everything else; what was taken in the store, or will be, is released then.
 */
extern bool wait_for_lock(const LrName *name, const AcquireRequest *request,
						  LrIndex *hold);

/*
 * Preconditions for asking a store for a lock; they raise if not met.  A lock that is
 * to be renewed needs a watchdog, which is waited for briefly.  And this session must
 * use the same lockredis.url as the watchdog.
 */
extern void wait_require_watchdog(const LockTerms *terms);
extern void wait_require_place(void);

/*
 * Reserve rows of the lock table; raises if there are too few.  If the watchdog is about to
 * release something, which frees its row, that is waited for, for as long as a call may take.
 */
extern void wait_for_rows(int n);

/* Sleep for that long, or until the latch is set; then look for interrupts. */
extern void wait_nap(int64 ms, uint32 event);

/* Raise an error: the lock was granted only after its lease had ended. */
extern void wait_report_too_late(const LockTerms *terms);

/* ----------
 * release.c: A batch of releases.
 * ----------
 */

/* How a batch of releases ended. */
typedef struct ReleaseTally
{
	int			released;
	int			gone;			/* found lost by the release itself */
	int			unanswered;
	StoreOutcome failure;		/* outcome of one that was not answered */
} ReleaseTally;

/*
 * Reserve room to release n holds at once, which is to be called before they are acquired;
 * and free memory that is needed for far more only.  May raise.
 */
extern void release_reserve(int n);

/*
 * To release locks, add their entries, then run the batch.  release_add removes the
 * entry from the index.  It returns false if the lock was lost; the hold has been dropped
 * then.  *view, unless "view" is NULL, is a copy of the hold, which must stay valid until
 * the batch has run: if its release finds it lost, the copy becomes that of a lost hold.
 * Losses are recorded for the commit (track_unlocked_loss), unless the lock was never
 * reported as acquired ("reported" is false).  Never raises.
 */
extern bool release_add(HeldEntry *entry, bool reported, HoldView *view);

/*
 * A batch also counts, at the end of a transaction that has committed.  counts_pending: how
 * many records this transaction is to have counted; release_reserve() keeps room for them,
 * too.  release_add_count adds the request for one of them.  Never raises.
 */
extern int	counts_pending;
extern void release_add_count(const HeldKey *key, LrIndex hold);

/* The request for a record; and its record is done: the store has counted, or refused. */
extern void count_prepare(StoreOp *op, const HeldKey *key, LrIndex hold);
extern void count_done(const StoreOp *op);

/* Wake sessions that wait for a number that the store has changed. */
extern void count_wake(const StoreOp *op);

/*
 * Run the batch.  With STORE_WAIT an interrupt can end this early; the session does not
 * have the holds any more even then.  With STORE_POLL it never raises.
 */
extern ReleaseTally release_run(int64 deadline, StoreStep how);

/*
 * Run the batch at the end of a (sub)transaction.  Never raises, and does not wait for
 * long.
 */
extern void release_run_at_end(void);

/*
 * The same for a top-level transaction: lockredis.release_wait says whether it waits.
 */
extern void release_end_transaction(void);

/* How long the end of a transaction waits for n answers. */
extern int64 release_patience(int n);

/*
 * Release everything that the session holds, at its end and for DISCARD ALL.  Never
 * raises, and takes at most command_timeout.
 */
extern ReleaseTally release_everything(void);

/* ----------
 * unowned.c: What belongs to no session.
 * ----------
 */

/*
 * To be called at the end of a transaction, and when a subtransaction aborts ("sub"): if the
 * statement has failed, what it took is released.  Never raises.
 */
extern void unreturned_end(bool commit, bool sub);
extern bool unreturned_is_empty(void);

/* An entry of an aborted transaction or subtransaction is not to be counted.  Never raises. */
extern void counts_undo(const Track *t);

/* ----------
 * guard.c: Do the locks of the session allow the transaction to commit?
 * ----------
 */

/*
 * Raise if a lock of this transaction was lost, or is about to be.  "has_xid": the
 * transaction has written something, so that session-level locks count, too.
 */
extern void guard_check_holds(bool has_xid);

/* ----------
 * deadlock.c: What happens when a wait for a key lasts longer than deadlock_timeout.
 * ----------
 */

/* An acquire begins, which may have to wait. */
extern void long_wait_reset(void);

/* The session is about to sleep for the first time. */
extern void long_wait_begin(void);

/* When to call long_wait_look(), which does nothing before that time. */
extern int64 long_wait_look_at(void);

/* Raises 40P01 if this session has to break a deadlock. */
extern void long_wait_look(const LrName *name);

/* The lock was acquired in the end. */
extern void long_wait_acquired(const LrName *name);

/* ----------
 * ask.c: Requests of this backend to the stores.
 * ----------
 */

/*
 * What an error or the end of the session would leave behind: the operations of an
 * acquire, a batch or a count, from before they are sent until they are dealt with; and
 * what a wait for a condition has.
 */
typedef struct Pending
{
	void		(*give_up) (StoreOp *op);	/* deals with an operation that nobody waits for
											 * any more; NULL: there is none */
	StoreOp    *ops;			/* with room for those of any call; see
								 * release_reserve() */
	int			nops;

	/* Holds of this session that are not in its index; LR_NONE: it does not have it. */
	LrIndex		notification;
	LrIndex		lock;			/* acquired again */
} Pending;

extern Pending pending;

/* The first nops of pending.ops are pending; and no operation is, any more. */
extern void pending_begin(int nops, void (*give_up) (StoreOp *op));
extern void pending_end(void);

/* Clean up whatever is pending, if anything is.  Never raises, nor waits. */
extern void pending_abandon(void);

/* Keep an idle connection while a lock call runs ("keep"), or no longer. */
extern void idle_keep(bool keep);

/* Make handles for the stores of this server's mode, without connecting.  May raise. */
extern void ask_open(void);
extern bool ask_is_open(void);

/*
 * How many replicas have to confirm an extension of the lease, by the scopes of *view.
 * These may be the wanted ones, instead of those that the hold has.
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

/* Prepare an operation on a lock, of which only the name and the kind are known. */
extern void ask_prepare(StoreOp *op, StoreOpKind kind, const HeldKey *key,
						StoreId store);

/*
 * Prepare an operation on a lock that we hold, for its owner, and for the store in
 * which it was when looked at.
 */
extern void ask_prepare_held(StoreOp *op, StoreOpKind kind, const HeldKey *key,
							 const HoldView *view);

/*
 * Run operations, each in its store, until each has an outcome or the time is over.
 * Raises only what CHECK_FOR_INTERRUPTS does, and only with STORE_WAIT; even then each
 * operation has an outcome.  "progress", unless it is NULL, must not raise, and is called
 * when some operations may have their outcome while others, at another node or in another
 * store, have none yet.
 */
typedef void (*AskProgress) (void);
extern void ask_run_until(StoreOp *ops, int nops, int64 deadline, StoreStep how,
						  AskProgress progress);

/* The same, interruptible, for as long as a call may take; and for one operation. */
extern void ask_run_many(StoreOp *ops, int nops);
extern void ask_run(StoreOp *op);

/*
 * The same for releases in one store, with STORE_POLL.  True: the store has sent them,
 * and the caller does not wait for outcomes; see StoreRoutine.leave.
 */
extern bool ask_send(StoreOp *ops, int nops, int64 deadline, StoreAnswered answered,
					 AskProgress progress);

/*
 * If a former master has answered, the present one may not have it: make the outcome
 * STORE_UNKNOWN.
 */
extern void ask_distrust(StoreOp *op);

/*
 * ask_forget: a request of a semaphore or a latch was answered and dealt with, so the
 * store need not remember that it has run.  ask_close, before the end of the session:
 * send what is left of these.
 */
extern void ask_forget(const StoreOp *op);
extern void ask_close(void);

/*
 * Run an operation on a lock that we hold in the store where the lock is.  Sets the
 * store and the moves of the operation.
 */
extern void ask_run_held(LrIndex hold, StoreOp *op);

/* The same, and mark the hold lost if the answer says so.  True: it is lost. */
extern bool ask_held(LrIndex hold, StoreOp *op);

/*
 * Have the store extend the lease of a lock that we hold to lease_ms.  "keep": the key
 * has to stay locked for that long, even if this server crashes.  The outcome may be
 * that the lock is lost.
 */
extern void ask_lengthen(const HeldEntry *entry, const HoldView *view,
						 int64 lease_ms, bool keep, StoreOp *op);

/*
 * An owner-checked operation on a lock that we hold was answered.  Mark the hold lost if
 * the answer says so; repeat the operation if the lock has been moved since.  True: it is
 * lost.  If the lock is moved each time, nothing is known (STORE_UNKNOWN).
 */
extern bool ask_settle(LrIndex hold, StoreOp *op);

/*
 * Prepare the renewal of a hold; and enter its answer, a new lease or a loss, into the lock
 * table.  False: the store has not answered.
 */
extern void ask_prepare_renewal(StoreOp *op, const HeldEntry *entry, const HoldView *view);
extern bool ask_apply_renewal(StoreOp *op);

/* Does the answer say that our owner is not there? */
extern bool ask_says_lost(const StoreOp *op);

/* The error of the store that failed last. */
extern const StoreError *ask_error(void);

/* Report that failure as an error or as a warning. */
extern void ask_report_failure(int elevel, StoreOutcome outcome);

#endif							/* LR_SESSION_INT_H */
