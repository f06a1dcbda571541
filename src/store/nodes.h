/*-------------------------------------------------------------------------
 *
 * nodes.h
 *	  What all processes know of the nodes of stores, in shared memory.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/nodes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_NODES_H
#define LR_NODES_H

#include "lockredis.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "datatype/timestamp.h"
#include "storage/lwlock.h"

#include "store/redis/url.h"

/* ----------
 * nodes.c: What all processes of this server know about the nodes of its stores.
 *
 * A table in shared memory with an entry for each node: a Redis process, or the
 * table of locks.  It has an LWLock of its own, which is never held across I/O.
 * The watchdog writes what it finds; sessions may mark a node as silent, and report
 * its errors.
 * ----------
 */

/* Index of an entry of the table. */
typedef int NodeId;

#define NODE_MAX			208

/* Entries; redis_lock_status shows them in this order. */
#define NODE_REDIS			0
#define NODE_MASTER			1	/* the first of NODE_MASTERS: masters of a cluster or
								 * independent ones; if there are such, NODE_REDIS stands
								 * for all of them */
#define NODE_MASTERS		64
#define NODE_REPLICA		65	/* the first of NODE_REPLICAS: replicas as the master or
								 * the cluster reports them; no process talks to them */
#define NODE_REPLICAS		128
#define NODE_SENTINEL		193 /* the first of LR_MAX_SENTINELS */
#define NODE_TABLE			(NODE_MAX - 1)

typedef enum NodeState
{
	NODE_CONNECTING,
	NODE_UP,
	NODE_DOWN
} NodeState;

typedef enum NodeRole
{
	ROLE_MASTER,
	ROLE_REPLICA,
	ROLE_SENTINEL,
	ROLE_TABLE
} NodeRole;

/* Do locks go to this node?  Others are only shown. */
static inline bool
node_has_locks(NodeId node)
{
	return node < NODE_REPLICA || node == NODE_TABLE;
}

/* What a node says about itself. */
typedef struct NodeFacts
{
	NodeRole	role;
	char		version[32];
	char		maxmemory_policy[32];
	TimestampTz certificate_expires;	/* when the first certificate of the connection
										 * does, the node's or ours; 0 = none */
} NodeFacts;

typedef struct NodeStatus
{
	StoreId		store;
	NodeState	state;
	NodeFacts	facts;
	int64		round_trip_us;	/* of the last answered batch; -1 = none yet */
	char		address[128];
	char		last_error[256];
	TimestampTz last_error_at;	/* 0 = none */
} NodeStatus;

extern Size node_shmem_size(void);
extern void node_shmem_init(void);

/* Number of locks of the tranche "lockredis" that are used here, the first ones. */
#define NODE_LWLOCKS		1

/*
 * The watchdog: a start, or other settings.  With another lr_place, nothing is known.
 * "follows": others name the master, or the nodes of a cluster; "nmasters": how many
 * independent masters there are, 0 with a single URL.
 */
extern void node_start(uint32 place, bool follows, bool is_cluster, int nmasters);

/* The watchdog: a node exists from now on, or not any more. */
extern void node_appear(NodeId node);
extern void node_vanish(NodeId node);

/* Copy the status; false if there is no such node. */
extern bool node_get_status(NodeId node, NodeStatus *out);

/*
 * Warn if a node with that status may evict locks.  "warned", of "size" bytes, is its
 * maxmemory_policy at the last call.
 */
extern void node_warn_of_eviction(const NodeStatus *status, char *warned, size_t size);

/* Called by the watchdog.  Without an address (NULL) the present one stays. */
extern void node_set_state(NodeId node, NodeState state);
extern void node_set_facts(NodeId node, const char *address, const NodeFacts *facts);
extern void node_set_round_trip(NodeId node, int64 us);

/* An empty address leaves the present one alone. */
extern void node_set_error(NodeId node, const char *address, const char *message);

/*
 * Has the node answered the watchdog as a Redis server, at the place of these settings
 * (lr_place)?  Takes no lock.
 */
