/*-------------------------------------------------------------------------
 *
 * names.c
 *	  Which node each name of lockredis.url leads to, with independent masters.
 *
 * Each name has a place in the list, and one node has that place.  A name may lead to the
 * node of another place for a while, and two names may change places.  The nodes remain the
 * same, so whoever has most of them has a majority, by whatever names.  A node that takes
 * another's place knows nothing of the locks that the former one has granted, or what it
 * knew long ago.  Careful schedules then do what docs/masters.md asks of an administrator.
 * In the others one server, which runs all the time, has to see it by itself.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/names.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "faults.h"
#include "history.h"
#include "names.h"
#include "network.h"
#include "redis_nodes.h"
#include "sentinels.h"

/* After so long a server has seen where a name leads, and has written its locks there. */
#define SETTLES_IN		(4 * SIM_S)

typedef struct Place
{
	int			node;			/* has it */
	int64_t		since;
	int64_t		had_until[REDIS_NODES]; /* these had it before; 0 = they did not */
} Place;

/* What a PostgreSQL server has last found in a row of its table of masters. */
typedef struct Found
{
	char		run_id[64];		/* "" = it was refused */
	bool		unsure;			/* others looked at the same time */
} Found;

static Place place[REDIS_NODES];
static bool lent[REDIS_NODES];	/* a connection by another name may be there */
static Found found[SIM_MAX_SERVERS][REDIS_NODES];
static bool looks[SIM_MAX_PROCS];
static bool beside[SIM_MAX_PROCS];	/* another process has found something meanwhile */

void
names_reset(void)
{
	memset(place, 0, sizeof(place));
	memset(lent, 0, sizeof(lent));
	memset(found, 0, sizeof(found));
	memset(looks, 0, sizeof(looks));
	memset(beside, 0, sizeof(beside));
	for (int i = 0; i < REDIS_NODES; i++)
		place[i].node = i;
}

int
names_place(int name)
{
	return place[name].node;
}

int64_t
names_since(int name)
{
	return place[name].since;
}

static void
lead(int name, int node)
{
	sim_trace("fault: name %d leads to redis %d", name, node);
	net_listen(REDIS_PORT(name), node);
}

static int
holder_of_place(int node)
{
	for (int i = 0; i < sim_config.masters; i++)
		if (place[i].node == node)
			return i;
	return -1;
}

/* ----------
 * Majorities
 * ----------
 */

/*
 * is_of_place --- does the node count for that name?
 *
 * What a former node of a place has granted counts until its lease ends.  Of a new one a
 * server may not know yet, and may go by what the former one has said.
 */
static bool
is_of_place(int name, int node, bool lately)
{
	const Place *p = &place[name];

	if (p->node == node && (lately || sim_now() - p->since >= SETTLES_IN))
		return true;
	return lately && p->had_until[node] > 0 &&
		sim_now() < p->had_until[node] + sim_config.max_lease_ms * SIM_MS;
}

/* Nodes that have the lock, or had it until somebody took it away; and the place of each. */
typedef struct Count
{
	bool		has[REDIS_NODES];
	bool		lately;			/* those count, too, whose place has changed */
	bool		seen[REDIS_NODES];
	int			of[REDIS_NODES];	/* -1 = it has none yet */
} Count;

/* Is there a node for that place, perhaps after others have changed theirs? */
static bool
counts(Count *c, int name)
{
	for (int i = 0; i < REDIS_NODES; i++)
	{
		if (!c->has[i] || c->seen[i] || !is_of_place(name, i, c->lately))
			continue;
		c->seen[i] = true;
		if (c->of[i] < 0 || counts(c, c->of[i]))
		{
			c->of[i] = name;
			return true;
		}
	}
	return false;
}

static int
count_places(Count *c)
{
	int			n = 0;

	memset(c->of, 0xff, sizeof(c->of));
	for (int name = 0; name < sim_config.masters; name++)
	{
		memset(c->seen, 0, sizeof(c->seen));
		n += counts(c, name);
	}
	return n;
}

int
names_count_owned(const char *key, const char *owner, int64_t until, int *lost)
{
	Count		c = {.lately = false};
	int			n;

	for (int i = 0; i < REDIS_NODES; i++)
		c.has[i] = redis_owned_there_until(i, key, owner) >= until;
	n = count_places(&c);
	for (int i = 0; i < REDIS_NODES; i++)
		c.has[i] |= redis_was_robbed_at(i, owner);
	c.lately = true;
	*lost = count_places(&c) - n;
	return n + *lost;
}

static bool
is_voter(int node, uint32_t first)
{
	for (int name = 0; name < sim_config.masters; name++)
	{
		const Place *p = &place[name];

		if (p->had_until[node] > 0 ||
			(p->node == node &&
			 (p->since == 0 || (first & (1U << name)) != 0 ||
			  sim_now() - p->since >= sim_config.max_lease_ms * SIM_MS)))
			return true;
	}
	return false;
}

int
names_count_voters(const char *key, const char *owner, uint32_t first)
{
	int			n = 0;

	for (int i = 0; i < REDIS_NODES; i++)
		n += is_voter(i, first) && (redis_owned_there_until(i, key, owner) > 0 ||
									redis_was_robbed_at(i, owner));
	return n;
}

