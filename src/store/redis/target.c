/*-------------------------------------------------------------------------
 *
 * target.c
 *	  What a connection is opened to: the address of a Redis node, and the credentials.
 *
 * Nothing in here raises or allocates.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/target.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/conn.h"

static void
target_copy(char *out, const char *setting, size_t size)
{
	strlcpy(out, setting != NULL ? setting : "", size);
}

/*
 * target_begin --- set what all kinds of targets have in common
 */
static void
target_begin(RedisTarget *t, NodeId node)
{
	bool		scout = t->scout;

	explicit_bzero(t, sizeof(RedisTarget));
	t->scout = scout;
	t->node = node;
	t->way = lr_way();
	t->place = lr_place;
	t->url = *lr_redis_url;
	target_copy(t->tls_name, lr_tls_server_name, sizeof(t->tls_name));
	target_copy(t->password_file, lr_password_file, sizeof(t->password_file));
}

/*
 * target_set_voter --- one of the independent masters, each of which has its own URL
 *
 * The password file is for URLs without a password.  If the settings have fewer masters
 * now, the target cannot be opened.
 */
static void
target_set_voter(RedisTarget *t, int number)
{
	t->kind = TARGET_VOTER;
	explicit_bzero(&t->url, sizeof(t->url));
	if (number < lr_nmasters)
		t->url = lr_redis_url[number];
	if (t->url.password[0] != '\0')
		t->password_file[0] = '\0';
}

/*
 * target_has_place --- does the target say where to connect to?
 */
static bool
target_has_place(const RedisTarget *t)
{
	return t->url.scheme == REDIS_UNIX || t->url.at.host[0] != '\0';
}

/*
 * redis_target_set --- see conn.h
 *
 * If the master is not known, there is no address, and the target cannot be opened.
 */
void
redis_target_set(RedisTarget *t, NodeId node)
{
	target_begin(t, node);
	if (node != NODE_REDIS && lr_nmasters > 0)
	{
		target_set_voter(t, node - NODE_MASTER);
		return;
	}
	if (node >= NODE_MASTER && node < NODE_MASTER + NODE_MASTERS)
	{
		ClusterNode shard;

		t->kind = TARGET_SHARD;
		if (cluster_get_node(t->place, node - NODE_MASTER, &shard, &t->topology))
		{
			t->url.at = shard.at;
			strlcpy(t->id, shard.id, sizeof(t->id));
		}
	}
	else if (redis_url_is_followed(&t->url))
	{
		TopologyMaster master;

		topology_get_master(t->place, &master);
		t->kind = TARGET_MASTER;
		t->topology = master.epoch;
		t->url.at = master.at;
	}
}

void
redis_target_set_asked(RedisTarget *t, TargetKind kind, const RedisHost *at)
{
	target_begin(t, NODE_REDIS);
	t->kind = kind;
	t->url.at = *at;
}

/*
 * redis_target_set_sentinel --- see conn.h
 *
 * Sentinels have users and passwords of their own; those of the nodes are not sent to
 * them.
 */
void
redis_target_set_sentinel(RedisTarget *t, int number)
{
	target_begin(t, NODE_SENTINEL + number);
	t->kind = TARGET_SENTINEL;
	t->url.at = t->url.hosts[number];
	t->url.db = 0;
	explicit_bzero(t->url.password, sizeof(t->url.password));
	target_copy(t->url.user, lr_sentinel_user, sizeof(t->url.user));
	target_copy(t->password_file, lr_sentinel_password_file, sizeof(t->password_file));
}

/*
 * target_has_other_files --- have the TLS files changed, and can they be used?
 */
static bool
target_has_other_files(const RedisTarget *t)
{
	RedisFailure why;

	return t->url.tls && t->way.tls_files != lr_way().tls_files && tls_context_is_usable(&why);
}

bool
redis_target_is_outdated(const RedisTarget *t)
{
	return t->node != NODE_NONE &&
		(t->way.settings != lr_way().settings || target_has_other_files(t) ||
		 (t->kind == TARGET_MASTER && t->topology != topology_epoch()) ||
		 (t->kind == TARGET_SHARD &&
		  t->topology != node_generation(t->node)));
}

/*
 * redis_target_look --- see conn.h
 */
