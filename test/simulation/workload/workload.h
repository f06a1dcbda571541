/*-------------------------------------------------------------------------
 *
 * workload.h
 *	  What the simulated sessions do, and what they know to be true.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/workload.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "../backend/sizes.h"
#include "../backend/backend.h"
#include "../backend/sql.h"
#include "../kernel/server.h"

#include "../../../src/locktable/watch.h"
#include "../../../src/session/session.h"
#include "../../../src/store/store.h"

extern void session_main(int slot);

/* ---- ledger.c: losses of this session ---- */

/* A statement begins; it has ended, with or without an error. */
extern void ledger_statement(void);
extern void ledger_statement_ends(void);

/* This session has taken a lock. */
extern void ledger_taken(const HeldEntry *entry, LockScope scope, CommitGuard guard);

/* Again, after a wait for a condition: as that owner, who took it where he did. */
extern void ledger_retaken(const HeldEntry *entry, uint64 before);

/* The subtransaction, or all of it, is over. */
extern void ledger_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit);
extern void ledger_transaction_ends(void);

/* A job has given its lock back. */
extern void ledger_job_ends(void);

/* A wait for the store has ended. */
extern void ledger_waited(void);

/* Before and after the guard of a commit. */
extern void ledger_guard_begins(void);
extern void ledger_guard_passed(void);

extern int	ledger_losses_seen(void);
extern void ledger_gave_up(int seen_before);
extern void ledger_told(int elevel, int sqlstate, const char *message);

/* ---- book.c: what this session holds, by what it was told ---- */

typedef struct BookItem
{
	char		key[24];
	KindId		kind;
	int			session;		/* holds at session level, those of jobs included */
	int			job;
	int			failed_jobs;	/* to be given back at the end of the abort */
	SubTransactionId xact;		/* where it was first taken at transaction level */
	uint64		lost_owner;		/* told of the loss of that hold */
} BookItem;

extern BookItem *book_find(const char *key, KindId kind);
extern void book_taken(const LrName *name, KindId kind, LockScope scope, bool job);

/*
 * So many session-level holds are gone; or perhaps some, but not below that: what
 * was interrupted.
 */
extern void book_gone(BookItem *item, int left);
extern void book_perhaps_gone(BookItem *item, int least);

typedef void (*BookCallback) (BookItem *item, void *arg);
extern void book_walk(BookCallback callback, void *arg);

extern void book_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit);
extern void book_transaction_ends(bool commit);

/* Does the lock table say the same of this session? */
extern void book_check(void);

/*
 * What SQL functions have to say: is it held, and is it lost?  "unknown" if that
 * cannot be told just now.
 */
extern bool book_is_held(const BookItem *item);
extern bool book_has_session_part(const BookItem *item);
extern bool book_is_lost(const BookItem *item, bool unknown);

/* ---- fences.c: what was recorded in the fence table ---- */

extern void fences_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit);
extern void fences_transaction_commits(void);
extern void fences_transaction_ends(void);
extern bool fences_are_comparable(void);
extern void fences_transaction_prepares(int number);
extern void fences_prepared_ends(int number, bool commit);

/* ---- conditions.c ---- */

/* This session waits for a condition: its lock is lost meanwhile, which is no loss. */
extern bool condition_is_awaited;

/* What this session was told, its hold, is given back by itself. */
extern void condition_acted(LrIndex told);

/* Was somebody told of a condition, and nobody comes? */
extern void check_conditions(void);

/* ---- counts.c ---- */

/* What it was to have counted is promised now, if it has committed. */
extern void counts_transaction_ends(bool commit);
extern int	counts_sent(const DueItem *item);
extern void counts_answered(const DueItem *item, int sent, const DueResult *result);

/* ---- rest_check.c: nothing of a statement that has ended is left, and it was in time ---- */

extern void rest_check(void);

/* It may take so long, and what it takes to end it. */
extern void time_check(const char *what, int64 began, int64 limit);

/* ---- history_check.c: the whole, when a schedule is over ---- */

extern void check_history(void);

/* ---- recorder.c: between SQL functions and session/ ---- */

/* The next call of session_lock() is that of redis_with_lock. */
extern void recorder_job_begins(bool begins);

/* The callbacks of a transaction, for the ledger, the book and the history. */
extern void recorder_begin(void);

/* The number of the history's record of the transaction, -1 = none. */
extern int	recorder_transaction;

/* ---- turn_check.c: who waits, and what keeps him; who sleeps although nothing does ---- */

extern void note_turn(int session);

/* Until when those in front of a queue, of which that is the first, let others go first. */
extern int64 pause_until(LrIndex first);

extern void check_sleepers(void);

/* ---- table_state.c ---- */

/* The state of all keys whose partition is not locked is noted, and traced if it is new. */
extern void note_state(bool (*is_locked) (uint32 hash));

/* ---- replica_check.c ---- */

/* What a store has answered. */
extern void replica_check_answer(const StoreOp *op, StoreOutcome outcome);

/* A lock before an answer about it */
typedef struct Before
{
	uint64		owner;
	int64		deadline;
	ScopeHold	scope[SCOPE_COUNT];
	int			wanted;
} Before;

extern void replica_look_before(const DueItem *item, Before *before);
extern void replica_look_after(const DueItem *item, const Before *before, int64 deadline);

/* ---- master_check.c ---- */

/* Likewise, before it is noted. */
extern void master_check_outcome(const StoreBatch *b, const StoreOp *op, StoreOutcome outcome);
extern void master_check_lost(LrIndex hold);

/* ---- watch_check.c ---- */

/* A lease has ended. */
extern void check_expiry(const char *name, const ScopeHold *scope);

/* A lock is lost, by whatever. */
extern void check_rolling(const char *name, const ScopeHold *scope);

/* After each turn of a process. */
extern void check_due_stays(bool (*is_locked) (uint32 hash));
extern void check_asked(LrIndex k, LrIndex hold);

#endif							/* SIM_WORKLOAD_H */
