/*-------------------------------------------------------------------------
 *
 * schedule.c
 *	  One schedule: set up, run, judged.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/schedule.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "clusters.h"
#include "config.h"
#include "faults.h"
#include "history.h"
#include "kernel.h"
#include "meeting.h"
#include "names.h"
#include "network.h"
#include "redis_nodes.h"
#include "redlock.h"
#include "rivals.h"
#include "sentinels.h"
#include "shards.h"
#include "schedule.h"
#include "server.h"
#include "site.h"
#include "strategy.h"

/* Of schedules, beside those of the product; the first has more kinds of locks. */
#define MODE_SHARED		3
#define MODE_SENTINEL	4
#define MODE_READ_WRITE	5
#define MODE_FAIR		6
#define MODE_TOKEN		7
#define MODE_COUNTS		8
#define MODE_CONDITION	9
#define MODE_MASTERS	10
#define MODE_CLUSTER	11

/* The watchdog may take so long to give back what is left. */
#define TIME_TO_TIDY	(200 * SIM_S)

/* No statement asks for more, nor does the setting. */
#define LEASE_LONGEST	(42 * SIM_S)

SimConfig	sim_config;

int			schedule_mode = -1;	/* as drawn */
bool		schedule_small_batches = false;

static void (*drain[SIM_MAX_PROCS]) (void);
static void (*check_step[SIM_MAX_SERVERS]) (void);
static void (*check_end[SIM_MAX_SERVERS]) (void);
static bool (*is_empty[SIM_MAX_SERVERS]) (void);
static void (*tell_scripts) (void (*add) (const char *name, const char *sha1, const char *text));

static int64_t ends_at;

static void
drain_stalled(int slot)
{
	drain[slot] ();
}

/* Nothing of a server changes but by its own processes, events and time. */
static void
check_servers(void)
{
	int			slot = sim_ran_last();

	for (int s = 0; s < sim_config.nservers; s++)
	{
		if (slot >= 0 && server_of(slot) != s)
			continue;
		memory_of(s);
		if (server_is_up())
			check_step[s] ();
	}
}

void
schedule_load(const char *product)
{
	copies_load(product);
	for (int i = 0; i < SIM_MAX_PROCS; i++)
	{
		*(void **) &drain[i] = copy_symbol(i, "backend_drain");
		*(void **) &process_signal[i] = copy_symbol(i, "sim_backend_signal");
	}
	for (int s = 0; s < SIM_MAX_SERVERS; s++)
	{
		*(void **) &check_step[s] = copy_symbol(OBSERVER(s), "sim_check_step");
		*(void **) &check_end[s] = copy_symbol(OBSERVER(s), "sim_check_end");
		*(void **) &is_empty[s] = copy_symbol(OBSERVER(s), "sim_is_empty");
	}
	*(void **) &tell_scripts = copy_symbol(OBSERVER(0), "sim_tell_scripts");
	tell_scripts(redis_add_script);
	sites_load();
	meetings_load(copy_symbol(OBSERVER(0), "sim_meetings"));
	scheduler_check = check_servers;
	process_stalls = drain_stalled;
	server_load();
}

/* ----------
 * Set up
 * ----------
 */

/*
 * draw_statements --- some are left out, and in half of the schedules a few come far
 * more often than others: together they make what no even mix would try
 */
static void
draw_statements(SimConfig *c)
{
	bool		uneven = sim_draw(2) != 0;

	for (int i = 0; i < SIM_STATEMENTS; i++)
		c->often[i] = sim_chance(250) ? 0 :
			uneven && sim_chance(300) ? (int) SIM_PICK(4, 16) : 1;
}

/* How they are. */
static void
draw_habits(SimConfig *c)
{
	c->phrases = (uint32_t) SIM_PICK(0, 150, 500, 900);
	/* In fallback mode what is worth seeing takes seconds. */
	c->session_delay = c->mode == 2 ? SIM_PICK(0, SIM_S, 4 * SIM_S) : 0;
	c->short_leases = sim_chance(250);
	c->leases = (uint32_t) (c->short_leases ? SIM_PICK(300, 900) : SIM_PICK(300, 0, 900));
	c->timeouts = (uint32_t) SIM_PICK(60, 60, 0, 300);
	c->verify = sim_chance(300);
}

/* In a cluster: what other modes have with one Redis. */
static void
draw_kinds(SimConfig *c)
{
	switch (SIM_PICK(0, 0, 1, 2, 3, 4))
	{
		case 1:
			c->tokens = true;
			break;
		case 2:
			c->read_write = true;
			break;
		case 3:
			c->fair = true;
			break;
		case 4:
			c->counts = true;
			break;
	}
}

/* The kinds of lock are those of mode redis. */
static bool
may_lead_elsewhere(const SimConfig *c)
{
	return c->masters == 0 && !c->cluster && !c->sentinels && !c->read_write && !c->fair &&
		!c->tokens && !c->counts && !c->conditions;
}

/*
 * draw_servers --- how many servers use the same locks?
 *
 * A table of locks is of one alone, so in fallback mode each has its own.
 */
