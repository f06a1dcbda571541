/*-------------------------------------------------------------------------
 *
 * hold.h
 *	  The lock table for the session that has a lock: what it has, its commit and
 *	  its release.
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

/* From its first use of the extension to its end. */
extern void lt_session_enter(void);
extern void lt_session_leave(void);

/* What there is of a hold; a copy. */
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
	bool		of_old_master;	/* the present one has not been asked yet, */
	int64		promised_ms;	/* and has to promise as much as that one */
	uint64		owner;
	uint8		id[STORE_ID_LEN];
	int64		fence;
	StoreId		fence_store;	/* which gave it */
	CommitGuard guard;			/* the strictest of both scopes */
	bool		awaited;		/* lt_begin_release: does anybody here wait for it, or
								 * did elsewhere? */
	int64		keep_until;
	ScopeHold	scope[SCOPE_COUNT];
	char		taken_by[LR_OWNER_MAX];
} HoldView;

/* The longest lease that a scope still wants. */
static inline int64
lt_longest_lease_ms(const ScopeHold *scope)
{
	int64		lease_ms = 0;

	for (int i = 0; i < SCOPE_COUNT; i++)
		if (scope[i].count > 0)
			lease_ms = Max(lease_ms, scope[i].lease_ms);
	return lease_ms;
}

/* Owner number and name, while the hold is there, and the end of its lease. */
extern uint64 lt_owner(LrIndex hold);
extern const char *lt_hold_name(LrIndex hold);
extern int64 lt_lease_end(LrIndex hold);

/*
 * Until then enough of the lease is left for a commit, unless a longer lease is set
 * meanwhile.
 */
extern int64 lt_commits_until(LrIndex hold);

/*
 * lt_place: the store of the hold, and how often it was moved.  *promised_ms: how much of
 * the lease a former master has confirmed, so the present one has to be asked for as
 * much; otherwise 0.  lt_has_moved: was it moved since?
 */
extern void lt_place(LrIndex hold, StoreId *store, uint64 *moves, int64 *promised_ms);
extern bool lt_has_moved(LrIndex hold, uint64 moves);

/* The store in which a session of this server holds the key. */
extern StoreId lt_store_of_key(const LrName *name);

/* A copy; a hold whose deadline has passed is marked lost first. */
extern void lt_look(LrIndex hold, HoldView *view);

/*
 * Set one scope's part, and the deadline if it is later and the hold has not
 * been moved since the store was asked for it (deadline 0: none was).  False
 * when there is no free row for a second scope (nothing is changed then).
 */
extern bool lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
						 int64 deadline, uint64 moves);

/* Taken again: the later of both times until which it stays locked counts. */
extern void lt_keep_longer(LrIndex hold, int64 keep_until);

/* Such a lease is about to be asked for. */
extern void lt_note_lease(LrIndex hold, int64 lease_ms);

/*
 * A request for that owner was answered: these nodes, of several, may have the lock, in
 * addition to those that were noted before.
 */
extern void lt_note_nodes(LrIndex hold, uint64 owner, uint32 nodes);

/*
 * A hold got a fencing token by that mint, which may have taken more of them: the reserve
 * of the hold.
 */
extern void lt_set_fence(LrIndex hold, const StoreOp *mint);

/* ---- the commit ---- */

/* The store confirmed the lease. */
extern void lt_raise_deadline(LrIndex hold, int64 deadline, uint64 moves);

/* Past pre-commit (or not any more): given leases are renewed too. */
extern void lt_set_committing(LrIndex hold, bool committing);

/* How many holds of this session are lost. */
extern int	lt_lost_count(void);

/* From lt_begin_commit to lt_end_commit nobody signals this session. */
extern void lt_begin_commit(void);
extern void lt_end_commit(void);

/*
 * Has this session been signalled (on_lost) since it was last asked?  If so the
 * signal has arrived: its handler has run when this returns.
 */
extern bool lt_take_signal(void);

/* Does this session have a session-level hold there, with that owner number? */
extern bool lt_has_session_part(LrIndex hold, uint64 owner);

/* ---- the end ---- */

typedef enum ReleaseStart
{
	RELEASE_IN_STORE,			/* RELEASING: the store has to be asked */
	RELEASE_HANDED_OVER,		/* a session of this server has it now */
	RELEASE_LOST				/* there is nothing to release */
} ReleaseStart;

/* The session has done with a hold; *view is what it was. */
extern ReleaseStart lt_begin_release(LrIndex hold, HoldView *view);

/*
 * Free the hold and leave its lock in the store: it belongs to the caller that knows its
 * id, and to no session.  False: its lease has ended.
 */
extern bool lt_let_stay(LrIndex hold);

/*
 * The store has answered the release, and notified so many clients.  "nodes": those, of
 * several, that have not answered; the watchdog releases what they may have.
 */
extern void lt_end_release(LrIndex hold, StoreId store, uint32 topology,
						   int receivers, uint32 nodes);

/*
 * RELEASING: lt_leave_sent notes that the release was sent and that the session does not
 * wait for the answer (sent.c).  lt_end_sent is called when it reads the answer after
 * all; the watchdog may have repeated the release before.  "released": the store had the
 * lock until then.  Returns whether the release notified a client elsewhere.
 */
extern void lt_leave_sent(LrIndex hold);
extern bool lt_end_sent(LrIndex hold, uint64 owner, StoreId store, uint32 topology,
						bool released, int receivers, const char *taken_by);

/*
 * No answer will come to such a release.  The watchdog repeats it; until then this session
 * has to wait for the key like all others.
 */
extern void lt_lose_sent(LrIndex hold, uint64 owner);

/*
 * RELEASING, and no answer: the watchdog goes on.  "sent_at": of the request;
 * 0 = it was not even sent.
 */
extern void lt_orphan(LrIndex hold, int64 sent_at);

/*
 * A wait for a condition releases its lock, to take it again later.  lt_begin_aside: HELD
 * becomes RELEASING; false: the lock was lost before.  lt_end_aside, when the store has
 * answered or has failed: the lock counts as lost (LOST_WAITING) while the session waits.
 * lt_lose_aside: the store did not have it any more, which is a loss like any other.
 */
extern bool lt_begin_aside(LrIndex hold);
extern void lt_end_aside(LrIndex hold, StoreId store, uint32 topology, bool answered);
extern void lt_lose_aside(LrIndex hold, StoreId store, const char *taken_by);

/* All that its transaction had is gone; with assertions only. */
#ifdef USE_ASSERT_CHECKING
extern void lt_check_transaction_end(void);
#else
#define lt_check_transaction_end()	((void) 0)
#endif

/* LOST, and its session has seen it. */
extern void lt_drop_lost(LrIndex hold);

#endif							/* LR_LOCKTABLE_HOLD_H */
