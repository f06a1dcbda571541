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

#include <sys/socket.h>

#include "datatype/timestamp.h"
#include "storage/lwlock.h"

#include "store/redis/url.h"

/* ----------
 * node.c: What all processes of this server know about the nodes of its stores.
 *
 * A table in shared memory with an entry for each node: a Redis process, or the
 * table.  Under one LWLock of its own, never held across I/O.  The watchdog
 * writes what it finds; sessions may mark a node as not answering and show what
 * it told them.
 * ----------
 */

/* An entry of the table. */
typedef int NodeId;

#define NODE_MAX			208

/* The entries are shown in this order: those of Redis first, the table last. */
#define NODE_REDIS			0
#define NODE_MASTER			1	/* the first of NODE_MASTERS: those of a cluster,
								 * see cluster.c; then the one before is no node,
								 * but the cluster as a whole */
#define NODE_MASTERS		64
#define NODE_REPLICA		65	/* the first of NODE_REPLICAS: what that, or the
								 * cluster, says of its replicas, which nobody here
								 * talks to */
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

/* Do locks go there?  Others only have rows. */
static inline bool
node_has_locks(NodeId node)
{
	return node < NODE_REPLICA || node == NODE_TABLE;
}

typedef struct NodeStatus
{
	StoreId		store;
	NodeRole	role;
	NodeState	state;
	int64		round_trip_us;	/* of the last answered probe; -1 = none yet */
	char		address[128];
	char		version[32];
	char		maxmemory_policy[32];
	char		last_error[256];
	TimestampTz last_error_at;	/* 0 = none */
	TimestampTz certificate_expires;	/* see node_set_certificate; 0 = none */
} NodeStatus;

extern Size node_shmem_size(void);
extern void node_shmem_init(void);

/* So many locks of the tranche "lockredis", the first ones, are used here. */
#define NODE_LWLOCKS		1

/* The lock that protects the texts here and the addresses (addresses.c). */
extern LWLock *node_lwlock(void);

/* There is such a node; "role" is its own until it has told another. */
extern void node_enter(NodeId node, StoreId store, NodeRole role);

/* The watchdog: there is one from now on, or not any more. */
extern void node_appear(NodeId node, StoreId store, NodeRole role);
extern void node_vanish(NodeId node);

/* Copy of the status; false: there is no such node. */
extern bool node_get_status(NodeId node, NodeStatus *out);

/* Written by the watchdog.  A NULL text is left alone. */
extern void node_set_state(NodeId node, NodeState state);
extern void node_set_facts(NodeId node, const char *address,
						   const char *version, const char *policy,
						   NodeRole role);
extern void node_set_address(NodeId node, const char *address);

/* The first of the certificates with which the node and we have met ends then; 0 = none. */
extern void node_set_certificate(NodeId node, TimestampTz expires);
extern void node_set_round_trip(NodeId node, int64 us);
extern void node_set_error(NodeId node, const char *message);

/*
 * It has answered as a Redis server does, where these settings (lr_place) say: has it ever
 * since?  Takes no lock.
 */
extern void node_note_answered(NodeId node, uint32 place);
extern bool node_has_answered(NodeId node, uint32 place);

/*
 * What a master says of its replicas: the first, the second, ...; so many are all.
 * It does not answer: nobody knows how they are.
 */
extern void node_set_replica(int number, const char *address, bool online);
extern void node_end_replicas(int n);
extern void node_doubt_replicas(void);

/* What a cluster says of those of all its masters, in any order: these are all. */
typedef struct NodeReplica
{
	char		address[128];
	bool		has_failed;
} NodeReplica;

extern void node_set_replicas(const NodeReplica *replicas, int n);

/*
 * The settings have changed: what the node before it said is of no interest, nor
 * are its replicas.
 */
extern void node_forget(NodeId node);

/* What can be expected: microseconds, 0 = not known.  Takes no lock. */
extern int64 node_usual_round_trip(NodeId node);

/*
 * Sessions: what the node told this one, perhaps only this one.  Not more often
 * than is worth while.  "place" is the lr_place that it belongs to, 0 if to none.
 */
extern void node_report_error(NodeId node, uint32 place, const char *message);

