/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Counters of what this server's sessions and watchdog did, and what it waits for.
 *
 * Only its own process may write a counter, so a reset leaves the counters alone:
 * it stores their current sums, and readers subtract those.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "stats.h"

typedef struct StatsSlot
{
	pg_atomic_uint64 counter[STAT_COUNT];
} StatsSlot;

typedef struct StatsShared
{
	slock_t		mutex;			/* protects base and reset_at */
	int64		base[STAT_COUNT];	/* sums at the last reset */
	TimestampTz reset_at;
	int			nslots;
	StatsSlot	slot[FLEXIBLE_ARRAY_MEMBER];	/* by process number */
} StatsShared;

static StatsShared *stats = NULL;

/*
 * stats_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
stats_shmem_size(void)
{
	return add_size(offsetof(StatsShared, slot),
					mul_size(MaxBackends, sizeof(StatsSlot)));
}

/* Called with AddinShmemInitLock held. */
void
stats_shmem_init(void)
{
	bool		found;

	stats = ShmemInitStruct("lockredis statistics", stats_shmem_size(), &found);
	if (found)
		return;

	memset(stats, 0, offsetof(StatsShared, slot));
	SpinLockInit(&stats->mutex);
	stats->reset_at = GetCurrentTimestamp();
	stats->nslots = MaxBackends;
	for (int i = 0; i < stats->nslots; i++)
		for (int j = 0; j < STAT_COUNT; j++)
			pg_atomic_init_u64(&stats->slot[i].counter[j], 0);
}

void
lr_count(LrStat stat)
{
	lr_count_many(stat, 1);
}

/*
 * Only this process writes its slot, so a plain read and write suffice; an atomic
 * addition would cost more.
 */
void
lr_count_many(LrStat stat, int64 n)
{
	pg_atomic_uint64 *counter;

	if (stats == NULL || MyProc == NULL || LrMyProcNumber >= stats->nslots)
		return;
	counter = &stats->slot[LrMyProcNumber].counter[stat];
	pg_atomic_write_u64(counter, pg_atomic_read_u64(counter) + n);
}

static void
sum_counters(int64 *sums)
{
	memset(sums, 0, sizeof(int64) * STAT_COUNT);
	for (int i = 0; i < stats->nslots; i++)
		for (int j = 0; j < STAT_COUNT; j++)
			sums[j] += (int64) pg_atomic_read_u64(&stats->slot[i].counter[j]);
}

/*
 * stats_read --- see stats.h
 */
void
stats_read(int64 *sums, TimestampTz *reset_at)
{
	int64		base[STAT_COUNT];

	SpinLockAcquire(&stats->mutex);
	memcpy(base, stats->base, sizeof(base));
	*reset_at = stats->reset_at;
	SpinLockRelease(&stats->mutex);

	/* Sums only grow, so sums that are read after the base are never below it. */
	sum_counters(sums);
	for (int j = 0; j < STAT_COUNT; j++)
		sums[j] -= base[j];
}

void
stats_reset(void)
{
	int64		sums[STAT_COUNT];
	TimestampTz now = GetCurrentTimestamp();

	sum_counters(sums);
	SpinLockAcquire(&stats->mutex);
	memcpy(stats->base, sums, sizeof(sums));
	stats->reset_at = now;
	SpinLockRelease(&stats->mutex);
}

/*
 * lr_wait_event --- the wait_event_info to wait with
 *
 * The first call for each event allocates its name in shared memory, which can raise an
 * error.  Code that must not raise relies on an earlier call.
 */
uint32
lr_wait_event(LrWaitEvent event)
{
#if PG_VERSION_NUM >= 170000
	static const char *const names[WAIT_EVENT_LR_COUNT] = {
		[WAIT_EVENT_LR_ACQUIRE] = "LockRedisAcquire",
		[WAIT_EVENT_LR_CONNECT] = "LockRedisConnect",
		[WAIT_EVENT_LR_REPLY] = "LockRedisReply",
		[WAIT_EVENT_LR_TABLE] = "LockRedisTableMain",
		[WAIT_EVENT_LR_WATCHDOG] = "LockRedisWatchdogMain"
	};
	static uint32 ids[WAIT_EVENT_LR_COUNT];

	if (ids[event] == 0)
		ids[event] = WaitEventExtensionNew(names[event]);
	return ids[event];
#else
	return PG_WAIT_EXTENSION;
#endif
}
