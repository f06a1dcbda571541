/*-------------------------------------------------------------------------
 *
 * topology.c
 *	  Which node is the master, where others (Sentinels) say so; or what is known of
 *	  each of several independent masters.
 *
 * One struct in shared memory.  Fields that are read before each request are atomics;
 * the address of the master, and which servers the independent ones are, is under the
 * lock of the table of nodes, which is held only for a moment.  Only the watchdog
 * writes, except that any process may report a doubt, or connect to one of several
 * masters.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/topology.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "names.h"
#include "settings.h"
#include "store/nodes.h"

#define REASON_MAX			256

/*
 * How long after a Sentinel was asked, and named the master, the watchdog may connect
 * and confirm.  So neither happens after the watchdog was stopped for that long,
 * wherever it was.
 */
#define NAMING_LIFE			(2 * LR_US_PER_S)

/* Allowance for clocks of different speed: a part of the lease, and a bit more. */
#define DRIFT_PART			100
#define DRIFT_MIN			(2 * LR_US_PER_MS)

/* What is known of the server at one URL, under the lock. */
typedef struct MasterRow
{
	MasterStatus server;
	bool		known;			/* some server was seen in this row before */
	bool		claimed;		/* the server was heard since the watchdog's last
								 * connection to this row ended, and no other one was
								 * found there since */
} MasterRow;

typedef struct MastersShared
{
	pg_atomic_uint32 n;
	pg_atomic_uint32 place;
	pg_atomic_uint32 there;		/* bits: those that answer the watchdog */

	/* Changes, under the lock, whenever the server of the row changes. */
	pg_atomic_uint32 life[LR_MAX_MASTERS];

	MasterRow	row[LR_MAX_MASTERS];

	/* The servers by former settings, under the lock. */
	MasterStatus former[LR_MAX_MASTERS];
} MastersShared;

/* How often the watchdog found a master to be back; in its own memory. */
static uint32 returns = 0;

typedef struct TopologyShared
{
	pg_atomic_uint32 epoch;
	pg_atomic_uint32 named;		/* epoch that the watchdog may connect to, or 0 */
	pg_atomic_uint64 named_at;	/* lr_now() time: the Sentinel that named it was asked
								 * then */
	pg_atomic_uint32 confirmed; /* epoch that all may connect to, or 0 */
	pg_atomic_uint32 said;		/* epoch whose master has reported that it is one, or 0 */
	pg_atomic_uint32 denied;	/* epoch whose master reports that it is none, or 0 */
	pg_atomic_uint64 watched_until; /* lr_now() time; 0 = not at all */
	pg_atomic_uint32 news;
	pg_atomic_uint32 asked;		/* the Sentinels were asked since the start */

	/* Under the lock. */
	uint32		place;			/* lr_place of the settings by which it was found */
	RedisHost	at;
	int64		config_epoch;
	char		reason[REASON_MAX];

	/* Only used by watchdogs; kept for the next one. */
	TopologySentinel sentinel[LR_MAX_SENTINELS];
	TopologyMaster passed_over; /* no host: none was */

	MastersShared masters;
} TopologyShared;

static TopologyShared *shared = NULL;
static MastersShared *masters = NULL;
static LWLock *topology_lock = NULL;

/*
 * topology_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
topology_shmem_size(void)
{
	return MAXALIGN(sizeof(TopologyShared));
}

/* Called with AddinShmemInitLock held. */
void
topology_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("lockredis topology", topology_shmem_size(), &found);
	masters = &shared->masters;
	topology_lock = node_lwlock();
	if (found)
		return;

	memset(shared, 0, sizeof(TopologyShared));
	pg_atomic_init_u32(&shared->epoch, 0);
	pg_atomic_init_u32(&shared->named, 0);
	pg_atomic_init_u64(&shared->named_at, 0);
	pg_atomic_init_u32(&shared->confirmed, 0);
	pg_atomic_init_u32(&shared->said, 0);
	pg_atomic_init_u32(&shared->denied, 0);
	pg_atomic_init_u64(&shared->watched_until, 0);
	pg_atomic_init_u32(&shared->news, 0);
	pg_atomic_init_u32(&shared->asked, 0);
	pg_atomic_init_u32(&masters->n, 0);
	pg_atomic_init_u32(&masters->place, 0);
	pg_atomic_init_u32(&masters->there, 0);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		pg_atomic_init_u32(&masters->life[i], 1);
}

/* ----------
 * Reading
 * ----------
 */

uint32
topology_epoch(void)
{
	return pg_atomic_read_u32(&shared->epoch);
}

uint32
topology_news(void)
{
	return pg_atomic_read_u32(&shared->news);
}

