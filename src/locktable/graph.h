/*-------------------------------------------------------------------------
 *
 * graph.h
 *	  The lock table as a part of the wait-for graph: for sessions that look for
 *	  deadlocks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/graph.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOCKTABLE_GRAPH_H
#define LR_LOCKTABLE_GRAPH_H

#include "locktable/locktable.h"

/* A session waits for a key. */
typedef struct KeyWait
{
	int			pid;
	Oid			userid;
	uint64		generation;		/* see lt_wait_generation */
	LockScope	scope;			/* that it is wanted for */
	int			name_len;
	char		name[LR_NAME_MAX];
} KeyWait;

/* A session of this server has that key. */
typedef struct KeyHolder
{
	LrIndex		hold;
	uint64		owner;			/* its owner number */
	LrIndex		session;
	int			pid;
	bool		awaited;		/* the wait cannot end while it has it */
} KeyHolder;

/*
 * All others that have the key that the session waits for, and itself if it waits
 * for that; so many, of which no more than "room" are copied.  0: it does not wait,
 * or for nobody of this server.  The wait is one for each of the awaited ones: all of
 * them have to go.
 */
extern int	lt_key_wait(LrIndex session, KeyWait *wait, KeyHolder *holders,
						int room);

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
 * The queue that this session stands in, as pids, and the sessions of this
 * server that have the key.  False: it does not wait any more.
 */
extern bool lt_own_queue(int *pids, int room, int *npids,
						 int *holder_pids, int *nholders);

/*
 * What keeps a session from the key that it waits for.  Where a session of this server
 * holds the key, nothing of other servers is known.
 */
typedef struct WaitBlocker
{
	int			waiter;			/* process that waits, */
	Oid			userid;			/* and its role */
	int			pid;			/* of this server; 0 = none */
	char		owner[LR_OWNER_MAX];	/* elsewhere, as the store named it last;
										 * empty = not known */
} WaitBlocker;

/* Waits on one lock, and not for long.  False: the session does not wait. */
extern bool lt_find_blocker(LrIndex session, WaitBlocker *blocker);

#endif							/* LR_LOCKTABLE_GRAPH_H */
