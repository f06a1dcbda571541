/*-------------------------------------------------------------------------
 *
 * sentinel_names.c
 *	  Names of Sentinels that lead elsewhere.
 *
 * Two names may lead to one Sentinel, or change places; one may lead to a plain Redis, or to
 * a Sentinel of another set.  That one does not know the service, or names somebody who is no
 * master, by any number.  A working master that it names by the highest number would be
 * believed: the product trusts Sentinels, and no two of them say that they belong together.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/sentinel_names.c
 *
 *-------------------------------------------------------------------------
 */
#include "config.h"
#include "names.h"
#include "network.h"
#include "sentinels.h"

static int64_t stay_until;

void
sentinel_names_reset(void)
{
	stay_until = 0;
}

static int
names_of(int sentinel)
{
	int			n = 0;

	for (int name = 0; name < SENTINELS; name++)
		n += net_node_at(SENTINEL_PORT(name)) == SENTINEL_NODE(sentinel);
	return n;
}

/* A majority of Sentinels that tell the truth has names that lead to it. */
static bool
can_be_found(void)
{
	int			n = 0;

	for (int i = 0; i < SENTINELS; i++)
		n += names_of(i) > 0 && !sentinel_lies(i);
	return n > SENTINELS / 2;
}

static void
lead(int name, int node)
{
	net_listen(SENTINEL_PORT(name), node);
}

static void
tell(int name)
{
	sim_trace("fault: name %d of a Sentinel leads to node %d", name,
			  net_node_at(SENTINEL_PORT(name)));
}

/* Where a name leads when it does not change places. */
static int
draw_node(int name)
{
	switch (SIM_PICK(0, 1, 1, 1, 2, 3))
	{
		case 0:
			return SENTINEL_NODE(name);
		case 1:
			return SENTINEL_NODE((name + 1 + (int) sim_draw(SENTINELS - 1)) % SENTINELS);
		case 2:
			return (int) sim_draw((uint32_t) sim_config.nredis);
		default:
			return STRANGER_NODE;
	}
}

/*
 * sentinel_name_moves --- but not so that the product cannot know what is true
 *
 * Connections by the name may stay: it is resolved again only when one has ended.
 */
void
sentinel_name_moves(void)
{
	int			name = (int) sim_draw(SENTINELS);
	int			other = (name + 1 + (int) sim_draw(SENTINELS - 1)) % SENTINELS;
	int			from = net_node_at(SENTINEL_PORT(name));
	int			from_other = net_node_at(SENTINEL_PORT(other));
	bool		both = sim_draw(3) == 0;

	/* What has become of one is seen when nothing follows. */
	if (sim_now() < stay_until)
		return;
	stay_until = sim_now() + SIM_PICK(10 * SIM_S, SIM_S, 3 * SIM_S);
	lead(name, both ? from_other : draw_node(name));
	if (both)
		lead(other, from);
	if (!can_be_found())
	{
		lead(name, from);
		lead(other, from_other);
		return;
	}
	tell(name);
	if (both)
		tell(other);
	if (from >= SENTINEL_NODE(0) && sim_chance(600))
		net_stop(from);
	if (both && from_other >= SENTINEL_NODE(0) && sim_chance(600))
		net_stop(from_other);
	sim_disturbed(sim_now() + SENTINEL_SETTLES_IN);
}

static void
lead_right(void)
{
	for (int name = 0; name < SENTINELS; name++)
		lead(name, SENTINEL_NODE(name));
	for (int i = 0; i <= SENTINELS; i++)
		net_stop(SENTINEL_NODE(i));
}

/*
 * sentinel_gets_name --- the name of another one leads to it for that long, too
 *
 * So it and one more are asked.
 */
void
sentinel_gets_name(int sentinel, int64_t time)
{
	int			name = (sentinel + 1 + (int) sim_draw(SENTINELS - 1)) % SENTINELS;

	lead_right();
	lead(name, SENTINEL_NODE(sentinel));
	tell(name);
	stay_until = sim_now() + time;
}

bool
sentinel_names_are_right(void)
{
	for (int name = 0; name < SENTINELS; name++)
		if (net_node_at(SENTINEL_PORT(name)) != SENTINEL_NODE(name))
			return false;
	return true;
}

/* They may outlast the other faults. */
void
sentinel_names_end(void)
{
	if (sim_config.names != NAMES_SENTINELS || sim_draw(2) != 0)
		return;
	lead_right();
	sim_disturbed(sim_now() + SENTINEL_SETTLES_IN);
}
