/*-------------------------------------------------------------------------
 *
 * node.c
 *	  What all processes of this server know about the nodes of its stores, and the
 *	  addresses that their host names resolved to.
 *
 * Two arrays in shared memory.  Texts are under the first LWLock of the tranche
 * "lockredis"; the flags that are looked at before every request are atomics.
 * Nothing here does I/O but a warning, and nothing is called while the lock is held.
 *
 * That addresses are wanted is an atomic, too, since waiting processes set it again and
 * again.  There are more entries for hosts than nodes; if all are in use, the one that
 * was not used for longest is replaced.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/node.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "names.h"
#include "store/nodes.h"

/* Least interval between errors that sessions report. */
#define REPORT_INTERVAL		(100 * LR_US_PER_MS)

/* The usual round trip is the shortest of the last ROUND_TRIPS ones. */
#define ROUND_TRIPS			8

typedef struct NodeEntry
{
	pg_atomic_uint32 silent;	/* a request timed out; see node_set_silent */
	pg_atomic_uint64 reported_at;	/* lr_now() of the last error of a session */
	pg_atomic_uint64 usual_round_trip;	/* microseconds, 0 = not known */
	pg_atomic_uint32 answered_place;	/* see node_note_answered; 0 = none */

	/* All below is protected by the lock. */
	bool		used;
	NodeRole	first_role;		/* the role until the node reports another one */
	int64		round_trips[ROUND_TRIPS];	/* the last round trips */
	int			nround_trips;	/* their number, at most ROUND_TRIPS */
	int			next_round_trip;	/* index for the next one */
	NodeStatus	status;
} NodeEntry;

typedef struct HostEntry
{
	char		host[LR_HOST_MAX];	/* empty: a free entry */
	int			port;
	pg_atomic_uint32 wanted;	/* WANT_xxx: why addresses are wanted */
	pg_atomic_uint64 used_at;	/* when a process looked at it last */
	NodeId		node;			/* node of the last request */
	int			failures;
	int64		concluded_at;
	NodeAddresses addresses;
} HostEntry;

typedef struct NodeTable
{
	pg_atomic_uint32 place;		/* see node_get_place */
	pg_atomic_uint32 silences;	/* number of silences that have ended */
	NodeEntry	entry[NODE_MAX];
	HostEntry	host[ADDRESSES_MAX];
} NodeTable;

static NodeTable *nodes = NULL;
static LWLock *node_lock = NULL;

/*
 * node_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
node_shmem_size(void)
{
	return MAXALIGN(sizeof(NodeTable));
}

/*
 * clear_status --- forget what is known of the node
 */
static void
clear_status(NodeEntry *e)
{
	StoreId		store = e->status.store;

	memset(&e->status, 0, sizeof(NodeStatus));
	e->status.store = store;
	e->status.role = e->first_role;
	e->status.state = NODE_CONNECTING;
	e->status.round_trip_us = -1;
	e->nround_trips = e->next_round_trip = 0;
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
	node_lock = &(GetNamedLWLockTranche("lockredis"))[0].lock;
	if (found)
		return;

	memset(nodes, 0, sizeof(NodeTable));
	pg_atomic_init_u32(&nodes->place, 0);
	pg_atomic_init_u32(&nodes->silences, 0);
	for (int i = 0; i < NODE_MAX; i++)
	{
		NodeEntry  *e = &nodes->entry[i];

		pg_atomic_init_u32(&e->silent, 0);
		pg_atomic_init_u64(&e->reported_at, 0);
		pg_atomic_init_u64(&e->usual_round_trip, 0);
		pg_atomic_init_u32(&e->answered_place, 0);
	}
	for (int i = 0; i < ADDRESSES_MAX; i++)
	{
		pg_atomic_init_u32(&nodes->host[i].wanted, 0);
		pg_atomic_init_u64(&nodes->host[i].used_at, 0);
	}
}

LWLock *
node_lwlock(void)
{
	return node_lock;
}

/*
 * Called with AddinShmemInitLock held, before any other process looks here.  A process
 * that only attaches finds the node entered.
 */
void
node_enter(NodeId node, StoreId store, NodeRole role)
{
	NodeEntry  *e = &nodes->entry[node];

	if (e->used)
		return;
	e->used = true;
	e->first_role = role;
	e->status.store = store;
	clear_status(e);
}