/*
 * Whose nodes these are: lr_place as the watchdog has read it; 0 = not known.
 * Lock-free.
 */
extern void node_set_place(uint32 place);
extern uint32 node_get_place(void);

/* Is this surely another lr_place than the watchdog's?  0 is none. */
extern bool node_place_is_other(uint32 place);

/*
 * A request timed out: nobody but the watchdog talks to the node until it has
 * answered a probe.  Lock-free.
 */
extern void node_set_silent(NodeId node, bool silent);
extern bool node_is_silent(NodeId node);

/* So often has one, of any node; whoever heard it. */
extern uint32 node_silences_ended(void);

/* ----------
 * silence.c: Since when Redis has not answered, and what others may have there since.
 *
 * In mode fallback only; in the others Redis is never silent and nothing is to
 * be held off.  The watchdog writes what it sees, all others read it without a
 * lock.
 * ----------
 */

extern Size silence_shmem_size(void);
extern void silence_shmem_init(void);

/* ---- for all processes, lock-free ---- */

/*
 * For how long (us) a key that nobody here has must not be taken in a store that
 * excludes this server's sessions only: somebody may have taken it in Redis as
 * long as that answered, and its lease may still run.
 */
extern int64 silence_hold_off(uint32 hash);

/* The key is locked in Redis for that long (ms, or STORE_NO_TTL). */
extern void silence_saw_ttl(uint32 hash, int64 ttl_ms);

/* Was Redis silent at this moment, and is it since, so that it granted nothing? */
extern bool silence_lasts_since(int64 when);

/* Has it been silent for longer than a slow answer takes? */
extern bool silence_is_noticed(void);

/* ---- for the watchdog ---- */

/*
 * The settings of the server that are in effect: a watchdog that did not look
 * for longer than "stall" has not seen what happened meanwhile; leases last for
 * "lease" (both us).
 */
extern void silence_set_limits(int64 stall, int64 lease);

/* It looks; false: it had not for too long, so a silence begins anew. */
extern bool silence_look(int64 now);

/* What was seen so far does not count; a silence begins anew. */
extern void silence_begin_anew(int64 now);

/* Redis was asked something; it answered. */
extern void silence_asked(int64 now);
extern void silence_answered(int64 now);

/* When the first request went out that was not answered (0 = all were). */
extern int64 silence_since(void);

/* When it last answered, or what was seen began to count. */
extern int64 silence_last_answer(void);

/* ----------
 * slot.c: In which slot of a Redis Cluster a key is.
 * ----------
 */

#define SLOT_COUNT			16384

/* By Redis's rule: that of what is in the first pair of braces, if anything is. */
extern int	slot_of(const char *key, int len);

/*
 * Do keys that are derived from this name of a lock fall into another slot than the lock?
 * Then no script can have both.
 */
extern bool slot_is_split(const char *name, int len);

/* ----------
 * addresses.c: The addresses that the host names of nodes resolved to.
 *
 * A table in shared memory, by host name and port.  Who makes a connection looks
 * here and asks for what is missing; the watchdog has it resolved (resolver.c)
 * and answers.  Nobody waits for anything in here.
 * ----------
 */

/* Of a host name. */
#define LR_MAX_ADDRESSES	4

/* So many host names, those that were in use before a reload among them. */
#define ADDRESSES_MAX		(2 * NODE_MAX)

typedef struct NodeAddresses
{
	int			count;			/* 0 = not resolved (yet) */
	char		error[128];		/* the resolver's words, if it failed */
	struct sockaddr_storage addr[LR_MAX_ADDRESSES];
	socklen_t	addr_len[LR_MAX_ADDRESSES];
} NodeAddresses;

/* Why addresses are asked for; bits. */
#define WANT_REACHABLE		1	/* none are known, or nobody answers at these */
#define WANT_MASTER			2	/* who answers there takes no writes any more */

/* What is asked for, as the watchdog sees it. */
typedef struct AddressWish
{
	char		host[LR_HOST_MAX];
	int			port;
	NodeId		node;			/* of the last one who asked */
	uint32		why;
	bool		known;			/* there are addresses, if perhaps old ones */
	int			failures;		/* in a row, since it was resolved last */
	int64		concluded_at;	/* end of the last attempt; 0 = none */
} AddressWish;

