/*-------------------------------------------------------------------------
 *
 * nodes.c
 *	  What all processes of this server know about the nodes of its stores: a row for each
 *	  node, the addresses that host names resolved to, which node is the master or has which
 *	  slot, and which servers the independent masters are.
 *
 * One table in shared memory.  What is looked at before every request is in atomics; texts,
 * addresses and run ids are under the first LWLock of the tranche "lockredis".  Nothing here
 * does I/O but a warning, and the look-up of a name in the resolver's process; nothing is
 * called while the lock is held.
 *
 * Only the watchdog writes, and the table worker its own row, except that any process may mark
 * a node as silent, report an error or a doubt, want a new map or an address, and say what it
 * has connected to.
 *
 * Everything is of the place (lr_place) that the watchdog has read from the settings.  That
 * is 0 while it changes, so nobody takes an address of one place for one of another.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/nodes.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <netdb.h>
#include <sys/socket.h>

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "names.h"
#include "settings.h"
#include "store/nodes.h"

/* Least interval between errors that sessions report. */
#define REPORT_INTERVAL		(100 * LR_US_PER_MS)

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

/*
 * An atomic word with an epoch in its upper half, so that both halves are read as of the
 * same moment.  That of a slot has row + 1 of its node below, that of the master these bits.
 */
#define WORD(epoch, low)	(((uint64) (epoch) << 32) | (uint32) (low))
#define WORD_EPOCH(word)	((uint32) ((word) >> 32))
#define WORD_ROW(word)		((int) (uint32) (word) - 1)

#define MASTER_NAMED		0x01	/* the watchdog may connect to it */
#define MASTER_CONFIRMED	0x02	/* all may connect to it */
#define MASTER_SAID			0x04	/* it has reported that it is a master, */
#define MASTER_DENIED		0x08	/* and that it is none since */

typedef struct NodeEntry
{
	pg_atomic_uint32 state;		/* NodeState */
	pg_atomic_uint32 silent;	/* a request timed out; see node_set_silent */
	pg_atomic_uint64 usual_round_trip;	/* microseconds, 0 = not known */

	/* All below is protected by the lock. */
	bool		used;
	NodeStatus	status;			/* without the state */
} NodeEntry;

typedef struct HostEntry
{
	pg_atomic_uint32 wanted;	/* addresses are wanted */
	AddressWish wish;			/* no host: a free entry */
	int64		wanted_at;		/* when a process wanted them last */
	NodeAddresses addresses;
} HostEntry;

/* The master that Sentinels name. */
typedef struct TopologyShared
{
	pg_atomic_uint64 master;	/* its epoch, and MASTER_xxx */
	pg_atomic_uint64 named_at;	/* lr_now() time: the Sentinel that named it was asked
								 * then */
	pg_atomic_uint64 watched_until; /* lr_now() time; 0 = not at all */
	pg_atomic_uint32 news;
	pg_atomic_uint32 asked;		/* the Sentinels were asked since the start */

	/* Under the lock. */
	RedisHost	at;
	int64		config_epoch;
	char		reason[REASON_MAX];

	/* Only used by watchdogs; kept for the next one. */
	bool		has_epochs;		/* the settings name it, or the nodes, by others */
	TopologySentinel sentinel[LR_MAX_SENTINELS];
	TopologyMaster passed_over; /* no host: none was */
} TopologyShared;

typedef struct ClusterShared
{
	pg_atomic_uint32 on;
	pg_atomic_uint32 wanted;
	pg_atomic_uint32 has_map;
	pg_atomic_uint32 asked;
	pg_atomic_uint64 givers;	/* rows (bits): see cluster_set_giver */
	pg_atomic_uint64 slot[SLOT_COUNT];

	/* Only used by watchdogs; kept for the next one. */
	int64		number[SLOT_COUNT];
	ClusterIds	known;

	/* Written under the lock. */
	ClusterNode node[NODE_MASTERS];
} ClusterShared;

/* What is known of the server at one of several URLs, under the lock. */
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

	/* Under the lock. */
	MasterRow	row[LR_MAX_MASTERS];
	MasterStatus former[LR_MAX_MASTERS];	/* the servers by former settings */
} MastersShared;

typedef struct NodeTable
{
	pg_atomic_uint32 place;		/* see node_get_place */
	pg_atomic_uint32 returns;	/* see node_returns */
	NodeEntry	entry[NODE_MAX];
	HostEntry	host[ADDRESSES_MAX];

	/* Of the rows from NODE_MASTER on: changes, under the lock, with the server there. */
	pg_atomic_uint32 generation[NODE_MASTERS];

	TopologyShared topology;
	ClusterShared cluster;
	MastersShared masters;
} NodeTable;

