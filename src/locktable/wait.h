/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  The lock table for a session that acquires: the queue of a key.
 *
 * A session awaits one key at a time.  Only those in front of a queue ask the store,
 * and only while no session of this server has the key; see queue.c.  A session that
 * waits in the order of the store is in no queue here; see places.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/wait.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_WAIT_H
#define LR_LOCKTABLE_WAIT_H

#include "locktable/locktable.h"

typedef enum EnqueueResult
{
	ENQUEUED,
	ENQUEUE_BUSY,				/* only_if_free, and the key is not free */
	ENQUEUE_OTHER,				/* a session of this server has the key as a kind
								 * (*other) that the wanted one cannot be beside or
								 * after */
	ENQUEUE_FULL
} EnqueueResult;

/*
 * Reserve a hold and a place in the queue of the key.  With only_if_free, do that only
 * if no session of this server has the key, is ahead in its queue, or waits for it without
 * the place in the store that its kind has.
 */
extern EnqueueResult lt_enqueue(const LrName *name, const LockTerms *terms,
								bool only_if_free, LrIndex *hold, KindId *other);

/*
 * The result that lt_enqueue would have with only_if_free, for a kind that excludes
 * itself.  Nothing is reserved, so it is never ENQUEUE_FULL.  *sent: the first call of
 * lt_turn would return TURN_SENT.
 */
extern EnqueueResult lt_may_take(const LrName *name, KindId kind, KindId *other,
								 bool *sent);

/*
 * Reserve rows for n locks that this session is about to take, in a queue or not.
 * False: there are not enough.  lt_return_rows() frees the unused ones.
 */
extern bool lt_stock_rows(int n);
extern void lt_return_rows(void);

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
 * again without being woken.  On TURN_TRY the session may ask *store and no other;
 * *subscribed says whether a message will notify this server of each release from now
 * on.  On TURN_HANDED the session holds the lock, by another hold: *hold is that one.
 */
extern TurnResult lt_turn(LrIndex *hold, int64 retry_at, int64 *look_again,
						  bool *subscribed, StoreId *store);

/* Have the watchdog subscribe to the key, or to our place; true if it has already. */
extern bool lt_want_subscription(LrIndex hold);

/* Leave the queue; the hold is freed, or left to the watchdog as an orphan. */
extern void lt_give_up(LrIndex hold);
extern void lt_give_up_orphan(LrIndex hold, StoreId store, uint64 owner,
							  uint32 topology, int64 not_after);

/*
 * The same when no request is unanswered, but the store has an announcement of this wait,
 * under that owner: the watchdog withdraws it.
 */
extern void lt_give_up_announced(LrIndex hold, StoreId store, uint64 owner,
								 uint32 topology);

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
 * For kinds with "placed": when the store was asked, at asked_at, nobody elsewhere
 * waited for the lock.  "unplaced": nor did this session get a place, as one here has
 * the lock.
 */
extern void lt_note_clear(LrIndex hold, int64 asked_at, uint32 topology, bool unplaced);

/*
 * Leave a request without a reply to the watchdog, but stay in the queue, with another
 * hold.  False: there is no row for one.
 */
extern bool lt_leave_orphan(LrIndex *hold, StoreId store, uint64 owner,
							uint32 topology, int64 not_after);

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
extern void lt_wait_again(LrIndex *hold, StoreId where, uint64 moves);

/*
 * A session in front has asked the store, and somebody else has the key: "owner", which
 * is empty if the store did not name one.  waits: the session goes on waiting.
 */
extern void lt_found_busy(LrIndex hold, bool waits, const char *owner);

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
 * from when the request was sent (lr_lease_deadline).  "topology" is the epoch of the
 * master that did, 0 where none is looked for.  With a store that excludes this server
 * only, nobody elsewhere could have the key at "judged_at".  The hold of an ownerless
 * kind is freed.
 */
extern GrantResult lt_grant(LrIndex hold, StoreId store, uint64 owner,
							uint32 topology, int64 judged_at, int64 sent_at,
							const LockTerms *terms, int64 fence);

/*
 * It was granted, but these of several masters may not have it (StoreOp.without).
 */
extern void lt_note_without(LrIndex hold, uint64 owner, uint32 without);

/*
 * The same for a lock that was requested without a place in the queue, as one of
 * several; and for one whose request was not answered.  Their rows were stocked.
 * Without a grant, the watchdog releases the lock.
 */
extern GrantResult lt_grant_unqueued(const LrName *name, StoreId store, uint64 owner,
									 uint32 topology, int64 sent_at,
									 const LockTerms *terms, LrIndex *hold);
extern void lt_orphan_unqueued(const LrName *name, const LockTerms *terms,
							   StoreId store, uint64 owner, uint32 topology,
							   int64 not_after);

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

#endif							/* LR_LOCKTABLE_WAIT_H */
