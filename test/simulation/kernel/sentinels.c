/*-------------------------------------------------------------------------
 *
 * sentinels.c
 *	  A model of Sentinels: who they say is the master, and failovers.
 *
 * As in real ones: between the promotion and the first Sentinel that tells of it
 * there are two masters, the others follow one by one, and the former master calls
 * itself one, and takes locks, until it is turned round, which may be long after it
 * was down and has come back.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/sentinels.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "history.h"
#include "names.h"
#include "network.h"
#include "sentinels.h"
#include "server.h"

#define EPOCHS		1024
#define FOR_EVER	INT64_MAX

/* An election takes that long. */
#define INTERVAL_MIN	(1500 * SIM_MS)

/* When one that was cut off from the others hears of it. */
#define LONG_AFTER		(8 * SIM_S)

typedef struct View
{
	int			master;
	int			config_epoch;
	bool		in_doubt;		/* about to make another one the master */
	int			lies;			/* the port that it names; 0 = it tells the truth */
	int			lie_epoch;
	uint32_t	heard_by;		/* servers that it has told the lie, as bits */
} View;

static View view[SENTINELS + 1];	/* the last one is of another set */
static bool is_unknown;			/* to that one the service */
static int	listener[SENTINELS + 1];
static int64_t named_at[SENTINELS][SIM_MAX_SERVERS][REDIS_NODES];	/* to that server */
static int	config_epoch;
static int	failovers;

/* By each server. */
static struct
{
	int			node_of[EPOCHS];
	int64_t		at;
	int			node;
	int64_t		number;			/* by which that was named */
	uint32_t	named;			/* the epoch to which the watchdog may connect; 0 = none */
	int64_t		doubted_at;		/* by the clock of the server: when that was taken back */
}			belief[SIM_MAX_SERVERS];
static int64_t failed_over_at;

void
sentinels_reset(void)
{
	memset(view, 0, sizeof(view));
	memset(listener, 0xff, sizeof(listener));
	memset(named_at, 0, sizeof(named_at));
	is_unknown = false;
	sentinel_names_reset();
	config_epoch = failovers = 0;
	for (int i = 0; i < SIM_MAX_SERVERS; i++)
	{
		memset(belief[i].node_of, 0xff, sizeof(belief[i].node_of));
		belief[i].at = belief[i].doubted_at = 0;
		belief[i].named = 0;
		belief[i].number = 0;
		belief[i].node = -1;
	}
	for (int i = 0; i < SENTINELS; i++)
		net_listen(SENTINEL_PORT(i), SENTINEL_NODE(i));
}

/*
 * draw_stranger --- what the Sentinel of another set says
 *
 * It never changes that, and may be asked at any time.
 */
static void
draw_stranger(void)
{
	View	   *v = &view[STRANGER];

	v->lies = NOBODYS_PORT;
	v->lie_epoch = (int) SIM_PICK(0, 1, 100);
	is_unknown = sim_draw(3) == 0;
	sim_trace("sentinel %d, of another set: %s, number %d", STRANGER,
			  is_unknown ? "does not know the service" : "names nobody", v->lie_epoch);
}

void
sentinels_begin(void)
{
	if (sim_config.names == NAMES_SENTINELS)
		draw_stranger();
	for (int i = 1; i < sim_config.nredis; i++)
		redis_set_mood(i, REDIS_READONLY, FOR_EVER);
}

/* ----------
 * Answers
 * ----------
 */

static void
reply(int conn, const char *text)
{
	net_reply(conn, text, strlen(text));
}

static void
answer_hello(int conn)
{
	reply(conn, "*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.2.0\r\n"
		  "$5\r\nproto\r\n:2\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n"
		  "$4\r\nrole\r\n$8\r\nsentinel\r\n$7\r\nmodules\r\n*0\r\n");
}

static void
answer_info(int sentinel, int conn)
{
	char		text[128];
	char		info[96];

	snprintf(info, sizeof(info), "redis_version:7.2.0\r\nrun_id:%040d\r\n", 900 + sentinel);
	snprintf(text, sizeof(text), "$%zu\r\n%s\r\n", strlen(info), info);
	reply(conn, text);
}

/* A server that was cut off may hear a lie long after it has begun. */
static void
note_heard(View *v, int conn)
{
	uint32_t	server = UINT32_C(1) << server_of_pid(net_owner(conn));

	if (v->lies != 0 && (v->heard_by & server) == 0)
		sim_disturbed(sim_now() + SENTINEL_SETTLES_IN);
	v->heard_by |= server;
}