static NodeTable *nodes = NULL;
static TopologyShared *topology = NULL;
static ClusterShared *cluster = NULL;
static MastersShared *masters = NULL;
static LWLock *node_lock = NULL;

/*
 * node_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
node_shmem_size(void)
{
	return MAXALIGN(sizeof(NodeTable));
}

/* ----------
 * Rows
 * ----------
 */

static NodeRole
first_role(NodeId node)
{
	if (node == NODE_TABLE)
		return ROLE_TABLE;
	if (node >= NODE_SENTINEL)
		return ROLE_SENTINEL;
	return node >= NODE_REPLICA ? ROLE_REPLICA : ROLE_MASTER;
}

/*
 * clear_status --- forget what is known of the node; lock held
 */
static void
clear_status(NodeId node)
{
	NodeEntry  *e = &nodes->entry[node];

	memset(&e->status, 0, sizeof(NodeStatus));
	e->status.store = node == NODE_TABLE ? STORE_TABLE : STORE_REDIS;
	e->status.facts.role = first_role(node);
	e->status.round_trip_us = -1;
	pg_atomic_write_u32(&e->state, NODE_CONNECTING);
	pg_atomic_write_u64(&e->usual_round_trip, 0);
}

/*
 * node_shmem_init --- attach, and initialize if we are the first
 *
 * Called with AddinShmemInitLock held.
 */
void
node_shmem_init(void)
{
	bool		found;

	nodes = ShmemInitStruct("lockredis nodes", node_shmem_size(), &found);
	topology = &nodes->topology;
	cluster = &nodes->cluster;
	masters = &nodes->masters;
	node_lock = &(GetNamedLWLockTranche("lockredis"))[0].lock;
	if (found)
		return;

	/* Atomics that are 0 are initialized by that. */
	memset(nodes, 0, sizeof(NodeTable));
	for (int i = 0; i < NODE_MASTERS; i++)
		pg_atomic_init_u32(&nodes->generation[i], 1);
	for (int i = 0; i < STORE_COUNT; i++)
	{
		NodeId		node = i == STORE_TABLE ? NODE_TABLE : NODE_REDIS;

		nodes->entry[node].used = lr_has_store(i);
		clear_status(node);
	}
}

void
node_appear(NodeId node)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	nodes->entry[node].used = true;
	clear_status(node);
	LWLockRelease(node_lock);
	pg_atomic_write_u32(&nodes->entry[node].silent, 0);
}

void
node_vanish(NodeId node)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	nodes->entry[node].used = false;
	LWLockRelease(node_lock);
}

bool
node_get_status(NodeId node, NodeStatus *out)
{
	bool		used;

	LWLockAcquire(node_lock, LW_SHARED);
	used = nodes->entry[node].used;
	*out = nodes->entry[node].status;
	out->state = (NodeState) pg_atomic_read_u32(&nodes->entry[node].state);
	LWLockRelease(node_lock);
	return used;
}

void
node_warn_of_eviction(const NodeStatus *status, char *warned, size_t size)
{
	if (strcmp(status->facts.maxmemory_policy, warned) == 0)
		return;
	strlcpy(warned, status->facts.maxmemory_policy, size);
	if (warned[0] == '\0' || strcmp(warned, "noeviction") == 0)
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("the lock store at %s can evict locks", status->address),
			 errdetail("Its maxmemory-policy is \"%s\".", warned),
			 errhint("Set it to \"noeviction\".")));
}

void
node_set_state(NodeId node, NodeState state)
{
	uint32		before = pg_atomic_exchange_u32(&nodes->entry[node].state, state);

	if (state == NODE_UP && before != NODE_UP)
		pg_atomic_fetch_add_u32(&nodes->returns, 1);
}

void
node_set_facts(NodeId node, const char *address, const NodeFacts *facts)
{
	NodeStatus *status = &nodes->entry[node].status;

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	if (address != NULL)
		strlcpy(status->address, address, sizeof(status->address));
	status->facts = *facts;
	LWLockRelease(node_lock);
}

/* A node that was slow for a while is not far away. */
void
node_set_round_trip(NodeId node, int64 us)
{
	NodeEntry  *e = &nodes->entry[node];
	int64		usual = node_usual_round_trip(node);

	/* Several slow ones in a row, and not one alone, make the node one that is far away. */
	if (usual != 0)
		usual = Min(us, 2 * usual);
	pg_atomic_write_u64(&e->usual_round_trip, (uint64) (usual != 0 ? usual : us));
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	e->status.round_trip_us = us;
	LWLockRelease(node_lock);
}

