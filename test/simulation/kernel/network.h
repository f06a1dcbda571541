/*-------------------------------------------------------------------------
 *
 * network.h
 *	  Connections of the processes to the nodes that there are.
 *
 * As TCP: the bytes of a connection arrive in order, once, cut anywhere, or not
 * at all when the connection breaks; what was sent before its sender closed it
 * may still arrive, however late.  A node listens at a port; all ports are of
 * one host.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/network.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include "sim.h"

#define NET_MAX_NODES	12
#define NET_MAX_CONNS	8192

typedef enum NetState
{
	NET_NEW,
	NET_CONNECTING,
	NET_OPEN,
	NET_CLOSED					/* by the other side, or refused; net_error() */
} NetState;

/* ---- for processes ---- */

extern int	net_socket(void);
extern void net_connect(int conn, int port);
extern NetState net_state(int conn);

/* Why it is closed: 0 in order, or an errno. */
extern int	net_error(int conn);
extern bool net_is_readable(int conn);
extern void net_looks(void);	/* the process waits, asks what can be read, or begins another round */
extern bool net_is_writeable(int conn);

/* How many bytes were taken; 0 = none just now. */
extern size_t net_send(int conn, const void *data, size_t len);

/* How many bytes came; 0 = none (yet). */
extern size_t net_receive(int conn, void *data, size_t len);

/* How many of the bytes sent have not arrived. */
extern size_t net_unacknowledged(int conn);
extern void net_close(int conn);

/* Ended by its own side, which goes on to have it; and is it? */
extern void net_shut(int conn);
extern bool net_is_shut(int conn);

/* The process has ended: what it had open is closed. */
extern void net_owner_ended(int pid);
extern int	net_owner(int conn);
extern int	net_port(int conn);

/* ---- for nodes ---- */

typedef void (*NetServe) (int node, int conn, const char *data, size_t len);
typedef void (*NetClosed) (int node, int conn);

extern void net_reset(NetServe serve, NetClosed closed);

/* This node is reached at that port from now on, nobody else; -1 = nobody. */
extern void net_listen(int port, int node);
extern int	net_node_at(int port);

/* When was it sent, what a node serves just now? */
extern int64_t net_sent_at(void);
extern void net_reply(int conn, const void *data, size_t len);

/* ---- for faults ---- */

/* So many messages in a thousand are slow; how slow at most (0 to 4). */
extern void net_set_slow(uint32_t permille, int max);

/* So many messages in a thousand are cut in two, or taken in part. */
extern void net_set_cut(uint32_t permille);

/* Nothing goes through until then, and all of it after that. */
extern void net_block_until(int node, int64_t until);

/* Likewise between one server and all nodes. */
extern void net_cut_off_until(int server, int64_t until);

/* The watchdog of that server is connected to no node until then; its sessions are. */
extern void net_refuse_watchdog_until(int server, int64_t until);

/* Nobody is there until then; connections break. */
extern void net_down_until(int node, int64_t until);

/* One connection breaks, that or one that is drawn; or all of a node. */
extern void net_break(int conn);
extern void net_break_one(void);
extern void net_break_all(int node);

/* Likewise, and nobody who connects just now gets there. */
extern void net_stop(int node);

/* One loses its other end, and nobody says so until then. */
extern void net_half_open_one(int64_t until);

/*
 * The other end of a connection sends nonsense: no reply at all, one without an end byte by
 * byte, or more than anybody can read.  Then it closes the connection.
 */
extern void net_babble_one(void);

/* Has that happened to any? */
extern bool net_had_half_open(void);

/*
 * Since when has the watchdog of this server no connection without another end?  0: it had none;
 * SIM_NEVER: it has one, and does not know.
 */
extern int64_t net_watchdog_told_at(void);

/* Is this one there, and does it answer? */
extern bool net_is_up(int node);

/* When is it there again?  0: it is. */
extern int64_t net_away_until(int node);

/* Is all well? */
extern bool net_is_well(void);

#endif							/* SIM_NETWORK_H */
