/*-------------------------------------------------------------------------
 *
 * server.c
 *	  The lives of the simulated servers: what a postmaster does.
 *
 * A process that ends is started again.  One that ends in the middle of a step may
 * leave a lock taken and a list half made, so nobody looks at shared memory any
 * more: all others vanish too, wherever they are, shared memory is made anew, and
 * what is durable (sim.h) is what was committed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/server.c
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>

#include "clusters.h"
#include "config.h"
#include "history.h"
#include "kernel.h"
#include "network.h"
#include "redis_counts.h"
#include "redis_nodes.h"
#include "rivals.h"
#include "server.h"

/* lockredis.mode */
#define MODE_FALLBACK	2

/* A worker that has ended is started again after so long. */
#define WORKER_PAUSE	SIM_S
#define SESSION_PAUSE	500

typedef enum State
{
	UP,
	CRASHING,					/* some processes have vanished */
	ENDING,						/* all are asked to end */
	DOWN
} State;

typedef struct Server
{
	State		state;
	int			next_mode;
	int			life;			/* what is to be started belongs to one */
	int64_t		began_at;
	int64_t		clock;			/* what its clock showed then */
	int64_t		clock_gains;	/* one in so many microseconds; less than 0: it loses one */

	void		(*postmaster_init) (void);
	void		(*check_shutdown) (void);
	void		(*stranger_comes) (void);
} Server;

static Server servers[SIM_MAX_SERVERS];
static void (*body[SIM_MAX_PROCS]) (int slot);

static Server *
meant(void)
{
	return &servers[sim_server()];
}

void
server_load(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		*(void **) &body[i] = copy_symbol(i, "sim_backend_main");
	for (int i = 0; i < SIM_MAX_SERVERS; i++)
	{
		Server	   *s = &servers[i];

		*(void **) &s->postmaster_init = copy_symbol(OBSERVER(i), "sim_postmaster_init");
		*(void **) &s->check_shutdown = copy_symbol(OBSERVER(i), "sim_check_shutdown");
		*(void **) &s->stranger_comes = copy_symbol(OBSERVER(i), "sim_stranger_comes");
	}
}

bool
server_is_up(void)
{
	return meant()->state == UP;
}

/* ----------
 * Processes
 * ----------
 */

/* Before the slot of the last watchdog there are those of so many workers of others. */
static int
workers_of_others(void)
{
	return sim_config.mode == MODE_FALLBACK ? sim_config.nservers - 1 : 0;
}

int
server_of(int slot)
{
	int			first = SIM_MAX_PROCS - sim_config.nservers + 1;

	if (slot < FIRST_SESSION)
		return 0;
	if (slot >= first)
		return SIM_MAX_PROCS - slot;
	if (slot >= first - workers_of_others())
		return first - slot;
	return (slot - FIRST_SESSION) % sim_config.nservers;
}

int
server_watchdog(void)
{
	return sim_server() == 0 ? WATCHDOG : SIM_MAX_PROCS - sim_server();
}

bool
server_is_watchdog(int slot)
{
	return slot == WATCHDOG || slot > SIM_MAX_PROCS - sim_config.nservers;
}

int
server_table_worker(void)
{
	return sim_server() == 0 ? TABLE_WORKER :
		SIM_MAX_PROCS - sim_config.nservers + 1 - sim_server();
}

bool
server_is_table_worker(int slot)
{
	int			first = SIM_MAX_PROCS - sim_config.nservers + 1;

	return slot == TABLE_WORKER || (slot < first && slot >= first - workers_of_others());
}

static bool
is_session(int slot)
{
	return slot >= FIRST_SESSION && !server_is_watchdog(slot) && !server_is_table_worker(slot);
}

/* Like its watchdog it has a number if it is not the first. */
static void
name_process(int slot, char *name, size_t size)
{
	const char *what = server_is_watchdog(slot) ? "watchdog" : "worker";

	if (is_session(slot))
		snprintf(name, size, "session%d", slot % 100);
	else if (sim_server() == 0)
		snprintf(name, size, "%s", what);
	else
		snprintf(name, size, "%s%d", what, sim_server());
}

static bool
runs_here(int slot)
{
	return server_of(slot) == sim_server() && process_is_running(slot);
}

static void
start_process(void *arg, int64_t n)
{
	int			slot = (int) n % SIM_MAX_PROCS;
	char		name[16];

	(void) arg;
	if (!server_is_up() || n / SIM_MAX_PROCS != meant()->life || process_is_running(slot))
		return;
	name_process(slot, name, sizeof(name));
	process_start(slot, name, body[slot], sim_now());
}

static void
start_soon(int slot, int64_t after)
{
	sim_at(sim_now() + after, start_process, NULL, (int64_t) meant()->life * SIM_MAX_PROCS + slot);
}

