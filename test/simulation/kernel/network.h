/*-------------------------------------------------------------------------
 *
 * network.h
 *	  Connections of the processes to the one node there is.
 *
 * As TCP: messages of a connection arrive in order, once, or not at all when the
 * connection breaks; what was sent before its sender closed it may still arrive,
 * however late.
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

typedef enum NetState
{
	NET_CONNECTING,
	NET_OPEN,
	NET_CLOSED					/* by the other side, or refused */
} NetState;

/* ---- for processes ---- */

extern int	net_connect(void);
extern NetState net_state(int conn);
extern bool net_is_ready(int conn);
extern void net_send(int conn, const void *data, size_t len);

/* False: there is none (yet). */
extern bool net_receive(int conn, void *data, size_t len);
extern void net_close(int conn);

/* ---- for the node ---- */

typedef void (*NetServe) (int conn, const void *data);
typedef void (*NetClosed) (int conn);

extern void net_reset(NetServe serve, NetClosed closed);
extern void net_reply(int conn, const void *data, size_t len);

/* ---- for faults ---- */

/* So many messages in a thousand are slow; how slow at most (0 to 4). */
extern void net_set_slow(uint32_t permille, int max);

/* Nothing goes through until then, and all of it after that. */
extern void net_block_until(int64_t until);

/* Nobody is there until then; connections break. */
extern void net_down_until(int64_t until);

/* One connection breaks, drawn; or all. */
extern void net_break_one(void);
extern void net_break_all(void);

/* Is all well, also with this process's connections? */
extern bool net_is_well(void);

#endif							/* SIM_NETWORK_H */