extern bool node_has_answered(NodeId node, uint32 place);

/*
 * The replicas that a master or a cluster reports: one by one, then how many there are.
 * Or it does not answer, and their state is unknown.
 */
extern void node_set_replica(int number, const char *address, NodeState state);
extern void node_end_replicas(int n);
extern void node_doubt_replicas(void);

/* The settings have changed: forget the former node, and its replicas. */
extern void node_forget(NodeId node);

/* The usual round trip in microseconds, 0 = not known.  Takes no lock. */
extern int64 node_usual_round_trip(NodeId node);

/*
 * A session reports an error of the node, which perhaps no other session has seen.
 * Limits how often the view changes.  "place" is the lr_place of the node, 0 if it has
 * none.
 */
extern void node_report_error(NodeId node, uint32 place, const char *message);

/*
 * The lr_place of these nodes, as the watchdog has read it; 0 = not known, or it is just
 * changing.  Lock-free.
 */
extern uint32 node_get_place(void);

/* Does this lr_place differ from the watchdog's?  Not if either is 0. */
extern bool node_place_is_other(uint32 place);

/*
 * A request timed out: only the watchdog talks to the node until it has answered a
 * probe.  Lock-free.
 */
extern void node_set_silent(NodeId node, bool silent);
extern bool node_is_silent(NodeId node);

/* Is the node up, and not silent?  Lock-free. */
extern bool node_serves(NodeId node);

/*
 * How often a node has answered again: the watchdog found it up, or a silence has ended,
 * whichever process noticed that, which wakes the watchdog.  One of several masters may
 * lack locks then.
 */
extern uint32 node_returns(void);

/*
 * Changes when a row from NODE_MASTER on gets another node, or the node another address; of
 * independent masters, when another server is found there.  Never 0.  Lock-free.
 */
extern uint32 node_generation(NodeId node);

/* ----------
 * silence.c: Since when Redis has not answered, and what others may have there since.
 *
 * Only fallback mode uses this; in the others Redis never counts as silent, and no
 * key is held off.  Only the watchdog writes, but for answers and times to live, which
 * any process notes.  Nothing here takes a lock.
 * ----------
 */

extern Size silence_shmem_size(void);
extern void silence_shmem_init(void);

/* ---- for all processes, lock-free ---- */

/*
 * How long (us) a key that nobody on this server holds must not be taken in a store
 * that excludes only this server's sessions: a client elsewhere may have taken it while
 * Redis answered, and its lease may still run.
 */
extern int64 silence_hold_off(uint32 hash);

/*
 * This process has read at that time, or after it, that Redis has done an operation: so Redis
 * may have served others, too.  "served": when a session has asked for it, if it has taken or
 * released a lock; else 0.
 */
extern void silence_heard(int64 now, int64 served);

/* Note that the key is locked in Redis for that long (ms, or STORE_NO_TTL). */
extern void silence_saw_ttl(uint32 hash, int64 ttl_ms);

/*
 * Has Redis been silent since before that time, so that it has granted nothing since?
 */
extern bool silence_lasts_since(int64 when);

/* Has Redis been silent for longer than a slow answer takes? */
extern bool silence_is_noticed(void);

/* ---- for the watchdog ---- */

/*
 * Set the effective limits (both us).  A watchdog that did not look for longer than
 * "stall" does not know what happened meanwhile; leases last for "lease", or for longer if
 * that was set before, since the server started.
 */
extern void silence_set_limits(int64 stall, int64 lease);

/*
 * The watchdog looks.  Returns false if it had not for too long, so that the silence is
 * measured from now on.
 */
extern bool silence_look(int64 now);

/* Nothing seen so far counts; the silence is measured from now on. */
extern void silence_begin_anew(int64 now);

/* The watchdog has sent a request to Redis; Redis has answered and done all of it. */
extern void silence_asked(int64 now);
extern void silence_answered(int64 now);

