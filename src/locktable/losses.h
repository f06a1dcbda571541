/*-------------------------------------------------------------------------
 *
 * losses.h
 *	  The lock table for whoever finds a loss, and for who logs it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/losses.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_LOSSES_H
#define LR_LOSSES_H

#include "locktable/locktable.h"

/* ---- for whoever finds out that a lock is gone ---- */

/*
 * A store said that the owner is gone.  Only if the hold is still held by that
 * owner and has not been moved since.  True if it was.
 */
extern bool lt_lose(LrIndex hold, uint64 owner, StoreId where, uint64 moves,
					LostReason reason, const char *taken_by);

/*
 * The key was taken away by force, from that owner, or from all who had it (NULL):
 * what sessions of this server have of it is lost.  It is gone from that store, which
 * need not be the one that it is in by now; or from the node that was the master in
 * that epoch (StoreOp).
 */
extern void lt_lose_forced(const LrName *name, const char *owner_text, StoreId where,
						   uint32 topology);

/* ---- what is to be logged ---- */

typedef struct LossRecord
{
	int			pid;
	bool		in_scope[SCOPE_COUNT];
	OnLost		on_lost;
	LostReason	reason;
	int			name_len;
	char		name[LR_NAME_MAX];
	char		taken_by[LR_OWNER_MAX];
} LossRecord;

extern Size losses_shmem_size(void);
extern int	losses_lwlocks(void);
extern void losses_shmem_init(int first_lwlock);

/*
 * A session has lost a lock that it had in these scopes.  Raises nothing and
 * allocates nothing; may be called with a partition of the lock table locked.
 * Wake the watchdog afterwards.
 */
extern void losses_add(int pid, const char *name, int len,
					   const ScopeHold *scope, LostReason reason,
					   const char *taken_by);

/* ---- for the watchdog, which logs them ---- */

extern bool losses_any(void);

/* The oldest one; false: there is none. */
extern bool losses_take(LossRecord *r);

/* One more is not logged by itself; and how many there were, from 0 again. */
extern void losses_leave_out(void);
extern bool losses_any_left_out(void);
extern uint64 losses_take_left_out(void);

#endif							/* LR_LOSSES_H */
