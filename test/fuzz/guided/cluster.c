/*-------------------------------------------------------------------------
 *
 * cluster.c
 *	  Target "cluster": who has which slot, in a node's words.
 *
 * Answers to CLUSTER NODES, one after the other, of nodes that may lie.  Whatever they say, a
 * slot's node is one of the rows, and each node is there once.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/cluster.c
 *
 *-------------------------------------------------------------------------
 */
#include "fuzz.h"

#include "store/redis/cluster_map.c"

static ClusterClaims answer;

static void
check_map(void)
{
	ClusterNode node[NODE_MASTERS];
	bool		used[NODE_MASTERS];
	uint32		number;
	int			open = 0;

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		used[i] = cluster_get_node(lr_place, i, &node[i], &number);
		if (!used[i])
			continue;
		fuzz_must(strlen(node[i].id) == CLUSTER_ID_LEN, "the id of a node");
		fuzz_must(memchr(node[i].at.host, '\0', LR_HOST_MAX) != NULL &&
				  node[i].at.host[0] != '\0', "the host of a node");
		fuzz_must(memchr(node[i].name, '\0', LR_HOST_MAX) != NULL, "the name of a node");
		fuzz_must(node[i].at.port >= 1 && node[i].at.port <= 65535, "the port of a node");
		for (int j = 0; j < i; j++)
			fuzz_must(!used[j] || strcmp(node[i].id, node[j].id) != 0, "a node is there twice");
	}
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		int			row = cluster_owner(i, &number);

		fuzz_must(row == CLUSTER_NO_NODE || (row >= 0 && row < NODE_MASTERS && used[row]),
				  "a slot has a node that is not there");
		fuzz_must(row == CLUSTER_NO_NODE || node[row].has_slots, "its node has no slots");
		fuzz_must(cluster_number(i) >= 0, "the number of a slot");
		open += row == CLUSTER_NO_NODE;
	}
	fuzz_must((open < SLOT_COUNT) == cluster_has_map(), "some slot has a node");
}

void
fuzz_cluster(const uint8 *data, size_t size)
{
	FuzzInput	in = {data, size};
	RedisUrl	asked;
	const redisReply *v;

	fuzz_reset_shared();
	fuzz_reset_cluster();
	memset(&asked, 0, sizeof(asked));
	cluster_map_start();
	strcpy(asked.at.host, "10.0.0.1");
	asked.at.port = 7000;
	while ((v = fuzz_value(&in)) != NULL)
	{
		if (!cluster_claims_read(&answer, v, &asked))
			continue;

		/* As if it had been decided that it is ours; or by itself */
		if (in.size % 2 || cluster_map_is_ours(&answer))
			cluster_map_apply(&answer);
		check_map();
	}
}
