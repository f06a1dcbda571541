/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  Which node of a Redis Cluster has which slot, as all processes know it.
 *
 * A slot is one atomic word, its epoch and its node: whoever reads it has both of the
 * same moment.  Where the nodes are lies under the lock of the table of nodes, which is
 * held for copying only.  Written by the watchdog.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/cluster.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "instance.h"
#include "store/cluster.h"
#include "store/topology.h"

/* A slot's word: the epoch in the upper half, the row and one in the lower. */
#define SLOT_WORD(epoch, row)	(((uint64) (epoch) << 32) | (uint32) ((row) + 1))
#define SLOT_WORD_EPOCH(word)	((uint32) ((word) >> 32))
#define SLOT_WORD_ROW(word)		((int) (uint32) (word) - 1)

typedef struct ClusterShared
{
	pg_atomic_uint32 on;
	pg_atomic_uint32 wanted;
	pg_atomic_uint32 open_slots;
	pg_atomic_uint64 slot[SLOT_COUNT];
	pg_atomic_uint32 generation[NODE_MASTERS];

	/* The watchdog's alone, but of all watchdogs. */
	uint32		place;			/* lr_place that it is of */
	int64		number[SLOT_COUNT];

	/* Under the lock. */
	ClusterNode node[NODE_MASTERS];
} ClusterShared;

static ClusterShared *shared = NULL;
static LWLock *cluster_lock = NULL;

Size
cluster_shmem_size(void)
{
	return MAXALIGN(sizeof(ClusterShared));
}

/* Called with AddinShmemInitLock held. */
void
cluster_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("lockredis cluster", cluster_shmem_size(), &found);
	cluster_lock = node_lwlock();
	if (found)
		return;

	memset(shared, 0, sizeof(ClusterShared));
	pg_atomic_init_u32(&shared->on, 0);
	pg_atomic_init_u32(&shared->wanted, 0);
	pg_atomic_init_u32(&shared->open_slots, SLOT_COUNT);
	for (int i = 0; i < SLOT_COUNT; i++)
		pg_atomic_init_u64(&shared->slot[i], 0);
	for (int i = 0; i < NODE_MASTERS; i++)
		pg_atomic_init_u32(&shared->generation[i], 0);
}

/* ----------
 * Reading
 * ----------
 */

bool
cluster_is_on(void)
{
	return pg_atomic_read_u32(&shared->on) != 0;
}

uint32
cluster_epoch_of(const char *name, int len)
{
	if (!cluster_is_on())
		return topology_epoch();
	return SLOT_WORD_EPOCH(pg_atomic_read_u64(&shared->slot[slot_of(name, len)]));
}

int
cluster_owner(int slot, uint32 *epoch)
{
	uint64		word = pg_atomic_read_u64(&shared->slot[slot]);

	*epoch = SLOT_WORD_EPOCH(word);
	return SLOT_WORD_ROW(word);
}

uint32
cluster_generation(int row)
{
	return pg_atomic_read_u32(&shared->generation[row]);
}

bool
cluster_get_node(int row, ClusterNode *out, uint32 *generation)
{
	LWLockAcquire(cluster_lock, LW_SHARED);
	*out = shared->node[row];
	*generation = cluster_generation(row);
	LWLockRelease(cluster_lock);
	return out->used;
}

int
cluster_find_node(const char *host, int port)
{
	int			found = CLUSTER_NO_NODE;

	LWLockAcquire(cluster_lock, LW_SHARED);
	for (int i = 0; i < NODE_MASTERS && found == CLUSTER_NO_NODE; i++)
	{
		const ClusterNode *n = &shared->node[i];

		if (n->used && n->at.port == port && strcmp(n->at.host, host) == 0)
			found = i;
	}
	LWLockRelease(cluster_lock);
	return found;
}

uint32
cluster_wanted(void)
{
	return pg_atomic_read_u32(&shared->wanted);
}