extern Size addresses_shmem_size(void);
extern void addresses_shmem_init(void);

/* ---- for those who connect ---- */

/* False: none are known yet, and out->error says why if that was tried. */
extern bool addresses_get(const char *host, int port, NodeAddresses *out);

/*
 * Ask the watchdog to have the host name resolved, perhaps again; it is woken.
 * Those who wait repeat this.  When it is done, or whether, decides the watchdog.
 */
extern void addresses_want(NodeId node, const char *host, int port, uint32 why);

/* ---- for the watchdog ---- */

/* What is wanted of the host with this number (0 to ADDRESSES_MAX - 1), if it is. */
extern bool addresses_wish(int number, AddressWish *out);

/* The end of an attempt, good or bad; all who have asked get that answer. */
extern void addresses_publish(const AddressWish *wish, const NodeAddresses *found);

/* What is known is good enough. */
extern void addresses_drop_wish(const AddressWish *wish);

/*
 * The settings have changed and name these hosts now: nothing is wanted, and
 * nothing known but of them.
 */
extern void addresses_restart(const RedisUrl *urls, int n);

/* ----------
 * topology.c: Which node is the master, where others (Sentinels) say so.
 *
 * Shared memory of all processes.  The watchdog asks and writes; whoever makes a
 * connection, or has had an answer, reads.  With a lockredis.url that names the
 * node itself nothing here ever changes.
 *
 * Each master that is believed in has an epoch of its own: one more than the one
 * before.  What was asked of a node counts only while its epoch is the present
 * one (store/README.topology.md has the proof).
 * ----------
 */

/* The watchdog's word is believed for so long. */
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
	TOPOLOGY_NOT_YET,			/* nobody has been asked since the start */
	TOPOLOGY_NO					/* see topology_get_reason */
} TopologyAnswer;

extern Size topology_shmem_size(void);
extern void topology_shmem_init(void);

/* ---- for all processes; the first three are lock-free ---- */

/* Of the present master; the same for ever where none is looked for. */
extern uint32 topology_epoch(void);

/* Changes when those whose request failed should ask again. */
extern uint32 topology_news(void);

/*
 * May the master with this epoch be asked anything now, over a connection that
 * there is?
 */
extern bool topology_is_watched(uint32 epoch, int64 now);

/*
 * May a connection to it be made?  "scout": by the watchdog, which has to be the
 * first.
 */
extern TopologyAnswer topology_may_connect(uint32 epoch, bool scout, int64 now);

/*
 * The present master, if it was found by settings with that lr_place; else its
 * epoch is right but nothing is known of where it is.
 */
extern void topology_get_master(uint32 place, TopologyMaster *out);

/* Why there is no master; a sentence without any address. */
extern void topology_get_reason(char *out, size_t size);

/*
 * It has said that it is no master, or takes no writes: nobody connects to it
 * before it has been named again.
 */
extern void topology_doubt(uint32 epoch);

/* ---- for the watchdog ---- */

/*
 * Other settings, or a start: with another place nothing is known.  0: the settings
 * name the node themselves.
 */
extern void topology_start(uint32 place);

/* Whoever waits asks again. */
extern void topology_tell(void);

/* Slots of a cluster have other masters now (cluster.c): all is of the next epoch. */
extern void topology_advance(void);

/* Somebody else is the master now; returns its epoch. */
extern uint32 topology_change(const RedisHost *at, int64 config_epoch);

/*
 * The same one, by a later failover than was known; or its Sentinels were set up
 * anew.
 */
extern void topology_set_config_epoch(int64 config_epoch);

/* The highest number of a failover that this Sentinel has told since it was set up. */
extern int64 topology_told(int sentinel);
extern void topology_set_told(int sentinel, int64 config_epoch);

/*
 * What it has to tell at least, since others began anew and it did not: more than was
 * known then, or when it was found to have been set up anew, too; 0: anything.
 */
extern int64 topology_bar(int sentinel);
extern void topology_set_bar(int sentinel, int64 config_epoch);

/*
 * The number by which it has named the present master last; -1: it has not.
 */
