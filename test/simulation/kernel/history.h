/*-------------------------------------------------------------------------
 *
 * history.h
 *	  What was asked for and what came of it, for checkers that judge a schedule
 *	  when it is over.
 *
 * One record for each operation, in the order of the calls.  Times are those of
 * sim_now(); what comes before what is told by "began" and "ended", which number
 * all calls and returns of a schedule together.  Whoever records
 * is the one who asked: what stands here is what a client could know, and
 * nothing that only the product or a store knows.  In the kernel, as clients
 * elsewhere and faults record too.
 *
 * What gives back several locks at once (the end of a transaction or session, a
 * rollback to a savepoint, unlock_all, DISCARD ALL) is recorded as one
 * HISTORY_UNLOCK a key and scope, all with the same times, which are those of
 * the whole.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/history.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include "sim.h"

#define HISTORY_KEY		24
#define HISTORY_MAX		16384

typedef enum HistoryWhat
{
	/* locks of sessions; a key, a kind, a scope */
	HISTORY_LOCK,				/* YES: taken, again or for the first time; NO: busy */
	HISTORY_UNLOCK,				/* "count" holds go; YES: given back, NO: it was lost, or
								 * there was none */
	HISTORY_LOST,				/* what the session had of the key, in both scopes, was
								 * lost, and it has been told or could have asked */
	HISTORY_EXTEND,				/* NO: it was lost */
	HISTORY_FORCE,				/* YES: somebody had it, and has it no more */

	/* questions */
	HISTORY_IS_LOCKED,			/* of the store */
	HISTORY_IS_HELD,			/* of the session; YES, or NO */
	HISTORY_HOLD_COUNT,			/* likewise, in "count" */
	HISTORY_FENCE,				/* likewise, in "token", 0 = none */

	/* the fence table; "token" */
	HISTORY_RECORD,				/* it was written, or found as the one written before;
								 * NO: a higher one was there, FAILED: no outcome */
	HISTORY_FORGET,				/* the row was deleted; NO: there was none */

	/* spans */
	HISTORY_TRANSACTION,		/* YES: committed, NO: rolled back, FAILED: the
								 * commit was refused */
	HISTORY_JOB_BODY,			/* the command of redis_with_lock runs */
	HISTORY_SESSION,			/* from its first statement to its end */

	/* clients elsewhere, and faults; "owner" in "who" */
	HISTORY_FOREIGN_LOCK,
	HISTORY_FOREIGN_UNLOCK,
	HISTORY_TAKEN_AWAY,			/* one key was deleted; who has it, has it no more */
	HISTORY_ALL_TAKEN_AWAY,		/* a store lost its data */
	HISTORY_WHATS
} HistoryWhat;

typedef enum HistoryResult
{
	HISTORY_PENDING,			/* it never returned: may or may not have happened, at
								 * any time from the call on */
	HISTORY_YES,
	HISTORY_NO,
	HISTORY_FAILED				/* an error; "sqlstate".  It may have happened and been
								 * undone; it has no effect that lasts but that of a
								 * request that may still arrive, for a lease */
} HistoryResult;

typedef struct HistoryRecord
{
	HistoryWhat what;
	HistoryResult result;
	int			began;
	int			ended;			/* INT_MAX: it did not */
	int64_t		called;
	int64_t		returned;		/* SIM_NEVER: it did not */
	int			server;			/* of the session */
	int			who;			/* pid of the session, which no two have; clients
								 * elsewhere have numbers below 100 */
	int			transaction;	/* record of the HISTORY_TRANSACTION that it was part of,
								 * -1 = none */
	char		key[HISTORY_KEY];
	int			kind;			/* KindId */
	int			scope;			/* LockScope */
	bool		together;		/* unlock: one of several, all of which are told by one
								 * answer: YES says nothing of a loss */
	bool		several;		/* lock: one of several, all or none: with NO it may
								 * have been had for a while */
	bool		fenced;
	bool		renewed;
	int64_t		lease_us;
	int64_t		wait_us;		/* limit: 0 = none is waited, -1 = for ever */
	int64_t		token;
	int			count;
	int			sqlstate;
} HistoryRecord;

extern void history_reset(void);

/*
 * An operation begins: its number, for the functions below; -1 if there is no
 * room, which those ignore.
 */
extern int	history_call(HistoryWhat what, int who, const char *key, int kind, int scope);

/* To fill in what it was called with; never NULL. */
extern HistoryRecord *history_at(int number);

extern void history_return(int number, HistoryResult result);

/* What happens to a key, or to all (NULL), at one moment. */
extern void history_event(HistoryWhat what, const char *key);

/*
 * A server keeps locks in a table of its own, which exclude nobody else's: from now on each
 * server is judged by itself.
 */
extern void history_parts(void);
extern bool history_is_in_parts(void);

/* How many there are; false: some are missing, nothing can be concluded. */
extern int	history_count(void);
extern bool history_is_complete(void);

/* How often did that happen? */
extern int	history_times(HistoryWhat what);

/*
 * This session asks for several keys at once, or does not any more; does that one?
 * One that has ended does not, whatever it has said.
 */
extern void history_asks_together(int slot, int who);
extern bool history_is_asking_together(int slot, int who);

/* As text, into a buffer of its own. */
extern const char *history_text(const HistoryRecord *record);

#endif							/* SIM_HISTORY_H */