/* ----------
 * Who has which server
 * ----------
 */

void
names_looks(void)
{
	looks[sim_slot()] = true;
	beside[sim_slot()] = false;
}

/*
 * Only a row whose last look found the server keeps others from it.  Of two that have looked at
 * the same time nobody knows which was the last, whoever comes here first.
 */
void
names_found(int row, const char *run_id, bool good)
{
	Found	   *f = found[sim_server()];
	bool		is_taken = false;

	looks[sim_slot()] = false;
	if (row < 0)
		return;
	f[row].unsure = beside[sim_slot()];
	for (int i = 0; i < SIM_MAX_PROCS; i++)
	{
		f[row].unsure |= looks[i];
		beside[i] |= looks[i];
	}
	snprintf(f[row].run_id, sizeof(f[row].run_id), "%s", good ? run_id : "");
	for (int i = 0; i < sim_config.masters; i++)
	{
		if (f[i].unsure)
			is_taken = true;
		if (i == row || strcmp(f[i].run_id, run_id) != 0)
			continue;
		is_taken = true;
		if (good)
			f[i].run_id[0] = '\0';
	}
	if (!good && !is_taken)
		sim_fail("not confirmed", "name %d is refused the server of one that has found another", row);
}

/* ----------
 * Moves
 * ----------
 */

static int
draw_other(int name)
{
	return (name + 1 + (int) sim_draw((uint32_t) sim_config.masters - 1)) % sim_config.masters;
}

/* Nobody gets to it by any name. */
static void
stop(int node)
{
	for (int i = 0; i < sim_config.masters; i++)
		if (net_node_at(REDIS_PORT(i)) == node)
			lead(i, place[i].node);
	net_stop(node);
}

/* Those of its former nodes that are to be stopped are so now. */
static void
stop_formers(int name)
{
	for (int i = 0; i < REDIS_NODES; i++)
		if (place[name].had_until[i] > sim_now())
		{
			place[name].had_until[i] = sim_now();
			if (holder_of_place(i) < 0)
				stop(i);
		}
}

/* A former node that one name still leads to would count beside the one that has its place. */
static void
change_places(int a, int b)
{
	Place		p;

	stop_formers(a);
	stop_formers(b);
	p = place[a];
	place[a] = place[b];
	place[b] = p;
	lent[place[a].node] = lent[place[b].node] = true;
	lead(a, place[a].node);
	lead(b, place[b].node);
}

static void
is_stopped(void *arg, int64_t node)
{
	(void) arg;
	if (holder_of_place((int) node) < 0)
		stop((int) node);
}

/*
 * replace --- another node has the place from now on
 *
 * A careful administrator stops the former one, and starts the new one when the name leads
 * to it, with the data that it had or without.  Others stop the former one somewhat later;
 * whoever is connected to it does not see the new one until then.  Not if another name may
 * have led there: both would count for a while.
 */
static void
replace(int name)
{
	bool		careful = sim_config.names == NAMES_CAREFUL;
	int			former = place[name].node;
	int			node = (int) sim_draw(REDIS_NODES);
	int64_t		stops_at = sim_now();

	while (holder_of_place(node) >= 0)
		node = (node + 1) % REDIS_NODES;
	if (!careful && !lent[former])
		stops_at += SIM_PICK(0, 100 * SIM_MS, SIM_S);
	place[name].had_until[former] = stops_at;
	place[name].node = node;
	place[name].since = sim_now();

	/* The counters of fencing tokens go with the former node. */
	history_event(HISTORY_ALL_TAKEN_AWAY, NULL);
	lead(name, node);
	if (careful)
	{
		stop(former);
		redis_boot(node, sim_now());
		redis_flush_scripts(node);
		if (sim_draw(2) != 0)
			redis_lose_data(node);
	}
	else
		sim_at(stops_at, is_stopped, NULL, former);
}

void
fault_name_moves(void)
{
	int			name;
	int			node;

	if (sim_config.names == NAMES_ELSEWHERE)
	{
		elsewhere_moves();
		return;
	}
	if (sim_config.names == NAMES_SENTINELS)
	{
		sentinel_name_moves();
		return;
	}
	name = (int) sim_draw((uint32_t) sim_config.struck);
	node = place[name].node;
	switch (SIM_PICK(0, 1, 2, 2, 3))
	{
		case 0:
			change_places(name, draw_other(name));
			break;
		case 1:
			node = place[draw_other(name)].node;
			lent[node] = true;
			lead(name, node);
			break;
		case 2:
			replace(name);
			break;
		default:
			lead(name, node);
	}

	/* Otherwise connections stay. */
	if (sim_chance(300))
		net_break_all(node);
	sim_disturbed(sim_now() + SETTLES_IN);
}

/* Whoever is connected by an earlier name connects anew. */
void
names_end(void)
{
	if (sim_config.names == NAMES_ELSEWHERE)
		elsewhere_end();
	if (sim_config.masters == 0 || sim_config.names == NAMES_STAY)
		return;
	for (int i = 0; i < sim_config.masters; i++)
		lead(i, place[i].node);
	for (int i = 0; i < REDIS_NODES; i++)
		net_stop(i);
	sim_disturbed(sim_now() + SETTLES_IN);
}
