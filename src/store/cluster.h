/*-------------------------------------------------------------------------
 *
 * cluster.h
 *	  Which node of a Redis Cluster has which slot, as all processes know it.
 *
 * Shared memory.  The watchdog asks the nodes (store/redis/cluster_batch.h) and
 * writes; whoever sends something, or has had an answer, reads.  With a lockredis.url
 * that names no cluster there is one "slot" for all keys, and nothing here changes.
 *
 * Each slot has an epoch of its own: what was asked of its node counts only while that
 * is the same (store/README.topology.md).  So when one master fails the locks of the
 * others are not in doubt.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/cluster.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CLUSTER_H
#define LR_CLUSTER_H

#include "lockredis.h"

#include "store/node.h"
#include "store/redis/url.h"
#include "store/slot.h"

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

#endif							/* LR_CLUSTER_H */