TargetAnswer
redis_target_look(const RedisTarget *t, char *why, size_t size)
{
	if (t->kind == TARGET_SHARD && t->url.at.host[0] == '\0')
	{
		strlcpy(why, "The node is not one of the cluster any more.", size);
		return TARGET_CLOSED;
	}
	if (t->kind == TARGET_VOTER && !target_has_place(t))
	{
		strlcpy(why, "The node is not one of the independent masters any more.", size);
		return TARGET_CLOSED;
	}
	if (t->kind == TARGET_VOTER && t->node != NODE_NONE && node_get_place() != t->place)
		return TARGET_NOT_YET;
	if (t->kind != TARGET_MASTER)
		return TARGET_OPEN;
	if (t->node != NODE_NONE)
	{
		TopologyAnswer answer = topology_may_connect(t->topology, t->scout, lr_now());

		if (answer == TOPOLOGY_YES && t->url.at.host[0] != '\0')
			return TARGET_OPEN;
		if (answer == TOPOLOGY_NOT_YET)
			return TARGET_NOT_YET;
	}
	topology_get_reason(why, size);
	if (why[0] == '\0')
		strlcpy(why, "Which node is the master is not known for sure at present.", size);
	return TARGET_CLOSED;
}

bool
redis_target_is_trusted(const RedisTarget *t, int64 now)
{
	return t->kind != TARGET_MASTER || t->scout || t->node == NODE_NONE ||
		topology_is_watched(t->topology, now);
}

void
redis_target_leave(RedisTarget *t)
{
	t->node = NODE_NONE;
}

void
redis_target_show(const RedisTarget *t, char *out, size_t size)
{
	if (t->url.at.host[0] == '\0')
		strlcpy(out, t->url.path, size);
	else
		redis_host_show(&t->url.at, out, size);
}

/*
 * redis_target_want_addresses --- see conn.h
 *
 * A process that has not read the new settings yet may ask for a name of the old ones.
 * That is ignored, as one process resolves all names, one after the other.
 */
void
redis_target_want_addresses(const RedisTarget *t, bool anyway)
{
	if (t->node != NODE_NONE && redis_url_has_name(&t->url) &&
		!node_place_is_other(t->place))
		addresses_want(t->node, t->url.at.host, t->url.at.port, anyway);
}

/*
 * target_is_node --- is the target the node in its row, not one that is only asked a
 * question?
 */
static bool
target_is_node(const RedisTarget *t)
{
	return t->node != NODE_NONE && t->kind != TARGET_SEED && t->kind != TARGET_CLAIMANT;
}

bool
redis_target_has_answered(const RedisTarget *t)
{
	return target_is_node(t) && node_has_answered(t->node, t->place);
}

void
redis_target_confirm(const RedisTarget *t)
{
	if (t->kind == TARGET_MASTER && t->node != NODE_NONE)
		topology_confirm(t->topology);
}

void
redis_target_lost(const RedisTarget *t)
{
	if (t->kind == TARGET_MASTER && t->node != NODE_NONE)
		topology_lost(t->topology);
	if (t->kind == TARGET_SHARD)
		cluster_want_map();
	if (t->kind == TARGET_VOTER && t->node != NODE_NONE)
		masters_forget(t->node - NODE_MASTER);
}

void
redis_target_is_no_master(const RedisTarget *t)
{
	if (t->kind == TARGET_MASTER && t->node != NODE_NONE)
		topology_doubt(t->topology);
	if (t->kind == TARGET_SHARD)
		cluster_want_map();
}

/*
 * target_says_nothing --- should it be ignored that a node of a cluster is silent, or
 * answers?
 *
 * Yes if another node is in its row by now.  Silence also if the watchdog does not ask
 * the node, because it has no slots, and so would never find that it answers again.
 */
static bool
target_says_nothing(const RedisTarget *t, bool silent)
{
	ClusterNode node;
	uint32		generation = node_generation(t->node);

	if (t->topology != generation)
		return true;
	return silent &&
		(!cluster_get_node(t->place, t->node - NODE_MASTER, &node, &generation) ||
		 !node.has_slots);
}

/*
 * redis_target_set_silent --- see conn.h
 *
 * The row is that of the present place and master, about which former ones say nothing.
 */
void
redis_target_set_silent(const RedisTarget *t, bool silent)
{
	if (t->node == NODE_NONE || node_place_is_other(t->place) ||
		t->kind == TARGET_SENTINEL || t->kind == TARGET_SEED || t->kind == TARGET_CLAIMANT ||
		(t->kind == TARGET_SHARD && target_says_nothing(t, silent)) ||
		(t->kind == TARGET_MASTER && t->topology != topology_epoch()))
		return;
	if (silent || node_is_silent(t->node))
		node_set_silent(t->node, silent);
}
