/*-------------------------------------------------------------------------
 *
 * silence.c
 *	  Fallback mode: since when Redis has not answered, what others may have there since, and
 *	  which store new locks go to.
 *
 * A key that nobody on this server holds may be held by a client elsewhere, whose
 * lease lasts beyond the last moment at which Redis may have served it.  We take
 * that moment to be when the watchdog sent the first request that Redis did not
 * answer, after the last one of any process that it did.  The table grants such keys
 * only one lease later, or after the longest time to live that was seen on the key, if
 * that is longer.  An array of fixed size has these, by the hash of the key; two keys
 * that share an entry only delay each other.
 *
 * Only the watchdog writes, except to that array, to heard_at and to served_at, which any
 * process writes atomically.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/silence.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/op.h"

#define MS_PER_S			1000

/* How long a Redis that is up may take to answer. */
#define SLOW_ANSWER			(100 * LR_US_PER_MS)

/* Least number of entries for times to live. */
#define TTLS_MIN			1024

/* A time to live is remembered until it is over, and for at least this (s). */
#define TTL_REMEMBERED		3600

/* An endless one (s): its value, and how long it is remembered. */
#define TTL_ENDLESS			PG_UINT32_MAX
#define ENDLESS_REMEMBERED	86400

typedef struct SilenceShared
{
	pg_atomic_uint64 answered_at;	/* when Redis last answered the watchdog */
	pg_atomic_uint64 heard_at;	/* when any process last read an answer */
	pg_atomic_uint64 served_at; /* when a session last asked for a lock or its
								 * release, and Redis has done that */
	pg_atomic_uint64 asked_at;	/* when the watchdog sent the first request that
								 * has no answer; 0 = none */
	pg_atomic_uint64 since;		/* the same after heard_at; it counts only while it
								 * is later; 0 = none */
	pg_atomic_uint64 looked_at; /* when the watchdog last looked */

	/* Which store new locks go to. */
	pg_atomic_uint32 store;		/* StoreId */
	slock_t		mutex;			/* protects what follows */
	CurrentStatus current;

	/* The effective limits, microseconds. */
	pg_atomic_uint64 stall;
	pg_atomic_uint64 lease;

	uint32		nttls;			/* a power of two */
	pg_atomic_uint64 ttl[FLEXIBLE_ARRAY_MEMBER];	/* seconds, and when seen */
} SilenceShared;

/* In fallback mode; NULL otherwise. */
static SilenceShared *shared = NULL;

static uint32
silence_nttls(void)
{
	return pg_nextpower2_32(Max(lr_max_locks, TTLS_MIN));
}

/*
 * silence_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
silence_shmem_size(void)
{
	if (!lr_has_fallback())
		return 0;
	return add_size(offsetof(SilenceShared, ttl),
					mul_size(silence_nttls(), sizeof(pg_atomic_uint64)));
}

/*
 * silence_shmem_init --- attach, and initialize if we are the first
 *
 * Called with AddinShmemInitLock held.  Nothing counts before the watchdog has looked
 * and set the limits.
 */
void
silence_shmem_init(void)
{
	bool		found;

	if (!lr_has_fallback())
		return;
	shared = ShmemInitStruct("lockredis silence", silence_shmem_size(), &found);
	if (found)
		return;

	/* Atomics that are 0 are initialized by that. */
	memset(shared, 0, offsetof(SilenceShared, ttl));
	pg_atomic_init_u64(&shared->answered_at, (uint64) lr_now());
	pg_atomic_init_u64(&shared->lease, lr_lease * LR_US_PER_MS);
	pg_atomic_init_u32(&shared->store, lr_first_store());
	SpinLockInit(&shared->mutex);
	shared->current.store = lr_first_store();
	shared->current.since = GetCurrentTimestamp();

	/* The array is zeroed, as the kernel gave it. */
	shared->nttls = silence_nttls();
}

static int64
read_time(pg_atomic_uint64 *t)
{
	return (int64) pg_atomic_read_u64(t);
}

