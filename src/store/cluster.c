/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  In which slot of a Redis Cluster a key is, and which node has it, as all processes
 *	  know it.
 *
 * The slot of a key is its CRC16 (XMODEM), modulo the number of slots.
 *
 * A slot is one atomic word with its epoch and its node, so a reader gets both as of the
 * same moment.  The addresses of the nodes are under the lock of the table of nodes, which
 * is held only for copying.  Only the watchdog writes; any process may want a new map.
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

#include "names.h"
#include "store/nodes.h"

/* The word of a slot: the epoch in the upper half, row + 1 in the lower one. */
#define SLOT_WORD(epoch, row)	(((uint64) (epoch) << 32) | (uint32) ((row) + 1))
#define SLOT_WORD_EPOCH(word)	((uint32) ((word) >> 32))
#define SLOT_WORD_ROW(word)		((int) (uint32) (word) - 1)

typedef struct ClusterShared
{
	pg_atomic_uint32 on;
	pg_atomic_uint32 wanted;
	pg_atomic_uint32 open_slots;
	pg_atomic_uint32 asked;
	pg_atomic_uint64 slot[SLOT_COUNT];
	pg_atomic_uint32 generation[NODE_MASTERS];

	/* Row + 1 of the node that reports that the slot is being moved; 0: none. */
	uint8		half_moved[SLOT_COUNT];

	/* Only used by watchdogs; kept for the next one. */
	int64		number[SLOT_COUNT];
	ClusterIds	known;

	/* Written under the lock. */
	pg_atomic_uint32 place;		/* lr_place of the map; 0: none */
	ClusterNode node[NODE_MASTERS];
} ClusterShared;

static ClusterShared *shared = NULL;
static LWLock *cluster_lock = NULL;

/*
 * cluster_shmem_size --- the shared memory that this file uses, in bytes
 */
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
	pg_atomic_init_u32(&shared->place, 0);
	pg_atomic_init_u32(&shared->open_slots, SLOT_COUNT);
	pg_atomic_init_u32(&shared->asked, 0);
	for (int i = 0; i < SLOT_COUNT; i++)
		pg_atomic_init_u64(&shared->slot[i], 0);
	for (int i = 0; i < NODE_MASTERS; i++)
		pg_atomic_init_u32(&shared->generation[i], 0);
}

/* ----------
 * Slots of keys
 * ----------
 */

/*
 * We compute four bits at a time: a table of 16 entries stays in the cache, one of 256
 * may not.
 */
static const uint16 crc_table[16] = {
	0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
	0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef
};

static uint16
slot_crc(const char *data, int len)
{
	uint16		crc = 0;

	for (int i = 0; i < len; i++)
	{
		unsigned char c = data[i];

		crc = (uint16) (crc << 4) ^ crc_table[(crc >> 12) ^ (c >> 4)];
		crc = (uint16) (crc << 4) ^ crc_table[(crc >> 12) ^ (c & 0x0f)];
	}
	return crc;
}

int
slot_of(const char *key, int len)
{
	const char *open = memchr(key, '{', len);

	if (open != NULL)
	{
		const char *tag = open + 1;
		const char *close = memchr(tag, '}', key + len - tag);

		if (close != NULL && close > tag)
			return slot_crc(tag, close - tag) % SLOT_COUNT;
	}
	return slot_crc(key, len) % SLOT_COUNT;
}

/*
 * A derived name contains the whole name, in braces if it has no opening one, after
 * words without braces.  So all derived names are in the same slot.
 */