void
node_appear(NodeId node, StoreId store, NodeRole role)
{
	NodeEntry  *e = &nodes->entry[node];

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	e->used = true;
	e->first_role = role;
	e->status.store = store;
	clear_status(e);
	LWLockRelease(node_lock);
	pg_atomic_write_u32(&e->silent, 0);
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
	LWLockRelease(node_lock);
	return used;
}

void
node_warn_of_eviction(const NodeStatus *status, char *warned, size_t size)
{
	if (strcmp(status->maxmemory_policy, warned) == 0)
		return;
	strlcpy(warned, status->maxmemory_policy, size);
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
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	nodes->entry[node].status.state = state;
	LWLockRelease(node_lock);
}

/*
 * node_set_facts --- what the node reported of itself; NULL leaves a text alone
 */
void
node_set_facts(NodeId node, const char *address, const char *version,
			   const char *policy, NodeRole role)
{
	NodeStatus *status = &nodes->entry[node].status;

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	if (address)
		strlcpy(status->address, address, sizeof(status->address));
	if (version)
		strlcpy(status->version, version, sizeof(status->version));
	if (policy)
		strlcpy(status->maxmemory_policy, policy,
				sizeof(status->maxmemory_policy));
	status->role = role;
	LWLockRelease(node_lock);
}

/*
 * node_set_address --- the address of a node that has not answered yet
 */
void
node_set_address(NodeId node, const char *address)
{
	NodeStatus *status = &nodes->entry[node].status;

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	strlcpy(status->address, address, sizeof(status->address));
	LWLockRelease(node_lock);
}

void
node_set_certificate(NodeId node, TimestampTz expires)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	nodes->entry[node].status.certificate_expires = expires;
	LWLockRelease(node_lock);
}

/*
 * note_round_trip --- update the usual round trip; lock held
 *
 * It is the minimum, since a node that was slow for a while is not far away.
 */
static void
note_round_trip(NodeEntry *e, int64 us)
{
	int64		usual = us;

	e->round_trips[e->next_round_trip] = us;
	e->next_round_trip = (e->next_round_trip + 1) % ROUND_TRIPS;
	e->nround_trips = Min(e->nround_trips + 1, ROUND_TRIPS);
	for (int i = 0; i < e->nround_trips; i++)
		usual = Min(usual, e->round_trips[i]);
	pg_atomic_write_u64(&e->usual_round_trip, (uint64) usual);
}

void
node_set_round_trip(NodeId node, int64 us)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	nodes->entry[node].status.round_trip_us = us;
	note_round_trip(&nodes->entry[node], us);
	LWLockRelease(node_lock);
}

/*
 * node_usual_round_trip --- see nodes.h
 */
int64
node_usual_round_trip(NodeId node)
{
	return (int64) pg_atomic_read_u64(&nodes->entry[node].usual_round_trip);
}

void
node_note_answered(NodeId node, uint32 place)
{
	pg_atomic_write_u32(&nodes->entry[node].answered_place, place);
}

bool
node_has_answered(NodeId node, uint32 place)
{
	return place != 0 && pg_atomic_read_u32(&nodes->entry[node].answered_place) == place;
}

void
node_set_error(NodeId node, const char *message)
{
	NodeStatus *status = &nodes->entry[node].status;
	TimestampTz now = GetCurrentTimestamp();

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	strlcpy(status->last_error, message, sizeof(status->last_error));
	status->last_error_at = now;
	LWLockRelease(node_lock);
}

/* A session that has not yet read the changed settings reports another node's error. */
void
node_report_error(NodeId node, uint32 place, const char *message)
{
	NodeEntry  *e = &nodes->entry[node];
	uint64		now = (uint64) lr_now();
	uint64		before = pg_atomic_read_u64(&e->reported_at);

	if (node_place_is_other(place))
		return;
	if ((before != 0 && now - before < REPORT_INTERVAL) ||
		!pg_atomic_compare_exchange_u64(&e->reported_at, &before, now))
		return;
	node_set_error(node, message);
}

/*
 * set_replica --- fill the row of a replica; lock held
 */