/* When the watchdog sent its first request that has no answer (0 = all were answered). */
extern int64 silence_asked_since(void);

/*
 * When Redis last answered the watchdog, or when what is seen began to count; and the same,
 * or when a session last asked Redis for a lock, or its release, that was done, if that is
 * later.
 */
extern int64 silence_last_answer(void);
extern int64 silence_last_service(void);

/* ----------
 * silence.c: Which store new locks go to.
 *
 * The modes redis and table have only one.  In fallback mode the watchdog decides
 * (watchdog/fallback.c) and writes it here; sessions read it without a lock before
 * each create.
 *
 * It concerns new locks only: a held lock stays in its store until the watchdog has
 * moved it.  The lock table ensures that no two sessions of this server hold a key at
 * once, whatever the stores answer.
 * ----------
 */

typedef struct CurrentStatus
{
	StoreId		store;
	TimestampTz since;
	char		why[256];		/* empty: no change since the start */
} CurrentStatus;

extern StoreId current_store(void);

/* For display: which store, since when and why. */
extern void current_get_status(CurrentStatus *out);

/* The watchdog: new locks go to this store from now on, and waiting sessions ask again. */
extern void current_change(StoreId to, const char *why);

/* ----------
 * nodes.c: In which slot of a Redis Cluster a key is.
 *
 * That is its CRC16 (XMODEM), modulo the number of slots.
 * ----------
 */

#define SLOT_COUNT			16384

/*
 * The slot by Redis's rule: if the first pair of braces contains anything, that
 * decides.
 */
extern int	slot_of(const char *key, int len);

/*
 * Are keys that are derived from this name in another slot than the lock itself?  Then
 * no script can use both.
 */
extern bool slot_is_split(const char *name, int len);

/* ----------
 * nodes.c: The addresses that the host names of nodes resolved to.
 *
 * A table in shared memory, by host name and port.  A process that connects looks up
 * addresses here, and requests those that are missing; the watchdog has the names
 * resolved (resolver.c) and enters the answers.  Only addresses_look_up() waits.
 * ----------
 */

/* Most addresses of a host name. */
#define LR_MAX_ADDRESSES	4

/* Most host names; of more the one that was not wanted for longest is forgotten. */
#define ADDRESSES_MAX		NODE_MAX

typedef union HostAddress
{
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} HostAddress;

typedef struct NodeAddresses
{
	int			count;			/* 0 = not resolved (yet) */
	char		error[128];		/* the message of the resolver, if it failed */
	union
	{
		HostAddress addr[LR_MAX_ADDRESSES];
		struct sockaddr_un un;	/* the only one; of no host name */
	}			at;
	socklen_t	addr_len[LR_MAX_ADDRESSES];
} NodeAddresses;

/* A request for addresses, as the watchdog sees it. */
typedef struct AddressWish
{
	char		host[LR_HOST_MAX];
	int			port;
	NodeId		node;			/* node of the last request */
	int			failures;		/* failures in a row */
	int64		concluded_at;	/* end of the last attempt; 0 = none */
} AddressWish;

/* ---- for processes that connect ---- */

/*
 * Get the addresses of a host.  False if none are known; out->error then says why, if
 * that was tried.
 */
extern bool addresses_get(const char *host, int port, NodeAddresses *out);

/* Ask the system for them; it answers at once if "flags" has AI_NUMERICHOST. */
extern void addresses_look_up(const char *host, int port, int flags, NodeAddresses *found);

/*
 * Request that the host name is resolved, perhaps again, and wake the watchdog.
 * Waiting processes repeat this; the watchdog decides when to do it.
 *
 * Unless "anyway" is set, nothing is requested while the node serves us at a known address:
 * a process that cannot reach it has another problem, unless names of independent masters
 * have changed places, or it is one of the seeds of a cluster.  But one that has become a
 * replica serves us only as long as there is nothing to write.
 */
extern void addresses_want(NodeId node, const char *host, int port, bool anyway);

/* ---- for the watchdog ---- */