/* Of all fields those that lockredis reads. */
static void
answer_master(View *v, int conn)
{
	char		text[256];
	char		number[16];

	note_heard(v, conn);
	snprintf(number, sizeof(number), "%d", v->lies != 0 ? v->lie_epoch : v->config_epoch);
	snprintf(text, sizeof(text), "*%d\r\n$12\r\nconfig-epoch\r\n$%zu\r\n%s\r\n%s",
			 v->in_doubt ? 4 : 2, strlen(number), number,
			 v->in_doubt ? "$14\r\nfailover-state\r\n$14\r\nwait_promotion\r\n" : "");
	reply(conn, text);
}

static void
answer_address(const View *v, int conn)
{
	char		text[64];

	if (v < &view[STRANGER] && v->lies == 0)
		named_at[v - view][server_of_pid(net_owner(conn))][v->master] = sim_now();
	snprintf(text, sizeof(text), "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n%d\r\n",
			 v->lies != 0 ? v->lies : REDIS_PORT(v->master));
	reply(conn, text);
}

void
sentinels_serve(int sentinel, int conn, const char *verb, const char *what)
{
	if (strcmp(verb, "HELLO") == 0)
		answer_hello(conn);
	else if (strcmp(verb, "INFO") == 0)
		answer_info(sentinel, conn);
	else if (strcmp(verb, "PING") == 0)
		reply(conn, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	else if (strcmp(verb, "SUBSCRIBE") == 0)
	{
		listener[sentinel] = conn;
		reply(conn, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
	}
	else if (sentinel == STRANGER && is_unknown)
		reply(conn, strcmp(what, "MASTER") == 0 ? "-ERR No such master with that name\r\n" : "*-1\r\n");
	else if (strcmp(what, "MASTER") == 0)
		answer_master(&view[sentinel], conn);
	else
		answer_address(&view[sentinel], conn);
}

/* ----------
 * Lies
 * ----------
 */

static void
tell_the_truth(void *arg, int64_t i)
{
	(void) arg;
	if (view[i].lies == 0)
		return;
	sim_trace("sentinel %d: tells the truth again", (int) i);
	view[i].lies = 0;
	sim_disturbed(sim_now() + SENTINEL_SETTLES_IN);
}

static void
end_lies(void)
{
	for (int i = 0; i < SENTINELS; i++)
		tell_the_truth(NULL, i);
}

/*
 * sentinels_lie --- one names the replica, or nobody, by a higher number than there was
 *
 * A higher number of a node that calls itself master would be believed, and rightly so.
 */
void
sentinels_lie(void)
{
	int			i = (int) sim_draw(SENTINELS);
	int			other = (redis_present() + 1) % sim_config.nredis;
	int64_t		until = sim_now() + SIM_PICK(15 * SIM_S, 300 * SIM_MS, 4 * SIM_S, 40 * SIM_S);

	for (int j = 0; j < SENTINELS; j++)
		if (view[j].lies != 0)
			return;
	if (!sentinel_names_are_right())
		return;
	view[i].lies = sim_draw(2) != 0 && redis_mood(other) == REDIS_READONLY ?
		REDIS_PORT(other) : NOBODYS_PORT;
	view[i].lie_epoch = config_epoch + (int) SIM_PICK(1, 5, 100);
	view[i].heard_by = 0;
	sim_trace("fault: sentinel %d names port %d, number %d", i, view[i].lies,
			  view[i].lie_epoch);
	sim_at(until, tell_the_truth, NULL, i);
	if (sim_chance(300))
		net_down_until(SENTINEL_NODE(i), until + SIM_S);
	sim_disturbed(sim_now() + SENTINEL_SETTLES_IN);
}

bool
sentinel_lies(int i)
{
	return view[i].lies != 0;
}

/* A lie may outlast the other faults, so that it is all that is wrong. */
void
sentinels_end(void)
{
	if (sim_draw(2) == 0)
		end_lies();
	sentinel_names_end();
}

/* ----------
 * A failover
 * ----------
 */

/* A Sentinel has heard of the last one. */
static void
hear(void *arg, int64_t i)
{
	(void) arg;
	if (view[i].config_epoch == config_epoch)
		return;
	view[i].master = redis_present();
	view[i].config_epoch = config_epoch;
	view[i].in_doubt = false;
	sim_trace("sentinel %d: redis %d is the master", (int) i, view[i].master);
	if (listener[i] >= 0 && sim_chance(700))
		reply(listener[i], "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"
			  "$3\r\nsvc\r\n");
}

/* The former master is turned round, if it is not the present one again. */
static void
turn_round(void *arg, int64_t node)
{
	(void) arg;
	if (node == redis_present())
		return;
	sim_trace("redis %d: is a replica from now on", (int) node);
	redis_save(redis_present());
	redis_copy_saved(redis_present(), (int) node);
	redis_set_mood((int) node, REDIS_READONLY, FOR_EVER);
	net_break_all((int) node);
}

/*
 * draw_last --- a Sentinel that hears of it long after the others; -1 = none
 *
 * It often has two names.  Meanwhile the new master cannot be reached, so that the former one may
 * seem to be the only one.
 */
static int
draw_last(int to)
{
	int			last;

	if (sim_config.names != NAMES_SENTINELS || !sim_chance(400))
		return -1;
	last = (int) sim_draw(SENTINELS);
	if (sim_draw(3) != 0)
		sentinel_gets_name(last, LONG_AFTER);
	net_down_until(to, sim_now() + LONG_AFTER - SIM_S);
	failed_over_at += LONG_AFTER;
	return last;
}

void
sentinels_fail_over(void)
{
	int			from = redis_present();
	int			to = (from + 1) % sim_config.nredis;
	int64_t		heard = sim_now();
	int64_t		turned;
	int			last;

	if (failovers > 0 && sim_now() - failed_over_at < INTERVAL_MIN)
		return;
	end_lies();
	failed_over_at = sim_now();
	sim_trace("fault: redis %d takes the place of redis %d", to, from);
	if (sim_chance(600))
		redis_save(from);
	redis_copy_saved(from, to);
	redis_set_mood(to, REDIS_WELL, 0);
	redis_set_present(to);
	redis_flush_scripts(to);
	history_event(HISTORY_ALL_TAKEN_AWAY, "");
	config_epoch++;
	failovers++;
	view[0].in_doubt = sim_chance(300);

	if (sim_chance(400))
	{
		int64_t		until = sim_now() + SIM_PICK(SIM_MS, 100 * SIM_MS, 2 * SIM_S);

		net_down_until(from, until);
		net_break_all(from);
	}
	last = draw_last(to);
	for (int i = 0; i < SENTINELS; i++)
	{
		heard += SIM_PICK(SIM_MS, 60 * SIM_MS, SIM_S);
		sim_at(heard + (i == last ? LONG_AFTER : 0), hear, NULL, i);
	}
	if (last >= 0)
		heard += LONG_AFTER;
	turned = heard + SIM_PICK(SIM_MS, SIM_S, 10 * SIM_S);
	sim_at(turned, turn_round, NULL, from);
	sim_disturbed(heard + SIM_S);
}

int
sentinels_failovers(void)
{
	return failovers;
}

/* ----------
 * What is believed
 * ----------
 */

void
sentinels_note_epoch(uint32_t epoch, int port, int64_t number)
{
	if (epoch >= EPOCHS)
		sim_fail("simulator", "too many masters");
	belief[sim_server()].node_of[epoch] = belief[sim_server()].node =
		port == NOBODYS_PORT ? -1 : port - REDIS_PORT(0);
	belief[sim_server()].number = number;
	belief[sim_server()].at = sim_now();
	belief[sim_server()].named = 0;
	belief[sim_server()].doubted_at = 0;
}

/* An answer counts for 3 s. */
#define NAMED_LATELY	(4 * SIM_S)

/* Not by several names of one.  A watchdog that was stopped goes by what it has heard before. */
void
sentinels_check_back(int to, int64_t number)
{
	int			n = 0;

	if (number >= belief[sim_server()].number || to == NOBODYS_PORT ||
		sim_now() - sim_unstopped_since() < SIM_S)
		return;
	for (int i = 0; i < SENTINELS; i++)
	{
		int64_t		at = named_at[i][sim_server()][to - REDIS_PORT(0)];

		n += at > 0 && sim_now() - at < NAMED_LATELY;
		if (view[i].lies != 0)
			return;
	}
	if (n <= SENTINELS / 2)
		sim_fail("former master", "redis %d is the master again by the words of %d of the Sentinels",
				 to - REDIS_PORT(0), n);
}

void
sentinels_note_start(int64_t now)
{
	belief[sim_server()].named = 0;
	belief[sim_server()].doubted_at = now;
}

void
sentinels_note_doubt(uint32_t epoch, int64_t now)
{
	if (epoch == 0 || belief[sim_server()].named != epoch)
		return;
	belief[sim_server()].named = 0;
	belief[sim_server()].doubted_at = now;
}

/* Whoever has said so before the doubt may not know what has happened since. */
void
sentinels_note_named(uint32_t epoch, int64_t asked_at)
{
	int64_t		doubted_at = belief[sim_server()].doubted_at;

	if (asked_at < doubted_at)
		sim_fail("former master", "the master counts again by an answer to a question of %.3f ms before the doubt",
				 (doubted_at - asked_at) / 1000.0);
	belief[sim_server()].named = epoch;
}

int
sentinels_node_of(uint32_t epoch)
{
	return epoch < EPOCHS ? belief[sim_server()].node_of[epoch] : -1;
}

int64_t
sentinels_believed_at(void)
{
	return belief[sim_server()].at;
}

int
sentinels_believed(void)
{
	return belief[sim_server()].node;
}
