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
 * Lock order: partition lock, then a spinlock or the lock of losses.c; never two
 * partitions.  The deadlock lock and the signal locks are taken alone.
 *
 * This file has the types that all users share.  The functions are in headers by
 * audience: wait.h (a session that acquires), hold.h (a session that holds a lock),
 * owed.h (a session that has the store count something), graph.h (a session
 * that looks for deadlocks), watch.h (the watchdog), rows.h (views) and
 * losses.h (a process that finds a loss, and the watchdog, which logs it).
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
 * 			holds anything: see owed.h
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

#include "kinds/kind.h"
#include "names.h"

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

/* One scope's part of a hold. */
typedef struct ScopeHold
{
	int32		count;			/* session: holds; xact: 0 or 1 */
	bool		renewed;		/* by the watchdog, lease_ms long each time */
	CommitGuard guard;			/* the strictest asked for */
	OnLost		on_lost;		/* likewise */
	int64		lease_ms;		/* the longest asked for */
	int			min_replicas;	/* the most asked for */
	TimestampTz acquired_at;
} ScopeHold;

/* A set of stores. */
#define STORE_BIT(id)		(1U << (id))

extern Size locktable_shmem_size(void);
extern int	locktable_lwlocks(void);
extern void locktable_shmem_init(void);

#endif							/* LR_LOCKTABLE_H */
