/*-------------------------------------------------------------------------
 *
 * faults.c
 *	  What goes wrong in a schedule, and clients elsewhere.
 *
 * A schedule has some kinds of faults and not others, so that rare combinations
 * are tried too; a kind that is there comes again after times that are drawn.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/faults.c
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>

#include "config.h"
#include "faults.h"
#include "kernel.h"
#include "network.h"
#include "redis_model.h"

extern int	process_pid(int slot);

static bool over;

#define KINDS_MAX	32

static int	there_are[KINDS_MAX];
static int	nthere_are;

static const char *
draw_key(void)
{
	static char name[8];

	snprintf(name, sizeof(name), "k%d", (int) sim_draw(sim_config.nkeys));
	return name;
}

/* ----------
 * The faults
 * ----------
 */

static void
break_connection(void)
{
	sim_trace("fault: a connection breaks");
	if (sim_chance(300))
		net_break_all();
	else
		net_break_one();
}

static void
block_network(void)
{
	int64_t		until = sim_now() + SIM_PICK(30 * SIM_MS, 400 * SIM_MS, 2 * SIM_S, 5 * SIM_S);

	sim_trace("fault: Redis is silent for %.3f ms", (until - sim_now()) / 1000.0);
	net_block_until(until);
}

static void
restart_redis(void)
{
	int64_t		until = sim_now() + SIM_PICK(SIM_MS, 200 * SIM_MS, 2 * SIM_S, 12 * SIM_S);

	sim_trace("fault: Redis is down for %.3f ms", (until - sim_now()) / 1000.0);
	net_down_until(until);
	if (sim_chance(400))
		redis_loading_until(until + SIM_PICK(20 * SIM_MS, SIM_S));
	if (sim_chance(400))
		redis_lose_data();
}

static void
delete_key(void)
{
	redis_delete(draw_key());
}

/* Forward, what ends early is not told: who waits asks again after that time. */
#define LONGEST_POLL	(30 * SIM_S)

static void
set_clock(void)
{
	redis_set_clock(SIM_PICK(100 * SIM_MS, -100 * SIM_MS, 3 * SIM_S, -3 * SIM_S, 60 * SIM_S, -60 * SIM_S));
	sim_disturbed(sim_now() + LONGEST_POLL);
}

static void
allow_key(void *arg, int64_t key)
{
	char		name[8];

	(void) arg;
	snprintf(name, sizeof(name), "k%d", (int) key);
	redis_deny_key(name, false);
	sim_disturbed(sim_now());
}

static void
deny_key(void)
{
	int			key = sim_draw(sim_config.nkeys);
	int64_t		until = sim_now() + SIM_PICK(100 * SIM_MS, SIM_S, 6 * SIM_S);
	char		name[8];

	snprintf(name, sizeof(name), "k%d", key);
	redis_deny_key(name, true);
	sim_at(until, allow_key, NULL, key);
	sim_disturbed(until);
}

static void
signal_session(int signo)
{
	int			slot = 2 + sim_draw(sim_config.nsessions);
	int			pid = process_pid(slot);

	if (pid != 0)
		(void) sim_kill(pid, signo);
}

static void
cancel(void)
{
	signal_session(SIGINT);
}

static void
terminate(void)
{
	signal_session(SIGTERM);
}

static void
end_watchdog(void)
{
	int			pid = process_pid(0);

	if (pid != 0)
		(void) sim_kill(pid, SIGTERM);
	sim_disturbed(sim_now() + 2 * SIM_S);
}

static void
end_table_worker(void)
{
	int			pid = process_pid(1);

	if (pid != 0)
		(void) sim_kill(pid, SIGTERM);
	sim_disturbed(sim_now() + 2 * SIM_S);
}

static void
spurious_message(void)
{
	redis_publish(draw_key());
}

/* ----------
 * A client elsewhere: takes a key, and gives it back or not
 * ----------
 */

static void
foreign_gives_back(void *arg, int64_t key)
{
	char		name[8];

	(void) arg;
	snprintf(name, sizeof(name), "k%d", (int) key);
	redis_foreign_release(name, "elsewhere:1", true);
}

static void
foreign_takes(void)
{
	int			key = sim_draw(sim_config.nkeys);
	int64_t		lease = SIM_PICK(200 * SIM_MS, 20 * SIM_MS, 2 * SIM_S);
	char		name[8];

	snprintf(name, sizeof(name), "k%d", key);
	if (redis_foreign_take(name, "elsewhere:1", lease / SIM_MS) && !sim_chance(300))
		sim_at(sim_now() + sim_draw((uint32_t) lease), foreign_gives_back, NULL, key);
}

/* ----------
 * Which, and when
 * ----------
 */

typedef struct Kind
{
	void		(*fault) (void);
	uint32_t	permille;		/* of the schedules have it */
	int64_t		interval;
} Kind;

static const Kind kinds[] = {
	{break_connection, 300, 700 * SIM_MS},
	{block_network, 300, 2 * SIM_S},
	{restart_redis, 200, 4 * SIM_S},
	{delete_key, 300, 500 * SIM_MS},
	{set_clock, 50, 4 * SIM_S},
	{deny_key, 150, SIM_S},
	{cancel, 350, 150 * SIM_MS},
	{terminate, 150, SIM_S},
	{end_watchdog, 200, 2 * SIM_S},
	{end_table_worker, 200, 2 * SIM_S},
	{spurious_message, 150, 200 * SIM_MS},
	{foreign_takes, 500, 150 * SIM_MS},
};

#define NKINDS	((int) (sizeof(kinds) / sizeof(kinds[0])))

static void
strike(void *arg, int64_t k)
{
	const Kind *kind = &kinds[k];

	(void) arg;
	if (over)
		return;
	if (sim_chance(700))
		kind->fault();
	sim_at(sim_now() + 1 + sim_draw((uint32_t) kind->interval * 2), strike, NULL, k);
}

static void
strike_once(void *arg, int64_t k)
{
	(void) arg;
	if (!over)
		kinds[k].fault();
}

void
faults_strike_now(void)
{
	if (nthere_are > 0)
		sim_at(0, strike_once, NULL, there_are[sim_draw(nthere_are)]);
}

void
faults_begin(void)
{
	over = false;
	nthere_are = 0;
	if (sim_chance(500))
		net_set_slow((uint32_t) SIM_PICK(3, 30, 150), sim_draw(5));
	for (int k = 0; k < NKINDS; k++)
		if (sim_chance(kinds[k].permille))
		{
			there_are[nthere_are++] = k;
			sim_at(sim_now() + sim_draw((uint32_t) kinds[k].interval * 2), strike, NULL, k);
		}
}

void
faults_end(void)
{
	over = true;
	net_set_slow(0, 0);
	sim_trace("no more faults");
}
