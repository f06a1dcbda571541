/*-------------------------------------------------------------------------
 *
 * losses.h
 *	  The lock table for a process that finds a loss, and for the watchdog, which logs
 *	  it.
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

/* ---- for a process that finds out that a lock is gone ---- */

/*
 * A store said that the owner is gone.  This counts only if the hold still has that owner
 * and has not moved since.  True if the lock was HELD, and is lost now; if it was HANDED,
 * its next session waits on.
 */
extern bool lt_lose(LrIndex hold, uint64 owner, StoreId where, uint64 moves,
					LostReason reason, const char *taken_by);

/*
 * The key was taken away by force, from that owner, or from all owners (NULL): sessions of
 * this server lose their holds of it.  The lock is gone from that store, which need not be
 * the one that it is in by now, and from the node that was the master in that epoch
 * (StoreOp).
 */
extern void lt_lose_forced(const LrName *name, const char *owner_text, StoreId where,
						   uint32 topology);

/* ---- records of losses ---- */

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
 * A session has lost a lock that it held in these scopes.  This neither raises nor
 * allocates, and may be called with a partition lock held.  The caller has to wake the
 * watchdog afterwards.
 */
extern void losses_add(int pid, const char *name, int len,
					   const ScopeHold *scope, LostReason reason,
					   const char *taken_by);

/* ---- for the watchdog, which logs them ---- */

extern bool losses_any(void);

/* Take the oldest record; false: there is none. */
extern bool losses_take(LossRecord *r);

/* Count a loss that is not logged by itself; take that number, which is 0 then. */
extern void losses_leave_out(void);
extern bool losses_any_left_out(void);
extern uint64 losses_take_left_out(void);

#endif							/* LR_LOSSES_H */
