/*-------------------------------------------------------------------------
 *
 * locktable.h
 *	  The lock table: who on this server holds or awaits which key.
 *
 * It lives in shared memory and is the local lock manager, split like
 * PostgreSQL's LOCK and PROCLOCK: a key entry with a queue of waiting sessions
 * and holds (key, session).  Pools of fixed size, linked by index, no
 * pointers.  What the watchdog has to look at, and when, is a dense array
 * beside the holds.
 *
 * Nothing in here does I/O, waits for anything but its own light-weight locks,
 * or raises.  Functions that make somebody else able to go on wake them after
 * the partition lock is released.
 *
 * Lock order: partition lock, then a pool's spinlock or the lock of loss_log.c;
 * never two partitions.  The deadlock lock is taken alone.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/locktable.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_H
#define LR_LOCKTABLE_H

#include "lockredis.h"

#include "datatype/timestamp.h"

#include "keyname.h"

/*
 * States of a hold:
 *
 *	 WAITING --grant--> HELD --begin_release--> RELEASING --end--> (free)
 *	   |                 |  \_______________________|___ HANDED, see
 *	   |                 |                          |    locktable_handover.c
 *	   |                 +--lose--> LOST --drop--> (free)
 *	   |                              |             |
 *	   +--- reply not read ---> ORPHAN <-- no answer+
 *	   |                          |
 *	   +--gave up--> (free)       +--watchdog gave it back--> (free)
 */
typedef enum HoldState
{
	HOLD_FREE = 0,
	HOLD_WAITING,				/* queued, or its head asks the store */
	HOLD_HELD,
	HOLD_RELEASING,				/* its session is giving it back */
	HOLD_HANDED,				/* passed to a session that has yet to see it */
	HOLD_LOST,					/* no longer had; its session has to see it */
	HOLD_ORPHAN					/* nobody's; the watchdog gives it back */
} HoldState;

typedef enum LostReason
{
	LOST_NOT = 0,
	LOST_EXPIRED,
	LOST_DELETED,
	LOST_TAKEN,
	LOST_FORCED,
	LOST_MOVED					/* it is where lockredis.url pointed before */
} LostReason;

typedef enum LockScope
{
	SCOPE_SESSION,
	SCOPE_XACT,
	SCOPE_COUNT
} LockScope;

/* lockredis.commit_guard; of two the greater is the stricter. */
typedef enum CommitGuard
{
	GUARD_OFF,
	GUARD_LEASE,				/* enough of the lease must be left */
	GUARD_VERIFY				/* the store must say that it is ours */
} CommitGuard;

/* lockredis.on_lost; of two the greater is the stricter. */
typedef enum OnLost
{
	ON_LOST_MARK,
	ON_LOST_CANCEL,
	ON_LOST_TERMINATE
} OnLost;

/* How a lock is wanted. */
typedef struct LockTerms
{
	LockScope	scope;
	int64		lease_ms;
	bool		renewed;		/* by the watchdog */
	CommitGuard guard;
	OnLost		on_lost;
	int64		keep_until;		/* lr_now() time until which the key stays
								 * locked after its release; 0 = not */
} LockTerms;

/* One scope's part of a hold. */
typedef struct ScopeHold
{
	int32		count;			/* session: holds; xact: 0 or 1 */
	bool		renewed;		/* by the watchdog, lease_ms long each time */
	CommitGuard guard;			/* the strictest asked for */
	OnLost		on_lost;		/* likewise */
	int64		lease_ms;		/* the longest asked for */
	TimestampTz acquired_at;
} ScopeHold;

#define STORE_BIT(id)		(1U << (id))

/* An LrHold.not_after that nobody knows: its watchdog has gone. */
#define NOT_AFTER_UNKNOWN	PG_INT64_MAX

typedef struct LrHold
{
	uint32		hash;			/* of the key's name: leads to the partition */
	LrIndex		key;
	LrIndex		session;		/* LR_NONE: orphan */
	LrIndex		next;			/* of the same key, or in the free list */
	HoldState	state;
	LostReason	lost_reason;
	bool		committing;		/* its transaction is past pre-commit: renewed
								 * even if its lease was given */
	StoreId		store;			/* whose word the deadline is */
	uint32		moves;			/* raised whenever that changes */
	uint32		traces;			/* STORE_BITs: where our owner may be */
	uint32		place;			/* lr_place of what Redis has of it */
	int64		here_from;		/* see LrKey */
	int64		keep_until;		/* see LockTerms */
	uint64		owner;			/* owner number, 0 = none yet */
	ScopeHold	scope[SCOPE_COUNT];
	int64		not_after[STORE_COUNT]; /* the store's clock (ms) up to which
										 * a create that was not answered may
										 * still run; 0 = none */
	int64		fence;
	int64		handed_lease_ms;	/* handed: the lease that is renewed */
	bool		count_unsure;	/* what the store shows of our count may be
								 * wrong */
	int64		renewals;
	int			refusals;		/* by the store, in a row; see locktable_refused.c */
	bool		alone;			/* its key is refused, and others with it */
	int64		ends_at;		/* orphan: nothing of it lives longer; 0 = unknown */
	TimestampTz lost_at;
	char		taken_by[LR_OWNER_MAX];
} LrHold;