int64
node_usual_round_trip(NodeId node)
{
	return (int64) pg_atomic_read_u64(&nodes->entry[node].usual_round_trip);
}

/* With other settings nothing is known of a node any more, the round trip included. */
bool
node_has_answered(NodeId node, uint32 place)
{
	return place == node_get_place() && node_usual_round_trip(node) != 0;
}

void
node_set_error(NodeId node, const char *address, const char *message)
{
	NodeStatus *status = &nodes->entry[node].status;
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	if (address[0] != '\0')
		strlcpy(status->address, address, sizeof(status->address));
	strlcpy(status->last_error, message, sizeof(status->last_error));
	status->last_error_at = now;
	LWLockRelease(node_lock);
}

/* A session that has not yet read the changed settings reports another node's error. */
void
node_report_error(NodeId node, uint32 place, const char *message)
{
	TimestampTz before;

	if (node_place_is_other(place))
		return;
	LWLockAcquire(node_lock, LW_SHARED);
	before = nodes->entry[node].status.last_error_at;
	LWLockRelease(node_lock);
	if (Abs(GetCurrentTimestamp() - before) >= REPORT_INTERVAL)
		node_set_error(node, "", message);
}

/*
 * node_set_replica --- see nodes.h; replicas for which there is no row are not shown
 */
void
node_set_replica(int number, const char *address, NodeState state)
{
	NodeEntry  *e = &nodes->entry[NODE_REPLICA + number];

	if (number >= NODE_REPLICAS)
		return;
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	e->used = true;
	clear_status(NODE_REPLICA + number);
	strlcpy(e->status.address, address, sizeof(e->status.address));
	pg_atomic_write_u32(&e->state, state);
	LWLockRelease(node_lock);
}

void
node_end_replicas(int n)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	for (int i = n; i < NODE_REPLICAS; i++)
		nodes->entry[NODE_REPLICA + i].used = false;
	LWLockRelease(node_lock);
}

void
node_doubt_replicas(void)
{
	for (int i = 0; i < NODE_REPLICAS; i++)
		node_set_state(NODE_REPLICA + i, NODE_CONNECTING);
}

void
node_forget(NodeId node)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	clear_status(node);
	LWLockRelease(node_lock);
	if (node == NODE_REDIS)
		node_end_replicas(0);
}

/*
 * Slots that are read after this are of the map of that place, or of a later one.  The
 * nodes of a later map have another place than this one (cluster_get_node).
 */
uint32
node_get_place(void)
{
	uint32		place = pg_atomic_read_u32(&nodes->place);

	pg_read_barrier();
	return place;
}

bool
node_place_is_other(uint32 place)
{
	uint32		here = node_get_place();

	return place != 0 && here != 0 && place != here;
}

void
node_set_silent(NodeId node, bool silent)
{
	uint32		before = pg_atomic_exchange_u32(&nodes->entry[node].silent,
												silent ? 1 : 0);

	if (before != 0 && !silent)
		pg_atomic_fetch_add_u32(&nodes->returns, 1);
	if ((before != 0) != silent)
		lr_wake_watchdog();
}

bool
node_is_silent(NodeId node)
{
	return pg_atomic_read_u32(&nodes->entry[node].silent) != 0;
}

bool
node_serves(NodeId node)
{
	return pg_atomic_read_u32(&nodes->entry[node].state) == NODE_UP && !node_is_silent(node);
}

uint32
node_returns(void)
{
	return pg_atomic_read_u32(&nodes->returns);
}

uint32
node_generation(NodeId node)
{
	return pg_atomic_read_u32(&nodes->generation[node - NODE_MASTER]);
}

/*
 * begin_generation --- another server, or none, is in the row from now on; lock held
 */
static void
begin_generation(NodeId node)
{
	pg_atomic_fetch_add_u32(&nodes->generation[node - NODE_MASTER], 1);
}

/* ----------
 * Addresses of hosts
 *
 * That they are wanted is an atomic, since the watchdog looks at all entries in each round.
 * If all entries are in use, the one that was not wanted for longest is replaced.
 * ----------
 */

/*
 * find_host --- the entry for this host, or NULL; lock held
 */
static HostEntry *
find_host(const char *host, int port)
{
	for (int i = 0; i < ADDRESSES_MAX; i++)
		if (nodes->host[i].wish.port == port && strcmp(nodes->host[i].wish.host, host) == 0)
			return &nodes->host[i];
	return NULL;
}

