/*-------------------------------------------------------------------------
 *
 * locktable.h
 *	  The lock table: which sessions of this server hold or await which keys.
 *
 * The lock table lives in shared memory and is the local lock manager.  Like
 * PostgreSQL's, which has LOCK and PROCLOCK, it has an entry for each key, with
 * a queue of waiting sessions, and a hold for each key and session.  Both are in
 * pools of fixed size and are linked by index, not by pointer.  A dense array
 * beside the holds says when the watchdog has to look at which of them.
 *
 * No function in here does I/O, raises, or waits for anything but the locks of
 * the lock table.  Functions that allow other sessions to go on wake them after
 * they have released the partition lock.
 *
 * Lock order: partition lock, then a spinlock or the lock of the losses; never two
 * partitions.  The deadlock lock and the signal locks are taken alone.
 *
 * This file is for sessions and views, in parts by audience: a session that acquires a
 * lock, one that holds a lock or finds one lost, one that has the store count something,
 * one that looks for deadlocks, and views.  watch.h is for the watchdog.
 *
 * The words:
 *
 * hold		a record of one session and one key: the session waits for the key,
 * 			holds it, releases it or has lost it; or of no session, see orphan
 * row			what max_locks counts: a hold, and one more if both scopes have it
 * owner		number of a create, by which the stores know a hold; this instance,
 * 			whose uuid stands before it, never uses a number twice
 * trace		a store in which something of a hold's owner may be
 * moves		how often a hold has moved from one store to the other: an answer to
 * 			a request that was sent before the move does not count
 * place		the server and database that lockredis.url names, as a number: a lock
 * 			in Redis is where the url pointed when the lock was created
 * due			when the watchdog has to look at a hold, for each store
 * orphan		a hold of no session, which the watchdog releases
 * handed		passed on to a waiting session, which has not seen it yet
 * here_from	a time at which nobody elsewhere can have held the key; nor has
 * 			anybody since, if Redis has been silent from then or before
 * silent		of a store: it was asked and has not answered
 * epoch		which master answered: a number that changes when a store has
 * 			another master
 * owed		a change of a number that a store is to make once, though no session
 * 			holds anything
 * keep		to leave the key locked for a time after its release (hold_at_least)
 * head		the first session in a key's queue, which asks the store for all
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

#include "names.h"
#include "store/store.h"

/*
 * States of a hold:
 *
 *	 WAITING --grant--> HELD --begin_release--> RELEASING --end--> (free)
 *	   |                 |  \_______________________|___ HANDED, see
 *	   |                 |                          |    handover.c
 *	   |                 +--lose--> LOST --drop--> (free)
 *	   |                              |             |
 *	   +--- reply not read ---> ORPHAN <-- no answer+
 *	   |                          |
 *	   +--gave up--> (free)       +--watchdog released it--> (free)
 *
 *	 OWED --counted, or no longer wanted--> (free)
 *	   +--- no answer --> ORPHAN
 */
typedef enum HoldState
{
	HOLD_FREE = 0,
	HOLD_WAITING,				/* its session queues, or asks the store */
	HOLD_HELD,
	HOLD_RELEASING,				/* its session is releasing it */
	HOLD_HANDED,				/* passed to a session that has yet to see it */
	HOLD_LOST,					/* no longer held; its session has yet to see that */
	HOLD_ORPHAN,				/* of no session: the watchdog releases it, or has the
								 * store count it */
	HOLD_OWED					/* not a lock: a change that a store is to count */
} HoldState;

typedef enum LostReason
{
	LOST_NOT = 0,
	LOST_EXPIRED,
	LOST_DELETED,
	LOST_TAKEN,
	LOST_FORCED,
	LOST_MOVED,					/* it is where lockredis.url pointed before */
	LOST_WAITING				/* its session has released it, to take it again */
} LostReason;

/* How a lock was lost. */
typedef struct LockLoss
{
	TimestampTz at;
	LostReason	reason;
	char		taken_by[LR_OWNER_MAX]; /* its present owner; empty = not known */
} LockLoss;

