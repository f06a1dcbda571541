/*-------------------------------------------------------------------------
 *
 * backend.h
 *	  The stand-in for PostgreSQL: what its files share, and what the workload
 *	  uses of it beside PostgreSQL's own names.
 *
 * Linked into the product, so each process has statics of its own here too.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/backend.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_BACKEND_H
#define SIM_BACKEND_H

#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/memutils.h"

#include "../kernel/config.h"
#include "../kernel/sim.h"
#include "replaced.h"

/* PostgreSQL's part of shared memory; in the arena, at sim_root. */
typedef struct SimShared
{
	PROC_HDR	proc_global;
	LWLockPadded *main_locks;
	LWLockPadded *tranche;
	int			ntranche;
	struct HeavyLock *heavy_locks;
	struct Prepared *prepared;
	struct Strangers *strangers;
	int			nstructs;
	struct
	{
		char		name[64];
		void	   *start;
	}			structs[16];
} SimShared;

#define shared_root		((SimShared *) sim_root)

/* ---- process.c ---- */

extern void backend_init(void);
extern bool backend_exiting;

/* ---- lwlock.c ---- */

extern int	backend_locks_held(void);
extern void backend_must_hold_no_lock(const char *doing);
extern void backend_release_locks(void);

/* ---- atomics.c ---- */

extern void backend_drain(void);

/* ---- errors.c ---- */

/* The reason why nothing may raise or allocate just now, or NULL. */
extern const char *backend_must_not_raise;

/* Called for what is told to the client (elevel >= WARNING) and logged. */
extern void (*backend_told) (int elevel, int sqlstate, const char *message);

/* Of the error that was caught last. */
extern int	backend_error_code(void);
extern const char *backend_error_message(void);

extern void backend_statement_timeout(int64 until);

/* The process gets a SIGALRM then; and what that does. */
extern void backend_ring_at(int64 when);
extern void backend_timeouts_ring(void);

/* Signals that were taken so far. */
extern int	backend_signals;

/* ---- sockets.c ---- */

/* Called after a wait for the store. */
extern void (*backend_waited) (void);

/* How many sockets this process has. */
extern int	backend_descriptors(void);

/* ---- xact.c ---- */

extern void xact_start(void);
extern void xact_commit(void);
extern void xact_abort(void);
extern int	xact_prepare(void);
extern void xact_sub_start(void);
extern void xact_sub_commit(void);
extern void xact_sub_abort(void);
extern TransactionId xact_assign_xid(void);	/* of the subtransaction */
extern bool xact_is_own(TransactionId xid);	/* and not rolled back */
extern uint32 xact_snapshot(void);	/* of a statement that begins now */
extern int	xact_depth(void);	/* 0 = none, 1 = top, ... */
extern bool xact_in_pre_commit;
extern int64 xact_guard_since;	/* when it last began */
extern int64 xact_flush_waits;	/* for how long commits have waited, in sum */

/* A (sub)transaction ends, and is not visible yet or has PostgreSQL's locks. */
extern bool xact_is_early;

/* Told of what becomes of transactions. */
typedef enum XactMoment
{
	XACT_STARTS,
	XACT_GUARD_BEGINS,			/* of a commit */
	XACT_GUARD_PASSED,
	XACT_PREPARES,				/* as "sub": its number */
	XACT_RELEASES,				/* what goes with it is about to be given back */
	XACT_ENDS,
	XACT_SUB_RELEASES,			/* likewise, at the rollback of a subtransaction */
	XACT_SUB_ENDS
} XactMoment;

extern void (*xact_watch) (XactMoment moment, bool commit, SubTransactionId sub,
						   SubTransactionId parent);

/* ---- users.c ---- */

/* ANALYZE and the like run code of a table's owner. */
extern void users_set_restricted(void);

/* At the begin of a (sub)transaction, and when it is rolled back. */
typedef struct UserContext
{
	Oid			user;
	int			context;
} UserContext;

extern UserContext users_get(void);
extern void users_set(UserContext to);

extern void sim_check_for_interrupts(void);

#endif							/* SIM_BACKEND_H */