bool
slot_is_split(const char *name, int len)
{
	char		derived[LR_DERIVED_MAX];
	int			slot = slot_of(name, len);

	return slot != slot_of(derived, lr_channel_name(TOPIC_LOCK, name, len, NULL, derived)) ||
		slot != slot_of(derived, lr_derived_name(NAME_COUNTER, name, len, NULL, derived));
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

/*
 * Slots that are read after this are of that map, or of a later one.  The nodes of a
 * later map have another place than this one (cluster_get_node).
 */
bool
cluster_is_of(uint32 place)
{
	bool		is = pg_atomic_read_u32(&shared->place) == place;

	pg_read_barrier();
	return is;
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

	if (epoch != NULL)
		*epoch = SLOT_WORD_EPOCH(word);
	return SLOT_WORD_ROW(word);
}

uint32
cluster_generation(int row)
{
	return pg_atomic_read_u32(&shared->generation[row]);
}

/*
 * A session that has not yet read that lockredis.url names another cluster, or has read
 * it before the watchdog, would otherwise send a password to nodes that it is not for.
 */
bool
cluster_get_node(uint32 place, int row, ClusterNode *out, uint32 *generation)
{
	bool		is_its;

	LWLockAcquire(cluster_lock, LW_SHARED);
	is_its = pg_atomic_read_u32(&shared->place) == place;
	*out = shared->node[row];
	if (generation != NULL)
		*generation = cluster_generation(row);
	LWLockRelease(cluster_lock);
	return is_its && out->used;
}

int
cluster_find_node(uint32 place, const char *host, int port)
{
	int			found = CLUSTER_NO_NODE;

	LWLockAcquire(cluster_lock, LW_SHARED);
	for (int i = 0; i < NODE_MASTERS && found == CLUSTER_NO_NODE; i++)
	{
		const ClusterNode *n = &shared->node[i];

		if (pg_atomic_read_u32(&shared->place) == place && n->used && n->at.port == port &&
			(strcmp(n->at.host, host) == 0 || strcmp(n->name, host) == 0))
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

bool
cluster_was_asked(void)
{
	return pg_atomic_read_u32(&shared->asked) != 0;
}

bool
cluster_is_half_moved(const char *name, int len)
{
	return cluster_is_on() && shared->half_moved[slot_of(name, len)] != 0;
}

/* ----------
 * Writing
 * ----------
 */

static void
cluster_set_place(uint32 place)
{
	LWLockAcquire(cluster_lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&shared->place, place);
	LWLockRelease(cluster_lock);
}

/*
 * cluster_forget_map --- forget which node has which slot
 *
 * This begins a new epoch, so that replies of these nodes do not count any more.
 */
static void
cluster_forget_map(void)
{
	uint32		epoch = topology_epoch() + 1;

	cluster_set_place(0);
	for (int i = 0; i < NODE_MASTERS; i++)
		if (shared->node[i].used)
			cluster_remove_node(i);
	for (int i = 0; i < SLOT_COUNT; i++)
		pg_atomic_write_u64(&shared->slot[i], SLOT_WORD(epoch, CLUSTER_NO_NODE));
	memset(shared->number, 0, sizeof(shared->number));
	memset(shared->half_moved, 0, sizeof(shared->half_moved));
	shared->known.n = 0;
	pg_atomic_write_u32(&shared->open_slots, SLOT_COUNT);
	pg_atomic_write_u32(&shared->asked, 0);
	cluster_end_change();
}

/*
 * cluster_start --- see nodes.h
 */
void
cluster_start(bool on, uint32 place)
{
	if (!on)
		place = 0;
	if (!cluster_is_of(place))
		cluster_begin_anew(place);
	pg_write_barrier();
	pg_atomic_write_u32(&shared->on, on ? 1 : 0);
}

void
cluster_begin_anew(uint32 place)
{
	cluster_forget_map();
	cluster_set_place(place);
}

/*
 * cluster_note_asked --- all nodes in lockredis.url were asked for the map
 */
void
cluster_note_asked(void)
{
	pg_atomic_write_u32(&shared->asked, 1);
}

const ClusterIds *
cluster_known(void)
{
	return &shared->known;
}

void
cluster_know(const ClusterIds *ids)
{
	shared->known = *ids;
}

/*
 * cluster_find_row --- the row of the node with this id, or a free one
 *
 * CLUSTER_NO_NODE: there is no room for it.
 */
static int
cluster_find_row(const char *id, bool has_slots)
{
	int			room = CLUSTER_NO_NODE;
	int			n = 0;

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		if (!shared->node[i].used)
			room = room == CLUSTER_NO_NODE ? i : room;
		else if (strcmp(shared->node[i].id, id) == 0)
			return i;
		else
			n++;
	}
	return has_slots || n < NODE_MASTERS / 2 ? room : CLUSTER_NO_NODE;
}

/*
 * cluster_put_node --- see nodes.h
 */
int
cluster_put_node(const char *id, const RedisHost *at, const char *name, bool has_slots)
{
	int			row = cluster_find_row(id, has_slots);
	ClusterNode *n;
	bool		moves;
	bool		appears;

	if (row == CLUSTER_NO_NODE)
		return row;

	n = &shared->node[row];
	moves = !n->used || n->at.port != at->port || strcmp(n->at.host, at->host) != 0;
	appears = has_slots && !(n->used && n->has_slots);
	if (!moves && !appears && strcmp(n->name, name) == 0)
		return row;
	LWLockAcquire(cluster_lock, LW_EXCLUSIVE);
	n->has_slots = has_slots || (n->used && n->has_slots);
	n->used = true;
	strlcpy(n->id, id, sizeof(n->id));
	strlcpy(n->name, name, sizeof(n->name));
	n->at = *at;
	if (moves)
		pg_atomic_fetch_add_u32(&shared->generation[row], 1);
	LWLockRelease(cluster_lock);
	if (appears)
		node_appear(NODE_MASTER + row, STORE_REDIS, ROLE_MASTER);
	return row;
}

void
cluster_remove_node(int row)
{
	LWLockAcquire(cluster_lock, LW_EXCLUSIVE);
	shared->node[row].used = shared->node[row].has_slots = false;
	pg_atomic_fetch_add_u32(&shared->generation[row], 1);
	LWLockRelease(cluster_lock);
	cluster_forget_half_moved(row);
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

void
cluster_forget_half_moved(int row)
{
	for (int i = 0; i < SLOT_COUNT; i++)
		if (shared->half_moved[i] == row + 1)
			shared->half_moved[i] = 0;
}

bool
cluster_note_half_moved(int row, int slot)
{
	bool		first = shared->half_moved[slot] == 0;

	shared->half_moved[slot] = row + 1;
	return first;
}

/*
 * The slot gets the next epoch, which becomes the present one in cluster_end_change():
 * a process that reads that epoch finds the slots changed.
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