static void
clear_host(HostEntry *h)
{
	memset(&h->wish, 0, sizeof(AddressWish));
	h->wanted_at = 0;
	memset(&h->addresses, 0, sizeof(NodeAddresses));
	pg_atomic_write_u32(&h->wanted, 0);
}

/*
 * make_host --- use a free entry, or the one that was not wanted for longest; lock held
 */
static HostEntry *
make_host(const char *host, int port)
{
	HostEntry  *oldest = &nodes->host[0];

	for (int i = 1; i < ADDRESSES_MAX; i++)
		if (nodes->host[i].wanted_at < oldest->wanted_at)
			oldest = &nodes->host[i];
	clear_host(oldest);
	strlcpy(oldest->wish.host, host, LR_HOST_MAX);
	oldest->wish.port = port;
	return oldest;
}

bool
addresses_get(const char *host, int port, NodeAddresses *out)
{
	HostEntry  *h;

	memset(out, 0, sizeof(NodeAddresses));
	LWLockAcquire(node_lock, LW_SHARED);
	h = find_host(host, port);
	if (h != NULL)
		*out = h->addresses;
	LWLockRelease(node_lock);
	return out->count > 0;
}

void
addresses_want(NodeId node, const char *host, int port, bool anyway)
{
	HostEntry  *h;
	bool		wanted;

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	h = find_host(host, port);
	if (h == NULL)
		h = make_host(host, port);
	h->wish.node = node;
	h->wanted_at = lr_now();
	wanted = anyway || h->addresses.count == 0 || lr_nmasters > 0 ||
		(node == NODE_REDIS && cluster_is_on()) || node >= NODE_SENTINEL || !node_serves(node);
	wanted = wanted && pg_atomic_exchange_u32(&h->wanted, 1) == 0;
	LWLockRelease(node_lock);
	if (wanted)
		lr_wake_watchdog();
}

/*
 * addresses_look_up --- see nodes.h
 */
void
addresses_look_up(const char *host, int port, int flags, NodeAddresses *found)
{
	struct addrinfo hints;
	struct addrinfo *list = NULL;
	char		service[16];
	int			rc;

	memset(found, 0, sizeof(NodeAddresses));
	memset(&hints, 0, sizeof(hints));
	hints.ai_family = AF_UNSPEC;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = flags | AI_NUMERICSERV;
	snprintf(service, sizeof(service), "%d", port);

	rc = getaddrinfo(host, service, &hints, &list);
	if (rc != 0)
	{
		strlcpy(found->error,
				rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc),
				sizeof(found->error));
		return;
	}
	for (struct addrinfo *ai = list; ai != NULL && found->count < LR_MAX_ADDRESSES; ai = ai->ai_next)
	{
		if (ai->ai_addrlen > sizeof(found->at.addr[0]))
			continue;
		memcpy(&found->at.addr[found->count], ai->ai_addr, ai->ai_addrlen);
		found->addr_len[found->count] = ai->ai_addrlen;
		found->count++;
	}
	freeaddrinfo(list);
}

/* Each round of the watchdog calls this, so it takes no lock if nothing is wanted. */
bool
addresses_wish(int number, AddressWish *out)
{
	HostEntry  *h = &nodes->host[number];

	if (pg_atomic_read_u32(&h->wanted) == 0)
		return false;
	LWLockAcquire(node_lock, LW_SHARED);
	*out = h->wish;
	LWLockRelease(node_lock);
	return true;
}

/*
 * addresses_publish --- see nodes.h
 *
 * After a failure the addresses that were found before stay in use: they are better
 * than none.  Requests that came meanwhile get the same answer.
 */
void
addresses_publish(const AddressWish *wish, const NodeAddresses *found)
{
	HostEntry  *h;

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	h = find_host(wish->host, wish->port);
	if (h != NULL)
	{
		if (found->count > 0 || h->addresses.count == 0)
			h->addresses = *found;
		h->wish.failures = found->count > 0 ? 0 : h->wish.failures + 1;
		h->wish.concluded_at = lr_now();
		pg_atomic_write_u32(&h->wanted, 0);
	}
	LWLockRelease(node_lock);
}

/*
 * Addresses of a name that is still in use stay valid: perhaps only the user, the
 * password or the database has changed.  Those of other names would be outdated when
 * these are used again.  If the place is the same, all are in use, including those of
 * Sentinels and of nodes that were announced.
 */
