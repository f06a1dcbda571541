/*-------------------------------------------------------------------------
 *
 * elsewhere.c
 *	  Names that lead to another server, with one Redis.
 *
 * Locks are at the node to which the name leads, as after a change of lockredis.url, but
 * nobody is told.  Whoever is connected to the former node may remain so for a while, and asks
 * that.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/elsewhere.c
 *
 *-------------------------------------------------------------------------
 */
#include "config.h"
#include "history.h"
#include "names.h"
#include "network.h"
#include "redis_nodes.h"

/* Nodes to which a name may lead: a spare that knows nothing, beside two. */
#define CANDIDATES		3

static bool moved;
static int64_t apart_until;		/* 0 = never */
static int64_t settled_at;

void
elsewhere_reset(void)
{
	moved = false;
	apart_until = settled_at = 0;
}

bool
elsewhere_moved(void)
{
	return moved;
}

bool
elsewhere_was_apart(void)
{
	return apart_until > 0;
}

int64_t
elsewhere_settled_at(void)
{
	return settled_at > apart_until ? settled_at : apart_until;
}

static void
lead(int port, int node)
{
	sim_trace("fault: port %d leads to node %d", port, node);
	net_listen(port, node);
	moved = true;
}

/* Nobody is connected to either node any more; what was done at the wrong one, nobody knows. */
static void
settle(void *arg, int64_t node)
{
	(void) arg;
	if (sim_config.calm)
		return;
	net_stop((int) node);
	net_stop(redis_present());
	redis_know_anew();
	settled_at = sim_now();
}

/*
 * elsewhere_moves --- to another one or to that former one again, perhaps with the data of a
 * while ago; or two names change places
 */
void
elsewhere_moves(void)
{
	int			name = (int) sim_draw((uint32_t) sim_config.nredis);
	int			former = redis_present();
	int			node = net_node_at(REDIS_PORT(name));
	int64_t		until = sim_now() + SIM_PICK(0, 0, 300 * SIM_MS, 2 * SIM_S, 5 * SIM_S);

	/* What has become of one is seen when nothing follows. */
	if (sim_chance(600))
		return;
	if (sim_config.nredis > 1 && sim_draw(3) == 0)
	{
		lead(REDIS_PORT(name), net_node_at(REDIS_PORT(1 - name)));
		lead(REDIS_PORT(1 - name), node);
	}
	else
	{
		node = (node + 1 + (int) sim_draw(CANDIDATES - 1)) % CANDIDATES;
		if (node != former && sim_draw(3) == 0)
			redis_lose_later(node);
		lead(REDIS_PORT(name), node);
	}
	node = net_node_at(REDIS_PORT(sim_config.url));
	if (node == former)
		return;
	redis_set_present(node);
	history_event(HISTORY_ALL_TAKEN_AWAY, "");
	if (until > sim_now())
	{
		if (until > apart_until)
			apart_until = until;
		sim_at(until, settle, NULL, former);
		sim_disturbed(until);
	}
	else
		settle(NULL, former);
}

/* All connections are made anew. */
void
elsewhere_end(void)
{
	if (!moved)
		return;
	for (int i = 0; i < CANDIDATES; i++)
		net_stop(i);
	redis_know_anew();
	settled_at = sim_now();
	if (apart_until > settled_at)
		apart_until = settled_at;
	sim_disturbed(sim_now());
}
