/*-------------------------------------------------------------------------
 *
 * server.c
 *	  The life of the simulated server: what a postmaster does.
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

#include "config.h"
#include "history.h"
#include "kernel.h"
#include "network.h"
#include "redis_counts.h"
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

static State state;
static int	next_mode;
static int	life;				/* of the server; what is to be started belongs to one */
static int64_t began_at;

static void (*body[SIM_MAX_PROCS]) (int slot);
static void (*postmaster_init) (void);
static void (*check_shutdown) (void);
static void (*stranger_comes) (void);

void
server_load(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		*(void **) &body[i] = copy_symbol(i, "sim_backend_main");
	*(void **) &postmaster_init = copy_symbol(OBSERVER, "sim_postmaster_init");
	*(void **) &check_shutdown = copy_symbol(OBSERVER, "sim_check_shutdown");
	*(void **) &stranger_comes = copy_symbol(OBSERVER, "sim_stranger_comes");
}

bool
server_is_up(void)
{
	return state == UP;
}

/* ----------
 * Processes
 * ----------
 */

static void
start_process(void *arg, int64_t n)
{
	int			slot = (int) n % SIM_MAX_PROCS;
	char		name[16];

	(void) arg;
	if (state != UP || n / SIM_MAX_PROCS != life || process_is_running(slot))
		return;
	if (slot >= FIRST_SESSION)
		snprintf(name, sizeof(name), "session%d", slot % 100);
	else
		snprintf(name, sizeof(name), "%s", slot == WATCHDOG ? "watchdog" : "worker");
	process_start(slot, name, body[slot], sim_now());
}

static void
start_soon(int slot, int64_t after)
{
	sim_at(sim_now() + after, start_process, NULL, (int64_t) life * SIM_MAX_PROCS + slot);
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
		if (process_is_running(i))
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
	if (next_mode != sim_config.mode)
		history_event(HISTORY_ALL_TAKEN_AWAY, "");
	sim_config.mode = next_mode;
	if (sim_config.mode == MODE_FALLBACK && sim_config.lease_ms < 1000)
		sim_config.lease_ms = 3000;
	server_start();
}

static void
down(void)
{
	int64_t		pause = SIM_PICK(SIM_MS, 100 * SIM_MS, SIM_S, 4 * SIM_S);

	if (state == ENDING)
		check_shutdown();
	state = DOWN;
	redis_counts_server_ended();
	sim_trace("the server is down, for %.3f ms", pause / 1000.0);
	sim_at(sim_now() + pause, start_anew, NULL, 0);
	sim_disturbed(sim_now() + pause + 2 * SIM_S);
}

static void
ended(int slot, int code)
{
	(void) code;
	if (state != UP && nobody_runs())
		down();
	else if (slot < FIRST_SESSION)
		start_soon(slot, WORKER_PAUSE);
	else if (sim_config.left[slot] > 0)
		start_session(slot);
}

void
server_start(void)
{
	copy_restore(OBSERVER);
	heap_free_all(-1);
	postmaster_init();
	process_ended = ended;
	state = UP;
	life++;
	began_at = sim_now();
	start_soon(WATCHDOG, 0);
	if (sim_config.mode != 0)
		start_soon(TABLE_WORKER, 0);
	for (int i = 0; i < sim_config.nsessions; i++)
		if (sim_config.left[FIRST_SESSION + i] > 0)
			start_session(FIRST_SESSION + i);
}

int64_t
server_began_at(void)
{
	return began_at;
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
	if (state != CRASHING || pid == 0)
		return;
	process_vanish((int) slot);
	net_owner_ended(pid);
	ended((int) slot, 2);
}

void
server_crash(int slot)
{
	if (state != UP || !process_is_running(slot))
		return;
	state = CRASHING;
	next_mode = sim_config.mode;
	sim_trace("the server crashes");
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (process_is_running(i) && i != slot)
			sim_at(sim_now() + SIM_PICK(0, 30, SIM_MS, 5 * SIM_MS), vanish, NULL, i);
	vanish(NULL, slot);
}

/*
 * server_restart --- an orderly end
 *
 * Who has just been started gets the signal too, before it looks at it.
 */
void
server_restart(int mode)
{
	if (state != UP)
		return;
	sim_trace("the server is shut down");
	state = ENDING;
	next_mode = mode;
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (process_is_running(i))
			(void) sim_kill(process_pid(i), SIGTERM);
	if (nobody_runs())
		down();
}

void
server_stranger(void)
{
	if (state == UP)
		stranger_comes();
}

void
server_reload(void)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (process_is_running(i))
			(void) sim_kill(process_pid(i), SIGHUP);
}
