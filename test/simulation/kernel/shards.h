/*-------------------------------------------------------------------------
 *
 * shards.h
 *	  A model of a Redis Cluster: which node has which slot, and who knows.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/shards.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SHARDS_H
#define SIM_SHARDS_H

#include "config.h"
#include "redis_nodes.h"

#define CLUSTER_SEEDS	3
#define CLUSTER_URL \
	"redis-cluster://127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381"

extern void shards_reset(void);

/* The slots have masters, each of these a replica. */
extern void shards_begin(void);

/* As Redis reckons it, but modulo SHARD_SLOTS. */
extern int	shards_slot_of(const char *name);

/* ---- what a node says ---- */

/* CLUSTER NODES, and CLUSTER MYID. */
extern void shards_put_nodes(int node, char *out, size_t size);
extern const char *shards_id_of(int node);

/*
 * The words with which a node refuses a command about these names, all of one slot;
 * NULL: it serves it.  "channel": they are channels, which are nowhere in its data.
 */
extern const char *shards_refuse(int node, char names[][REDIS_NAME], int n, bool asking,
								 bool channel);
extern bool shards_is_master(int node);

/* It has sent that process on, about this name with this script: not for ever. */
extern void shards_note_sent_on(int pid, const char *what, const char *name);

/* ---- as it is, whoever knows ---- */

/*
 * Where a name is, or would be made; the master of its slot; is its slot on its way to
 * another one?
 */
extern int	shards_place_of(const char *name);
extern int	shards_master_of(const char *name);
extern bool shards_is_moving(const char *name);

/* Is it moving, or has it another node than in the beginning? */
extern bool shards_has_changed(const char *name);

/* One of the masters. */
extern int	shards_draw(void);

/* ---- faults ---- */

/* A slot goes to another master: at once, or some time with what is in it. */
extern void shards_move_slot(void);

/*
 * The replica of a master takes its place, with all that this has, or, when it has
 * died or is cut off, with what it had a while ago, or has confirmed.
 */
extern void shards_fail_over(void);

/* The other nodes do not hear one, nor it them, and all servers reach both. */
extern void shards_cut_off(void);

/* The number of a master rises, and nothing else changes. */
extern void shards_raise_epoch(void);

/* The cluster is backed up, and is soon restored to that. */
extern void shards_back_up(void);

/* A master was replaced by one that may lack something: so often. */
extern int	shards_failovers(void);

/* The node of the other cluster is there, once all servers know the map of theirs. */
extern void shards_other_begins(void);

/* A server has gone on to the other cluster, or back. */
extern void shards_note_left(void);

/* A node has begun anew: it serves nothing for a while. */
extern void shards_restarted(int node, int64_t up_at);

/* ---- what is believed ---- */

/* The watchdog of this server: a row is that node's, and a slot that row's, by the number it has. */
extern void shards_note_row(int row, int port);
extern void shards_note_slot(int slot, int row);
extern void shards_note_number(int slot, int64_t number);

/* When that row last got a slot. */
extern int64_t shards_row_given_at(int row);

/* All processes see what was noted of slots until now. */
extern void shards_note_all_given(void);

/* The map has the node and the number of its slot. */
extern bool shards_is_known(const char *name);

/* Likewise, and it is not on its way. */
extern bool shards_is_settled(int slot);

/* Another node has it, or the same one again, since it was a replica. */
extern bool shards_is_disputed(const char *name);
extern int	shards_believed(const char *name);	/* the node; -1 = none yet */
extern int64_t shards_believed_at(const char *name);
extern bool shards_is_being_given(const char *name);	/* others may not see it yet */

#endif							/* SIM_SHARDS_H */