void
addresses_restart(const RedisUrl *urls, int n, bool moved)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	for (int i = 0; i < ADDRESSES_MAX; i++)
	{
		HostEntry  *h = &nodes->host[i];
		bool		named = !moved;

		for (int j = 0; j < n && !named; j++)
			named = h->wish.port == urls[j].at.port &&
				strcmp(h->wish.host, urls[j].at.host) == 0;
		if (!named)
			clear_host(h);
		h->wish.failures = 0;
		h->wish.concluded_at = 0;
		pg_atomic_write_u32(&h->wanted, 0);
	}
	LWLockRelease(node_lock);
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

	return slot != slot_of(derived, lr_derived_name(NAME_LOCK_CHANNEL, name, len, NULL, derived)) ||
		slot != slot_of(derived, lr_derived_name(NAME_COUNTER, name, len, NULL, derived));
}

/* ----------
 * The master that Sentinels name: reading
 * ----------
 */

uint32
topology_epoch(void)
{
	return WORD_EPOCH(pg_atomic_read_u64(&topology->master));
}

/*
 * master_bits --- what is known of the master with this epoch; 0 if it is a former one
 */
static uint32
master_bits(uint32 epoch)
{
	uint64		word = pg_atomic_read_u64(&topology->master);

	return epoch != 0 && WORD_EPOCH(word) == epoch ? (uint32) word : 0;
}

uint32
topology_news(void)
{
	return pg_atomic_read_u32(&topology->news);
}

/* A watchdog that does not run would not notice that another node is the master. */
bool
topology_is_watched(uint32 epoch, int64 now)
{
	return epoch == topology_epoch() &&
		now < (int64) pg_atomic_read_u64(&topology->watched_until);
}

/*
 * A restarted node may report that it is a master long after another one has become
 * that.  So other processes connect only while the watchdog has a connection that it
 * has made since the node was named.
 */
TopologyAnswer
topology_may_connect(uint32 epoch, bool scout, int64 now)
{
	if ((master_bits(epoch) & (scout ? MASTER_NAMED : MASTER_CONFIRMED)) != 0 &&
		(scout ? topology_was_named_lately(now) : topology_is_watched(epoch, now)))
		return TOPOLOGY_YES;
	return pg_atomic_read_u32(&topology->asked) == 0 ? TOPOLOGY_NOT_YET : TOPOLOGY_NO;
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
	LWLockAcquire(node_lock, LW_SHARED);
	if (node_get_place() == place)
	{
		out->at = topology->at;
		out->config_epoch = topology->config_epoch;
	}
	LWLockRelease(node_lock);
}

void
topology_get_reason(char *out, size_t size)
{
	LWLockAcquire(node_lock, LW_SHARED);
	strlcpy(out, topology->reason, size);
	LWLockRelease(node_lock);
}

bool
topology_was_named_lately(int64 now)
{
	return now - (int64) pg_atomic_read_u64(&topology->named_at) < NAMING_LIFE;
}

/*
 * topology_is_named --- has a Sentinel named the present master?
 */
bool
topology_is_named(void)
{
	return (pg_atomic_read_u64(&topology->master) & MASTER_NAMED) != 0;
}

/*
 * topology_is_confirmed --- has that node reported that it is a master?
 */
bool
topology_is_confirmed(void)
{
	return (pg_atomic_read_u64(&topology->master) & MASTER_CONFIRMED) != 0;
}

bool
topology_is_proved(uint32 epoch)
{
	return (master_bits(epoch) & (MASTER_SAID | MASTER_DENIED)) == MASTER_SAID;
}

/* ----------
 * Writing
 * ----------
 */

void
topology_tell(void)
{
	pg_atomic_fetch_add_u32(&topology->news, 1);
}

/*
 * master_note --- clear and set bits of the master with this epoch, if it is still the
 * present one and has those that are needed; returns what it had before, or 0
 *
 * It is one atomic step, so no doubt is lost while the watchdog confirms the master:
 *
 *	watchdog: this master is named
 *	session: the node reports that it is no master: denied, and not named any more
 *	watchdog: not named, so not confirmed
 */
static uint32
master_note(uint32 epoch, uint32 needed, uint32 clear, uint32 set)
{
	uint64		before = pg_atomic_read_u64(&topology->master);

	do
	{
		if (epoch == 0 || WORD_EPOCH(before) != epoch || (before & needed) != needed)
			return 0;
	} while (!pg_atomic_compare_exchange_u64(&topology->master, &before,
											 (before & ~(uint64) clear) | set));
	return (uint32) before;
}

/*
 * begin_epoch --- another master from now on, of which nothing is known yet; returns its
 * epoch
 */
static uint32
begin_epoch(void)
{
	uint32		epoch = topology_epoch() + 1;

	(void) pg_atomic_exchange_u64(&topology->master, WORD(epoch, 0));
	pg_memory_barrier();
	return epoch;
}

