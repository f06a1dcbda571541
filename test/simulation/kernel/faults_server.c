/*-------------------------------------------------------------------------
 *
 * faults_server.c
 *	  What happens to processes and to the server: signals, ends, crashes, settings.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/faults_server.c
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>

#include "config.h"
#include "faults.h"
#include "history.h"
#include "kernel.h"
#include "network.h"
#include "redis_nodes.h"
#include "server.h"

/* A schedule of which a fault comes at each step has to end, too. */
#define LIVES_MAX		40
#define RELOADS_MAX		200

static int	nlives;
static int	nreloads;

void
faults_server_begin(void)
{
	nlives = nreloads = 0;
}

/* ----------
 * Signals
 * ----------
 */

static void
send(int slot, int signo)
{
	if (process_is_running(slot))
		(void) sim_kill(process_pid(slot), signo);
}

static int
draw_session(void)
{
	return FIRST_SESSION + (int) sim_draw(sim_config.nsessions);
}

void
fault_cancel(void)
{
	send(draw_session(), SIGINT);
}

void
fault_terminate(void)
{
	send(draw_session(), SIGTERM);
}

/* One of the servers is meant. */
static void
mean_one(void)
{
	memory_of((int) sim_draw((uint32_t) sim_config.nservers));
}

void
fault_watchdog_ends(void)
{
	mean_one();
	send(server_watchdog(), SIGTERM);
	sim_disturbed(sim_now() + 2 * SIM_S);
}

void
fault_table_worker_ends(void)
{
	mean_one();
	send(server_table_worker(), SIGTERM);
	sim_disturbed(sim_now() + 2 * SIM_S);
}

/* Nobody has tables where nobody uses them. */
void
fault_stranger(void)
{
	mean_one();
	if (sim_config.mode != 0)
		server_stranger();
}

/* ----------
 * The server
 * ----------
 */

void
fault_crash(void)
{
	int			slot;

	if (++nlives > LIVES_MAX)
		return;
	slot = (int) sim_draw(FIRST_SESSION + sim_config.nsessions);
	mean_one();
	server_crash(server_of(slot) == sim_server() ?
				 slot : server_watchdog());
}

/* Another mode may be set meanwhile, if the table has all that there is. */
void
fault_server_restarts(void)
{
	if (++nlives > LIVES_MAX)
		return;
	mean_one();
	server_restart(sim_chance(150) && sim_config.nservers == 1 && !sim_config.counts && !sim_config.conditions &&
				   !sim_config.shared &&
				   sim_config.masters == 0 && !sim_config.cluster ?
				   (int) SIM_PICK(0, 1, 2) : sim_config.mode);
}

/* ----------
 * Settings
 * ----------
 */

void
fault_settings(void)
{
	SimConfig  *c = &sim_config;

	if (++nreloads > RELOADS_MAX)
		return;
	switch (sim_draw(4))
	{
		case 0:
			c->lease_ms = (int) SIM_PICK(3000, 600, 9000, 120);
			if (c->mode == 2 && c->lease_ms < 1000)
				c->lease_ms = 3000;
			if (c->lease_ms < c->least_lease_ms)
				c->least_lease_ms = c->lease_ms;
			if (c->masters > 0 && c->lease_ms > c->max_lease_ms)
				c->lease_ms = c->max_lease_ms;
			break;
		case 1:
			c->connect_timeout_ms = (int) SIM_PICK(500, 2000);
			break;
		case 2:
			c->command_timeout_ms = (int) SIM_PICK(800, 3000);
			break;
		default:
			c->max_handoffs = (int) SIM_PICK(32, 3, 1, 0);
	}
	sim_trace("fault: the settings are changed");
	server_reload();
	sim_disturbed(sim_now() + SIM_S);
}

/*
 * Locks are at another place from now on, or at the same under another name.  Not with
 * several servers: they have to change it at once.
 */
void
fault_url(void)
{
	if (sim_config.nredis < 2 || sim_config.nservers > 1 || sim_config.sentinels || sim_config.masters > 0 ||
		sim_config.cluster || ++nreloads > RELOADS_MAX)
		return;
	sim_config.url = !sim_config.url;
	sim_trace("fault: lockredis.url is changed to port %d", REDIS_PORT(sim_config.url));
	redis_set_present(net_node_at(REDIS_PORT(sim_config.url)));
	history_event(HISTORY_ALL_TAKEN_AWAY, "");
	server_reload();
	sim_disturbed(sim_now() + 2 * SIM_S);
}
