/*-------------------------------------------------------------------------
 *
 * faults_redis.c
 *	  What goes wrong with the network and with the nodes of Redis.
 *
 * Each says until when it disturbs: what has to happen in time may happen later
 * then.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/faults_redis.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "clusters.h"
#include "config.h"
#include "faults.h"
#include "names.h"
#include "network.h"
#include "redis_counts.h"
#include "redis_nodes.h"
#include "redlock.h"
#include "sentinels.h"
#include "shards.h"

#define NAME_OF_KEY		"k%d"
#define NAME_OF_CHANNEL \
	(sim_config.read_write ? "redisson_rwlock:{k%d}" : "redisson_lock__channel:{k%d}")
#define NAME_OF_COUNTER	"redisson_lock_token:{k%d}"

#define ELSEWHERE		"elsewhere:1"

static int
draw_number(void)
{
	return (int) sim_draw(sim_config.nkeys);
}

static const char *
name_of(const char *format, int key)
{
	static char name[REDIS_NAME];

	snprintf(name, sizeof(name), format, key);
	return name;
}

/* Mostly that which is in use. */
static int
draw_node(void)
{
	if (sim_config.masters > 0)
		return (int) sim_draw(sim_config.struck);
	if (sim_config.cluster)
		return sim_chance(200) ? (int) sim_draw(sim_config.nredis) : shards_draw();
	return sim_config.nredis > 1 && sim_chance(300) ?
		(int) sim_draw(sim_config.nredis) : redis_present();
}

/* Where a key is, in a cluster. */
static int
draw_node_of(const char *name)
{
	return sim_config.cluster ? redis_place_of(name) : draw_node();
}

static double
ms_until(int64_t until)
{
	return (until - sim_now()) / 1000.0;
}

/* ----------
 * The network
 * ----------
 */

void
fault_connection_breaks(void)
{
	sim_trace("fault: a connection breaks");
	if (sim_chance(300))
		net_break_all(draw_node());
	else
		net_break_one();
}

void
fault_half_open(void)
{
	int64_t		until = sim_now() + SIM_PICK(300 * SIM_MS, 20 * SIM_MS, 4 * SIM_S);

	sim_trace("fault: a connection has no other end, and nobody says so for %.3f ms",
			  ms_until(until));
	net_half_open_one(until);
}

void
fault_nonsense(void)
{
	sim_trace("fault: the other end of a connection sends nonsense");
	net_babble_one();
}

/* The others use Redis meanwhile, and take what that one had when its leases there have ended. */
static void
cut_server_off(void)
{
	int			server = (int) sim_draw((uint32_t) sim_config.nservers);
	int64_t		until = sim_now() + SIM_PICK(400 * SIM_MS, 2 * SIM_S, 5 * SIM_S, 12 * SIM_S);

	sim_trace("fault: server %d reaches no redis for %.3f ms", server, ms_until(until));
	net_cut_off_until(server, until);
}

static void
takes_meanwhile(void *arg, int64_t key)
{
	(void) arg;
	if (!sim_config.calm)
		(void) redis_foreign_take(redis_present(), name_of(NAME_OF_KEY, (int) key), ELSEWHERE,
								  sim_config.least_lease_ms, false);
}

/*
 * As when a node has too many connections: the sessions keep theirs.  A client elsewhere takes a
 * key for as long as a server does.
 */
static void
cut_watchdog_off(void)
{
	int			server = (int) sim_draw((uint32_t) sim_config.nservers);
	int64_t		until = sim_now() + SIM_PICK(2 * SIM_S, 400 * SIM_MS, 5 * SIM_S, 12 * SIM_S);

	sim_trace("fault: the watchdog of server %d is refused for %.3f ms", server, ms_until(until));
	net_refuse_watchdog_until(server, until);
	sim_at(sim_now() + sim_draw(SIM_S), takes_meanwhile, NULL, draw_number());
}

void
fault_silence(void)
{
	int			node = draw_node();
	int64_t		until = sim_now() + SIM_PICK(30 * SIM_MS, 400 * SIM_MS, 2 * SIM_S, 5 * SIM_S);

	if (sim_config.mode == 2 && sim_draw(4) == 0)
	{
		cut_watchdog_off();
		return;
	}
	if (sim_config.mode == 2 && sim_config.nservers > 1 && sim_draw(2) == 0)
	{
		cut_server_off();
		return;
	}
	sim_trace("fault: redis %d is silent for %.3f ms", node, ms_until(until));
	net_block_until(node, until);
}

#define BLINK	(150 * SIM_MS)

static void
silent_again(void *arg, int64_t node)
{
	if (!sim_config.calm)
		net_block_until((int) node, sim_now() + 5 * SIM_S);
}

static void
blink(void *arg, int64_t node)
{
	if (sim_config.calm)
		return;
	(void) redis_foreign_take((int) node, name_of(NAME_OF_KEY, draw_number()), ELSEWHERE, 2000, false);
	sim_at(sim_now() + BLINK, silent_again, NULL, node);
}