void
topology_doubt(uint32 epoch)
{
	uint32		before = master_note(epoch, 0, MASTER_NAMED | MASTER_CONFIRMED, MASTER_DENIED);

	if ((before & (MASTER_NAMED | MASTER_CONFIRMED)) != 0)
		lr_wake_watchdog();
}

void
topology_lost(uint32 epoch)
{
	(void) master_note(epoch, 0, MASTER_NAMED | MASTER_CONFIRMED, 0);
}

static void
topology_forget_who_named(void)
{
	for (int i = 0; i < LR_MAX_SENTINELS; i++)
		topology->sentinel[i].named_by = -1;
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

	topology_lost(topology_epoch());
	topology_forget_who_named();
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	topology->at = *at;
	topology->config_epoch = config_epoch;
	topology->reason[0] = '\0';
	LWLockRelease(node_lock);

	epoch = begin_epoch();
	topology_tell();
	return epoch;
}

void
topology_set_config_epoch(int64 config_epoch)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	topology->config_epoch = config_epoch;
	LWLockRelease(node_lock);
}

TopologySentinel *
topology_sentinel(int number)
{
	return &topology->sentinel[number];
}

/*
 * topology_sentinel_met --- see nodes.h
 *
 * One with an id that nobody had is taken for the former one, which may have been restarted.
 */
void
topology_sentinel_met(int number, const char *run_id)
{
	TopologySentinel *here = &topology->sentinel[number];
	TopologySentinel before = *here;

	if (run_id[0] == '\0' || strcmp(here->run_id, run_id) == 0)
		return;
	for (int i = 0; i < LR_MAX_SENTINELS; i++)
	{
		if (strcmp(topology->sentinel[i].run_id, run_id) != 0)
			continue;
		*here = topology->sentinel[i];
		topology->sentinel[i] = before;
		return;
	}
	strlcpy(here->run_id, run_id, sizeof(here->run_id));
}

void
topology_pass_over(const RedisHost *at, int64 config_epoch)
{
	memset(&topology->passed_over, 0, sizeof(TopologyMaster));
	if (at == NULL)
		return;
	topology->passed_over.at = *at;
	topology->passed_over.config_epoch = config_epoch;
}

const TopologyMaster *
topology_passed_over(void)
{
	return &topology->passed_over;
}

void
topology_named(uint32 epoch, int64 at)
{
	pg_atomic_write_u64(&topology->named_at, (uint64) at);
	(void) master_note(epoch, 0, 0, MASTER_NAMED);
}

void
topology_named_again(uint32 epoch, int64 at)
{
	if ((master_bits(epoch) & MASTER_NAMED) != 0)
		pg_atomic_write_u64(&topology->named_at, (uint64) at);
}

/* The node's answer may have taken long; read the clock after it has come. */
void
topology_confirm(uint32 epoch)
{
	if (!topology_was_named_lately(lr_now()) ||
		master_note(epoch, MASTER_NAMED, MASTER_DENIED, MASTER_SAID | MASTER_CONFIRMED) == 0)
		return;
	pg_atomic_write_u32(&topology->asked, 1);
	topology_tell();
}

void
topology_watch(int64 now)
{
	if (pg_atomic_read_u64(&topology->watched_until) == 0)
		topology_tell();
	pg_atomic_write_u64(&topology->watched_until, (uint64) (now + TOPOLOGY_TRUST));
}

void
topology_suspend(void)
{
	pg_atomic_write_u64(&topology->watched_until, 0);
}

/* This is called repeatedly, so it writes only changes. */
void
topology_set_reason(const char *reason)
{
	if (strncmp(topology->reason, reason, REASON_MAX - 1) != 0)
	{
		LWLockAcquire(node_lock, LW_EXCLUSIVE);
		strlcpy(topology->reason, reason, REASON_MAX);
		LWLockRelease(node_lock);
	}
	if (pg_atomic_exchange_u32(&topology->asked, 1) == 0)
		topology_tell();
}

/* ----------
 * Which node of a cluster has which slot: reading
 * ----------
 */

bool
cluster_is_on(void)
{
	return pg_atomic_read_u32(&cluster->on) != 0;
}

uint32
cluster_epoch_of(const char *name, int len)
{
	if (!cluster_is_on())
		return topology_epoch();
	return WORD_EPOCH(pg_atomic_read_u64(&cluster->slot[slot_of(name, len)]));
}

int
cluster_owner(int slot, uint32 *epoch)
{
	uint64		word = pg_atomic_read_u64(&cluster->slot[slot]);

	if (epoch != NULL)
		*epoch = WORD_EPOCH(word);
	return WORD_ROW(word);
}

