/*-------------------------------------------------------------------------
 *
 * fallback.c
 *	  Which store new locks go to: Redis, or the table while Redis is away.
 *
 * To the table when Redis has not answered for lockredis.fallback_after, and
 * was asked in vain for most of that time: a watchdog that was stopped itself
 * knows nothing.  Back when it has answered all the time for a while, so that a
 * Redis that comes and goes makes nobody go to and fro.
 *
 * A key that nobody here has may be had by somebody elsewhere, whose lease runs
 * on after the last moment at which Redis may have served him.  That moment is
 * taken to be when the first request went out that Redis did not answer.  The
 * table gives such keys away only one lease later, or the longest time to live
 * that was seen on the key, if that is longer.  These are remembered in an
 * array of fixed size by the hash of the key; two keys that share an entry only
 * delay each other.
 *
 * Written by the watchdog only, but for the array, which anybody writes
 * atomically.  A standby has no table to write: there it stays with Redis.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/fallback.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xlog.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "watchdog/fallback.h"
#include "locktable/watch.h"
#include "store/node.h"
#include "settings.h"
#include "stats.h"
#include "store/store.h"

/* Redis is steady when it has answered for half of fallback_after, or this. */
#define STEADY_MIN			(2 * LR_US_PER_S)

/* A watchdog that did not look for so long, or half of fallback_after, has
 * not seen what happened meanwhile. */
#define STALL_MIN			LR_US_PER_S

/* Of a Redis that is there. */
#define SLOW_ANSWER			(100 * LR_US_PER_MS)

/* A time to live is remembered for as long as it is, at least that many s. */
#define TTL_REMEMBERED		3600

/* Of one that never ends (s): what it is taken to be, and for how long. */
#define TTL_ENDLESS			PG_UINT32_MAX
#define ENDLESS_REMEMBERED	86400

typedef struct FallbackShared
{
	pg_atomic_uint32 current;	/* StoreId */
	pg_atomic_uint32 epoch;
	pg_atomic_uint64 answered_at;
	pg_atomic_uint64 silent_since;	/* when the first request went out that it
									 * has not answered; 0 = it has */
	pg_atomic_uint64 looked_at; /* when the watchdog looked last */

	/* The settings of the server that are in effect here, microseconds. */
	pg_atomic_uint64 after;
	pg_atomic_uint64 lease;

	slock_t		mutex;			/* for the status */
	FallbackStatus status;

	uint32		nttls;			/* a power of two */
	pg_atomic_uint64 ttl[FLEXIBLE_ARRAY_MEMBER];	/* s, and when seen (s) */
} FallbackShared;

static FallbackShared *shared = NULL;

/* The watchdog's. */
static int64 steady_since = 0;	/* has answered all the time since; 0 = not */

static bool
is_on(void)
{
	return lr_mode == MODE_FALLBACK;
}

static uint32
ttl_count(void)
{
	return pg_nextpower2_32(Max(lr_max_locks, 1024));
}

Size
fallback_shmem_size(void)
{
	return add_size(offsetof(FallbackShared, ttl),
					mul_size(ttl_count(), sizeof(pg_atomic_uint64)));
}

/*
 * safe_after --- how long Redis may be silent, at most, before the table takes
 * over: a renewed lock must live to see that
 *
 * At least two thirds of its lease are left when Redis falls silent.
 */
static int64
safe_after(void)
{
	return Min(lr_fallback_after, ((int64) lr_lease * 2 - 1) / 3);
}

/*
 * fallback_check_settings --- do they fit each other?
 *
 * Settings that do not are no reason to keep a database from starting, and a
 * reload must not accept what the next start refuses.  So both tell the same
 * and go on with what is safe.
 */
void
fallback_check_settings(void)
{
	if (!is_on() || safe_after() == lr_fallback_after)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("\"%s\" must be below two thirds of \"%s\"",
					"lockredis.fallback_after", "lockredis.lease"),
			 errdetail("Locks would be lost before they could be carried over to the table, so %lld ms are used instead of %d ms.",
					   (long long) safe_after(), lr_fallback_after)));
}

/* Called with AddinShmemInitLock held. */
void
fallback_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("lockredis fallback", fallback_shmem_size(), &found);
	if (found)
		return;

	memset(shared, 0, offsetof(FallbackShared, ttl));
	pg_atomic_init_u32(&shared->current, STORE_REDIS);
	pg_atomic_init_u32(&shared->epoch, 0);
	pg_atomic_init_u64(&shared->answered_at, (uint64) lr_now());
	pg_atomic_init_u64(&shared->silent_since, 0);
	pg_atomic_init_u64(&shared->looked_at, 0);
	pg_atomic_init_u64(&shared->after, safe_after() * LR_US_PER_MS);
	pg_atomic_init_u64(&shared->lease, lr_lease * LR_US_PER_MS);
	SpinLockInit(&shared->mutex);
	shared->status.current = STORE_REDIS;
	shared->status.since = GetCurrentTimestamp();
	shared->nttls = ttl_count();
	for (uint32 i = 0; i < shared->nttls; i++)
		pg_atomic_init_u64(&shared->ttl[i], 0);
}