static void
set_replica(NodeEntry *e, const char *address, NodeState state)
{
	e->used = true;
	e->first_role = ROLE_REPLICA;
	e->status.store = nodes->entry[NODE_REDIS].status.store;
	clear_status(e);
	strlcpy(e->status.address, address, sizeof(e->status.address));
	e->status.state = state;
}

/*
 * node_set_replica --- see nodes.h; replicas for which there is no row are not shown
 */
void
node_set_replica(int number, const char *address, bool online)
{
	if (number >= NODE_REPLICAS)
		return;
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	set_replica(&nodes->entry[NODE_REPLICA + number], address,
				online ? NODE_UP : NODE_CONNECTING);
	LWLockRelease(node_lock);
}

static NodeState
replica_state(const NodeReplica *replica)
{
	return replica->has_failed ? NODE_DOWN : NODE_UP;
}

/*
 * find_replica --- the row with this address, or NULL; lock held
 */
static NodeEntry *
find_replica(const char *address)
{
	for (NodeId i = NODE_REPLICA; i < NODE_REPLICA + NODE_REPLICAS; i++)
		if (nodes->entry[i].used && strcmp(nodes->entry[i].status.address, address) == 0)
			return &nodes->entry[i];
	return NULL;
}

/* A replica keeps its row for as long as it is reported. */
void
node_set_replicas(const NodeReplica *replicas, int n)
{
	bool		stays[NODE_REPLICAS] = {0};
	int			row = 0;

	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
	{
		NodeEntry  *e = find_replica(replicas[i].address);

		if (e == NULL)
			continue;
		e->status.state = replica_state(&replicas[i]);
		stays[e - &nodes->entry[NODE_REPLICA]] = true;
	}
	for (int i = 0; i < NODE_REPLICAS; i++)
		nodes->entry[NODE_REPLICA + i].used = stays[i];
	for (int i = 0; i < n; i++)
	{
		if (find_replica(replicas[i].address) != NULL)
			continue;
		while (row < NODE_REPLICAS && nodes->entry[NODE_REPLICA + row].used)
			row++;
		if (row < NODE_REPLICAS)
			set_replica(&nodes->entry[NODE_REPLICA + row], replicas[i].address,
						replica_state(&replicas[i]));
	}
	LWLockRelease(node_lock);
}

/*
 * end_replicas --- there are only "n" replicas; lock held
 */
static void
end_replicas(int n)
{
	for (int i = n; i < NODE_REPLICAS; i++)
		nodes->entry[NODE_REPLICA + i].used = false;
}

void
node_end_replicas(int n)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	end_replicas(n);
	LWLockRelease(node_lock);
}

void
node_doubt_replicas(void)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	for (int i = 0; i < NODE_REPLICAS; i++)
		nodes->entry[NODE_REPLICA + i].status.state = NODE_CONNECTING;
	LWLockRelease(node_lock);
}

void
node_forget(NodeId node)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	clear_status(&nodes->entry[node]);
	if (node == NODE_REDIS)
		end_replicas(0);
	LWLockRelease(node_lock);
}

void
node_set_place(uint32 place)
{
	pg_atomic_write_u32(&nodes->place, place);
}

uint32
node_get_place(void)
{
	return pg_atomic_read_u32(&nodes->place);
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
		pg_atomic_fetch_add_u32(&nodes->silences, 1);
	if ((before != 0) != silent)
		lr_wake_watchdog();
}

uint32
node_silences_ended(void)
{
	return pg_atomic_read_u32(&nodes->silences);
}

bool
node_is_silent(NodeId node)
{
	return pg_atomic_read_u32(&nodes->entry[node].silent) != 0;
}

/* ----------
 * Addresses of hosts: entries; lock held
 * ----------
 */

static HostEntry *
find_host(const char *host, int port)
{
	for (int i = 0; i < ADDRESSES_MAX; i++)
		if (nodes->host[i].port == port && strcmp(nodes->host[i].host, host) == 0)
			return &nodes->host[i];
	return NULL;
}

static void
clear_host(HostEntry *h)
{
	h->host[0] = '\0';
	h->port = 0;
	h->failures = 0;
	h->concluded_at = 0;
	memset(&h->addresses, 0, sizeof(NodeAddresses));
	pg_atomic_write_u32(&h->wanted, 0);
	pg_atomic_write_u64(&h->used_at, 0);
}