/*
 * A session that has not yet read that lockredis.url names another cluster, or has read
 * it before the watchdog, would otherwise send a password to nodes that it is not for.
 */
bool
cluster_get_node(uint32 place, int row, ClusterNode *out, uint32 *generation)
{
	bool		is_its;

	LWLockAcquire(node_lock, LW_SHARED);
	is_its = node_get_place() == place;
	*out = cluster->node[row];
	if (generation != NULL)
		*generation = node_generation(NODE_MASTER + row);
	LWLockRelease(node_lock);
	return is_its && out->used;
}

int
cluster_find_node(uint32 place, const char *host, int port)
{
	int			found = CLUSTER_NO_NODE;

	LWLockAcquire(node_lock, LW_SHARED);
	for (int i = 0; i < NODE_MASTERS && found == CLUSTER_NO_NODE; i++)
	{
		const ClusterNode *n = &cluster->node[i];

		if (node_get_place() == place && n->used && n->at.port == port &&
			(strcmp(n->at.host, host) == 0 || strcmp(n->name, host) == 0))
			found = i;
	}
	LWLockRelease(node_lock);
	return found;
}

uint32
cluster_wanted(void)
{
	return pg_atomic_read_u32(&cluster->wanted);
}

void
cluster_want_map(void)
{
	pg_atomic_fetch_add_u32(&cluster->wanted, 1);
	lr_wake_watchdog();
}

bool
cluster_has_map(void)
{
	return pg_atomic_read_u32(&cluster->has_map) != 0;
}

bool
cluster_was_asked(void)
{
	return pg_atomic_read_u32(&cluster->asked) != 0;
}

bool
cluster_may_be_moving(const char *name, int len)
{
	int			row = cluster_is_on() ? cluster_owner(slot_of(name, len), NULL) : CLUSTER_NO_NODE;

	return row != CLUSTER_NO_NODE && (pg_atomic_read_u64(&cluster->givers) >> row & 1) != 0;
}

/* ----------
 * Writing
 * ----------
 */

/*
 * set_place --- under the lock, so no process that holds it finds the place changed
 */
static void
set_place(uint32 place)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&nodes->place, place);
	LWLockRelease(node_lock);
}

/*
 * cluster_forget_map --- forget which node has which slot
 *
 * The slots get the next epoch, so that replies of these nodes do not count any more.
 */
static void
cluster_forget_map(void)
{
	uint32		epoch = topology_epoch() + 1;

	for (int i = 0; i < NODE_MASTERS; i++)
		if (cluster->node[i].used)
			cluster_remove_node(i);
	for (int i = 0; i < SLOT_COUNT; i++)
		pg_atomic_write_u64(&cluster->slot[i], WORD(epoch, CLUSTER_NO_NODE + 1));
	memset(cluster->number, 0, sizeof(cluster->number));
	cluster->known.n = 0;
	pg_atomic_write_u32(&cluster->has_map, 0);
	pg_atomic_write_u32(&cluster->asked, 0);
}

void
cluster_begin_anew(void)
{
	uint32		place = node_get_place();

	set_place(0);
	cluster_forget_map();
	cluster_end_change();
	set_place(place);
}

/*
 * cluster_note_asked --- all nodes in lockredis.url were asked for the map
 */
void
cluster_note_asked(void)
{
	pg_atomic_write_u32(&cluster->asked, 1);
}

const ClusterIds *
cluster_known(void)
{
	return &cluster->known;
}

void
cluster_know(const ClusterIds *ids)
{
	cluster->known = *ids;
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

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		const ClusterNode *n = &cluster->node[i];

		if (n->used && strcmp(n->id, id) == 0)
			return i;
		if (!n->used && room == CLUSTER_NO_NODE && (has_slots || i < NODE_MASTERS / 2))
			room = i;
	}
	return room;
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

	n = &cluster->node[row];
	moves = !n->used || !redis_host_is_same(&n->at, at);
	appears = has_slots && !n->has_slots;
	if (!moves && !appears && strcmp(n->name, name) == 0)
		return row;
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	n->has_slots = has_slots || n->has_slots;
	n->used = true;
	strlcpy(n->id, id, sizeof(n->id));
	strlcpy(n->name, name, sizeof(n->name));
	n->at = *at;
	if (moves)
		begin_generation(NODE_MASTER + row);
	LWLockRelease(node_lock);
	if (appears)
		node_appear(NODE_MASTER + row);
	return row;
}

void
cluster_remove_node(int row)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	cluster->node[row].used = cluster->node[row].has_slots = false;
	begin_generation(NODE_MASTER + row);
	LWLockRelease(node_lock);
	(void) cluster_set_giver(row, false);
	node_vanish(NODE_MASTER + row);
}