/*
 * The request for the host with this number (0 to ADDRESSES_MAX - 1), if there is one.
 */
extern bool addresses_wish(int number, AddressWish *out);

/* The result of an attempt, good or bad; it answers all requests for the name. */
extern void addresses_publish(const AddressWish *wish, const NodeAddresses *found);

/*
 * The settings have changed and name these hosts now: forget all requests, and, if the place
 * is another one, the addresses of other hosts.
 */
extern void addresses_restart(const RedisUrl *urls, int n, bool moved);

/* ----------
 * nodes.c: Which node is the master, where others (Sentinels) say so.
 *
 * In shared memory.  The watchdog asks the Sentinels and writes; a process that makes
 * a connection, or has received a reply, reads, and may report a doubt.  If
 * lockredis.url names the node itself, nothing here changes but with that setting.
 *
 * Each master that we accept has an epoch, higher than that of the master before.
 * A reply of a node counts only while the node's epoch is the present one
 * (store/README.topology.md has the proof).
 * ----------
 */

/* How long the watchdog's last look remains valid. */
#define TOPOLOGY_TRUST		(5 * LR_US_PER_S)

typedef struct TopologyMaster
{
	uint32		epoch;			/* 0: none has been named yet */
	RedisHost	at;
	int64		config_epoch;	/* the Sentinels' number of the failover */
} TopologyMaster;

/* May a connection be made to the master that has this epoch? */
typedef enum TopologyAnswer
{
	TOPOLOGY_YES,
	TOPOLOGY_NOT_YET,			/* no Sentinel was asked since the start */
	TOPOLOGY_NO					/* see topology_get_reason */
} TopologyAnswer;

/* ---- for all processes; the first three are lock-free ---- */

/* The epoch of the present master; it never changes if no master is looked for. */
extern uint32 topology_epoch(void);

/* Changes when sessions whose requests failed should ask again. */
extern uint32 topology_news(void);

/* May requests be sent to the master with this epoch, over an existing connection? */
extern bool topology_is_watched(uint32 epoch, int64 now);

/*
 * May a connection to it be made?  "scout": by the watchdog, which has to be the first.
 */
extern TopologyAnswer topology_may_connect(uint32 epoch, bool scout, int64 now);

/*
 * The present master.  If it was found by settings with another lr_place, only the
 * epoch is valid, and the address is unknown.
 */
extern void topology_get_master(uint32 place, TopologyMaster *out);

/* Why there is no master: a sentence without any address. */
extern void topology_get_reason(char *out, size_t size);

/*
 * The node reported that it is no master, or takes no writes: no process connects to it
 * before it has been named again.
 */
extern void topology_doubt(uint32 epoch);

/* ---- for the watchdog ---- */

/* Waiting sessions shall ask again. */
extern void topology_tell(void);

/* Another node is the master now; returns its epoch. */
extern uint32 topology_change(const RedisHost *at, int64 config_epoch);

/*
 * The master is the same, but its number is higher after another failover, or lower as
 * its Sentinels were set up anew.
 */
extern void topology_set_config_epoch(int64 config_epoch);

/* Length of the id that a Redis process gives itself when it starts. */
#define RUN_ID_LEN			40

/* What all watchdogs know of a Sentinel. */
typedef struct TopologySentinel
{
	char		run_id[RUN_ID_LEN + 1]; /* empty: it has not said it */
	int64		reported;		/* the highest number of a failover that it has reported
								 * since it was set up */
	int64		bar;			/* the least number by which it counts, since others were
								 * set up anew: more than was known then, or than was
								 * known when this one was found to be set up anew, too;
								 * 0: any */
	int64		named_by;		/* the number by which it has last named the present
								 * master; -1: it has not */
} TopologySentinel;

/* What is known of that Sentinel of the list; only the watchdog writes there. */
extern TopologySentinel *topology_sentinel(int number);

/*
 * The name in that place of the list leads to the Sentinel with this run id.  What is known of a
 * Sentinel goes with it if it had another place before.
 */