/* The terms on which a session asks for a lock. */
typedef struct LockTerms
{
	KindId		kind;
	LockScope	scope;
	int64		lease_ms;
	bool		renewed;		/* by the watchdog */
	CommitGuard guard;
	OnLost		on_lost;
	int64		keep_until;		/* lr_now() time until which the key stays
								 * locked after its release; 0 = not */
	int			min_replicas;	/* that have to confirm each lease */
	int64		amount;			/* how many are taken or counted */
	uint8		id[STORE_ID_LEN];	/* as in StoreOp; all 0: none yet */
} LockTerms;

/* One scope's part of a hold; each lock has two, so they are small. */
typedef struct ScopeHold
{
	int32		count;			/* session: holds; xact: 0 or 1 */
	CommitGuard guard:8;		/* the strictest asked for */
	OnLost		on_lost:8;		/* likewise */
	uint8		min_replicas;	/* the most asked for */
	bool		renewed;		/* by the watchdog, lease_ms long each time */
	int64		lease_ms;		/* the longest asked for */
	TimestampTz acquired_at;
} ScopeHold;

/* A set of stores. */
#define STORE_BIT(id)		(1U << (id))

extern Size locktable_shmem_size(void);
extern int	locktable_lwlocks(void);
extern void locktable_shmem_init(void);

/* ----------
 * A session that acquires a lock
 *
 * It awaits one key at a time.  Only those in front of a queue ask the store, and only
 * while no session of this server has the key; see queue.c.  A session that waits in the
 * order of the store is in no queue here; see places.c.
 * ----------
 */

typedef enum EnqueueResult
{
	ENQUEUED,
	ENQUEUE_BUSY,				/* only_if_free, and the key is not free */
	ENQUEUE_OTHER				/* a session of this server has the key as a kind
								 * (*other) that the wanted one cannot be beside or
								 * after */
} EnqueueResult;

/*
 * Reserve a hold, whose row was stocked, and a place in the queue of the key.  With
 * only_if_free, do that only if no session of this server has the key, is ahead in its
 * queue, or waits for it without the place in the store that its kind has.
 */
extern EnqueueResult lt_enqueue(const LrName *name, const LockTerms *terms,
								bool only_if_free, LrIndex *hold, KindId *other);

/*
 * The result that lt_enqueue would have with only_if_free, for a kind that excludes
 * itself.  *sent: the first call of lt_turn would return TURN_SENT.
 */
extern EnqueueResult lt_may_take(const LrName *name, KindId kind, KindId *other,
								 bool *sent);

/*
 * Reserve rows for n locks that this session is about to take, in a queue or not.
 * False: there are not enough.  lt_return_rows() frees the unused ones.
 */
extern bool lt_stock_rows(int n);
extern void lt_return_rows(void);

/* Has the watchdog any lock to release, which has its row until then? */
extern bool lt_any_left(void);

/*
 * The owner of another lock of the key that this session holds, and beside which it may
 * take the one that it waits for (LockKind.beside); 0: there is none.
 */
extern uint64 lt_owner_beside(LrIndex hold);

typedef enum TurnResult
{
	TURN_TRY,					/* ask the store now */
	TURN_WAIT,					/* not before look_again, or when woken */
	TURN_SENT,					/* the same, but soon: another session here has sent
								 * a release */
	TURN_HANDED,				/* a session of this server has handed it over to us */
	TURN_FAILED,				/* the store failed for the session before us */
	TURN_UNREPLICATED			/* too few replicas confirmed its lock */
} TurnResult;

/*
 * Is it our turn?  retry_at: when a session in front that found the key busy may look
 * again without being woken.  On TURN_TRY the session may ask *store and no other.
 * On TURN_HANDED the session holds the lock, by another hold: *hold is that one.
 */
extern TurnResult lt_turn(LrIndex *hold, int64 retry_at, int64 *look_again, StoreId *store);

/*
 * Have the watchdog subscribe to the key, or to our place; true if it has already.  A session
 * that asked before the confirmation is woken by that.
 */
extern bool lt_want_subscription(LrIndex hold);

/*
 * Leave the queue.  If the lock may have been created, the hold is left to the watchdog as an
 * orphan.  If "create" is NULL, but the store has an announcement of this wait, under the
 * owner "announced", the watchdog withdraws that; with 0, the hold is freed.
 */
extern void lt_give_up(LrIndex hold, const StoreOp *create, uint64 announced);

