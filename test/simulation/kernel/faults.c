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

#include "config.h"
#include "faults.h"
#include "kernel.h"
#include "network.h"
#include "redis_model.h"

static bool over;

#define KINDS_MAX	32

static int	there_are[KINDS_MAX];
static int	nthere_are;

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
	{fault_connection_breaks, 300, 700 * SIM_MS},
	{fault_half_open, 150, SIM_S},
	{fault_silence, 300, 2 * SIM_S},
	{fault_redis_restarts, 200, 4 * SIM_S},
	{fault_redis_promoted, 100, 4 * SIM_S},
	{fault_redis_saves, 200, 500 * SIM_MS},
	{fault_redis_mood, 200, 2 * SIM_S},
	{fault_scripts_flushed, 150, 500 * SIM_MS},
	{fault_clock_set, 50, 4 * SIM_S},
	{fault_key_deleted, 300, 500 * SIM_MS},
	{fault_key_denied, 150, SIM_S},
	{fault_message_lost, 100, SIM_S},
	{fault_message_doubled, 150, 300 * SIM_MS},
	{fault_message_spurious, 150, 200 * SIM_MS},
	{fault_foreign_client, 500, 150 * SIM_MS},
	{fault_foreign_force, 150, 700 * SIM_MS},
	{fault_cancel, 350, 150 * SIM_MS},
	{fault_terminate, 150, SIM_S},
	{fault_watchdog_ends, 200, 2 * SIM_S},
	{fault_table_worker_ends, 200, 2 * SIM_S},
	{fault_crash, 70, 4 * SIM_S},
	{fault_server_restarts, 70, 4 * SIM_S},
	{fault_settings, 150, SIM_S},
	{fault_url, 400, SIM_S},
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
	if (sim_chance(250))
		net_set_cut((uint32_t) SIM_PICK(10, 100));
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
	net_set_cut(0);
	redis_calm();
	sim_trace("no more faults");
}