static void
draw_servers(SimConfig *c)
{
	c->nservers = 1;
	if (c->mode == 1 || c->shared)
		return;
	c->nservers = (int) SIM_PICK(1, 1, 2, 2, 3);
	if (c->masters > 0 && !c->rolling && !c->tokens)
		c->names = (int) SIM_PICK(NAMES_STAY, NAMES_STAY, NAMES_CAREFUL, NAMES_CARELESS);
	if (c->names == NAMES_CARELESS || c->other_cluster == OTHER_EARLY)
		c->nservers = 1;
	if (may_lead_elsewhere(c))
		c->names = (int) SIM_PICK(NAMES_STAY, NAMES_STAY, NAMES_ELSEWHERE);
	if (c->sentinels)
		c->names = (int) SIM_PICK(NAMES_STAY, NAMES_STAY, NAMES_SENTINELS);
	if (c->nsessions < c->nservers)
		c->nsessions = c->nservers;

	/* Each of the others has a watchdog and a worker beside them. */
	if (c->mode == 2 && c->nsessions > SIM_MAX_PROCS - FIRST_SESSION - 2 * (c->nservers - 1))
		c->nsessions = SIM_MAX_PROCS - FIRST_SESSION - 2 * (c->nservers - 1);
}

static void
draw_config(void)
{
	SimConfig  *c = &sim_config;
	int			statements;

	memset(c, 0, sizeof(SimConfig));
	c->mode = schedule_mode >= 0 ? schedule_mode : 0;
	c->shared = c->mode == MODE_SHARED;
	if (c->shared)
		c->mode = 0;
	c->sentinels = c->mode == MODE_SENTINEL;
	if (c->sentinels)
		c->mode = 0;
	c->cluster = c->mode == MODE_CLUSTER;
	if (c->cluster)
		c->mode = 0;
	c->read_write = c->mode == MODE_READ_WRITE;
	if (c->read_write)
		c->mode = (int) SIM_PICK(0, 1, 2);
	c->fair = c->mode == MODE_FAIR;
	if (c->fair)
		c->mode = (int) SIM_PICK(0, 2, 1);
	c->tokens = c->mode == MODE_TOKEN;
	if (c->tokens)
		c->mode = 0;
	c->counts = c->mode == MODE_COUNTS;
	c->conditions = c->mode == MODE_CONDITION;
	if (c->counts || c->conditions)
		c->mode = 0;
	if (c->cluster)
		draw_kinds(c);
	c->masters = c->mode == MODE_MASTERS ? (int) SIM_PICK(3, 3, 5) : 0;
	if (c->masters > 0)
		c->mode = 0;
	if (c->masters > 0)
		c->tokens = sim_chance(250);
	c->wait_lease_ms = c->fair ? (int) SIM_PICK(60000, 6000) : 6000;
	c->nsessions = (int) SIM_PICK(2, 3, 4, 5, 7);
	c->nkeys = (int) SIM_PICK(2, 1, 3, 5);
	c->max_locks = (int) SIM_PICK(40, 40, 12);
	c->max_handoffs = (int) SIM_PICK(32, 3, 1, 0);
	c->lease_ms = (int) SIM_PICK(3000, 600, 9000, 120);
	if (sim_chance(c->shared || c->read_write || c->fair ? 300 : 150))
		c->lease_ms = 40000;	/* a lost wake-up is not found by its end */
	/* A session that waits for what others have for half a minute sees little but renewals. */
	if (c->cluster && (c->tokens || c->counts) && c->lease_ms < 3000)
		c->lease_ms = 3000;
	c->connect_timeout_ms = (int) SIM_PICK(500, 2000);
	c->command_timeout_ms = (int) SIM_PICK(800, 3000);
	c->idle_timeout_ms = (int) SIM_PICK(0, 300000, 200, 20, 2);
	c->release_wait = (int) SIM_PICK(0, 1);
	c->replica_timeout_ms = (int) SIM_PICK(100, 1000, 20);
	if (sim_chance(250))
		c->min_replicas = sim_draw(3) != 0 ? UINT64_MAX : sim_draw(256);
	if (c->counts || c->conditions || c->masters > 0)
		c->min_replicas = 0;
	c->fallback_after_ms = 500;
	if (c->mode == 2 && c->lease_ms < 1000)
		c->lease_ms = 3000;
	c->deadlock_timeout_ms = (int) SIM_PICK(1000, 200);
	/* A session that waits out a failover would do little but look at the time. */
	if ((c->sentinels || c->cluster) && c->idle_timeout_ms == 2)
		c->idle_timeout_ms = 20;
	c->nredis = c->sentinels ? 2 : (int) SIM_PICK(1, 1, 2);
	if ((c->counts && !c->cluster) || c->conditions)
		c->nredis = 1;
	if (c->masters > 0)
		c->nredis = c->masters;
	if (c->cluster)
		c->nredis = REDIS_NODES;
	if (c->cluster)
		c->other_cluster = (int) SIM_PICK(OTHER_NEVER, OTHER_NEVER, OTHER_NEVER, OTHER_NEVER,
										  OTHER_LATER, OTHER_EARLY);
	c->rolling = c->masters > 0 && sim_chance(100);
	if (c->rolling)
		c->lease_ms = 600;
	if (c->masters > 0)
		c->max_lease_ms = !c->rolling && sim_draw(2) != 0 && c->lease_ms < 9000 ? 9000 :
			c->lease_ms;
	c->slow_table = (uint32_t) SIM_PICK(0, 0, 50, 400);
	c->table_errors = (uint32_t) SIM_PICK(0, 2, 20);
	c->strangers = (uint32_t) SIM_PICK(0, 10, 100);
	c->table_sync = sim_chance(300);
	c->weak_memory = sim_draw(2) != 0;
	if (sim_chance(schedule_small_batches ? 1000 : 100))
		c->batch_max = 1 + sim_draw(3);

	draw_statements(c);
	draw_habits(c);
	if (c->rolling)
		c->leases = 0;
	statements = (int) SIM_PICK(20, 8, 60);

	/* Rare orders of few steps are tried more often where little else happens. */
	if (sim_chance(500))
	{
		c->nsessions = 2 + sim_draw(2);
		c->nkeys = (int) SIM_PICK(1, 2, 1, 3);
		statements = 3 + sim_draw(6);
	}

	draw_servers(c);

	/* One tells, and several wait for the same. */
	if (c->conditions)
	{
		c->nsessions = (int) SIM_PICK(3, 4, 5, 7);
		c->nkeys = (int) SIM_PICK(1, 1, 2, 3);
	}
	for (int i = 0; i < c->nsessions; i++)
		c->left[FIRST_SESSION + i] = statements;
	meeting_draw();
	c->least_lease_ms = c->lease_ms;
}