/*
 * The owner number for the next request of a kind that is announced.  "owner" is the one
 * of the former requests of this wait, all of which were answered; 0: there were none.
 * The result is the same number, or a new one if there was none, or if the watchdog has
 * withdrawn the announcement since; *anew is set then, as the wait begins again.  The
 * session must send its request before "until".
 *
 * *here is the owner number of a lock of the key that can be handed to this session; 0:
 * there is none.
 */
extern uint64 lt_ask_as(LrIndex hold, StoreId store, uint64 owner, int64 until,
						bool *anew, uint64 *here);

/*
 * Leave a request without a reply, or what it was granted, to the watchdog, but stay in the
 * queue.  False: there is no row for that.
 */
extern bool lt_leave_orphan(const StoreOp *create);

/*
 * Before a create that takes a fencing token: if a session waits behind this one, let the
 * create also take tokens for those to which the lock may be handed.
 */
extern void lt_ask_for_reserve(LrIndex hold, StoreOp *create);

/*
 * After TURN_HANDED: take the next fencing token of the reserve of the hold.  False: the
 * reserve is empty, or may not be used.  *store is the store that has issued the tokens;
 * *more is how often the lock may still be handed over, and so how many more tokens to
 * ask for.
 */
extern bool lt_take_reserved(LrIndex hold, StoreId *store, int64 *more);

/*
 * lt_pass_on: the lock is held, but the acquire has failed after all.  lt_wait_again:
 * the store says that it is gone; the session waits on, perhaps with another hold.
 */
extern void lt_pass_on(LrIndex hold);
extern void lt_wait_again(LrIndex *hold);

/*
 * A session in front has asked the store, and somebody else has the key: "owner", which
 * is empty if the store did not name one; the session goes on waiting.
 */
extern void lt_found_busy(LrIndex hold, const StoreOp *create, const char *owner);

/*
 * The store has failed for this session.  Fail all sessions that queue for the key now;
 * with min_replicas > 0 those that ask for at least so many replicas.
 */
extern void lt_fail_waiters(LrIndex hold, int min_replicas);

typedef enum GrantResult
{
	GRANTED,
	GRANT_TOO_LATE,				/* the lease had ended before the reply came */
	GRANT_STALE,				/* locks are no longer taken in that store, or from
								 * that master */
	GRANT_DISOWNED,				/* its owner was left to the watchdog, which releases it
								 * (lt_disown) */
	GRANT_CONFLICT				/* another session of this server has it, or the
								 * watchdog has yet to release a lock with the same id */
} GrantResult;

/*
 * The store granted us the lock: leave the queue, hold it for the lease, which counts
 * from when the request was sent (lr_lease_deadline).  With a store that excludes this
 * server only, nobody elsewhere could have the key at "judged_at".  The hold of an
 * ownerless kind is freed.
 */
extern GrantResult lt_grant(LrIndex hold, const StoreOp *create, int64 judged_at,
							const LockTerms *terms);

/*
 * The same for a lock that was requested without a place in the queue, as one of
 * several; and for one whose request was not answered.  Their rows were stocked.
 * Without a grant, the watchdog releases the lock.
 */
extern GrantResult lt_grant_unqueued(const LrName *name, const StoreOp *create,
									 const LockTerms *terms, LrIndex *hold);
extern void lt_orphan_unqueued(const LrName *name, const LockTerms *terms,
							   const StoreOp *create);

/*
 * Did a session of this server have the key when Redis fell silent, or since?  Then
 * nobody elsewhere can have it.
 */
extern bool lt_key_stayed_here(LrIndex hold);

/*
 * In a store that sends no messages: wake the sessions of this server that wait for a
 * notification of the key, so that they ask.
 */
extern void lt_wake_passing(const LrName *name);

/* ----------
 * A session that holds a lock: its hold, its commit, its release, a loss
 * ----------
 */

/* A session calls these at its first use of the extension, and at its end. */
extern void lt_session_enter(void);
extern void lt_session_leave(void);

/* A copy of a hold, as its session sees it. */
typedef struct HoldView
{
	HoldState	state;
	LockLoss	lost;			/* if its state is HOLD_LOST */
	int64		deadline;
	KindId		kind;
	StoreId		store;
	uint64		moves;			/* another number once the hold is in another store, or
								 * its store has another master */
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

/* The store in which a session of this server holds the key, or that of new locks. */
extern StoreId lt_store_of_key(const LrName *name);

/* For StoreOp.is_held. */
extern bool lt_is_held(const StoreOp *op);

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

/* While it is marked as committing, no process signals this session for a loss. */
extern void lt_mark_committing(bool committing);

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
	RELEASE_LOST				/* the watchdog releases what may be left */
} ReleaseStart;

