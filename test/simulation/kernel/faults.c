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

#include "clusters.h"
#include "config.h"
#include "faults.h"
#include "kernel.h"
#include "names.h"
#include "network.h"
#include "redis_nodes.h"
#include "redlock.h"
#include "sentinels.h"

static bool over;

static int	aimed;				/* the one that comes when a strategy says so */
static int64_t hurry;			/* all come so many times as often */

bool		faults_are_told;

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
	{fault_replica_away, 300, 500 * SIM_MS},
	{fault_failover, 0, 3 * SIM_S},
	{fault_redis_saves, 200, 500 * SIM_MS},
	{fault_redis_mood, 200, 2 * SIM_S},
	{fault_scripts_flushed, 150, 500 * SIM_MS},
	{fault_clock_set, 50, 4 * SIM_S},
	{fault_key_deleted, 300, 500 * SIM_MS},
	{fault_key_denied, 250, SIM_S},
	{fault_message_lost, 100, SIM_S},
	{fault_message_doubled, 150, 300 * SIM_MS},
	{fault_message_spurious, 150, 200 * SIM_MS},
	{fault_foreign_client, 500, 150 * SIM_MS},
	{fault_foreign_force, 150, 700 * SIM_MS},
	{fault_redlock, 0, 150 * SIM_MS},
	{fault_cancel, 350, 150 * SIM_MS},
	{fault_terminate, 150, SIM_S},
	{fault_watchdog_ends, 200, 2 * SIM_S},
	{fault_table_worker_ends, 200, 2 * SIM_S},
	{fault_stranger, 400, 200 * SIM_MS},
	{fault_crash, 70, 4 * SIM_S},
	{fault_server_restarts, 70, 4 * SIM_S},
	{fault_settings, 150, SIM_S},
	{fault_url, 400, SIM_S},
	{fault_slot_moves, 0, 500 * SIM_MS},
	{fault_name_moves, 0, SIM_S},
	{fault_sentinel_lies, 0, 3 * SIM_S},
	{fault_nonsense, 150, 2 * SIM_S},
	{fault_other_cluster, 0, 500 * SIM_MS},
	{fault_epoch_rises, 0, 2 * SIM_S},
	{fault_cluster_restored, 0, 4 * SIM_S},
};

#define NKINDS	((int) (sizeof(kinds) / sizeof(kinds[0])))

/* In fallback mode the way there and back is what matters. */
static uint32_t
permille_of(const Kind *kind)
{
	bool		is_outage = kind->fault == fault_silence || kind->fault == fault_redis_restarts;
	bool		is_untold = kind->fault == fault_key_deleted || kind->fault == fault_clock_set ||
		kind->fault == fault_message_lost || kind->fault == fault_foreign_force;

	if (faults_are_told && is_untold)
		return 0;
	if (sim_config.sentinels && kind->fault == fault_failover)
		return 800;
	if (sim_config.sentinels && kind->fault == fault_sentinel_lies)
		return 300;
	if (sim_config.names != NAMES_STAY && kind->fault == fault_name_moves)
		return 900;

	/* A server that starts later, or a client elsewhere, cannot know who was there. */
	if (sim_config.names == NAMES_CARELESS &&
		(kind->fault == fault_crash || kind->fault == fault_server_restarts ||
		 kind->fault == fault_redlock))
		return 0;
	if (sim_config.masters > 0 && kind->fault == fault_redlock)
		return 700;
	if (sim_config.masters > 0 && (kind->fault == fault_redis_restarts || kind->fault == fault_settings))
		return 500;

	/* It would be another one under the same name, which nobody can see. */
	if (sim_config.masters > 0 && kind->fault == fault_redis_promoted)
		return 0;

	if (sim_config.other_cluster != OTHER_NEVER && kind->fault == fault_other_cluster)
		return 1000;

	/* A server that starts, or reads new settings, may find only the other cluster. */
	if (sim_config.other_cluster == OTHER_LATER &&
		(kind->fault == fault_crash || kind->fault == fault_server_restarts ||
		 kind->fault == fault_settings))
		return 0;
	if (sim_config.cluster)
		return kind->fault == fault_slot_moves ? 800 : kind->fault == fault_failover ? 500 :
			kind->fault == fault_epoch_rises ? 300 :
			kind->fault == fault_cluster_restored ? 300 :
			kind->fault == fault_redis_promoted || kind->fault == fault_url ? 0 : kind->permille;
	return sim_config.mode == 2 && is_outage ? 700 : kind->permille;
}

static void come_again(int64_t k);

static void
strike(void *arg, int64_t k)
{
	const Kind *kind = &kinds[k];

	(void) arg;
	if (over)
		return;
	sim_draw_begins();
	if (sim_chance(700))
		kind->fault();
	come_again(k);
}

static void
come_again(int64_t k)
{
	uint32_t	in = sim_draw((uint32_t) (kinds[k].interval * 2 / hurry));

	if (in > 0)					/* else never again, which is the plainest */
		sim_at(sim_now() + in, strike, NULL, k);
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
	if (permille_of(&kinds[aimed]) > 0)
		sim_at(0, strike_once, NULL, aimed);
}

static void
strike_this(void *arg, int64_t n)
{
	if (!over)
		((void (*) (void)) arg) ();
}

void
faults_strike(void (*fault) (void))
{
	sim_at(0, strike_this, (void *) fault, 0);
}

static int
number_of(void (*fault) (void))
{
	int			k = 0;

	while (kinds[k].fault != fault)
		k++;
	return k;
}

/*
 * In fallback mode often what makes it leave Redis; else what makes two sessions
 * believe to have a lock.
 */
static int
draw_aimed(void)
{
	if (sim_config.mode == 2 && sim_draw(2) != 0)
		return number_of(sim_draw(2) != 0 ? fault_silence : fault_redis_restarts);
	return sim_chance(300) ? number_of(fault_key_deleted) : (int) sim_draw(NKINDS);
}

void
faults_begin(void)
{
	bool		alone;

	over = sim_config.rolling;
	if (over)
	{
		aimed = 0;
		faults_are_told = false;
		redis_others_wait(false);
		fault_rolling_restart();
		return;
	}
	faults_server_begin();
	aimed = draw_aimed();
	hurry = SIM_PICK(1, 5, 30);

	/* Few enough to go on without them, or any. */
	if (sim_config.masters > 0)
		sim_config.struck = sim_draw(2) == 0 ? (sim_config.masters - 1) / 2 : sim_config.masters;
	faults_are_told = sim_chance(200);
	redis_others_wait(sim_chance(300));
	if (sim_chance(500))
	{
		sim_config.slow = true;
		net_set_slow((uint32_t) SIM_PICK(3, 30, 150, 900), sim_draw(5));
	}
	if (sim_chance(250))
		net_set_cut((uint32_t) SIM_PICK(10, 100));

	/* What one kind does in the long run is seen where others do not disturb. */
	alone = sim_chance(200);
	for (int k = 0; k < NKINDS; k++)
		if (alone ? k == aimed && permille_of(&kinds[k]) > 0 :
			sim_chance(permille_of(&kinds[k])))
			come_again(k);
}

void
faults_end(void)
{
	over = true;
	net_set_slow(0, 0);
	net_set_cut(0);
	redis_calm();
	redlock_end();
	names_end();
	clusters_end();
	sentinels_end();
	sim_trace("no more faults");
}
