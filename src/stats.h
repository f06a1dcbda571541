/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  What can be seen of this server: counters of what its sessions and watchdog did,
 *	  and what its processes wait for.
 *
 * Each process adds to counters of its own slot in shared memory, so counting never
 * contends; the slots outlive the processes and the view sums them.
 *
 * From PostgreSQL 17 on each wait event has a name of its own in pg_stat_activity; before,
 * all are shown as Extension.  Names are allocated on first use, in a process with shared
 * memory.
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

/*
 * A new one comes last: version 1.0 of the extension shows those up to STAT_MOVES, in this
 * order (sql/views.c).
 */
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

typedef enum LrWaitEvent
{
	WAIT_EVENT_LR_ACQUIRE,		/* for a holder to release */
	WAIT_EVENT_LR_CONNECT,		/* for a connection to be made */
	WAIT_EVENT_LR_REPLY,		/* for a reply of the store */
	WAIT_EVENT_LR_TABLE,		/* the table worker, for requests */
	WAIT_EVENT_LR_WATCHDOG,		/* the watchdog, for work or messages */
	WAIT_EVENT_LR_COUNT
} LrWaitEvent;

extern uint32 lr_wait_event(LrWaitEvent event);

#define LR_WAIT_ACQUIRE		lr_wait_event(WAIT_EVENT_LR_ACQUIRE)
#define LR_WAIT_CONNECT		lr_wait_event(WAIT_EVENT_LR_CONNECT)
#define LR_WAIT_REPLY		lr_wait_event(WAIT_EVENT_LR_REPLY)
#define LR_WAIT_TABLE		lr_wait_event(WAIT_EVENT_LR_TABLE)
#define LR_WAIT_WATCHDOG	lr_wait_event(WAIT_EVENT_LR_WATCHDOG)

#endif							/* LR_STATS_H */