extern void topology_sentinel_met(int number, const char *run_id);

/*
 * Pass over a node that was named by a later failover than the present master's, but
 * did not report itself that it is a master.  With NULL, none is passed over any more;
 * then what the second function returns has no host.  Its epoch has no meaning.
 */
extern void topology_pass_over(const RedisHost *at, int64 config_epoch);
extern const TopologyMaster *topology_passed_over(void);

/*
 * A Sentinel that was asked at that time has named this master: the watchdog may connect
 * to it, for a moment.
 */
extern void topology_named(uint32 epoch, int64 at);

/* The same for a master that is still named.  Does the last naming still count? */
extern void topology_named_again(uint32 epoch, int64 at);
extern bool topology_was_named_lately(int64 now);

/* The watchdog has connected, and the node is a master: all processes may connect. */
extern void topology_confirm(uint32 epoch);

/* The watchdog's connection has ended, or could not be made. */
extern void topology_lost(uint32 epoch);

/* Has the node reported since it was named that it is a master, and not the opposite? */
extern bool topology_is_proved(uint32 epoch);

extern bool topology_is_named(void);
extern bool topology_is_confirmed(void);

/* The watchdog has looked, and the master is not in doubt; or it is. */
extern void topology_watch(int64 now);
extern void topology_suspend(void);

/* The reason why there is no master.  It implies that all Sentinels were asked once. */
extern void topology_set_reason(const char *reason);

/* ----------
 * nodes.c: Which node of a Redis Cluster has which slot, as all processes know it.
 *
 * In shared memory.  The watchdog asks the nodes (store/redis/cluster_map.h) and
 * writes; a process that sends a request, or has received a reply, reads, and may want
 * a new map.  If lockredis.url names no cluster, all keys are in one "slot".
 *
 * Each slot has an epoch of its own: a reply counts only while the epoch of its slot is
 * the same (store/README.topology.md).  So if one master fails, the locks at the others
 * are not in doubt.
 * ----------
 */

/* Length of a node's id, as the cluster gives it. */
#define CLUSTER_ID_LEN		40

/* Most nodes of a cluster, including replicas. */
#define CLUSTER_NODES_MAX	1024

/* Instead of the row of a node. */
#define CLUSTER_NO_NODE		(-1)

typedef struct ClusterNode
{
	bool		used;
	bool		has_slots;		/* else it is only known here, as it may soon get one */
	char		id[CLUSTER_ID_LEN + 1];
	RedisHost	at;
	char		name[LR_HOST_MAX];	/* another name that nodes may use for it; or empty */
} ClusterNode;

typedef struct ClusterIds
{
	int			n;
	char		id[CLUSTER_NODES_MAX][CLUSTER_ID_LEN + 1];
} ClusterIds;

/* ---- for all processes; lock-free but for the nodes ---- */

/* Do the settings that the watchdog has read name a cluster? */
extern bool cluster_is_on(void);

/* The epoch of the slot of this name; without a cluster, that of the master. */
extern uint32 cluster_epoch_of(const char *name, int len);

/* The row of the master of the slot, and the slot's epoch, unless that is NULL. */
extern int	cluster_owner(int slot, uint32 *epoch);

/*
 * The node in this row of the cluster with this lr_place; false if there is none.
 * "generation", that of the row, may be NULL.  And the row of the node at this address.
 */
extern bool cluster_get_node(uint32 place, int row, ClusterNode *out, uint32 *generation);
extern int	cluster_find_node(uint32 place, const char *host, int port);

/* A process has learned that the map is wrong, or has found a node gone. */
extern void cluster_want_map(void);

/* Does any slot have a master? */
extern bool cluster_has_map(void);

/*
 * Were all nodes in the settings asked, so that a slot without a master has none, or no
 * node tells it?
 */
extern bool cluster_was_asked(void);

/*
 * Does the node that has the slot of this name report that it is giving slots to another
 * one?  A lock there may be at that one already, and its release is published there, where
 * nobody can subscribe yet.
 */