/* A watchdog that does not run would not notice that another node is the master. */
bool
topology_is_watched(uint32 epoch, int64 now)
{
	return epoch == topology_epoch() &&
		now < (int64) pg_atomic_read_u64(&shared->watched_until);
}

/*
 * A restarted node may report that it is a master long after another one has become
 * that.  So other processes connect only while the watchdog has a connection that it
 * has made since the node was named.
 */
TopologyAnswer
topology_may_connect(uint32 epoch, bool scout, int64 now)
{
	pg_atomic_uint32 *who = scout ? &shared->named : &shared->confirmed;

	if (epoch != 0 && pg_atomic_read_u32(who) == epoch &&
		(scout ? topology_was_named_lately(now) : topology_is_watched(epoch, now)))
		return TOPOLOGY_YES;
	return pg_atomic_read_u32(&shared->asked) == 0 ? TOPOLOGY_NOT_YET : TOPOLOGY_NO;
}

/*
 * Read the epoch first: a process that reads an address that is newer than its epoch
 * notices that before it uses the address.
 */
void
topology_get_master(uint32 place, TopologyMaster *out)
{
	memset(out, 0, sizeof(TopologyMaster));
	out->epoch = topology_epoch();
	pg_read_barrier();
	LWLockAcquire(topology_lock, LW_SHARED);
	if (shared->place == place)
	{
		out->at = shared->at;
		out->config_epoch = shared->config_epoch;
	}
	LWLockRelease(topology_lock);
}

void
topology_get_reason(char *out, size_t size)
{
	LWLockAcquire(topology_lock, LW_SHARED);
	strlcpy(out, shared->reason, size);
	LWLockRelease(topology_lock);
}

/* ----------
 * Writing
 * ----------
 */

void
topology_tell(void)
{
	pg_atomic_fetch_add_u32(&shared->news, 1);
}

/*
 * topology_withdraw --- clear a field if it has this epoch; true if it had
 */
static bool
topology_withdraw(pg_atomic_uint32 *what, uint32 epoch)
{
	uint32		expected = epoch;

	return epoch != 0 && pg_atomic_compare_exchange_u32(what, &expected, 0);
}

/*
 * Under the lock, so that no doubt is lost while the watchdog confirms the master:
 *
 *	watchdog: this master is named
 *	session: the node reports that it is no master: denied, and not named any more
 *	watchdog: not denied, has said, confirmed
 */
void
topology_doubt(uint32 epoch)
{
	bool		was_confirmed;
	bool		was_named;

	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	was_confirmed = topology_withdraw(&shared->confirmed, epoch);
	was_named = topology_withdraw(&shared->named, epoch);
	if (epoch == topology_epoch())
		pg_atomic_write_u32(&shared->denied, epoch);
	LWLockRelease(topology_lock);
	if (was_confirmed || was_named)
		lr_wake_watchdog();
}

/*
 * topology_lost --- see nodes.h
 */
void
topology_lost(uint32 epoch)
{
	(void) topology_withdraw(&shared->confirmed, epoch);
	(void) topology_withdraw(&shared->named, epoch);
}

static void
topology_forget_who_named(void)
{
	for (int i = 0; i < LR_MAX_SENTINELS; i++)
		shared->sentinel[i].named_by = -1;
}

/*
 * A new watchdog has no connection yet, so the master has to be named again.  Until the
 * last look of the former watchdog expires, nothing changes for processes that are
 * connected.
 */
void
topology_start(uint32 place)
{
	pg_atomic_write_u32(&shared->confirmed, 0);
	pg_atomic_write_u32(&shared->named, 0);
	pg_atomic_write_u32(&shared->asked, 0);
	if (shared->place == place)
		return;

	pg_atomic_write_u64(&shared->watched_until, 0);
	memset(shared->sentinel, 0, sizeof(shared->sentinel));
	memset(&shared->passed_over, 0, sizeof(TopologyMaster));
	topology_forget_who_named();
	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	memset(&shared->at, 0, sizeof(RedisHost));
	shared->config_epoch = 0;
	shared->reason[0] = '\0';
	shared->place = place;
	LWLockRelease(topology_lock);
	pg_memory_barrier();
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
}

/*
 * topology_change --- another node is the master from now on
 *
 * Set its address first, then its epoch: a process that sees the new epoch also finds
 * the new address.  After this the caller looks at the held locks.  A process that
 * enters a lock from the former master does so before it looks at the epoch, so one of
 * the two sees the other.
 */
uint32
topology_change(const RedisHost *at, int64 config_epoch)
{
	uint32		epoch;

	pg_atomic_write_u32(&shared->confirmed, 0);
	pg_atomic_write_u32(&shared->named, 0);
	topology_forget_who_named();
	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	shared->at = *at;
	shared->config_epoch = config_epoch;
	shared->reason[0] = '\0';
	LWLockRelease(topology_lock);

	epoch = pg_atomic_add_fetch_u32(&shared->epoch, 1);
	pg_memory_barrier();
	topology_tell();
	return epoch;
}

