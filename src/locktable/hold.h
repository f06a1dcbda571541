/*-------------------------------------------------------------------------
 *
 * hold.h
 *	  The lock table for a session that holds a lock: its hold, its commit and its
 *	  release.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/hold.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_HOLD_H
#define LR_LOCKTABLE_HOLD_H

#include "locktable/locktable.h"
#include "store/store.h"

/* A session calls these at its first use of the extension, and at its end. */
extern void lt_session_enter(void);
extern void lt_session_leave(void);

/* A copy of a hold, as its session sees it. */
typedef struct HoldView
{
	HoldState	state;
	LostReason	lost_reason;
	TimestampTz lost_at;
	int64		deadline;
	KindId		kind;
	StoreId		store;
	uint64		moves;
	uint32		place;
	bool		of_old_master;	/* the present master has not confirmed it yet; */
	int64		promised_ms;	/* request at least so long a lease from it */
	uint64		owner;
	uint8		id[STORE_ID_LEN];
	int64		fence;
	StoreId		fence_store;	/* that issued the token */
	CommitGuard guard;			/* the strictest of both scopes */
	bool		awaited;		/* lt_begin_release: somebody here waits for it, or
								 * the last release notified a client elsewhere */
	int64		keep_until;
	ScopeHold	scope[SCOPE_COUNT];
	char		taken_by[LR_OWNER_MAX];
} HoldView;

/* The longest lease of the scopes that still hold the lock. */
static inline int64
lt_longest_lease_ms(const ScopeHold *scope)
{
	int64		lease_ms = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (scope[i].count > 0)
			lease_ms = Max(lease_ms, scope[i].lease_ms);
	return lease_ms;
}

/* The owner number of a hold, the name of its key, and the end of its lease. */
extern uint64 lt_owner(LrIndex hold);
extern const char *lt_hold_name(LrIndex hold);
extern int64 lt_lease_end(LrIndex hold);

/*
 * The time until which enough of the lease is left for a commit.  A longer lease, set
 * meanwhile, may need more.
 */
extern int64 lt_commits_until(LrIndex hold);

/*
 * lt_place returns the store of the hold, and a number that changes when the hold moves or
 * its store has another master.  If only a former master has confirmed the lock,
 * *promised_ms is what is left of its lease, which the present one has to be asked for;
 * otherwise 0.  lt_has_moved: is the number another one now?
 */
extern void lt_place(LrIndex hold, StoreId *store, uint64 *moves, int64 *promised_ms);
extern bool lt_has_moved(LrIndex hold, uint64 moves);

/* The store in which a session of this server holds the key, or that of new locks. */
extern StoreId lt_store_of_key(const LrName *name);

/* Copy a hold; if its deadline has passed, it is marked lost first. */
extern void lt_look(LrIndex hold, HoldView *view);

/*
 * Set one scope's part.  Raise the deadline to "deadline", unless the hold has moved since
 * the store was asked for it (deadline 0: the store was not asked).  False, with nothing
 * changed: there is no free row for a second scope.
 */
extern bool lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
						 int64 deadline, uint64 moves);

/* The lock was taken again: the key stays locked until the later of both times. */
extern void lt_keep_longer(LrIndex hold, int64 keep_until);

/* The session is about to ask the store for a lease of that length. */
extern void lt_note_lease(LrIndex hold, int64 lease_ms);

/*
 * With several masters, a request for that owner was answered: add these to the nodes
 * that may have the lock.
 */
extern void lt_note_nodes(LrIndex hold, uint64 owner, uint32 nodes);

/*
 * That operation issued a fencing token for the hold, and perhaps more tokens, which become
 * the reserve of the hold.
 */
extern void lt_set_fence(LrIndex hold, const StoreOp *mint);

/* ---- the commit ---- */

/* The store confirmed the lease until "deadline". */
extern void lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves);

/*
 * While the transaction of a hold is past pre-commit, the watchdog renews the hold even if
 * the caller chose the length of its lease.
 */
extern void lt_set_committing(LrIndex hold, bool committing);

/* How many holds of this session are lost. */
extern int	lt_lost_count(void);

/* From lt_begin_commit to lt_end_commit no process signals this session for a loss. */
extern void lt_begin_commit(void);
extern void lt_end_commit(void);

/*
 * Has this session been signalled (on_lost) since the last call?  If so, the signal's
 * handler has run when this returns.
 */
extern bool lt_take_signal(void);

/* ---- the end ---- */

typedef enum ReleaseStart
{
	RELEASE_IN_STORE,			/* RELEASING: ask the store to release it */
	RELEASE_HANDED_OVER,		/* passed on to a session of this server */
	RELEASE_LOST				/* there is nothing to release */
} ReleaseStart;

/* The session no longer needs a hold; *view is what it was. */
extern ReleaseStart lt_begin_release(LrIndex hold, HoldView *view);

/*
 * Free the hold and leave its lock in the store.  The lock belongs to whoever knows its
 * id, and no longer to a session.  False: the lock was lost.
 */
extern bool lt_let_stay(LrIndex hold);

/*
 * The store has answered the release, which notified so many clients.  "nodes": of several
 * masters, those that have not confirmed the release; the watchdog releases what they may
 * have.
 */
extern void lt_end_release(LrIndex hold, StoreId store, uint32 topology,
						   int receivers, uint32 nodes);

/*
 * lt_leave_sent: the release of a RELEASING hold was sent, and the session does not wait
 * for the answer (sent.c).  lt_end_sent: the session has read the answer after all; the
 * watchdog may have repeated the release before.  "released": the store had the lock until
 * then.  Returns whether the release notified a client elsewhere.
 */
extern void lt_leave_sent(LrIndex hold);
extern bool lt_end_sent(LrIndex hold, uint64 owner, StoreId store, uint32 topology,
						bool released, int receivers, const char *taken_by);

/*
 * Such a release will not be answered.  The watchdog repeats it, and this session has to
 * wait for that like all others.
 */
extern void lt_lose_sent(LrIndex hold, uint64 owner);

/*
 * The release of a RELEASING hold was not answered: the watchdog goes on with it.
 * "sent_at": when it was sent; 0 = it was not sent at all.
 */
extern void lt_orphan(LrIndex hold, int64 sent_at);

/*
 * A session that waits for a condition releases its lock, to take it again later.
 * lt_begin_aside: HELD becomes RELEASING; false: the lock was lost before.  lt_end_aside:
 * the store has answered or has failed; the lock counts as lost (LOST_WAITING) while the
 * session waits.  lt_lose_aside: the store did not have the lock any more, which is a loss
 * like any other.
 */
extern bool lt_begin_aside(LrIndex hold);
extern void lt_end_aside(LrIndex hold, StoreId store, uint32 topology, bool answered);
extern void lt_lose_aside(LrIndex hold, StoreId store, const char *taken_by);

/* Check that no hold belongs to the transaction that has ended; with assertions only. */
#ifdef USE_ASSERT_CHECKING
extern void lt_check_transaction_end(void);
#else
#define lt_check_transaction_end()	((void) 0)
#endif

/* The session has seen that the hold is LOST, and drops it. */
extern void lt_drop_lost(LrIndex hold);

#endif							/* LR_LOCKTABLE_HOLD_H */