/*
 * fault_blink --- silence, in which Redis answers for a moment, and a client elsewhere takes a key;
 * just before a process that a meeting stops goes on by itself
 */
void
fault_blink(void)
{
	int			node = redis_present();
	int64_t		until = sim_now() + SIM_PICK(7 * SIM_S, 3 * SIM_S, 300 * SIM_MS) - 2 * BLINK;

	sim_trace("fault: redis %d is silent for %.3f ms, and soon again", node, ms_until(until));
	net_block_until(node, until);
	sim_at(until, blink, NULL, node);
}

/* ----------
 * A node
 * ----------
 */

/* With its data, without, or with those of a while ago. */
void
fault_redis_restarts(void)
{
	int			node = draw_node();
	int64_t		until = sim_now() + SIM_PICK(SIM_MS, 200 * SIM_MS, 2 * SIM_S, 12 * SIM_S);

	sim_trace("fault: redis %d is down for %.3f ms", node, ms_until(until));
	net_down_until(node, until);
	redis_boot(node, until);
	redis_flush_scripts(node);
	if (sim_chance(400))
		redis_set_mood(node, REDIS_LOADING, until + SIM_PICK(20 * SIM_MS, SIM_S));
	if (sim_config.cluster)
		shards_restarted(node, until);
	switch (sim_draw(5))
	{
		case 0:
		case 1:
			break;
		case 2:
		case 3:
			redis_lose_data(node);
			break;
		default:
			redis_lose_later(node);
	}
}

/*
 * Another node answers at the same address, which has what the one before had a
 * while ago; what was connected there is not any more.
 */
void
fault_redis_promoted(void)
{
	int			node = redis_present();
	int64_t		until = sim_now() + SIM_PICK(SIM_MS, 100 * SIM_MS, SIM_S);

	sim_trace("fault: a replica takes the place of redis %d", node);
	net_down_until(node, until);
	redis_flush_scripts(node);
	if (sim_config.min_replicas != 0 && sim_draw(2) == 0)
		redis_fail_over(node);
	else
		redis_lose_later(node);
	if (sim_chance(300))
		redis_set_mood(node, REDIS_READONLY, until + SIM_PICK(50 * SIM_MS, SIM_S));
}

/* Sentinels, or the nodes of a cluster, make another node the master. */
void
fault_failover(void)
{
	if (!sim_config.cluster)
		sentinels_fail_over();
	else if (sim_chance(700))
		shards_fail_over();
	else
		shards_cut_off();
}

void
fault_sentinel_lies(void)
{
	sentinels_lie();
}

void
fault_slot_moves(void)
{
	shards_move_slot();
}

void
fault_epoch_rises(void)
{
	shards_raise_epoch();
}

void
fault_cluster_restored(void)
{
	shards_back_up();
}

void
fault_other_cluster(void)
{
	clusters_fault();
}

void
fault_replica_away(void)
{
	if (sim_config.min_replicas != 0)
		redis_replica_away(draw_node(), sim_now() + SIM_PICK(50 * SIM_MS, SIM_MS, SIM_S, 4 * SIM_S));
}

void
fault_redis_saves(void)
{
	redis_save(draw_node());
}

void
fault_redis_mood(void)
{
	static const RedisMood moods[] = {
		REDIS_READONLY, REDIS_OOM, REDIS_MISCONF, REDIS_BUSY_SCRIPT, REDIS_LOADING
	};
	int			node = draw_node();
	RedisMood	mood = moods[sim_draw(5)];
	int64_t		until = sim_now() + SIM_PICK(10 * SIM_MS, 300 * SIM_MS, 3 * SIM_S);

	sim_trace("fault: redis %d says for %.3f ms: %s", node, ms_until(until),
			  redis_mood_words(mood));
	redis_set_mood(node, mood, until);
}

void
fault_scripts_flushed(void)
{
	redis_flush_scripts(draw_node());
}

/* Forward, what ends early is not told: who waits asks again after that time. */
#define LONGEST_POLL	(30 * SIM_S)

void
fault_clock_set(void)
{
	redis_set_clock(draw_node(), SIM_PICK(100 * SIM_MS, -100 * SIM_MS, 3 * SIM_S,
										  -3 * SIM_S, 60 * SIM_S, -60 * SIM_S));
	sim_disturbed(sim_now() + LONGEST_POLL);
}

/* ----------
 * Keys
 * ----------
 */

void
fault_key_deleted(void)
{
	if (sim_config.counts && sim_draw(2) != 0)
	{
		const char *permits = name_of("p%d", (int) sim_draw(COUNTS_NAMES));

		redis_take_permits(redis_place_of(permits), permits);
	}
	else
	{
		int			key = draw_number();

		redis_delete(draw_node_of(name_of(NAME_OF_KEY, key)), name_of(NAME_OF_KEY, key));
	}
}

/* The node is in the lowest bits. */

static void
key_allowed(void *arg, int64_t n)
{
	redis_deny_name((int) n % REDIS_NODES, name_of(arg, (int) n / REDIS_NODES), false);
}