static int64
read_time(pg_atomic_uint64 *t)
{
	return (int64) pg_atomic_read_u64(t);
}

/*
 * is_watched --- does the watchdog know what Redis did lately?
 */
static bool
is_watched(int64 now)
{
	return now - read_time(&shared->looked_at) <=
		Max(STALL_MIN, read_time(&shared->after) / 2);
}

/* ----------
 * For all processes
 * ----------
 */

StoreId
fallback_current(void)
{
	switch (lr_mode)
	{
		case MODE_TABLE:
			return STORE_TABLE;
		case MODE_FALLBACK:
			return (StoreId) pg_atomic_read_u32(&shared->current);
		default:
			return STORE_REDIS;
	}
}

int64
fallback_answered_at(void)
{
	return is_on() && is_watched(lr_now()) ? read_time(&shared->answered_at) : LR_NEVER;
}

bool
fallback_is_silent(void)
{
	int64		now = lr_now();
	int64		silent_since;

	if (!is_on() || !is_watched(now))
		return false;
	silent_since = read_time(&shared->silent_since);
	return silent_since != 0 && now - silent_since > SLOW_ANSWER;
}

uint32
fallback_epoch(void)
{
	return is_on() ? pg_atomic_read_u32(&shared->epoch) : 0;
}

/*
 * seen_ttl --- the time to live that was seen on the key, in s; 0 = none that
 * matters
 */
static uint32
seen_ttl(uint64 entry)
{
	uint32		ttl = (uint32) (entry >> 32);
	uint32		seen_at = (uint32) entry;
	int64		kept = ttl == TTL_ENDLESS ? ENDLESS_REMEMBERED :
		Max(ttl, TTL_REMEMBERED);

	return lr_now() / LR_US_PER_S < (int64) seen_at + kept ? ttl : 0;
}

int64
fallback_hold_off(uint32 hash)
{
	int64		now = lr_now();
	int64		silent_since;
	uint32		ttl;
	int64		left;

	if (!is_on())
		return 0;
	silent_since = read_time(&shared->silent_since);
	ttl = seen_ttl(pg_atomic_read_u64(&shared->ttl[hash & (shared->nttls - 1)]));
	if (ttl == TTL_ENDLESS)
		return LR_NEVER;
	left = Max(read_time(&shared->lease), ttl * LR_US_PER_S);
	if (silent_since != 0 && is_watched(now))
		left -= now - silent_since;
	return Max(left, 0);
}

void
fallback_saw_ttl(uint32 hash, int64 ttl_ms)
{
	pg_atomic_uint64 *entry;
	uint64		before;
	uint64		after;
	uint32		ttl = TTL_ENDLESS;

	if (!is_on())
		return;
	if (ttl_ms != STORE_NO_TTL)
	{
		if (ttl_ms * LR_US_PER_MS <= read_time(&shared->lease))
			return;
		ttl = (uint32) Min((ttl_ms + 999) / 1000, (int64) TTL_ENDLESS);
	}
	entry = &shared->ttl[hash & (shared->nttls - 1)];
	before = pg_atomic_read_u64(entry);
	after = (uint64) ttl << 32 | (uint32) (lr_now() / LR_US_PER_S);
	while (seen_ttl(before) <= ttl &&
		   !pg_atomic_compare_exchange_u64(entry, &before, after))
		;
}

void
fallback_get_status(FallbackStatus *out)
{
	SpinLockAcquire(&shared->mutex);
	*out = shared->status;
	SpinLockRelease(&shared->mutex);
}

/* ----------
 * For the watchdog
 * ----------
 */

static int64
steady_time(void)
{
	return Max(STEADY_MIN, read_time(&shared->after) / 2);
}

/*
 * fallback_start --- what the watchdog has read is in effect
 */
void
fallback_start(void)
{
	if (!is_on())
		return;
	pg_atomic_write_u64(&shared->after, safe_after() * LR_US_PER_MS);
	pg_atomic_write_u64(&shared->lease, lr_lease * LR_US_PER_MS);
}

void
fallback_reload(void)
{
	fallback_check_settings();
	fallback_start();
}

/*
 * fallback_new_place --- Redis is another one, which may have served others until
 * now
 *
 * So a silence begins anew, and no key is known to have stayed here.
 */