/* Does the watchdog know whether Redis has answered lately? */
static bool
silence_is_watched(int64 now)
{
	return now - read_time(&shared->looked_at) <= read_time(&shared->stall);
}

/*
 * silent_since --- since when Redis serves nobody; 0: that is not known
 *
 * Whatever a process has been answered, Redis may have served others until then, and
 * longer: until it was asked again, in vain.
 */
static int64
silent_since(void)
{
	int64		since = read_time(&shared->since);

	return since > read_time(&shared->heard_at) ? since : 0;
}

/* The same; 0 also if the watchdog has not looked lately. */
static int64
known_silence(int64 now)
{
	return lr_has_fallback() && silence_is_watched(now) ? silent_since() : 0;
}

/* ----------
 * For all processes
 * ----------
 */

/*
 * raise_time --- set it to that time, unless it is later already
 *
 * A process that was stopped before it gets here must not put the time back.
 */
static void
raise_time(pg_atomic_uint64 *time, int64 to)
{
	uint64		before = pg_atomic_read_u64(time);

	while ((int64) before < to &&
		   !pg_atomic_compare_exchange_u64(time, &before, (uint64) to))
		;
}

void
silence_heard(int64 now, int64 served)
{
	if (!lr_has_fallback())
		return;
	raise_time(&shared->heard_at, now);
	raise_time(&shared->served_at, served);
}

/*
 * It is not enough that it has not answered since then: if it was not asked either, it
 * may have granted something to another client before it fell silent.
 */
bool
silence_lasts_since(int64 when)
{
	int64		since = known_silence(lr_now());

	return since != 0 && since <= when && read_time(&shared->answered_at) < when;
}

bool
silence_is_noticed(void)
{
	int64		now = lr_now();
	int64		since = known_silence(now);

	return since != 0 && now - since > SLOW_ANSWER;
}

/*
 * remembered_until --- until when a time to live counts that was seen then; all in s
 */
static int64
remembered_until(uint32 ttl, int64 seen_at)
{
	return seen_at + (ttl == TTL_ENDLESS ? ENDLESS_REMEMBERED : Max(ttl, TTL_REMEMBERED));
}

/*
 * seen_ttl --- the time to live in an entry, in s; 0 if it does not count any more
 */
static uint32
seen_ttl(uint64 entry)
{
	uint32		ttl = (uint32) (entry >> 32);

	return lr_now() / LR_US_PER_S < remembered_until(ttl, (uint32) entry) ? ttl : 0;
}

/*
 * silence_hold_off --- see nodes.h
 *
 * The lease is counted from the beginning of the silence; while Redis may answer, none
 * of it has passed.
 */
int64
silence_hold_off(uint32 hash)
{
	int64		now = lr_now();
	int64		since;
	uint32		ttl;
	int64		left;

	if (!lr_has_fallback())
		return 0;
	since = known_silence(now);
	ttl = seen_ttl(pg_atomic_read_u64(&shared->ttl[hash & (shared->nttls - 1)]));
	if (ttl == TTL_ENDLESS)
		return LR_NEVER;
	left = lr_later(read_time(&shared->lease), ttl * LR_US_PER_S);
	if (since != 0)
		left -= now - since;
	return Max(left, 0);
}

/*
 * add_ttl --- the new entry when this time to live is seen now: the longest that counts
 *
 * If the longer one in the entry would be forgotten first, it is remembered from now
 * on, an hour of it at most: a lock that is renewed repeatedly is seen with any part of
 * its lease.  One that is no longer than our lease does not keep it from being forgotten.
 */
static uint64
add_ttl(uint64 before, uint32 ttl)
{
	int64		now = lr_now() / LR_US_PER_S;
	uint32		longer = seen_ttl(before);

	if (longer > ttl && (ttl * LR_US_PER_S <= read_time(&shared->lease) ||
						 remembered_until(longer, (uint32) before) >= remembered_until(ttl, now)))
		return before;
	return (uint64) Max(ttl, Min(longer, TTL_REMEMBERED)) << 32 | (uint32) now;
}