/* What a view shows of one hold or wait; a copy. */
typedef struct LockTableRow
{
	int			pid;			/* 0 = orphan */
	Oid			datid;
	Oid			userid;
	HoldState	state;
	LostReason	lost_reason;
	LockScope	scope;
	ScopeHold	part;
	uint64		owner;
	int64		fence;
	int64		renewals;
	int64		deadline;		/* lr_now() time */
	TimestampTz waiting_since;
	TimestampTz lost_at;
	char		taken_by[LR_OWNER_MAX];
	int			name_len;
	char		name[LR_NAME_MAX];
} LockTableRow;

extern Size locktable_shmem_size(void);
extern int	locktable_lwlocks(void);
extern void locktable_shmem_init(void);
extern bool locktable_is_attached(void);

/* ---- this instance ---- */

/* 36 characters, made anew with the shared memory. */
extern const char *lr_instance_uuid(void);

/* "<uuid>:<number>" into a buffer of LR_OWNER_MAX; returns the length. */
extern int	lr_owner_text(uint64 owner, char *out);
extern uint64 lt_new_owner(void);

/* ---- sessions ---- */

extern void lt_session_enter(void);
extern void lt_session_leave(void);

/* Pid of the session that has this slot; for messages. */
extern int	lt_session_pid(LrIndex session);

/* ---- acquiring ---- */

typedef enum EnqueueResult
{
	ENQUEUED,
	ENQUEUE_BUSY,				/* only_if_free, and it is not */
	ENQUEUE_FULL
} EnqueueResult;

/*
 * Reserve a hold and a place in the queue of the key.  With only_if_free,
 * when no session of this server has the key or is before us.
 */
extern EnqueueResult lt_enqueue(const LrName *name, const LockTerms *terms,
								bool only_if_free, LrIndex *hold);

typedef enum TurnResult
{
	TURN_TRY,					/* ask the store now */
	TURN_WAIT,					/* not before look_again, or when woken */
	TURN_HANDED,				/* a session of this server has passed it on to us */
	TURN_FAILED					/* the store failed for the session before us */
} TurnResult;

/*
 * Is it our turn?  retry_at: when a head that found the key busy may look
 * again without being woken.  On TURN_TRY *subscribed says whether a release
 * from now on is told by a message.  On TURN_HANDED the lock is held, and *hold
 * is another one.
 */
extern TurnResult lt_turn(LrIndex *hold, int64 retry_at, int64 *look_again,
						  bool *subscribed);

/* Have the watchdog subscribe to the key; true if it has already. */
extern bool lt_want_subscription(LrIndex hold);

/* Leave the queue; the hold is freed, or left to the watchdog as an orphan. */
extern void lt_give_up(LrIndex hold);
extern void lt_give_up_orphan(LrIndex hold, StoreId store, uint64 owner,
							  int64 not_after);

/*
 * Leave a request without a reply behind, but keep the place in the queue, with
 * another hold.  False: there is no room for one.
 */
extern bool lt_leave_orphan(LrIndex *hold, StoreId store, uint64 owner,
							int64 not_after);

/*
 * Held since TURN_HANDED, but the acquire failed after all; or the store says
 * that the lock is gone, and we wait on with the same hold.
 */
extern void lt_pass_on(LrIndex hold);
extern void lt_wait_again(LrIndex *hold, StoreId where);

/* The head asked the store, and somebody else has the key. */
extern void lt_found_busy(LrIndex hold);

/* The store failed for us: so it does for all who queue for the key now. */
extern void lt_fail_waiters(LrIndex hold);

typedef enum GrantResult
{
	GRANTED,
	GRANT_TOO_LATE,				/* the lease has ended before the reply came */
	GRANT_STALE,				/* locks are no longer taken in that store */
	GRANT_CONFLICT				/* another session of this server has it */
} GrantResult;

/* The store gave us the lock: leave the queue, hold it until the deadline. */
extern GrantResult lt_grant(LrIndex hold, StoreId store, uint64 owner,
							int64 deadline, const LockTerms *terms,
							int64 fence);

/*
 * Has this server had the key when Redis fell silent, or since?  Then nobody
 * elsewhere can have it.
 */
extern bool lt_key_stayed_here(LrIndex hold);

/* ---- holding: for the session that owns the hold ---- */