extern bool cluster_may_be_moving(const char *name, int len);

/* ---- for the watchdog ---- */

/* Forget where slots are: there is another cluster at this place. */
extern void cluster_begin_anew(void);

extern void cluster_note_asked(void);

/*
 * The ids of all nodes when the cluster was last heard, by which it is recognized; kept
 * for all watchdogs.
 */
extern const ClusterIds *cluster_known(void);
extern void cluster_know(const ClusterIds *ids);

/* Counts requests for a new map. */
extern uint32 cluster_wanted(void);

/*
 * The row of the node with this id, or a new one; CLUSTER_NO_NODE if there is no room.
 * A node without slots gets a row only in the first half of the table.
 */
extern int	cluster_put_node(const char *id, const RedisHost *at, const char *name,
							 bool has_slots);
extern void cluster_remove_node(int row);

/* The number (config epoch) by which its node has the slot; kept for all watchdogs. */
extern int64 cluster_number(int slot);

/*
 * Is this node giving slots to another one?  Returns true if that is new, so that those who
 * wait for locks there have to ask again.
 */
extern bool cluster_set_giver(int row, bool gives);

/*
 * Give slots to other nodes, by that number: a call for each slot that changes, then the
 * end of the change.
 */
extern void cluster_give_slot(int slot, int row, int64 number);
extern void cluster_end_change(void);

/* ----------
 * nodes.c: Independent masters: what all processes know of each of them.
 *
 * With several URLs in lockredis.url a lock is held when most of the masters have
 * granted it.  That excludes others only if no master has forgotten a lock that it
 * granted, and if no two masters are the same server.
 *
 * We cannot see whether a node keeps its data.  So a node that was started recently has
 * no vote until the longest possible lease (lockredis.max_lease) is over.  When this
 * server first sees a node, it goes by the time that the node reports, or by the later one
 * from which the node counted by former settings.  Another node that takes its place later
 * may be a spare that has run for long: it counts as started when it was first seen.
 *
 * Each row has one server at a time, and each server has one row.  When that changes, the
 * row begins another life (node_generation).  A connection, and the replies over it, are
 * valid for the life of the row in which it was made.  That is checked when votes are
 * counted, not when a connection is made.
 * ----------
 */

typedef struct MasterStatus
{
	char		run_id[RUN_ID_LEN + 1]; /* empty: not heard yet */
	int64		since;			/* lr_now() time at which it surely ran, in this row */
} MasterStatus;

/* How many masters have to agree. */
static inline int
masters_quorum(int n)
{
	return n / 2 + 1;
}

/* ---- for all processes; lock-free but for what is said of one ---- */

/* Number of masters in the settings that the watchdog has read; 0: a single URL. */
extern int	masters_count(void);

/*
 * When does a master that has been there since then get its vote?  Does it have a vote
 * in its reply to a request sent at that time?
 */
extern int64 masters_votes_at(int64 since);

/* Does the answer to a request that was sent then count as a vote? */
static inline bool
masters_may_vote(int64 since, int64 sent_at)
{
	return sent_at >= masters_votes_at(since);
}

/*
 * The master in that row (0 is the first) has reported its id, and a time (lr_now()) at
 * which it surely ran.  Returns false if another row has the same server.  Sets the
 * life of the row, and since when the server is there; life is 0, which no row has, if
 * the settings have changed.
 */
extern bool masters_note(int row, uint32 place, const char *run_id, int64 booted_by,
						 uint32 *life, int64 *since);

extern void masters_get(int row, MasterStatus *out);

/*
 * Is one of these masters (bits) of this lr_place there?  Asked after noting that they
 * do not have a lock (lt_note_nodes).
 */
extern bool masters_are_there(uint32 place, uint32 rows);

/* ---- for the watchdog ---- */

/* The watchdog's connection has ended: another row may find that server. */
extern void masters_forget(int row);

#endif							/* LR_NODES_H */
