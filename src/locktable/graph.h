/*-------------------------------------------------------------------------
 *
 * graph.h
 *	  The lock table as a part of the wait-for graph, for sessions that look for
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
 * "room" are copied.  0: the session does not wait, or for nobody of this server.  All
 * awaited holders have to release the key before the wait can end.
 */
extern int	lt_key_wait(LrIndex session, KeyWait *wait, KeyHolder *holders,
						int room);

/* A number that differs between waits of a session; 0 = it does not wait for a key. */
extern uint64 lt_wait_generation(LrIndex session);

/*
 * One search serves all sessions that wait for the same key.  True: this session has to
 * search, as none has done so for "interval".  *ask_again: when to call this again.
 */
extern bool lt_begin_search(int64 interval, int64 *ask_again);

/*
 * The search of one session has reached another one that waits for the same key, and may
 * be in a cycle: wake it, to search for itself.  lt_is_suspected: is this session one?
 */
extern void lt_suspect_waiter(LrIndex session, uint64 generation);
extern bool lt_is_suspected(void);

/* The same, and the suspicion is forgotten. */
extern bool lt_take_suspicion(void);

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

#endif							/* LR_LOCKTABLE_GRAPH_H */