int64
cluster_number(int slot)
{
	return cluster->number[slot];
}

bool
cluster_set_giver(int row, bool gives)
{
	uint64		bit = UINT64CONST(1) << row;

	if (gives)
		return (pg_atomic_fetch_or_u64(&cluster->givers, bit) & bit) == 0;
	(void) pg_atomic_fetch_and_u64(&cluster->givers, ~bit);
	return false;
}

/*
 * The slot gets the next epoch, which becomes the present one in cluster_end_change():
 * a process that reads that epoch finds the slots changed.
 */
void
cluster_give_slot(int slot, int row, int64 number)
{
	cluster->number[slot] = number;
	pg_atomic_write_u64(&cluster->slot[slot], WORD(topology_epoch() + 1, row + 1));
	pg_atomic_write_u32(&cluster->has_map, 1);
}

void
cluster_end_change(void)
{
	pg_memory_barrier();
	(void) begin_epoch();
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

int64
masters_votes_at(int64 since)
{
	int64		lease = lr_max_lease * LR_US_PER_MS;

	return since + lease + lease / DRIFT_PART + DRIFT_MIN;
}

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
	begin_generation(NODE_MASTER + row);
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
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	if (place == node_get_place())
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
		*life = node_generation(NODE_MASTER + row);
		*since = m->server.since;
	}
	LWLockRelease(node_lock);
	return !refused;
}

/*
 * masters_get --- copy what is known of the server in a row
 */
void
masters_get(int row, MasterStatus *out)
{
	LWLockAcquire(node_lock, LW_SHARED);
	*out = masters->row[row].server;
	LWLockRelease(node_lock);
}

/*
 * A process first notes that a master lacks a lock, and then checks whether it is
 * there; the watchdog sets its state, and then looks for such locks.  The atomic
 * operation is a barrier, so one of the two sees the other.
 */
bool
masters_are_there(uint32 place, uint32 rows)
{
	if (place != node_get_place())
		return false;
	for (int i = 0; i < LR_MAX_MASTERS; i++)
		if ((rows & (1U << i)) != 0 && node_serves(NODE_MASTER + i))
			return true;
	return false;
}

/* If the server is there after all, nothing changes. */
void
masters_forget(int row)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	masters->row[row].claimed = false;
	LWLockRelease(node_lock);
}

/*
 * masters_forget_all --- there are n other masters now; keep what was known of the servers
 */
static void
masters_forget_all(int n)
{
	for (int i = n; i < masters_count(); i++)
		node_vanish(NODE_MASTER + i);
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	for (int i = 0; i < LR_MAX_MASTERS; i++)
	{
		if (masters->row[i].server.run_id[0] != '\0')
			masters->former[i] = masters->row[i].server;
		begin_generation(NODE_MASTER + i);
	}
	memset(masters->row, 0, sizeof(masters->row));
	LWLockRelease(node_lock);
	for (int i = 0; i < n; i++)
		node_appear(NODE_MASTER + i);
	pg_atomic_write_u32(&masters->n, (uint32) n);
}

/* ----------
 * The settings
 * ----------
 */

/*
 * topology_forget --- nothing is known of a master, or of Sentinels
 */
static void
topology_forget(void)
{
	pg_atomic_write_u64(&topology->watched_until, 0);
	memset(topology->sentinel, 0, sizeof(topology->sentinel));
	memset(&topology->passed_over, 0, sizeof(TopologyMaster));
	topology_forget_who_named();
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	memset(&topology->at, 0, sizeof(RedisHost));
	topology->config_epoch = 0;
	topology->reason[0] = '\0';
	LWLockRelease(node_lock);
}

/*
 * node_start --- see nodes.h
 *
 * With the same place everything known stays valid: a watchdog may have been restarted.  A
 * new one has no connection yet, so the master has to be named again.  Until the last look
 * of the former watchdog expires, nothing changes for processes that are connected.
 */
void
node_start(uint32 place, bool follows, bool is_cluster, int nmasters)
{
	topology_lost(topology_epoch());
	pg_atomic_write_u32(&topology->asked, 0);
	for (int i = 0; i < masters_count(); i++)
		masters_forget(i);
	if (place == node_get_place())
		return;

	set_place(0);
	topology_forget();
	cluster_forget_map();
	masters_forget_all(nmasters);
	if (follows || topology->has_epochs)
		(void) begin_epoch();
	topology->has_epochs = follows;
	pg_write_barrier();
	pg_atomic_write_u32(&cluster->on, is_cluster ? 1 : 0);
	set_place(place);
}
