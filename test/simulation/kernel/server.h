/*-------------------------------------------------------------------------
 *
 * server.h
 *	  The lives of the simulated servers: what a postmaster does.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/server.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include "sim.h"

/*
 * Slots of processes.  With several servers their sessions take turns.  The watchdogs of the
 * others have the last slots, and before these their table workers, if they have any.
 */
#define WATCHDOG		0
#define TABLE_WORKER	1
#define FIRST_SESSION	2

extern int	server_of(int slot);
extern int	server_of_pid(int pid);	/* it may have ended */
extern int	server_watchdog(void);
extern int	server_table_worker(void);
extern bool server_is_watchdog(int slot);
extern bool server_is_table_worker(int slot);

/*
 * Of the server that is meant (sim_server()), unless they say which; who means another
 * one says so by memory_of().
 */

/* Once, when the copies of the product are there. */
extern void server_load(void);

/* It begins, with shared memory of its own and all processes. */
extern void server_start(void);

/* When this life of it began: what shared memory counts is of this one. */
extern int64_t server_began_at(void);

/*
 * Its clock, which each life of it has anew: what it shows, and when (sim_now()) it shows
 * that, or will.  0, which stands for no time, is 0.
 */
extern int64_t server_clock(void);
extern int64_t server_time(int64_t clock);

/* Is shared memory what it should be?  Not while it is going down. */
extern bool server_is_up(void);

/*
 * This process ends in the middle of a step, as by SIGKILL; so do the others a
 * moment later, and the server begins anew.
 */
extern void server_crash(int slot);

/* All its processes are asked to end; then it begins anew, in that mode. */
extern void server_restart(int mode);

/* Somebody else is at its tables. */
extern void server_stranger(void);

/* All processes of all servers are told that the settings have changed. */
extern void server_reload(void);

#endif							/* SIM_SERVER_H */