typedef struct HoldView
{
	HoldState	state;
	LostReason	lost_reason;
	TimestampTz lost_at;
	int64		deadline;
	StoreId		store;
	uint32		moves;
	uint32		place;
	uint64		owner;
	int64		fence;
	CommitGuard guard;			/* the strictest of both scopes */
	int64		keep_until;
	ScopeHold	scope[SCOPE_COUNT];
	char		taken_by[LR_OWNER_MAX];
} HoldView;

/* Owner number and name, while the hold is there. */
extern uint64 lt_owner(LrIndex hold);
extern const char *lt_hold_name(LrIndex hold);

/* Where it is, and whether it is still there. */
extern void lt_place(LrIndex hold, StoreId *store, uint32 *moves);
extern bool lt_has_moved(LrIndex hold, uint32 moves);

/* The store of whichever session of this server has the key. */
extern StoreId lt_store_of_key(const LrName *name);

/* A copy; a hold whose deadline has passed is marked lost first. */
extern void lt_look(LrIndex hold, HoldView *view);

/*
 * Set one scope's part, and the deadline if it is later and the hold has not
 * been moved since the store was asked for it (deadline 0: none was).  False
 * when there is no free row for a second scope (nothing is changed then).
 */
extern bool lt_set_scope(LrIndex hold, LockScope scope, const ScopeHold *part,
						 int64 deadline, uint32 moves);

/* Taken again: the later keep_until counts. */
extern void lt_tighten(LrIndex hold, const LockTerms *terms);

/* Does the store show the count that it should? */
extern void lt_note_count(LrIndex hold, bool sure);

/* A plain hold got a fencing token, or a higher one. */
extern void lt_set_fence(LrIndex hold, int64 fence);

/* The store confirmed the lease at commit. */
extern void lt_raise_deadline(LrIndex hold, int64 deadline, uint32 moves);

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

typedef enum ReleaseStart
{
	RELEASE_IN_STORE,			/* RELEASING: the store has to be asked */
	RELEASE_HANDED_OVER,		/* a session of this server has it now */
	RELEASE_LOST				/* there is nothing to release */
} ReleaseStart;

/* The session has done with a hold; *view is what it was. */
extern ReleaseStart lt_begin_release(LrIndex hold, HoldView *view);

/* The store has answered; so many others were told. */
extern void lt_end_release(LrIndex hold, StoreId store, int receivers);

/*
 * RELEASING, and no answer: the watchdog goes on.  "sent_at": of the request;
 * 0 = it was not even sent.
 */
extern void lt_orphan(LrIndex hold, int64 sent_at);

/* LOST, and its session has seen it. */
extern void lt_drop_lost(LrIndex hold);

/* ---- losing: for whoever finds it out ---- */

/*
 * A store said that the owner is gone.  Only if the hold is still held by that
 * owner and has not been moved since.  True if it was.
 */
extern bool lt_lose(LrIndex hold, uint64 owner, StoreId where, uint32 moves,
					LostReason reason, const char *taken_by);

/*
 * The local hold of the key with that owner text, if any: it is gone from that
 * store, which need not be the one that it is in by now.
 */
extern bool lt_lose_by_owner_text(const LrName *name, const char *owner_text,
								  StoreId where, LostReason reason);

/* ---- for the watchdog ---- */

typedef enum DueAction
{
	DUE_NOTHING,
	DUE_RENEW,
	DUE_GIVE_BACK,				/* an orphan, or what a loss or a move left */
	DUE_MOVE					/* held, and belongs into this store now */
} DueAction;

typedef struct DueItem
{
	LrIndex		hold;
	DueAction	action;
	uint64		owner;
	uint32		moves;
	int			count;			/* move: the hold count that the store shows */
	bool		at_old_place;	/* give back: something may be there, too */
	int64		lease_ms;
	int64		not_after;
	int64		keep_ms;		/* the key has to stay locked so long */
	bool		refused;		/* when it was asked for last */
	bool		alone;			/* not together with others in a request */
	int			name_len;
	char		name[LR_NAME_MAX];
} DueItem;

/*
 * Collect what is due in a store at "now", at most max items.  Losses by
 * expiry are marked on the way.  What is returned will not be due again before
 * "again".  With connected false nothing is returned, only postponed to "again".
 */
extern int	lt_collect_due(StoreId store, int64 now, bool connected, int64 again,
						   DueItem *items, int max, bool *more);

/* By how much the most delayed renewal there is late, microseconds. */
extern int64 lt_renewal_lag(StoreId store);

/* When the next item will be due there. */
extern int64 lt_next_due(StoreId store);

/* Results of what was collected from a store. */
extern void lt_renewed(LrIndex hold, uint64 owner, uint32 moves, int64 deadline);
extern void lt_retry_at(LrIndex hold, uint64 owner, StoreId store, int64 at);
extern void lt_given_back(LrIndex hold, uint64 owner, StoreId store);