static void
start_session(int slot)
{
	start_soon(slot, SESSION_PAUSE + sim_draw((uint32_t) sim_config.session_delay));
}

static bool
nobody_runs(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (runs_here(i))
			return false;
	return true;
}

static void
start_anew(void *arg, int64_t n)
{
	(void) arg;
	(void) n;
	arena_reset();

	/* Another store has other locks and counters. */
	if (meant()->next_mode != sim_config.mode)
		history_event(HISTORY_ALL_TAKEN_AWAY, "");
	sim_config.mode = meant()->next_mode;
	if (sim_config.mode == MODE_FALLBACK && sim_config.lease_ms < 1000)
		sim_config.lease_ms = 3000;
	server_start();
}

static void
down(void)
{
	int64_t		pause = SIM_PICK(SIM_MS, 100 * SIM_MS, SIM_S, 4 * SIM_S);

	if (meant()->state == ENDING)
		meant()->check_shutdown();
	meant()->state = DOWN;
	redis_counts_server_ended();
	redis_forget_seen();
	clusters_note_known(NULL);
	sim_trace("server %d is down, for %.3f ms", sim_server(), pause / 1000.0);
	sim_at(sim_now() + pause, start_anew, NULL, 0);
	sim_disturbed(sim_now() + pause + 2 * SIM_S);
}

static void
ended(int slot, int code)
{
	(void) code;
	if (!server_is_up() && nobody_runs())
		down();
	else if (!is_session(slot))
		start_soon(slot, WORKER_PAUSE);
	else if (sim_config.left[slot] > 0)
		start_session(slot);
}

/*
 * draw_clock --- its machine was started just now, or years ago
 *
 * Only with several masters something is promised of clocks that run at different speeds:
 * docs/masters.md, one per cent.
 */
static void
draw_clock(Server *s)
{
	int64_t		clock = SIM_PICK(0, SIM_S, 100000000 * SIM_S);

	s->began_at = sim_now();
	s->clock = clock == 0 ? s->began_at : clock;
	s->clock_gains = sim_config.masters > 0 ? SIM_PICK(0, 110, -110) : 0;
}

static int64_t
clock_after(const Server *s, int64_t time)
{
	return s->clock + time + (s->clock_gains != 0 ? time / s->clock_gains : 0);
}

int64_t
server_clock(void)
{
	return clock_after(meant(), sim_now() - meant()->began_at);
}

int64_t
server_time(int64_t clock)
{
	const Server *s = meant();
	int64_t		time = clock - s->clock;

	if (clock == 0)
		return 0;
	if (s->clock_gains != 0)
		time -= time / (s->clock_gains + 1);
	while (clock_after(s, time) >= clock)
		time--;
	while (clock_after(s, time) < clock)
		time++;
	return s->began_at + time;
}

void
server_start(void)
{
	draw_clock(meant());
	copy_restore(OBSERVER(sim_server()));
	heap_free_all(-1);
	meant()->postmaster_init();
	process_ended = ended;
	meant()->state = UP;
	meant()->life++;
	start_soon(server_watchdog(), 0);
	if (sim_config.mode != 0)
		start_soon(server_table_worker(), 0);
	for (int i = FIRST_SESSION; i < FIRST_SESSION + sim_config.nsessions; i++)
		if (server_of(i) == sim_server() && sim_config.left[i] > 0)
			start_session(i);
}

int64_t
server_began_at(void)
{
	return meant()->began_at;
}

/* ----------
 * Its ends
 * ----------
 */

static void
vanish(void *arg, int64_t slot)
{
	int			pid = process_pid((int) slot);

	(void) arg;
	if (meant()->state != CRASHING || pid == 0)
		return;
	process_vanish((int) slot);
	net_owner_ended(pid);
	ended((int) slot, 2);
}

void
server_crash(int slot)
{
	if (!server_is_up() || !process_is_running(slot))
		return;
	meant()->state = CRASHING;
	meant()->next_mode = sim_config.mode;
	sim_trace("server %d crashes", sim_server());
	rivals_begin(false);
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (runs_here(i) && i != slot)
			sim_at(sim_now() + SIM_PICK(0, 30, SIM_MS, 5 * SIM_MS), vanish, NULL, i);
	vanish(NULL, slot);
}

/*
 * server_restart --- an orderly end
 *
 * Whoever has just been started gets the signal too, before it looks at it.
 */
void
server_restart(int mode)
{
	if (!server_is_up())
		return;
	sim_trace("server %d is shut down", sim_server());
	rivals_begin(false);
	meant()->state = ENDING;
	meant()->next_mode = mode;
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (runs_here(i))
			(void) sim_kill(process_pid(i), SIGTERM);
	if (nobody_runs())
		down();
}

void
server_stranger(void)
{
	if (server_is_up())
		meant()->stranger_comes();
}

void
server_reload(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (process_is_running(i))
			(void) sim_kill(process_pid(i), SIGHUP);
}
