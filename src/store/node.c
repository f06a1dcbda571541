/*-------------------------------------------------------------------------
 *
 * node.c
 *	  What all processes of this server know about the nodes of its stores.
 *
 * One struct in shared memory.  Text and addresses are under the first LWLock
 * of the tranche "lockredis" (the rest of the tranche is the lock table's);
 * the flags that are looked at before every request are atomics.  Nothing
 * here does I/O, and nothing is called while the lock is held.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/node.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "instance.h"
#include "store/node.h"
#include "settings.h"

/* Errors of sessions are shown at most this often. */
#define REPORT_INTERVAL		(100 * LR_US_PER_MS)

/* What is usual is the best of so many round trips. */
#define ROUND_TRIPS			8

typedef struct NodeShared
{
	pg_atomic_uint32 silent[STORE_COUNT];	/* a request timed out; see
											 * node_set_silent */
	pg_atomic_uint64 reported_at[STORE_COUNT];	/* lr_now() of the last error
												 * of a session */
	pg_atomic_uint32 wanted;	/* WANT_xxx: somebody asks for addresses */
	pg_atomic_uint32 place;		/* see node_get_place */
	pg_atomic_uint64 usual_round_trip[STORE_COUNT]; /* microseconds, 0 = not
													 * known */
	int64		round_trips[STORE_COUNT][ROUND_TRIPS];	/* the last ones; under
														 * the lock */
	int			nround_trips[STORE_COUNT];	/* likewise: how many there are, */
	int			next_round_trip[STORE_COUNT];	/* and where the next one goes */
	NodeStatus	status[STORE_COUNT];	/* under the lock */
	NodeAddresses addresses;	/* under the lock; of Redis */
} NodeShared;

static NodeShared *node = NULL;
static LWLock *node_lock = NULL;

Size
node_shmem_size(void)
{
	return MAXALIGN(sizeof(NodeShared));
}

/*
 * node_shmem_init --- attach, and initialize when nobody has
 *
 * Called with AddinShmemInitLock held.
 */
void
node_shmem_init(void)
{
	bool		found;

	node = ShmemInitStruct("lockredis node", node_shmem_size(), &found);
	node_lock = &(GetNamedLWLockTranche("lockredis"))[0].lock;
	if (found)
		return;

	memset(node, 0, sizeof(NodeShared));
	pg_atomic_init_u32(&node->wanted, 0);
	pg_atomic_init_u32(&node->place, 0);
	for (int i = 0; i < STORE_COUNT; i++)
	{
		pg_atomic_init_u32(&node->silent[i], 0);
		pg_atomic_init_u64(&node->reported_at[i], 0);
		node->status[i].state = NODE_CONNECTING;
		node->status[i].round_trip_us = -1;
		pg_atomic_init_u64(&node->usual_round_trip[i], 0);
	}
}

void
node_get_status(StoreId id, NodeStatus *out)
{
	LWLockAcquire(node_lock, LW_SHARED);
	*out = node->status[id];
	LWLockRelease(node_lock);
}

void
node_set_state(StoreId id, NodeState state)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	node->status[id].state = state;
	LWLockRelease(node_lock);
}

/*
 * node_set_facts --- what the node said of itself; NULL leaves a text alone
 */
void
node_set_facts(StoreId id, const char *address, const char *version,
			   const char *policy, bool replica)
{
	NodeStatus *status = &node->status[id];

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	if (address)
		strlcpy(status->address, address, sizeof(status->address));
	if (version)
		strlcpy(status->version, version, sizeof(status->version));
	if (policy)
		strlcpy(status->maxmemory_policy, policy,
				sizeof(status->maxmemory_policy));
	status->role_is_replica = replica;
	LWLockRelease(node_lock);
}

/*
 * note_round_trip --- the last one counts for what is usual; lock held
 *
 * A store that was slow for a while is not one that is far away.
 */
static void
note_round_trip(StoreId id, int64 us)
{
	int64	   *last = node->round_trips[id];
	int64		usual = us;

	last[node->next_round_trip[id]] = us;
	node->next_round_trip[id] = (node->next_round_trip[id] + 1) % ROUND_TRIPS;
	node->nround_trips[id] = Min(node->nround_trips[id] + 1, ROUND_TRIPS);
	for (int i = 0; i < node->nround_trips[id]; i++)
		usual = Min(usual, last[i]);
	pg_atomic_write_u64(&node->usual_round_trip[id], (uint64) usual);
}

