/*-------------------------------------------------------------------------
 *
 * node.h
 *	  What all processes of this server know about the nodes of its stores.
 *
 * A table in shared memory with an entry for each node: a Redis process, or the
 * table.  Under one LWLock of its own, never held across I/O.  The watchdog
 * writes what it finds; sessions may mark a node as not answering and show what
 * it told them.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/node.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_NODE_H
#define LR_NODE_H

#include "lockredis.h"
#include "datatype/timestamp.h"
#include "storage/lwlock.h"

/* An entry of the table. */
typedef int NodeId;

#define NODE_MAX			208

/* The entries are shown in this order: those of Redis first, the table last. */
#define NODE_REDIS			0
#define NODE_MASTER			1	/* the first of NODE_MASTERS: those of a cluster,
								 * see cluster.h; then the one before is no node,
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

/* The lock that protects the texts here and the addresses (addresses.h). */
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

#endif							/* LR_NODE_H */