void
topology_advance(void)
{
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
	pg_memory_barrier();
	pg_atomic_write_u32(&shared->asked, 1);
	topology_tell();
}

void
topology_set_config_epoch(int64 config_epoch)
{
	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	shared->config_epoch = config_epoch;
	LWLockRelease(topology_lock);
}

TopologySentinel *
topology_sentinel(int number)
{
	return &shared->sentinel[number];
}

/*
 * topology_sentinel_met --- see nodes.h
 *
 * One with an id that nobody had is taken for the former one, which may have been restarted.
 */
void
topology_sentinel_met(int number, const char *run_id)
{
	TopologySentinel *here = &shared->sentinel[number];
	TopologySentinel before = *here;

	if (run_id[0] == '\0' || strcmp(here->run_id, run_id) == 0)
		return;
	for (int i = 0; i < LR_MAX_SENTINELS; i++)
	{
		if (strcmp(shared->sentinel[i].run_id, run_id) != 0)
			continue;
		*here = shared->sentinel[i];
		shared->sentinel[i] = before;
		return;
	}
	strlcpy(here->run_id, run_id, sizeof(here->run_id));
}

void
topology_pass_over(const RedisHost *at, int64 config_epoch)
{
	memset(&shared->passed_over, 0, sizeof(TopologyMaster));
	if (at == NULL)
		return;
	shared->passed_over.at = *at;
	shared->passed_over.config_epoch = config_epoch;
}

const TopologyMaster *
topology_passed_over(void)
{
	return &shared->passed_over;
}

void
topology_named(uint32 epoch, int64 at)
{
	pg_atomic_write_u64(&shared->named_at, (uint64) at);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->named, epoch);
}

void
topology_named_again(uint32 epoch, int64 at)
{
	if (pg_atomic_read_u32(&shared->named) == epoch)
		pg_atomic_write_u64(&shared->named_at, (uint64) at);
}

bool
topology_was_named_lately(int64 now)
{
	return now - (int64) pg_atomic_read_u64(&shared->named_at) < NAMING_LIFE;
}

/* The node's answer may have taken long; read the clock after it has come. */
void
topology_confirm(uint32 epoch)
{
	bool		confirmed;

	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	confirmed = epoch != 0 && pg_atomic_read_u32(&shared->named) == epoch &&
		topology_was_named_lately(lr_now());
	if (confirmed)
	{
		pg_atomic_write_u32(&shared->denied, 0);
		pg_atomic_write_u32(&shared->said, epoch);
		pg_atomic_write_u32(&shared->confirmed, epoch);
		pg_atomic_write_u32(&shared->asked, 1);
	}
	LWLockRelease(topology_lock);
	if (confirmed)
		topology_tell();
}

bool
topology_is_proved(uint32 epoch)
{
	return epoch != 0 && pg_atomic_read_u32(&shared->said) == epoch &&
		pg_atomic_read_u32(&shared->denied) != epoch;
}

/*
 * topology_is_named --- has a Sentinel named the present master?
 */
bool
topology_is_named(void)
{
	return pg_atomic_read_u32(&shared->named) != 0;
}

/*
 * topology_is_confirmed --- has that node reported that it is a master?
 */
bool
topology_is_confirmed(void)
{
	return pg_atomic_read_u32(&shared->confirmed) != 0;
}

void
topology_watch(int64 now)
{
	if (pg_atomic_read_u64(&shared->watched_until) == 0)
		topology_tell();
	pg_atomic_write_u64(&shared->watched_until, (uint64) (now + TOPOLOGY_TRUST));
}

void
topology_suspend(void)
{
	pg_atomic_write_u64(&shared->watched_until, 0);
}

/* This is called repeatedly, so it writes only changes. */
void
topology_set_reason(const char *reason)
{
	if (strncmp(shared->reason, reason, REASON_MAX - 1) != 0)
	{
		LWLockAcquire(topology_lock, LW_EXCLUSIVE);
		strlcpy(shared->reason, reason, REASON_MAX);
		LWLockRelease(topology_lock);
	}
	if (pg_atomic_exchange_u32(&shared->asked, 1) == 0)
		topology_tell();
}

/* ----------
 * Independent masters
 * ----------
 */

int
masters_count(void)
{
	return (int) pg_atomic_read_u32(&masters->n);
}

uint32
masters_place(void)
{
	return pg_atomic_read_u32(&masters->place);
}

int64
masters_votes_at(int64 since)
{
	int64		lease = lr_max_lease * LR_US_PER_MS;

	return since + lease + lease / DRIFT_PART + DRIFT_MIN;
}

