/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counters of what this server's sessions and watchdog did.
 *
 * Each process adds to counters of its own slot in shared memory, so counting
 * never contends; the slots outlive the processes and the view sums them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/stats.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_STATS_H
#define LR_STATS_H

#include "lockredis.h"
#include "datatype/timestamp.h"

/* In the order of the columns of redis_lock_stats, up to STAT_MOVES. */
typedef enum LrStat
{
	STAT_ACQUIRES,				/* locks acquired, except those held already */
	STAT_REENTRIES,				/* locks taken again by their holder */
	STAT_HANDOFFS,				/* locks passed on within this server */
	STAT_BUSY,					/* attempts that found another holder */
	STAT_WAITS,					/* acquires that had to wait */
	STAT_TIMEOUTS,				/* waits ended by a time limit */
	STAT_CANCELS,				/* acquires ended by cancel or terminate */
	STAT_DEADLOCKS,				/* waits ended to break a deadlock */
	STAT_RELEASES,				/* locks released by their holder */
	STAT_RENEWALS,
	STAT_LOSSES,
	STAT_COMMITS_REFUSED,
	STAT_ORPHANS,				/* unanswered requests left to the watchdog */
	STAT_CONNECTS,				/* connections made to the store */
	STAT_ERRORS,				/* requests that failed or were refused */
	STAT_SWITCHES,				/* fallback: changes of the store in use */
	STAT_MOVES,					/* fallback: held locks that moved with it */
	STAT_WAITED,				/* microseconds of waits that have ended */
	STAT_UNREPLICATED,			/* leases that too few replicas confirmed */
	STAT_FAILOVERS,				/* another node was found to be the master */
	STAT_IDLE_CLOSES,			/* connections closed by idle_timeout */
	STAT_REPAIRS,				/* locks created again at one of several masters */
	STAT_CONDITION_WAITS,		/* waits for conditions, which STAT_WAITS excludes */
	STAT_CONDITION_WAITED,		/* microseconds of those that have ended */
	STAT_SLOT_REFUSALS,			/* calls refused because of max_locks */
	STAT_COUNT
} LrStat;

extern Size stats_shmem_size(void);
extern void stats_shmem_init(void);

/* Add to a counter of this process.  Lock-free, cannot fail. */
extern void lr_count(LrStat stat);
extern void lr_count_many(LrStat stat, int64 n);

/* Sums since the last reset, and when that was. */
extern void stats_read(int64 *sums, TimestampTz *reset_at);
extern void stats_reset(void);

#endif							/* LR_STATS_H */
