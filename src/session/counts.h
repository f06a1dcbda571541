/*-------------------------------------------------------------------------
 *
 * counts.h
 *	  What the store counts for this backend: permits that are given back to a
 *	  semaphore, and a latch that is counted down.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/counts.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_COUNTS_H
#define LR_COUNTS_H

#include "lockredis.h"

#include "keyname.h"
#include "kinds/kind.h"
#include "session/track.h"
#include "store/store.h"

/*
 * After session_enter().  Have the store count, now.  False, after a warning: it has not answered, and will count
 * it once.  *left: what there is then.
 */
extern bool counts_now(const LrName *name, KindId kind, int64 amount, int64 *left);

/* The store has said that there is another number: who waits may look. */
extern void counts_tell(const StoreOp *op);

/* When this transaction has committed, unless it or its subtransaction does not. */
extern void counts_at_commit(const LrName *name, KindId kind, int64 amount);

/* Does this transaction have any of these? */
extern bool counts_pending(void);

/*
 * At the end of a transaction, or of a subtransaction that aborts; nothing here raises,
 * allocates or uses a latch.
 */
extern void counts_undo(const Track *t);
extern void counts_add(const Track *t);
extern void counts_run_at_end(void);

/* After an error, or before the end of the session: what was under way. */
extern void counts_abandon(void);

#endif							/* LR_COUNTS_H */