/* ----------
 * The servers
 * ----------
 */

/*
 * master_was_there --- since when a server was in place by former settings; lock held
 *
 * It may have been in several rows, one after another.  A server that was in none of
 * them gets a time before all others; 0 would be the start of this machine, and a
 * master may have run for longer.
 */
static int64
master_was_there(const char *run_id)
{
	int64		since = -LR_NEVER;

	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (strcmp(masters->former[i].run_id, run_id) == 0)
			since = lr_later(since, masters->former[i].since);
	return since;
}

/*
 * master_becomes --- a row has another server now, or ("") none that is known; lock
 * held
 *
 * The first server of a row counts since the time that it reports itself, or since it
 * took the place of another one by former settings.  Any later one may have run for
 * long, but does not know the locks that the server before it has granted: it counts as
 * started now.
 */
static void
master_becomes(int row, const char *run_id, int64 booted_by)
{
	MasterRow  *m = &masters->row[row];

	m->server.since = lr_later(booted_by, m->known ? lr_now() : master_was_there(run_id));
	strlcpy(m->server.run_id, run_id, sizeof(m->server.run_id));
	m->known = true;
	m->claimed = false;
	pg_atomic_fetch_add_u32(&masters->life[row], 1);
}

/*
 * If the server of a connection is claimed by another row, the former server of this
 * row is not here any more, so another row may claim that one.  So after servers have
 * changed places, all is right when both rows have been connected to.
 */
bool
masters_note(int row, uint32 place, const char *run_id, int64 booted_by, uint32 *life,
			 int64 *since)
{
	MasterRow  *m = &masters->row[row];
	bool		refused = false;

	*life = 0;
	*since = booted_by;
	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	if (place == masters_place())
	{
		bool		same = strcmp(m->server.run_id, run_id) == 0;

		for (int i = 0; i < masters_count(); i++)
		{
			const MasterRow *other = &masters->row[i];

			if (i == row || strcmp(other->server.run_id, run_id) != 0)
				continue;
			if (other->claimed)
				refused = true;
			else
				master_becomes(i, "", 0);
		}
		if (!refused && !same)
			master_becomes(row, run_id, booted_by);
		m->claimed = !refused;
		*life = pg_atomic_read_u32(&masters->life[row]);
		*since = m->server.since;
	}
	LWLockRelease(topology_lock);
	return !refused;
}

uint32
masters_life(int row)
{
	return pg_atomic_read_u32(&masters->life[row]);
}

/*
 * masters_get --- copy what is known of the server in a row
 */
void
masters_get(int row, MasterStatus *out)
{
	LWLockAcquire(topology_lock, LW_SHARED);
	*out = masters->row[row].server;
	LWLockRelease(topology_lock);
}

bool
masters_are_there(uint32 place, uint32 rows)
{
	rows &= pg_atomic_read_u32(&masters->there);
	if (place != masters_place())
		return false;
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if ((rows & (1U << i)) != 0 && !node_is_silent(NODE_MASTER + i))
			return true;
	return false;
}

/* ----------
 * For the watchdog
 * ----------
 */

/*
 * A process first notes that a master lacks a lock, and then checks whether it is
 * there; the watchdog sets the bit, and then looks for such locks.  The atomic
 * operation is a barrier, so one of the two sees the other.
 */
void
masters_set_there(int row, bool there)
{
	uint32		bit = 1U << row;

	if (!there)
		pg_atomic_fetch_and_u32(&masters->there, ~bit);
	else
	{
		pg_atomic_fetch_or_u32(&masters->there, bit);
		returns++;
	}
}

uint32
masters_returns(void)
{
	return returns + node_silences_ended();
}

/* If the server is there after all, nothing changes. */
void
masters_forget(int row)
{
	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	masters->row[row].claimed = false;
	LWLockRelease(topology_lock);
}

/*
 * With the same place everything known stays valid: a watchdog may have been restarted.
 */
void
masters_start(int n, uint32 place)
{
	uint32		before = masters_place();
	int			nbefore = masters_count();

	if (place == before)
		return;
	pg_atomic_write_u32(&masters->place, 0);
	for (int i = n; i < nbefore; i++)
		node_vanish(NODE_MASTER + i);
	LWLockAcquire(topology_lock, LW_EXCLUSIVE);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if (masters->row[i].server.run_id[0] != '\0')
			masters->former[i] = masters->row[i].server;
	memset(masters->row, 0, sizeof(masters->row));
	LWLockRelease(topology_lock);
	for (int i = 0; i < n; i++)
		node_appear(NODE_MASTER + i, STORE_REDIS, ROLE_MASTER);
	pg_atomic_write_u32(&masters->n, (uint32) n);
	pg_write_barrier();
	pg_atomic_write_u32(&masters->place, place);
}