static bool
sessions_done(void)
{
	for (int i = FIRST_SESSION; i < FIRST_SESSION + sim_config.nsessions; i++)
		if (process_is_running(i) || sim_config.left[i] > 0)
			return false;
	return true;
}

static bool
tidied_up(void)
{
	for (int s = 0; s < sim_config.nservers; s++)
	{
		memory_of(s);
		if (!server_is_up() || (!is_empty[s] () && sim_now() < ends_at))
			return false;
	}
	return true;
}

static bool
time_is_over(void)
{
	return sim_now() >= ends_at;
}

static void
calm_down(void *arg, int64_t n)
{
	(void) arg;
	(void) n;
	sim_config.calm = true;
	faults_end();
	strategy_calm();
}

static void
set_up(void)
{
	draw_config();
	for (int s = 0; s < sim_config.nservers; s++)
	{
		memory_of(s);
		server_start();
	}

	/* The same one under another name. */
	if (sim_config.nredis > 1 && !sim_config.sentinels && !sim_config.cluster &&
		sim_config.masters == 0 &&
		sim_chance(300))
		net_listen(REDIS_PORT(1), 0);
}

static void
run(void)
{
	set_up();
	strategy_draw();
	if (sim_config.sentinels)
		sentinels_begin();
	if (sim_config.cluster)
		shards_begin();
	faults_begin();
	sim_at(sim_now() + SIM_PICK(5 * SIM_S, 20 * SIM_S, 60 * SIM_S), calm_down, NULL, 0);

	if (!scheduler_run(sessions_done))
		sim_fail("stuck", "nobody can go on");
	if (!sim_config.calm)
		calm_down(NULL, 0);
	ends_at = sim_now() + TIME_TO_TIDY;
	if (!scheduler_run(tidied_up))
		sim_fail("stuck", "nobody can go on");

	/*
	 * What one of several masters was not told stays there until its lease ends, which it
	 * may be given by what one that is silent still has to read.
	 */
	ends_at = sim_quiet_since() > sim_now() ? sim_quiet_since() : sim_now();
	ends_at += LEASE_LONGEST;
	if (sim_config.masters > 0 && !scheduler_run(time_is_over))
		sim_fail("stuck", "nobody can go on");
	for (int s = sim_config.nservers - 1; s >= 0; s--)
	{
		memory_of(s);
		check_end[s] ();
	}
}

static void
reset(bool tracing)
{
	for (int s = SIM_MAX_SERVERS - 1; s >= 0; s--)
	{
		memory_of(s);
		arena_reset();
	}
	durable_reset();
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		heap_free_all(i);
	scheduler_reset();
	redis_reset();
	names_reset();
	elsewhere_reset();
	redlock_reset();
	rivals_reset();
	history_reset();
	trace_begin(tracing);
}

bool
schedule_run(bool tracing)
{
	reset(tracing);
	return scheduler_try(run);
}

static void (*observe) (void);

static void
set_up_and_observe(void)
{
	set_up();
	observe();
}

bool
schedule_observe(void (*body_of_observer) (void))
{
	static const ChoiceLog plainest;

	choices_from_log(&plainest);
	observe = body_of_observer;
	reset(false);
	return scheduler_try(set_up_and_observe);
}