/*
 * The session no longer needs a hold; *view is what it was.  "aside": it will take the lock
 * again (lt_end_aside), so the lock is not handed over.
 */
extern ReleaseStart lt_begin_release(LrIndex hold, bool aside, HoldView *view);

/*
 * Free the hold and leave its lock in the store.  The lock belongs to whoever knows its
 * id, and no longer to a session.  False: the lock was lost.
 */
extern bool lt_let_stay(LrIndex hold);

/*
 * The store has answered the release.  If some of several masters have not confirmed it
 * (StoreSent.nodes), the watchdog releases what they may have.
 */
extern void lt_end_release(LrIndex hold, const StoreOp *release);

/*
 * lt_leave_sent: the release of a RELEASING hold was sent, and the session does not wait
 * for the answer.  lt_end_sent: the session has read the answer after all, or there will
 * be none; the watchdog may have repeated the release before.  Returns whether the release
 * notified a client elsewhere.
 */
extern void lt_leave_sent(LrIndex hold);
extern bool lt_end_sent(const StoreOp *release);

/*
 * The release of a RELEASING hold was not answered: the watchdog goes on with it.
 * "sent_at": when it was sent; 0 = it was not sent at all.
 */
extern void lt_orphan(LrIndex hold, int64 sent_at);

/*
 * A session that waits for a condition releases its lock, to take it again later.
 * lt_end_aside: the store has answered or has failed; the lock counts as lost (LOST_WAITING)
 * while the session waits.  If the store did not have the lock any more, that is a loss like
 * any other.
 */
extern void lt_end_aside(LrIndex hold, const StoreOp *create);

/* Check that no hold belongs to the transaction that has ended; with assertions only. */
#ifdef USE_ASSERT_CHECKING
extern void lt_check_transaction_end(void);
#else
#define lt_check_transaction_end()	((void) 0)
#endif

/* The session has seen that the hold is LOST, and drops it. */
extern void lt_drop_lost(LrIndex hold);

/*
 * A store said that the owner is gone.  This counts only if the hold still has that owner
 * and has not moved since.  If the lock was HANDED, its next session waits on.
 */
extern void lt_lose(LrIndex hold, const StoreOp *op);

/*
 * The key was taken away by force, from that owner, or from all owners (NULL): sessions of
 * this server lose their holds of it.
 */
extern void lt_lose_forced(const LrName *name, const char *owner_text);

/*
 * Note how a lock was lost; taken_by may be NULL.  And make a record of that for the server
 * log: a session has lost a lock that it held in these scopes.  This neither raises nor
 * allocates, and may be called with a partition lock held.  The caller has to wake the
 * watchdog afterwards.  Returns the number of the record; 0: there was no room for it.
 */
extern void losses_note(LockLoss *loss, LostReason reason, const char *taken_by);
extern uint32 losses_add(int pid, const char *name, int len, const ScopeHold *scope,
						 const LockLoss *loss);

/* ----------
 * A session that has the store count something
 *
 * A change that a store is to count is held by no session, and must not get lost.  So
 * it has a record from before the session sends the request, or its transaction ends,
 * until the store has answered.
 * ----------
 */

/*
 * Make a record of an amount that the store is to count, now or (SCOPE_XACT) when the
 * transaction has committed.  Its owner number is new; the store knows it as the ticket.
 * False: there is no free row.
 */
extern bool lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount,
				   LrIndex *hold);

/* This transaction's record for the name; LR_NONE: there is none. */
extern LrIndex lt_find_owed(const LrName *name, KindId kind);

/* Add to the amount, which may be negative; at 0 the record is freed. */
extern void lt_owe_more(LrIndex hold, int64 amount);

/* The amount; only its session may call this. */
extern int64 lt_owed_amount(LrIndex hold);

/* Free the record: the store has counted the amount, or surely will not. */
extern void lt_owed_done(LrIndex hold);

/*
 * The store has not answered: the watchdog goes on.  If the request was sent, it may have
 * run.
 */
extern void lt_leave_owed(LrIndex hold, const StoreOp *tally);

