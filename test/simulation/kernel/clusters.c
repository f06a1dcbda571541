/*-------------------------------------------------------------------------
 *
 * clusters.c
 *	  Two clusters in lockredis.url: which of them a server uses, and may use.
 *
 * docs/cluster.md, "Which cluster": without a cluster in use, that is the one of the nodes
 * that answer.  If these are of both, it is none, with a warning.  Once a server uses one, it
 * leaves it only after a reload or restart, when only nodes of the other one answer.  Two
 * servers may then use two clusters, and nothing is promised of that: there is one server
 * where it may happen.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/clusters.c
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "clusters.h"
#include "faults.h"
#include "kernel.h"
#include "history.h"
#include "network.h"
#include "server.h"
#include "shards.h"

/* Whoever has read the map of another cluster has given up the nodes of the former one. */
#define LEAVES_WITHIN	(2 * SIM_S)

static struct
{
	int			used;			/* -1 = none */
	int			last;			/* that it has used; -1 = none yet */
	int64_t		left_at[2];		/* 0 = it has not */
	bool		decides;		/* the nodes may decide again */
	bool		replied[2];		/* nodes of these, since a decision has begun */
	bool		owes_warning;
	bool		warned;			/* the present watchdog has */
}			state[SIM_MAX_SERVERS];

void
clusters_reset(void)
{
	memset(state, 0, sizeof(state));
	for (int i = 0; i < SIM_MAX_SERVERS; i++)
		state[i].used = state[i].last = -1;
}

void
clusters_begin(void)
{
	if (sim_config.other_cluster == OTHER_LATER)
		net_listen(REDIS_PORT(OTHER_NODE), -1);
}

bool
clusters_is_other(int node)
{
	return sim_config.other_cluster != OTHER_NEVER && node == OTHER_NODE;
}

int
clusters_used(void)
{
	return state[sim_server()].used;
}

static bool
other_is_there(void)
{
	return net_node_at(REDIS_PORT(OTHER_NODE)) == OTHER_NODE;
}

bool
clusters_are_unclear(void)
{
	return sim_config.other_cluster != OTHER_NEVER && clusters_used() < 0 && other_is_there();
}

/* ----------
 * What the product does
 * ----------
 */

void
clusters_note_begins(void)
{
	state[sim_server()].warned = state[sim_server()].owes_warning = false;
}

void
clusters_note_decides(void)
{
	state[sim_server()].decides = true;
	memset(state[sim_server()].replied, 0, sizeof(state[0].replied));
}

void
clusters_note_reply(const char *id)
{
	int			cluster = strcmp(id, shards_id_of(OTHER_NODE)) == 0;
	int			used = clusters_used();

	if (sim_config.other_cluster == OTHER_NEVER)
		return;
	state[sim_server()].replied[cluster] = true;
	if (used < 0 ? state[sim_server()].replied[!cluster] : used != cluster)
		state[sim_server()].owes_warning = true;
}

void
clusters_note_warning(void)
{
	state[sim_server()].warned = true;
}

void
clusters_note_asked(void)
{
	if (state[sim_server()].owes_warning && !state[sim_server()].warned)
		sim_fail("other cluster", "nodes of two clusters have answered, and no warning says so");
	state[sim_server()].owes_warning = state[sim_server()].decides = false;
	memset(state[sim_server()].replied, 0, sizeof(state[0].replied));
}

/* The locks of the former cluster are lost, and nobody gives them back there. */
static void
begin_to_use(int cluster)
{
	int			s = sim_server();

	sim_trace("server %d uses cluster %d", s, cluster);
	if (state[s].replied[!cluster])
		sim_fail("other cluster", "nodes of two clusters have answered, and the server uses one");
	if (state[s].last >= 0 && state[s].last != cluster)
	{
		history_event(HISTORY_ALL_TAKEN_AWAY, NULL);
		redis_note_elsewhere();
		shards_note_left();
		sim_disturbed(sim_now() + SIM_S);
	}
	state[s].owes_warning = false;
	state[s].last = cluster;

	/* A reply decided that its node had sent before it went away for good (clusters_end()). */
	if (cluster == 1 && !other_is_there())
	{
		sim_trace("the node of cluster 1 is back");
		net_listen(REDIS_PORT(OTHER_NODE), OTHER_NODE);
		sim_disturbed(sim_now() + SIM_S);
	}
}

void
clusters_note_known(const char *id)
{
	int			s = sim_server();
	int			before = state[s].used;
	int			cluster = id == NULL ? -1 : strcmp(id, shards_id_of(OTHER_NODE)) == 0;

	if (sim_config.other_cluster == OTHER_NEVER || cluster == before)
		return;
	if (before >= 0 && cluster >= 0 && !state[s].decides)
		sim_fail("other cluster", "the server leaves its cluster, and nobody has asked for that");
	if (before >= 0)
		state[s].left_at[before] = sim_now();
	state[s].used = cluster;
	if (cluster >= 0)
		begin_to_use(cluster);
}

/* What was under way when a server has left its cluster may arrive there. */
void
clusters_note_request(int node, int pid, const char *what)
{
	int			server = server_of_pid(pid);
	int			cluster = clusters_is_other(node);
	int64_t		since;

	if (sim_config.other_cluster == OTHER_NEVER || server < 0 || state[server].used == cluster)
		return;
	since = state[server].left_at[cluster];
	if (since > 0 && since < sim_quiet_since())
		since = sim_quiet_since();
	if (since == 0 || sim_now() - since > LEAVES_WITHIN)
		sim_fail("other cluster", "redis %d, which is of no cluster in use, is asked for %s",
				 node, what);
}

/* ----------
 * Faults
 * ----------
 */

/* Those of one cluster are not there for a while, for others than each other. */
static void
go_away(bool other)
{
	int64_t		until = sim_now() + SIM_PICK(400 * SIM_MS, 2 * SIM_S, 6 * SIM_S);
	bool		silent = sim_chance(300);

	sim_trace("fault: cluster %d is not there for %.3f ms", other, (until - sim_now()) / 1000.0);
	for (int i = 0; i < REDIS_NODES; i++)
		if (clusters_is_other(i) == other && silent)
			net_block_until(i, until);
		else if (clusters_is_other(i) == other)
			net_down_until(i, until);
}

void
clusters_fault(void)
{
	if (sim_config.other_cluster == OTHER_LATER)
	{
		shards_other_begins();
		return;
	}
	if (!sim_chance(300))
		return;
	if (sim_chance(700))
		go_away(sim_chance(500));
	if (sim_chance(500))
	{
		server_reload();
		sim_disturbed(sim_now() + SIM_S);
	}
	else if (sim_chance(100))
		fault_server_restarts();
}

void
clusters_end(void)
{
	if (sim_config.other_cluster != OTHER_EARLY || (server_is_up() && clusters_used() == 1))
		return;
	net_listen(REDIS_PORT(OTHER_NODE), -1);
	net_stop(OTHER_NODE);
	sim_disturbed(sim_now() + SIM_S);
}