/* The store refused it, for what it asked; or has not done so this time. */
typedef struct Refusal
{
	bool		first;			/* in a row: worth saying */
	bool		over;			/* orphan or lost: what there was has run out */
	int64		again;			/* when to try again */
} Refusal;

extern Refusal lt_refused(const DueItem *item, bool alone);
extern void lt_not_refused(const DueItem *item);

/* No create of it can run later than that, by the store's clock. */
extern void lt_limit_orphan(LrIndex hold, uint64 owner, StoreId store,
							int64 not_after);

/*
 * The store has the lock, until "deadline"; or it has not, or it is not known.
 * "not_after": see LrHold.
 */
extern void lt_moved(const DueItem *item, StoreId store, int64 deadline,
					 int64 not_after);
extern void lt_not_moved(const DueItem *item, StoreId store, int64 at,
						 int64 not_after);

/* Somebody else has the key there: lost. */
extern void lt_lose_by_move(const DueItem *item, StoreId store,
							const char *taken_by, int64 not_after);

/* All becomes due now (the store came back, or takes new locks again). */
extern void lt_renew_all_now(StoreId store);

/* May anything still be where lockredis.url pointed before?  Walks over all. */
extern bool lt_has_old_place(void);

/* Number of holds in the table that are more than a wait. */
extern int	lt_hold_count(void);

/* Subscriptions. */
typedef void (*WantedCallback) (const char *name, int name_len);

extern bool lt_take_subscription_work(void);
extern void lt_wanted_subscriptions(WantedCallback callback);
extern void lt_subscription_confirmed(const char *name, int name_len);
extern void lt_reset_subscriptions(void);

/* False while somebody awaits the key. */
extern bool lt_end_subscription(const char *name, int name_len);

/* A release was told: wake one local waiter of the key. */
extern void lt_wake_waiter(const char *name, int name_len);

/* Sessions that ignored a wake-up for a second are passed over. */
extern void lt_pass_over_sleepers(void);
extern bool lt_has_waiters(void);
extern void lt_wake_all_waiters(void);

/* The watchdog itself. */
extern void lt_watchdog_enter(void);
extern void lt_watchdog_leave(void);
extern bool lr_watchdog_running(void);
extern void lr_wake_watchdog(void);

/*
 * The watchdog says until when it sleeps; false when it must not.  "stores"
 * (STORE_BITs): those whose due times matter.
 */
extern bool lt_watchdog_sleeps_until(int64 until, uint32 stores);
extern void lt_watchdog_is_awake(void);

/* ---- the wait-for graph ---- */

/* A session waits for a key that another session of this server has. */
typedef struct KeyWait
{
	int			pid;
	Oid			userid;
	uint64		generation;		/* see lt_wait_generation */
	LockScope	scope;			/* that it is wanted for */
	LrIndex		hold;			/* what it waits for, */
	uint64		owner;			/* its owner number */
	LrIndex		holder;			/* and the session that has it */
	int			holder_pid;
	int			name_len;
	char		name[LR_NAME_MAX];
} KeyWait;

/* False: it does not wait, or for nobody of this server. */
extern bool lt_key_wait(LrIndex session, KeyWait *wait);

/* Tells waits of a session from each other; 0 = it does not wait for a key. */
extern uint64 lt_wait_generation(LrIndex session);

/*
 * A search from a key is one for all who wait for it.  Of those who ask one is
 * to search, if nobody has done so for "interval"; false: when to ask again.
 */
extern bool lt_begin_search(int64 interval, int64 *ask_again);

/* Such a search came to another session that waits for the same key: */
extern void lt_suspect_waiter(LrIndex session, uint64 generation);
extern bool lt_is_suspected(void);

/* Asked by that one itself, which looks then. */
extern bool lt_take_suspicion(void);

/*
 * This session found itself in a cycle of these sessions, with these wait
 * generations.  True: it has to leave.  False: one of them does already.
 */
extern bool lt_claim_deadlock(const LrIndex *sessions,
							  const uint64 *generations, int n);

/*
 * The queue that this session stands in, as pids, and the session of this
 * server that has the key, or 0.  False: it does not wait any more.
 */
extern bool lt_own_queue(int *pids, int room, int *npids, int *holder_pid);

/* ---- for the views ---- */

/*
 * A palloc'd copy of all rows.  Rows of one key stand together: first those
 * that have or had it, then the waiting ones in the order of their queue.
 */
extern LockTableRow *lt_rows(int *nrows);

/* How many of these rows have their lock, and how many wait, without a copy. */
extern void lt_count_rows(int64 *granted, int64 *waiting);

/* What a hold in this state is to the views. */
static inline bool
lt_is_granted(HoldState state)
{
	return state == HOLD_HELD || state == HOLD_RELEASING;
}

#endif							/* LR_LOCKTABLE_H */