/* ----------
 * A session that looks for deadlocks: the lock table as a part of the wait-for graph
 * ----------
 */

/* A session's wait for a key. */
typedef struct KeyWait
{
	int			pid;
	Oid			userid;
	uint64		generation;		/* see lt_wait_generation */
	LockScope	scope;			/* for which the lock is wanted */
	int			name_len;
	char		name[LR_NAME_MAX];
} KeyWait;

/* A session of this server that holds the key. */
typedef struct KeyHolder
{
	LrIndex		hold;
	uint64		owner;			/* its owner number */
	LrIndex		session;
	int			pid;
	bool		awaited;		/* the wait cannot end before its release */
} KeyHolder;

/*
 * Copy the wait of a session, and the other holders of the key that it waits for; itself,
 * too, if it waits for its own hold.  Returns how many holders there are, of which at most
 * "room" are copied.  0: the session does not wait, or nobody else here holds it.  All
 * awaited holders have to release the key before the wait can end.
 */
extern int	lt_key_wait(LrIndex session, KeyWait *wait, KeyHolder *holders,
						int room);

/* A number that differs between waits of a session; 0 = it does not wait for a key. */
extern uint64 lt_wait_generation(LrIndex session);

/*
 * One search serves all sessions that wait for the same key.  True: this session has to
 * search, as none has done so for "interval", or as it is suspected.  *ask_again: when to
 * call this again.
 */
extern bool lt_begin_search(int64 interval, int64 *ask_again);

/*
 * The search of this session has reached that one.  If it waits for the same key, it may
 * be in a cycle, and is to search for itself: it is suspected.  False: it does not.
 */
extern bool lt_suspect_waiter(LrIndex session, uint64 generation);

/*
 * This session found itself in a cycle of these sessions, with these wait generations.
 * True: it has to end its wait.  False: the cycle is broken already.
 */
extern bool lt_claim_deadlock(const LrIndex *sessions,
							  const uint64 *generations, int n);

/*
 * The pids of the sessions that wait for the same key as this session, which is one of
 * them, and of those that hold it.  False: this session does not wait any more.
 */
extern bool lt_own_queue(int *pids, int room, int *npids,
						 int *holder_pids, int *nholders);

/*
 * What keeps a session from the key that it waits for.  If a session of this server does,
 * an owner elsewhere is not looked for.
 */
typedef struct WaitBlocker
{
	int			waiter;			/* process that waits, */
	Oid			userid;			/* and its role */
	int			pid;			/* holder on this server; 0 = none */
	char		owner[LR_OWNER_MAX];	/* elsewhere, as the store named it last;
										 * empty = not known */
} WaitBlocker;

/* Takes a partition lock, for a short time.  False: the session does not wait. */
extern bool lt_find_blocker(LrIndex session, WaitBlocker *blocker);

/* ----------
 * Views
 * ----------
 */

/* A copy of what a view shows of one hold or wait. */
typedef struct LockTableRow
{
	int			pid;			/* 0 = orphan */
	Oid			datid;
	Oid			userid;
	KindId		kind;
	HoldState	state;
	LockLoss	lost;
	LockScope	scope;
	ScopeHold	part;
	int64		amount;			/* OWED: what the store is to count */
	bool		placed;			/* waits in the order of the store */
	uint64		owner;
	int64		fence;
	int64		renewals;
	int64		deadline;		/* lr_now() time */
	TimestampTz waiting_since;
	int			name_len;
	char		name[LR_NAME_MAX];
} LockTableRow;

/*
 * A palloc'd copy of all rows.  The rows of a key are adjacent: first those that hold or
 * held it, then those of the waiting sessions in the order of their queue.
 */
extern LockTableRow *lt_rows(int *nrows);

/*
 * Count the rows that hold a lock, that wait for one, and that wait for a condition; without
 * a copy.
 */
extern void lt_count_rows(int64 *granted, int64 *waiting, int64 *at_conditions);

/* By how many microseconds the most overdue renewal in that store is late; 0: none is. */
extern int64 lt_renewal_lag(StoreId store);

/* Do the views show a hold in this state as granted? */
static inline bool
lt_is_granted(HoldState state)
{
	return state == HOLD_HELD || state == HOLD_RELEASING;
}

#endif							/* LR_LOCKTABLE_H */
