/*-------------------------------------------------------------------------
 *
 * heap.h
 *	  What transactions leave to others: their outcome, PostgreSQL's own locks, rows.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/heap.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_HEAP_H
#define SIM_HEAP_H

#include "backend.h"

#include "storage/lock.h"

/* ---- transam.c: transaction ids and their outcome ---- */

extern void transam_init(void);
extern void transam_recover(void);

/* A new one; "parent" is that of the transaction around it, if any. */
extern TransactionId transam_assign(TransactionId parent);
extern void transam_end(TransactionId xid, bool commit);

/* A commit that is not flushed yet: a crash may undo it, and those after it. */
extern void transam_commit_soon(TransactionId xid);

/* A checkpoint. */
extern void transam_flush(void);

extern TransactionId transam_top(TransactionId xid);
extern bool transam_is_running(TransactionId xid);
extern bool transam_did_commit(TransactionId xid);

/* What has been committed by now, and whether that is of it. */
extern uint32 transam_snapshot(void);
extern bool transam_is_seen(TransactionId xid, uint32 snapshot);

/* ---- heavy_locks.c: locks of PostgreSQL's lock manager ---- */

extern void heavy_locks_init(void);

/* Owners: a process by its number, or from these on a prepared transaction, a stranger. */
#define OWNER_PREPARED		SIM_MAX_PROCS
#define OWNER_STRANGER		(OWNER_PREPARED + PREPARED_PLACES)
#define STRANGERS_MAX		4

extern void heavy_lock_acquire(const LOCKTAG *tag, LOCKMODE mode);

/* If that is possible at once. */
extern bool heavy_lock_try(const LOCKTAG *tag, LOCKMODE mode, int owner,
						   SubTransactionId sub);

/* A subtransaction ends, or all of it. */
extern void heavy_locks_release_sub(SubTransactionId sub);
extern void heavy_locks_to_parent(SubTransactionId sub, SubTransactionId parent);
extern void heavy_locks_release_all(int owner);
extern void heavy_locks_pass_on(int to);

/* An error: it waits no more. */
extern void heavy_locks_stop_waiting(void);

/* Before the end, by who holds it. */
extern void heavy_lock_release(const LOCKTAG *tag);

extern int	heavy_locks_of(int owner);

/* For whom does a process wait?  Sets reached[] by process. */
extern void heavy_lock_blockers(int process, bool *reached);

/* Until that transaction has ended, as XactLockTableWait(). */
extern void heavy_lock_wait_for(TransactionId xid);

/* ---- rows.c ---- */

#define ROW_KEY			32
#define ROWS_TABLE		17000

extern void rows_init(void);

/*
 * INSERT ... ON CONFLICT DO UPDATE, if it is above what is there, or always.  False:
 * it is not; the row is locked.
 */
extern bool row_raise(const char *key, int64 value, bool always);
extern bool row_read(const char *key, int64 *value);
extern bool row_remove(const char *key);

/* For checks: what others see of it; is this there, and written or locked by us? */
extern bool row_committed(const char *key, int64 *value);
extern bool row_is_ours(const char *key, int64 value);

/* ---- spi.c ---- */

extern int	spi_depth(void);
extern void spi_set_depth(int depth);
extern void spi_at_abort(int keep);

/* ---- prepared.c ---- */

/* So many there may be; sessions that look for room at one time may all find it. */
#define PREPARED_MAX	4
#define PREPARED_PLACES	(PREPARED_MAX + SIM_MAX_PROCS)

extern void prepared_init(void);
extern bool prepared_has_room(void);
extern int	prepared_add(TransactionId xid);

/* One that there is, -1 = none; its number, 0 = there is none; and its end. */
extern int	prepared_first(void);
extern int64 prepared_number(int n);
extern void prepared_finish(int n, bool commit);
extern void (*prepared_ends) (int n, bool commit);

#endif							/* SIM_HEAP_H */