void
cluster_want_map(void)
{
	pg_atomic_fetch_add_u32(&shared->wanted, 1);
	lr_wake_watchdog();
}

int
cluster_open_slots(void)
{
	return (int) pg_atomic_read_u32(&shared->open_slots);
}

/* ----------
 * Writing
 * ----------
 */

/*
 * cluster_start --- see cluster.h
 *
 * Called after topology_start(), whose epoch all slots have from then on.
 */
void
cluster_start(bool on, uint32 place)
{
	if (!on || shared->place != place)
	{
		for (int i = 0; i < NODE_MASTERS; i++)
			if (shared->node[i].used)
				cluster_remove_node(i);
	}
	if (on && shared->place != place)
	{
		uint32		epoch = topology_epoch();

		for (int i = 0; i < SLOT_COUNT; i++)
			pg_atomic_write_u64(&shared->slot[i], SLOT_WORD(epoch, CLUSTER_NO_NODE));
		memset(shared->number, 0, sizeof(shared->number));
		pg_atomic_write_u32(&shared->open_slots, SLOT_COUNT);
	}
	shared->place = on ? place : 0;
	pg_write_barrier();
	pg_atomic_write_u32(&shared->on, on ? 1 : 0);
}

/*
 * cluster_put_node --- see cluster.h; CLUSTER_NO_NODE: there is no room for it
 */
int
cluster_put_node(const char *id, const RedisHost *at)
{
	int			row = CLUSTER_NO_NODE;
	ClusterNode *n;
	bool		is_new;

	for (int i = 0; i < NODE_MASTERS; i++)
		if (shared->node[i].used && strcmp(shared->node[i].id, id) == 0)
			row = i;
	is_new = row == CLUSTER_NO_NODE;
	for (int i = 0; i < NODE_MASTERS && row == CLUSTER_NO_NODE; i++)
		if (!shared->node[i].used)
			row = i;
	if (row == CLUSTER_NO_NODE)
		return row;

	n = &shared->node[row];
	if (!is_new && n->at.port == at->port && strcmp(n->at.host, at->host) == 0)
		return row;
	LWLockAcquire(cluster_lock, LW_EXCLUSIVE);
	n->used = true;
	strlcpy(n->id, id, sizeof(n->id));
	n->at = *at;
	pg_atomic_fetch_add_u32(&shared->generation[row], 1);
	LWLockRelease(cluster_lock);
	if (is_new)
		node_appear(NODE_MASTER + row, STORE_REDIS, ROLE_MASTER);
	return row;
}

void
cluster_remove_node(int row)
{
	LWLockAcquire(cluster_lock, LW_EXCLUSIVE);
	shared->node[row].used = false;
	pg_atomic_fetch_add_u32(&shared->generation[row], 1);
	LWLockRelease(cluster_lock);
	node_vanish(NODE_MASTER + row);
}

int64
cluster_number(int slot)
{
	return shared->number[slot];
}

void
cluster_set_number(int slot, int64 number)
{
	shared->number[slot] = number;
}

/*
 * cluster_give_slot --- see cluster.h
 *
 * Its epoch is the next one of all, which becomes the present one at the end: who reads
 * that finds the slots of it changed.
 */
void
cluster_give_slot(int slot, int row)
{
	uint64		before = pg_atomic_read_u64(&shared->slot[slot]);

	pg_atomic_write_u64(&shared->slot[slot], SLOT_WORD(topology_epoch() + 1, row));
	if (SLOT_WORD_ROW(before) == CLUSTER_NO_NODE && row != CLUSTER_NO_NODE)
		pg_atomic_fetch_sub_u32(&shared->open_slots, 1);
	else if (SLOT_WORD_ROW(before) != CLUSTER_NO_NODE && row == CLUSTER_NO_NODE)
		pg_atomic_fetch_add_u32(&shared->open_slots, 1);
}

void
cluster_end_change(void)
{
	pg_memory_barrier();
	topology_advance();
}
