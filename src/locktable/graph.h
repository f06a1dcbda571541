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

#endif							/* LR_LOCKTABLE_GRAPH_H */
