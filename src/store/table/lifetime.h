/*-------------------------------------------------------------------------
 *
 * lifetime.h
 *	  Until when a row of redis_lock_rows counts.
 *
 * That is decided by its instance:
 *
 * - ours: taken by a session of this server.  It counts on lr_now()'s clock,
 *	 which never jumps, for one lease from the moment it was last written.  The
 *	 table worker remembers that moment; a row it does not remember (it may have
 *	 been started anew) counts for one lease from when it is first seen.
 * - null: it is to outlive the server: a key that stays locked (hold_at_least), a
 *	 token lock, a permit that is had by its id.  It counts until expires_at, on the
 *	 wall clock, and no longer than its lease.
 * - another one: of an instance that has ended, and its locks with it.
 *
 * A row that does not count any more may be overwritten by the next owner, and
 * is deleted by the sweep.
 *
 * For rows that are sound (sound_rows.h) only.
 *
 * For the table worker only: the memory is its own.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/lifetime.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_TABLE_LIFETIME_H
#define LR_TABLE_LIFETIME_H

#include "lockredis.h"

#include "executor/tuptable.h"

/* Once, in the worker. */
extern void lifetime_start(void);

/* The instance of rows that are ours, as their column has it. */
extern Datum lifetime_instance(void);

/* The row with this number, its owner's, was written now, and counts for a lease. */
extern void lifetime_remember(uint64 number, int64 lease_ms);
extern void lifetime_forget(uint64 number);

/*
 * The number of the row that readers of a key share: it counts for as long as the lease
 * of any of them.
 */
extern uint64 lifetime_shared_number(const char *name, int len);

/* Likewise of the row in a slot, whichever of these it is: an older lease may be longer. */
extern void lifetime_remember_row(TupleTableSlot *slot, int64 lease_ms);

/* Is the row in a slot one that readers share, of this instance? */
extern bool lifetime_is_shared(TupleTableSlot *slot);

/* Is that this instance? */
extern bool lifetime_is_own_instance(Datum value, bool isnull);

/* Forget what is remembered of rows that do not count any more. */
extern void lifetime_forget_ended(void);

/*
 * How long the row in a slot still counts, in milliseconds: 0 = not any more.
 */
extern int64 lifetime_left_ms(TupleTableSlot *slot);

/* The same of a row of redis_lock_shares that counts by itself. */
extern int64 lifetime_share_left_ms(TupleTableSlot *slot);

#endif							/* LR_TABLE_LIFETIME_H */