void
node_set_round_trip(StoreId id, int64 us)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	node->status[id].round_trip_us = us;
	note_round_trip(id, us);
	LWLockRelease(node_lock);
}

/*
 * node_usual_round_trip --- 0 while none has been measured
 */
int64
node_usual_round_trip(StoreId id)
{
	return (int64) pg_atomic_read_u64(&node->usual_round_trip[id]);
}

void
node_set_error(StoreId id, const char *message)
{
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	strlcpy(node->status[id].last_error, message,
			sizeof(node->status[id].last_error));
	node->status[id].last_error_at = now;
	LWLockRelease(node_lock);
}

/*
 * node_report_error --- see node.h
 *
 * Who has not read yet that lockredis.url was changed speaks of another node.
 */
void
node_report_error(StoreId id, const char *message)
{
	uint32		place = node_get_place();
	uint64		now = (uint64) lr_now();
	uint64		before = pg_atomic_read_u64(&node->reported_at[id]);

	if (id == STORE_REDIS && place != 0 && place != lr_place)
		return;
	if ((before != 0 && now - before < REPORT_INTERVAL) ||
		!pg_atomic_compare_exchange_u64(&node->reported_at[id], &before, now))
		return;
	node_set_error(id, message);
}

void
node_forget(StoreId id)
{
	NodeStatus *status = &node->status[id];

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	memset(status, 0, sizeof(NodeStatus));
	status->state = NODE_CONNECTING;
	status->round_trip_us = -1;
	node->nround_trips[id] = node->next_round_trip[id] = 0;
	pg_atomic_write_u64(&node->usual_round_trip[id], 0);
	LWLockRelease(node_lock);
}

uint32
node_url_hash(const RedisUrl *url)
{
	return hash_combine(hash_bytes((const unsigned char *) url->host,
								   strlen(url->host)),
						(uint32) url->port);
}

void
node_set_place(uint32 place)
{
	pg_atomic_write_u32(&node->place, place);
}

uint32
node_get_place(void)
{
	return pg_atomic_read_u32(&node->place);
}

/*
 * node_publish_addresses --- the end of an attempt to resolve the host name
 *
 * A failed one (count 0) leaves addresses that were found before in use: they
 * are better than none.
 */
void
node_publish_addresses(const NodeAddresses *addresses)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	if (addresses->count > 0 || node->addresses.count == 0 ||
		node->addresses.url_hash != addresses->url_hash)
		node->addresses = *addresses;
	LWLockRelease(node_lock);

	/* Who has asked while it was under way gets the same answer. */
	pg_atomic_write_u32(&node->wanted, 0);
}

bool
node_get_addresses(const RedisUrl *url, NodeAddresses *out)
{
	uint32		hash = node_url_hash(url);

	LWLockAcquire(node_lock, LW_SHARED);
	*out = node->addresses;
	LWLockRelease(node_lock);

	/* They may be those of a host that lockredis.url named before. */
	if (out->url_hash != hash)
		memset(out, 0, sizeof(NodeAddresses));
	return out->count > 0;
}

/*
 * node_want_addresses --- ask for the host name to be resolved (again)
 *
 * Those who wait repeat this.  When it is done, or whether, decides the
 * watchdog.
 */
void
node_want_addresses(uint32 why)
{
	if ((pg_atomic_read_u32(&node->wanted) & why) == why)
		return;
	if ((pg_atomic_fetch_or_u32(&node->wanted, why) & why) != why)
		lr_wake_watchdog();
}

uint32
node_addresses_wanted(void)
{
	return pg_atomic_read_u32(&node->wanted);
}

void
node_drop_wish(uint32 why)
{
	pg_atomic_fetch_and_u32(&node->wanted, ~why);
}

void
node_set_silent(StoreId id, bool silent)
{
	if (pg_atomic_exchange_u32(&node->silent[id], silent ? 1 : 0) == 0 && silent)
		lr_wake_watchdog();
}

bool
node_is_silent(StoreId id)
{
	return pg_atomic_read_u32(&node->silent[id]) != 0;
}
