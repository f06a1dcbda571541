/*-------------------------------------------------------------------------
 *
 * faults.h
 *	  What goes wrong in a schedule, and clients elsewhere.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/faults.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "sim.h"

/* Draw which faults there will be, and begin. */
extern void faults_begin(void);

/* One of the faults of this world strikes next. */
extern void faults_strike_now(void);

/* Likewise that one. */
extern void faults_strike(void (*fault) (void));

/* All is well from now on; clients elsewhere have gone. */
extern void faults_end(void);

/*
 * Others have long leases and give them back soon: those who wait have to be told.  Then
 * no key is lost in ways of which nobody is told.
 */
extern bool faults_are_told;

/* ---- faults_redis.c: the network, and the nodes of Redis ---- */

extern void fault_connection_breaks(void);
extern void fault_half_open(void);
extern void fault_nonsense(void);
extern void fault_other_cluster(void);
extern void fault_silence(void);
extern void fault_blink(void);
extern void fault_redis_restarts(void);
extern void fault_redis_promoted(void);
extern void fault_replica_away(void);
extern void fault_failover(void);
extern void fault_sentinel_lies(void);
extern void fault_slot_moves(void);
extern void fault_epoch_rises(void);
extern void fault_cluster_restored(void);
extern void fault_redis_saves(void);
extern void fault_redis_mood(void);
extern void fault_scripts_flushed(void);
extern void fault_clock_set(void);
extern void fault_key_deleted(void);
extern void fault_key_denied(void);
extern void fault_message_lost(void);
extern void fault_message_doubled(void);
extern void fault_message_spurious(void);
extern void fault_foreign_client(void);
extern void fault_foreign_force(void);
extern void fault_redlock(void);
extern void fault_rolling_restart(void);

/* That node is started again, empty, and is there after so long. */
extern void fault_forgets(int node, int64_t pause);

/* ---- faults_server.c: processes, and the server ---- */

extern void faults_server_begin(void);
extern void fault_cancel(void);
extern void fault_terminate(void);
extern void fault_watchdog_ends(void);
extern void fault_table_worker_ends(void);
extern void fault_stranger(void);
extern void fault_crash(void);
extern void fault_server_restarts(void);
extern void fault_settings(void);
extern void fault_url(void);

#endif							/* SIM_FAULTS_H */
