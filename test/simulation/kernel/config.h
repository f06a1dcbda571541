/*-------------------------------------------------------------------------
 *
 * config.h
 *	  What a schedule is set up with.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/config.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include "sim.h"

#define SIM_MAX_KEYS	8
#define SIM_MAX_LOCKS	64
#define SIM_STATEMENTS	64

/*
 * So few slots of a cluster, and rows of masters for them, that to read a map is no work:
 * the product is built with these (backend/hooks.h).
 */
#define SHARD_SLOTS		12
#define SHARD_ROWS		10

typedef struct SimConfig
{
	/* settings of the server; backend/settings.c */
	int			mode;			/* 0 redis, 1 table, 2 fallback */
	int			max_locks;
	int			max_handoffs;
	int			lease_ms;
	int			least_lease_ms; /* that it has been */
	int			max_lease_ms;	/* with independent masters */
	int			connect_timeout_ms;
	int			command_timeout_ms;
	int			idle_timeout_ms;
	int			release_wait;	/* 0 answered, 1 sent */
	int			replica_timeout_ms;
	uint64_t	min_replicas;	/* sessions that may ask for one, by slot; 0 = no node
								 * has a replica */
	uint64_t	asking;			/* of these, who does so now; who does goes on */
	int			fallback_after_ms;
	int			deadlock_timeout_ms;
	bool		shared;			/* more kinds of locks; models/kinds.c */
	bool		read_write;		/* the locks are read-write locks */
	bool		fair;			/* many ask for fair locks */
	bool		tokens;			/* there are statements about token locks */
	bool		counts;			/* about permits, semaphores and latches */
	bool		conditions;		/* about conditions of locks */
	int			wait_lease_ms;
	int			batch_max;		/* so few locks go into a batch of the watchdog; 0 =
								 * as many as it likes */
	bool		slow;			/* messages may take long */
	uint32_t	slow_table;		/* permille of its commits */
	uint32_t	table_errors;	/* permille of the accesses to its rows fail */
	uint32_t	strangers;		/* permille of the inserts come after somebody else's, and
								 * of the workers find no database */
	bool		table_sync;		/* its commits are flushed */
	int			nredis;			/* nodes of Redis */
	int			masters;		/* so many of them are independent masters; 0 = there
								 * is one, or one at a time */
	int			names;			/* if so: how their names move; names.h */
	int			struck;			/* if so: only so many of them are hit by faults */
	bool		rolling;		/* they are started again, empty, one after the other, and
								 * nothing else goes wrong */
	bool		sentinels;		/* say which of them is the master */
	bool		cluster;		/* each has some of the slots */
	int			other_cluster;	/* a name in lockredis.url is of another one; clusters.h */
	int			url;			/* the number of the port in lockredis.url */
	bool		weak_memory;	/* writes of atomics are seen later */

	/* the workload */
	int			nservers;		/* of PostgreSQL, that use the same locks */
	int			nsessions;
	int			nkeys;
	int			often[SIM_STATEMENTS];	/* how much more often each statement comes; 0 =
									 * it does not; workload/statements.c */
	uint32_t	phrases;		/* permille; workload/phrases.c */
	uint32_t	leases;			/* permille of the locks that are given one */
	bool		short_leases;
	bool		verify;			/* sessions begin with commit_guard = verify */
	uint32_t	timeouts;		/* permille of the statements that are given one */

	int64_t		session_delay;	/* a session begins within that time */

	/* or what it is told; table/ */
	bool		told;			/* its first session does what it is told */
	int			told_fails[2];	/* the access to a row after so many fails, and then another one */
	bool		told_blocked;	/* it fails as if somebody were in the way */
	const void *told_between;	/* what somebody inserts before the worker does */

	/* and how it goes */
	int			left[SIM_MAX_PROCS];	/* statements still to come */
	bool		calm;			/* no more cancels and faults */
} SimConfig;

extern SimConfig sim_config;

#endif							/* SIM_CONFIG_H */
