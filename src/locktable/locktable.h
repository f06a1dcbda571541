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
 * Lock order: partition lock, then a pool's spinlock or the lock of losses.c;
 * never two partitions.  The deadlock lock is taken alone.
 *
 * This file has what all who use it share; the functions are in headers by
 * audience: wait.h (a session that acquires), hold.h (a session that has it),
 * owed.h (a session that has the store count something), graph.h (a session
 * that looks for deadlocks), watch.h (the watchdog), rows.h (views) and
 * losses.h (whoever finds a loss, and the watchdog, which logs it).
 *
 * The words:
 *
 * hold		a record of one session and one key: it waits, has it, gives it
 * 			back or has lost it; or of no session, see orphan
 * row			what max_locks counts: a hold, and one more if both scopes have it
 * owner		number of a create, by which the stores know a hold; never used
 * 			twice by this instance, whose uuid stands before it
 * trace		a store in which something of a hold's owner may be
 * moves		how often a hold went from one store to another: what was asked
 * 			before says nothing of the one after
 * place		the server and database that lockredis.url means, as a number: what
 * 			is in Redis is where the url pointed when it was put there
 * due			when the watchdog has to look at a hold, for each store
 * orphan		a hold of nobody, which the watchdog gives back
 * handed		passed on to a waiting session, which has not seen it yet
 * here_from	nobody elsewhere can have had the key at that time; nor since, if Redis
 * 			has been silent since then or before
 * silent		of a store: it was asked and has not answered
 * epoch		a number that changes when those who were refused may ask again
 * owed		what a store is to count once, though nobody has it: see owed.h
 * keep		to leave the key locked for a time after it was given back
 * 			(hold_at_least)
 * head		the first in a key's queue, who asks the store for all of them
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
#include "kinds/kind.h"
#include "terms.h"

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
 *	   +--gave up--> (free)       +--watchdog gave it back--> (free)
 *
 *	 OWED --counted, or not wanted any more--> (free)
 *	   +--- no answer --> ORPHAN
 */
typedef enum HoldState
{
	HOLD_FREE = 0,
	HOLD_WAITING,				/* queued, or its head asks the store */
	HOLD_HELD,
	HOLD_RELEASING,				/* its session is giving it back */
	HOLD_HANDED,				/* passed to a session that has yet to see it */
	HOLD_LOST,					/* no longer had; its session has to see it */
	HOLD_ORPHAN,				/* nobody's; the watchdog gives it back, or has it
								 * counted */
	HOLD_OWED					/* nothing is had: what a store is to count */
} HoldState;

typedef enum LostReason
{
	LOST_NOT = 0,
	LOST_EXPIRED,
	LOST_DELETED,
	LOST_TAKEN,
	LOST_FORCED,
	LOST_MOVED,					/* it is where lockredis.url pointed before */
	LOST_WAITING				/* its session has given it back, to take it again */
} LostReason;

/* How a lock is wanted. */
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
	int64		amount;			/* of what is taken or counted */
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