extern int64 topology_named_by(int sentinel);
extern void topology_set_named_by(int sentinel, int64 config_epoch);

/*
 * Who was named by a later failover than the present one, and passed over since it did
 * not say itself that it is a master; NULL: nobody.  The epoch of what is returned means
 * nothing.
 */
extern void topology_pass_over(const RedisHost *at, int64 config_epoch);
extern const TopologyMaster *topology_passed_over(void);

/*
 * It was named, by who was asked then: the watchdog may connect, for a moment; it is
 * still named.  It has connected, and is a master: all may.  That connection has
 * ended, or could not be made.
 */
extern void topology_named(uint32 epoch, int64 at);
extern void topology_named_again(uint32 epoch, int64 at);
extern bool topology_was_named_lately(int64 now);
extern void topology_confirm(uint32 epoch);
extern void topology_lost(uint32 epoch);

/* Has it ever said itself that it is one, since it was named?  That it is none? */
extern bool topology_has_said(uint32 epoch);
extern bool topology_is_denied(uint32 epoch);

extern bool topology_is_named(void);
extern bool topology_is_confirmed(void);

/* The watchdog has looked, and there is no doubt; or there is one. */
extern void topology_watch(int64 now);
extern void topology_suspend(void);

/* What those are told who find no master; all have been asked at least once. */
extern void topology_set_reason(const char *reason);

/* ----------
 * cluster.c: Which node of a Redis Cluster has which slot, as all processes know it.
 *
 * Shared memory.  The watchdog asks the nodes (store/redis/cluster_batch.h) and
 * writes; whoever sends something, or has had an answer, reads.  With a lockredis.url
 * that names no cluster there is one "slot" for all keys, and nothing here changes.
 *
 * Each slot has an epoch of its own: what was asked of its node counts only while that
 * is the same (store/README.topology.md).  So when one master fails the locks of the
 * others are not in doubt.
 * ----------
 */

/* A name of a node, as the cluster gives it. */
#define CLUSTER_ID_LEN		40

/* So many nodes a cluster can have, replicas included. */
#define CLUSTER_NODES_MAX	1024

/* Rows of masters that have slots; -1 is none. */
#define CLUSTER_NO_NODE		(-1)

typedef struct ClusterNode
{
	bool		used;
	bool		has_slots;		/* else it is here to be found: it may be about to get one */
	char		id[CLUSTER_ID_LEN + 1];
	RedisHost	at;
	char		name[LR_HOST_MAX];	/* that it may be called by others; or empty */
} ClusterNode;

extern Size cluster_shmem_size(void);
extern void cluster_shmem_init(void);

/* ---- for all processes; lock-free but for the nodes ---- */

/* Do the settings that the watchdog has read name a cluster? */
extern bool cluster_is_on(void);

/* Is the map that of the cluster with this lr_place?  That of another one is none. */
extern bool cluster_is_of(uint32 place);

/* The epoch of the slot of this name; of the one master where there is no cluster. */
extern uint32 cluster_epoch_of(const char *name, int len);

/* The row of the master that has the slot, and the slot's epoch. */
extern int	cluster_owner(int slot, uint32 *epoch);

/* Changes when another node has this row. */
extern uint32 cluster_generation(int row);

/* Where it is; false: there is none in this row, of the cluster with this lr_place. */
extern bool cluster_get_node(uint32 place, int row, ClusterNode *out, uint32 *generation);
extern int	cluster_find_node(uint32 place, const char *host, int port);

/* Somebody was told that the map is wrong, or has found a node gone. */
extern void cluster_want_map(void);

/* So many slots have no master. */
extern int	cluster_open_slots(void);

/*
 * Have all nodes that the settings name been asked, so that a slot without a master has
 * none, or nobody tells it?
 */
extern bool cluster_was_asked(void);

/* Is the slot of this name on its way to another node?  As that, or this, has said. */
extern bool cluster_is_half_moved(const char *name, int len);

/* ---- for the watchdog ---- */

/* A start, or other settings; with another place nothing is known. */
extern void cluster_start(bool on, uint32 place);

/* Nothing is known any more of where slots are: another cluster is the one of "place". */
extern void cluster_begin_anew(uint32 place);

