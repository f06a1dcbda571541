/*-------------------------------------------------------------------------
 *
 * clusters.h
 *	  Two clusters in lockredis.url: which of them a server uses, and may use.
 *
 * The first one is that of shards.c.  The second one has one node, which has all slots, by a
 * higher number than any.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/clusters.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_CLUSTERS_H
#define SIM_CLUSTERS_H

#include "config.h"
#include "redis_nodes.h"

/* Is that node there, and when?  SimConfig.other_cluster. */
#define OTHER_NEVER		0
#define OTHER_LATER		1		/* once all servers have the map of the first one */
#define OTHER_EARLY		2		/* from the beginning; one server */

#define OTHER_NODE		(REDIS_NODES - 1)
#define CLUSTER_OTHER	"127.0.0.1:6384"

extern void clusters_reset(void);
extern void clusters_begin(void);
extern bool clusters_is_other(int node);

/* The cluster that the meant server uses: 0, 1; -1 = none. */
extern int	clusters_used(void);

/* Is it none, as nodes of both may answer? */
extern bool clusters_are_unclear(void);

/* ---- what the product does ---- */

/*
 * A watchdog begins; lets the nodes decide, perhaps; has read what a node says of its cluster; has
 * warned; has ended a decision or a change of the map.
 */
extern void clusters_note_begins(void);
extern void clusters_note_decides(void);
extern void clusters_note_reply(const char *id);
extern void clusters_note_warning(void);
extern void clusters_note_asked(void);

/* From now on the server knows nodes, of which this is one; NULL: it has ended. */
extern void clusters_note_known(const char *id);

/* A node is asked for more than who it is. */
extern void clusters_note_request(int node, int pid, const char *what);

/* ---- faults ---- */

/* A cluster is not there for a while; the settings are read again; the server ends. */
extern void clusters_fault(void);

/* An administrator stops one of them, if the server uses the other or none. */
extern void clusters_end(void);

#endif							/* SIM_CLUSTERS_H */