void
fallback_new_place(void)
{
	int64		now = lr_now();

	if (!is_on())
		return;
	if (read_time(&shared->silent_since) != 0)
		pg_atomic_write_u64(&shared->silent_since, (uint64) now);
	pg_atomic_write_u64(&shared->answered_at, (uint64) now);
	steady_since = 0;
}

void
fallback_asked(int64 now)
{
	if (is_on() && read_time(&shared->silent_since) == 0)
		pg_atomic_write_u64(&shared->silent_since, (uint64) now);
}

/*
 * fallback_answered --- an answer that was long in coming is no steady Redis
 */
void
fallback_answered(int64 now)
{
	int64		silent_since;

	if (!is_on())
		return;
	silent_since = read_time(&shared->silent_since);
	if (silent_since != 0 && now - silent_since > fallback_probe_interval())
		steady_since = 0;
	pg_atomic_write_u64(&shared->answered_at, (uint64) now);
	pg_atomic_write_u64(&shared->silent_since, 0);
	if (steady_since == 0)
	{
		steady_since = now;
		pg_atomic_fetch_add_u32(&shared->epoch, 1);
		lt_wake_all_waiters();
	}
}

void
fallback_failed(void)
{
	steady_since = 0;
}

int64
fallback_probe_interval(void)
{
	if (!is_on())
		return LR_NEVER;
	return Min(read_time(&shared->after) / 5, steady_time() / 4);
}

/*
 * change --- new locks go to another store from now on
 *
 * Whoever grants a lock looks at the store after it has made the hold known
 * (lt_grant), and we look at the holds after that: one of the two sees that it
 * has to be moved.
 */
static void
change(StoreId to, const char *why)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->mutex);
	shared->status.current = to;
	shared->status.since = now;
	strlcpy(shared->status.why, why, sizeof(shared->status.why));
	SpinLockRelease(&shared->mutex);

	pg_atomic_write_u32(&shared->current, to);
	pg_memory_barrier();
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
	lt_renew_all_now(to);
	lt_wake_all_waiters();
	lr_count(STAT_SWITCHES);
	ereport(LOG,
			(errmsg_internal("%s", to == STORE_TABLE ?
							 _("lockredis: locks are kept in the table from now on") :
							 _("lockredis: locks are kept in Redis again from now on")),
			 errdetail_internal("%s", why)));
}

static void
leave_redis(int64 silence)
{
	NodeStatus	status;
	char		why[256];

	/* A request may still be under way that nobody has given up yet. */
	steady_since = 0;
	node_get_status(STORE_REDIS, &status);
	snprintf(why, sizeof(why), _("Redis has not answered for %.1f s: %.190s"),
			 silence / (double) LR_US_PER_S,
			 status.state == NODE_DOWN ? status.last_error :
			 _("A request is under way."));
	change(STORE_TABLE, why);
}

static void
return_to_redis(int64 steady)
{
	char		why[256];

	snprintf(why, sizeof(why), _("Redis has answered for %.1f s."),
			 steady / (double) LR_US_PER_S);
	change(STORE_REDIS, why);
}

/*
 * notice_stall --- what was not watched does not count
 */
static void
notice_stall(int64 now)
{
	if (!is_watched(now))
	{
		if (read_time(&shared->silent_since) != 0)
			pg_atomic_write_u64(&shared->silent_since, (uint64) now);
		pg_atomic_write_u64(&shared->answered_at, (uint64) now);
		if (steady_since != 0)
			steady_since = now;
	}
	pg_atomic_write_u64(&shared->looked_at, (uint64) now);
}

/*
 * when_to_leave --- when Redis has been silent for long enough
 *
 * It was asked at least every fifth of fallback_after.
 */
static int64
when_to_leave(void)
{
	int64		after = read_time(&shared->after);
	int64		silent_since = read_time(&shared->silent_since);

	if (silent_since == 0)
		return LR_NEVER;
	return Max(read_time(&shared->answered_at) + after,
			   silent_since + after * 4 / 5);
}

void
fallback_step(void)
{
	int64		now = lr_now();
	int64		answered_at;

	if (!is_on())
		return;
	notice_stall(now);
	answered_at = read_time(&shared->answered_at);
	if (fallback_current() == STORE_REDIS)
	{
		if (now >= when_to_leave() && !RecoveryInProgress())
			leave_redis(now - answered_at);
	}
	else if (steady_since != 0 && answered_at - steady_since >= steady_time())
		return_to_redis(now - steady_since);
}

int64
fallback_next(void)
{
	if (!is_on() || fallback_current() != STORE_REDIS || RecoveryInProgress())
		return LR_NEVER;
	return when_to_leave();
}