extern void cluster_note_asked(void);

/*
 * All nodes that it had when it was heard last, by which it is known again; of all
 * watchdogs.
 */
extern int	cluster_known(const char (**ids)[CLUSTER_ID_LEN + 1]);
extern void cluster_know(const char (*ids)[CLUSTER_ID_LEN + 1], int n);

/* How often the map was wanted. */
extern uint32 cluster_wanted(void);

/*
 * The row of the node with this id, a new one if there is none; it is there.  Without
 * slots it gets one only while there is room for many more.
 */
extern int	cluster_put_node(const char *id, const RedisHost *at, const char *name,
							 bool has_slots);
extern void cluster_remove_node(int row);

/* The number by which its node has the slot; of all watchdogs. */
extern int64 cluster_number(int slot);
extern void cluster_set_number(int slot, int64 number);

/*
 * This node says that this slot is on its way to or from it; all that it said of others
 * is forgotten before.  True if nobody has said so of this one.
 */
extern void cluster_forget_half_moved(int row);
extern bool cluster_note_half_moved(int row, int slot);

/* Give slots to other nodes: one call for all that change, then the end of it. */
extern void cluster_give_slot(int slot, int row);
extern void cluster_end_change(void);

/* ----------
 * masters.c: Independent masters: what all processes know of each of them.
 *
 * With several URLs in lockredis.url a lock is had when most of the masters have
 * granted it.  That is worth something only if none of them has forgotten a lock
 * that it granted before, and if no two of them are the same.
 *
 * Nobody can see whether a node keeps its data, so one that was started lately has no
 * vote until the longest lease that there can be (lockredis.max_lease) is over.  What a
 * node says of itself is believed when this server sees it first.  Later another one in
 * its place may be a spare that has run for long: that counts as started when it was seen.
 *
 * Each row has one server at a time, and each server one row.  When that changes the row
 * begins another life.  A connection is good for the life of its row in which it was made,
 * and so is what came over it: what counts is looked at when votes are counted, not when
 * a connection is made.
 * ----------
 */

/* A name that a process of Redis gives itself when it starts. */
#define RUN_ID_LEN			40

typedef struct MasterStatus
{
	char		run_id[RUN_ID_LEN + 1]; /* empty: it has not been heard */
	int64		since;			/* lr_now() at which it surely ran, and was there */
} MasterStatus;

/* So many have to agree. */
static inline int
masters_quorum(int n)
{
	return n / 2 + 1;
}

extern Size masters_shmem_size(void);
extern void masters_shmem_init(void);

/* ---- for all processes; lock-free but for what is said of one ---- */

/* So many do the settings name that the watchdog has read; 0: it is one URL. */
extern int	masters_count(void);

/* The lr_place of these settings; 0 without such a list. */
extern uint32 masters_place(void);

/*
 * When does one that has been there since then have a vote?  Has it one in an answer to
 * what was sent then?
 */
extern int64 masters_votes_at(int64 since);

static inline bool
masters_may_vote(int64 since, int64 sent_at)
{
	return sent_at >= masters_votes_at(since);
}

/*
 * The master in that row (0 is the first) has said who it is, and at which lr_now() it
 * surely ran.  False: it is the same as another one.  Out: the life of the row, and since
 * when it is there; 0, and so of no life that there is, if the settings are others by now.
 */
extern bool masters_note(int row, uint32 place, const char *run_id, int64 booted_by,
						 uint32 *life, int64 *since);

/* The present one, never 0. */
extern uint32 masters_life(int row);

extern void masters_get(int row, MasterStatus *out);

/*
 * Is one of these (bits) there, of those that this lr_place names?  Is asked after a
 * lock has been noted that they do not have (lt_note_without).
 */
extern bool masters_are_there(uint32 place, uint32 rows);

/* ---- for the watchdog ---- */

/* A start, or other settings: so many, 0 if they are no list. */
extern void masters_start(int n, uint32 place);

/* It answers, or it does not; changes when one does that did not before. */
extern void masters_set_there(int row, bool there);
extern uint32 masters_returns(void);

/* Its connection has ended: who was there may be found in another row. */
extern void masters_forget(int row);

#endif							/* LR_NODES_H */