static void
deny(int node, const char *of, int key, int64_t time)
{
	redis_deny_name(node, name_of(of, key), true);
	if (time < SIM_NEVER)
		sim_at(sim_now() + time, key_allowed, (void *) of, (int64_t) key * REDIS_NODES + node);
}

void
fault_key_denied(void)
{
	int			key = draw_number();
	int			node = draw_node_of(name_of(NAME_OF_KEY, key));
	const char *const names[] = {NAME_OF_KEY, NAME_OF_CHANNEL, NAME_OF_COUNTER};
	const char *of = names[sim_pick((const int64_t[]){0, 0, 1, 1, 2}, 5)];
	int64_t		time = SIM_PICK(100 * SIM_MS, SIM_S, 6 * SIM_S, 20 * SIM_S, SIM_NEVER);

	/*
	 * A release stays due while two masters refuse it and no majority is left without them; or
	 * a write lock's beside a read lock of its session: README.md, "Read-write locks".
	 */
	if (time == SIM_NEVER &&
		(sim_config.names != NAMES_STAY || (sim_config.read_write && of == names[1])))
		time = 20 * SIM_S;

	/* At most of several masters at once, those that are left are too few to be told by. */
	if (sim_config.masters > 0 && sim_config.struck == sim_config.masters && of == names[1] &&
		sim_chance(500))
		for (node = sim_config.masters / 2; node > 0; node--)
			deny(node, of, key, time);
	deny(node, of, key, time);
}

/* ----------
 * Messages
 * ----------
 */

void
fault_message_lost(void)
{
	redis_lose_message(draw_node());
}

void
fault_message_doubled(void)
{
	redis_double_message(draw_node(), SIM_PICK(100, 20 * SIM_MS, SIM_S));
}

void
fault_message_spurious(void)
{
	int			key = draw_number();

	redis_publish(draw_node_of(name_of(NAME_OF_KEY, key)), name_of(NAME_OF_CHANNEL, key));
}

/* ----------
 * A client elsewhere: takes a key, and gives it back or not
 * ----------
 */

static void
foreign_gives_back(void *arg, int64_t n)
{
	int			key = (int) n / REDIS_NODES;
	int			node = sim_config.cluster ? redis_place_of(name_of(NAME_OF_KEY, key)) :
		(int) n % REDIS_NODES;
	char		channel[REDIS_NAME];

	(void) arg;
	snprintf(channel, sizeof(channel), NAME_OF_CHANNEL, key);
	redis_foreign_release(node, name_of(NAME_OF_KEY, key), ELSEWHERE, channel);
}

static void
foreign_takes(bool by_force)
{
	int			key = draw_number();
	int			node = draw_node_of(name_of(NAME_OF_KEY, key));
	int64_t		lease = faults_are_told ? 60 * SIM_S :
		SIM_PICK(200 * SIM_MS, 20 * SIM_MS, 2 * SIM_S, 60 * SIM_S);
	int64_t		kept = lease < SIM_S ? lease : lease <= 10 * SIM_S ? SIM_S :
		sim_config.mode == 2 && sim_chance(300) ? 30 * SIM_S : 4 * SIM_S;

	if (redis_foreign_take(node, name_of(NAME_OF_KEY, key), ELSEWHERE, lease / SIM_MS,
						   by_force) &&
		(lease > 10 * SIM_S || !sim_chance(300)))
		sim_at(sim_now() + sim_draw((uint32_t) kept), foreign_gives_back, NULL,
			   (int64_t) key * REDIS_NODES + node);
}

void
fault_foreign_client(void)
{
	foreign_takes(false);
}

void
fault_foreign_force(void)
{
	foreign_takes(true);
}

/* One who does as he has to, with most of several masters; he has what he has got. */
void
fault_redlock(void)
{
	int			key = draw_number();
	char		channel[REDIS_NAME];

	if (sim_config.masters == 0)
		return;
	snprintf(channel, sizeof(channel), NAME_OF_CHANNEL, key);
	redlock_take(name_of(NAME_OF_KEY, key), channel);
}

/* ----------
 * Masters that are started again, empty, one after the other, with a lease between them
 * ----------
 */

void
fault_forgets(int node, int64_t pause)
{
	sim_trace("fault: redis %d is started again, empty", node);
	net_down_until(node, sim_now() + pause);
	redis_boot(node, sim_now() + pause);
	redis_flush_scripts(node);
	redis_lose_data(node);
}

static void
starts_again(void *arg, int64_t n)
{
	int			node = (int) n % sim_config.masters;

	(void) arg;
	if (sim_config.calm)
		return;
	fault_forgets(node, 20 * SIM_MS);
	sim_at(sim_now() + (sim_config.lease_ms + 300) * SIM_MS, starts_again, NULL, n + 1);
}

void
fault_rolling_restart(void)
{
	sim_at(sim_now() + SIM_PICK(SIM_S, 5 * SIM_S), starts_again, NULL, 0);
}