/*
 * silence_saw_ttl --- see nodes.h
 *
 * Only times to live that are longer than a lease matter.  But the lease may become shorter
 * (lockredis.lease) while they are remembered.
 */
void
silence_saw_ttl(uint32 hash, int64 ttl_ms)
{
	pg_atomic_uint64 *entry;
	uint64		before;
	uint64		after;
	uint32		ttl = TTL_ENDLESS;

	if (!lr_has_fallback())
		return;
	if (ttl_ms != STORE_NO_TTL)
		ttl = (uint32) Min(1 + (ttl_ms - 1) / MS_PER_S, (int64) TTL_ENDLESS);
	entry = &shared->ttl[hash & (shared->nttls - 1)];
	before = pg_atomic_read_u64(entry);
	do
		after = add_ttl(before, ttl);
	while (after != before && !pg_atomic_compare_exchange_u64(entry, &before, after));
}

/* ----------
 * For the watchdog
 * ----------
 */

/*
 * silence_set_limits --- see nodes.h
 *
 * Locks keep the lease with which they were taken, also those of other servers: a reload
 * that lowers it concerns only new ones.
 */
void
silence_set_limits(int64 stall, int64 lease)
{
	pg_atomic_write_u64(&shared->stall, (uint64) stall);
	raise_time(&shared->lease, lease);
}

bool
silence_look(int64 now)
{
	bool		was_watched = silence_is_watched(now);

	if (!was_watched)
		silence_begin_anew(now);
	pg_atomic_write_u64(&shared->looked_at, (uint64) now);
	return was_watched;
}

void
silence_begin_anew(int64 now)
{
	if (read_time(&shared->asked_at) != 0)
		pg_atomic_write_u64(&shared->asked_at, (uint64) now);
	if (silent_since() != 0)
		pg_atomic_write_u64(&shared->since, (uint64) now);
	pg_atomic_write_u64(&shared->answered_at, (uint64) now);
}

void
silence_asked(int64 now)
{
	if (read_time(&shared->asked_at) == 0)
		pg_atomic_write_u64(&shared->asked_at, (uint64) now);
	if (silent_since() == 0)
		pg_atomic_write_u64(&shared->since, (uint64) now);
}

void
silence_answered(int64 now)
{
	pg_atomic_write_u64(&shared->answered_at, (uint64) now);
	pg_atomic_write_u64(&shared->asked_at, 0);
	pg_atomic_write_u64(&shared->since, 0);
}

int64
silence_asked_since(void)
{
	return read_time(&shared->asked_at);
}

int64
silence_last_answer(void)
{
	return read_time(&shared->answered_at);
}

int64
silence_last_service(void)
{
	return lr_later(read_time(&shared->answered_at), read_time(&shared->served_at));
}

/* ----------
 * Which store new locks go to; only the watchdog writes
 * ----------
 */

/*
 * current_store --- the store that new locks go to
 */
StoreId
current_store(void)
{
	return shared != NULL ? (StoreId) pg_atomic_read_u32(&shared->store) : lr_first_store();
}

/*
 * current_get_status --- see nodes.h; in fallback mode only
 */
void
current_get_status(CurrentStatus *out)
{
	SpinLockAcquire(&shared->mutex);
	*out = shared->current;
	SpinLockRelease(&shared->mutex);
}

/*
 * A process that grants a lock makes the hold visible and then looks at the store
 * (lt_grant); the watchdog sets the store and then looks at the holds.  So one of the
 * two sees that the lock has to move.
 */
void
current_change(StoreId to, const char *why)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&shared->mutex);
	shared->current.store = to;
	shared->current.since = now;
	strlcpy(shared->current.why, why, sizeof(shared->current.why));
	SpinLockRelease(&shared->mutex);

	pg_atomic_write_u32(&shared->store, to);
	pg_memory_barrier();
	topology_tell();
}