/*
 * make_host --- use a free entry, or the one that was not used for longest
 */
static HostEntry *
make_host(const char *host, int port)
{
	HostEntry  *oldest = &nodes->host[0];

	for (int i = 1; i < ADDRESSES_MAX; i++)
		if (pg_atomic_read_u64(&nodes->host[i].used_at) <
			pg_atomic_read_u64(&oldest->used_at))
			oldest = &nodes->host[i];
	clear_host(oldest);
	strlcpy(oldest->host, host, LR_HOST_MAX);
	oldest->port = port;
	return oldest;
}

/* ----------
 * Addresses: for processes that connect
 * ----------
 */

/*
 * addresses_get --- see nodes.h
 */
bool
addresses_get(const char *host, int port, NodeAddresses *out)
{
	HostEntry  *h;

	memset(out, 0, sizeof(NodeAddresses));
	LWLockAcquire(node_lock, LW_SHARED);
	h = find_host(host, port);
	if (h != NULL)
	{
		*out = h->addresses;
		pg_atomic_write_u64(&h->used_at, (uint64) lr_now());
	}
	LWLockRelease(node_lock);
	return out->count > 0;
}

/*
 * addresses_want --- see nodes.h
 */
void
addresses_want(NodeId node, const char *host, int port, uint32 why)
{
	HostEntry  *h;
	uint32		before = why;
	bool		found;

	LWLockAcquire(node_lock, LW_SHARED);
	h = find_host(host, port);
	found = h != NULL;
	if (found)
		before = pg_atomic_fetch_or_u32(&h->wanted, why);
	LWLockRelease(node_lock);

	if (!found || (before & why) != why)
	{
		LWLockAcquire(node_lock, LW_EXCLUSIVE);
		h = find_host(host, port);
		if (h == NULL)
			h = make_host(host, port);
		h->node = node;
		pg_atomic_fetch_or_u32(&h->wanted, why);
		pg_atomic_write_u64(&h->used_at, (uint64) lr_now());
		LWLockRelease(node_lock);
		lr_wake_watchdog();
	}
}

/* ----------
 * Addresses: for the watchdog
 * ----------
 */

/* Each round of the watchdog calls this, so it takes no lock if nothing is wanted. */
bool
addresses_wish(int number, AddressWish *out)
{
	HostEntry  *h = &nodes->host[number];

	if (pg_atomic_read_u32(&h->wanted) == 0)
		return false;
	LWLockAcquire(node_lock, LW_SHARED);
	strlcpy(out->host, h->host, LR_HOST_MAX);
	out->port = h->port;
	out->node = h->node;
	out->why = pg_atomic_read_u32(&h->wanted);
	out->known = h->addresses.count > 0;
	out->failures = h->failures;
	out->concluded_at = h->concluded_at;
	LWLockRelease(node_lock);
	return out->why != 0;
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
		h->failures = found->count > 0 ? 0 : h->failures + 1;
		h->concluded_at = lr_now();
		pg_atomic_write_u32(&h->wanted, 0);
	}
	LWLockRelease(node_lock);
}

void
addresses_drop_wish(const AddressWish *wish)
{
	HostEntry  *h;

	LWLockAcquire(node_lock, LW_SHARED);
	h = find_host(wish->host, wish->port);
	if (h != NULL)
		pg_atomic_fetch_and_u32(&h->wanted, ~wish->why);
	LWLockRelease(node_lock);
}

/*
 * Addresses of a name that is still in use stay valid: perhaps only the user, the
 * password or the database has changed.  Those of other names would be outdated when
 * these are used again.
 */
void
addresses_restart(const RedisUrl *urls, int n)
{
	LWLockAcquire(node_lock, LW_EXCLUSIVE);
	for (int i = 0; i < ADDRESSES_MAX; i++)
	{
		HostEntry  *h = &nodes->host[i];
		bool		named = false;

		for (int j = 0; j < n && !named; j++)
			named = h->port == urls[j].at.port && strcmp(h->host, urls[j].at.host) == 0;
		if (!named)
			clear_host(h);
		h->failures = 0;
		h->concluded_at = 0;
		pg_atomic_write_u32(&h->wanted, 0);
	}
	LWLockRelease(node_lock);
}
