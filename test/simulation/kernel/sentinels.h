/*-------------------------------------------------------------------------
 *
 * sentinels.h
 *	  A model of Sentinels: who they say is the master, and failovers.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/sentinels.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SENTINELS_H
#define SIM_SENTINELS_H

#include "redis_nodes.h"

#define SENTINELS			3
#define SENTINEL_NODE(i)	(REDIS_NODES + (i))
#define SENTINEL_PORT(i)	(26379 + (i))

/* Of another set: a name may lead to it. */
#define STRANGER			SENTINELS
#define STRANGER_NODE		SENTINEL_NODE(STRANGER)

/* A node that does not call itself master is passed over after 3 s, and some rounds. */
#define SENTINEL_SETTLES_IN	(5 * SIM_S)

/* A Sentinel that lies may name it. */
#define NOBODYS_PORT		6400
#define SENTINEL_URL \
	"redis-sentinel://127.0.0.1:26379,127.0.0.1:26380,127.0.0.1:26381/svc"

extern void sentinels_reset(void);

/* The first node is the master, the others are replicas. */
extern void sentinels_begin(void);

/* What a Sentinel answers to a command, by its first words. */
extern void sentinels_serve(int sentinel, int conn, const char *verb, const char *what);

/*
 * Another node is the master: with what this one has now, or had a while ago.  The
 * Sentinels hear of it one after the other, the former master last of all.
 */
extern void sentinels_fail_over(void);
extern int	sentinels_failovers(void);

/* One of them names the replica, or nobody; does that one?  The faults end. */
extern void sentinels_lie(void);
extern bool sentinel_lies(int sentinel);
extern void sentinels_end(void);

/*
 * The watchdog of this server leaves a master for the node at that port.  If it goes back, by the
 * number of an earlier failover, is it told so by most Sentinels?
 */
extern void sentinels_check_back(int to, int64_t number);

/* ---- sentinel_names.c ---- */

extern void sentinel_names_reset(void);

/* A name leads to another Sentinel, or to none; two change places. */
extern void sentinel_name_moves(void);
extern bool sentinel_names_are_right(void);
extern void sentinel_gets_name(int sentinel, int64_t time);
extern void sentinel_names_end(void);

/*
 * For this server, by its clock: the watchdog begins; the master with that epoch is in doubt;
 * it counts by an answer to a question of that time.
 */
extern void sentinels_note_start(int64_t now);
extern void sentinels_note_doubt(uint32_t epoch, int64_t now);
extern void sentinels_note_named(uint32_t epoch, int64_t asked_at);

/* What the watchdog of this server believes: the node that has this epoch; -1 = none. */
extern void sentinels_note_epoch(uint32_t epoch, int port, int64_t number);
extern int	sentinels_node_of(uint32_t epoch);
extern int64_t sentinels_believed_at(void);
extern int	sentinels_believed(void);	/* the node; -1 = none yet */

#endif							/* SIM_SENTINELS_H */
