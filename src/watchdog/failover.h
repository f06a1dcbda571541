/*-------------------------------------------------------------------------
 *
 * failover.h
 *	  The master is another node now: what is held there, and who waits for it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/failover.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FAILOVER_H
#define LR_FAILOVER_H

#include "lockredis.h"

#include "store/store.h"

/* With the present settings; again when they have changed. */
extern void failover_start(void);

/* before_shmem_exit */
extern void failover_leave(void);

/* Before the requests of a round of the watchdog, and after them. */
extern void failover_step(void);
extern void failover_tell(void);

extern int	failover_interests(StoreInterest *out, int64 *until, uint32 *epoch);

#endif							/* LR_FAILOVER_H */
