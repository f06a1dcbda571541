/*-------------------------------------------------------------------------
 *
 * cluster_map.c
 *	  What a node of a Redis Cluster says changes the map: whom to believe.
 *
 * CLUSTER NODES has, unlike CLUSTER SLOTS, the number of each master's claim (its config
 * epoch), which the nodes themselves decide by:
 *
 * - A slot goes to another node if that has a higher number than the present one had.
 *	 So the map of a node that is cut off changes nothing.
 * - It does so, too, if the present one says so itself, or is not known any more to who
 *	 is asked: a cluster that was made anew has lower numbers.
 * - What nobody claims stays where it was.
 * - A number that most masters say is too high for the node that has the slots, once
 *	 they have had the time to hear of it, was a mistake.
 *
 * Raises and allocates nothing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_map.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/nodes.h"
#include "store/redis/cluster_batch.h"

/* For so long nodes may not have heard of another one's number. */
#define NUMBER_SETTLES		(10 * LR_US_PER_S)

/* What is said of replicas counts for so long. */
#define REPLICAS_LIFE		(5 * LR_US_PER_S)

/* Changes are logged at most this often. */
#define LOG_INTERVAL		LR_US_PER_S

/* What is said of the number of a master. */
typedef struct Number
{
	int64		highest;		/* of its slots */
	int64		since;			/* it has been that */
	uint64		lower;			/* masters that say it is less, a bit for each row, */
	int64		told;			/* and the most that any of these says */
} Number;

StaticAssertDecl(NODE_MASTERS <= 64, "sets of masters are bits of a word");

typedef struct ClusterMap
{
	int64		applied_at;		/* an answer was of use then */
	Number		number[NODE_MASTERS];
	bool		has_replicas;	/* rows of them, which say what was told */
	bool		has_map;
	int64		logged_at;
	int			unlogged;		/* slots that have moved since */
} ClusterMap;

static ClusterMap map;

/* The nodes of the map, and whether the answer is by or without them. */
typedef struct Present
{
	bool		used;
	bool		yields;			/* what it had counts no more */
	bool		stays;			/* has slots, or may get some */
} Present;

/*
 * map_note_number --- of this row, by a claim that counts
 */
static void
map_note_number(int row, int64 number)
{
	Number	   *n = &map.number[row];

	if (number <= n->highest)
		return;
	memset(n, 0, sizeof(Number));
	n->highest = number;
	n->since = lr_now();
}

/*
 * map_recall_numbers --- from the map that a watchdog before this one has left
 */
static void
map_recall_numbers(void)
{
	memset(map.number, 0, sizeof(map.number));
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		uint32		epoch;
		int			row = cluster_owner(i, &epoch);

		if (row != CLUSTER_NO_NODE)
			map_note_number(row, cluster_number(i));
	}
}

/*
 * map_take_slots --- of one claim; returns how many have moved
 *
 * By a higher number than it had the same node may have been a replica meanwhile, of one
 * that had more: its locks are asked about as if the slot had moved ("renewed").
 */
static int
map_take_slots(Claim *c, const Present *present, bool *renewed)
{
	int			moved = 0;
	const char *p = c->slots;
	long		first;
	long		last;

	while (claim_next_range(&p, &first, &last))
		for (long slot = first; slot <= last; slot++)
		{
			uint32		epoch;
			int			row = cluster_owner(slot, &epoch);

			if (row != c->row && row != CLUSTER_NO_NODE && !present[row].yields &&
				c->number <= cluster_number(slot))
				continue;
			if (c->row == CLUSTER_NO_NODE)
				c->row = cluster_put_node(c->id, &c->at, c->name, true);
			if (row != c->row && c->row != CLUSTER_NO_NODE)
			{
				cluster_give_slot(slot, c->row);
				moved++;
			}
			else if (row != CLUSTER_NO_NODE && row == c->row &&
					 c->number > cluster_number(slot))
			{
				cluster_give_slot(slot, row);
				*renewed = true;
			}
			if (c->row == CLUSTER_NO_NODE)
				continue;
			if (row != c->row || c->is_itself || c->number > cluster_number(slot))
				cluster_set_number(slot, c->number);
			map_note_number(c->row, cluster_number(slot));
		}
	return moved;
}

/*
 * map_tell --- one line a change, but not more than a log can bear
 */
static void
map_tell(int moved, int64 now)
{
	int			masters = 0;
	ClusterNode node;
	uint32		generation;

	map.unlogged += moved;
	if (map.unlogged == 0 || now - map.logged_at < LOG_INTERVAL)
		return;
	for (int i = 0; i < NODE_MASTERS; i++)
		masters += cluster_get_node(lr_place, i, &node, &generation) && node.has_slots;
	ereport(LOG,
			(map.has_map ?
			 errmsg("lockredis: the cluster has %d masters now, %d slots moved",
					masters, map.unlogged) :
			 errmsg("lockredis: the cluster has %d masters, which have %d slots",
					masters, map.unlogged)));
	map.has_map = true;
	map.logged_at = now;
	map.unlogged = 0;
}

/*
 * known_is_named --- by the answer, but for who gives it?  "others" counts those that
 * might be
 */
static bool
known_is_named(const ClusterClaims *a, const char *id, int *others)
{
	const Claim *c = cluster_claims_find(a, id);

	if (c != NULL && c->is_itself)
		return false;
	(*others)++;
	return c != NULL;
}

static bool
map_knows(const char *id)
{
	const char	(*known)[CLUSTER_ID_LEN + 1];
	int			n = cluster_known(&known);

	for (int i = 0; i < n; i++)
		if (strcmp(known[i], id) == 0)
			return true;
	return false;
}

/*
 * keeps_its_slots --- does who gives the answer have all slots of the map?
 */
static bool
keeps_its_slots(const ClusterClaims *a)
{
	long		n = 0;

	for (int i = 0; i < a->n; i++)
	{
		const char *p = a->claim[i].slots;
		long		first;
		long		last;

		while (a->claim[i].is_itself && claim_next_range(&p, &first, &last))
			for (long slot = first; slot <= last; slot++)
			{
				uint32		epoch;

				n += cluster_owner(slot, &epoch) != CLUSTER_NO_NODE;
			}
	}
	return n == SLOT_COUNT - cluster_open_slots();
}

/*
 * cluster_map_is_ours --- is the answer one of the cluster that is known?
 *
 * It names one of its nodes; but who gives it may have been reset since, and have met
 * others with the same id.  If it names none, it names nobody who is not known, either;
 * or who gives it was the only node, and has met others but was not reset: it has the slots
 * still that it had, maybe none, if it was asked before the cluster was made.
 */
bool
cluster_map_is_ours(const ClusterClaims *a)
{
	const char	(*known)[CLUSTER_ID_LEN + 1];
	int			n = cluster_known(&known);
	int			others = 0;

	for (int i = 0; i < n; i++)
		if (known_is_named(a, known[i], &others))
			return true;
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		ClusterNode node;
		uint32		generation;

		if (cluster_get_node(lr_place, i, &node, &generation) &&
			known_is_named(a, node.id, &others))
			return true;
	}
	if (n > 0 && others == 0 && keeps_its_slots(a))
		return true;
	for (int i = 0; i < a->n; i++)
		if (!map_knows(a->claim[i].id))
			return false;
	return true;
}

/*
 * map_know --- whom the answer names: by these the cluster is known from now on
 */
static void
map_know(const ClusterClaims *a)
{
	static char id[CLUSTER_NODES_MAX][CLUSTER_ID_LEN + 1];

	for (int i = 0; i < a->n; i++)
		strlcpy(id[i], a->claim[i].id, sizeof(id[i]));
	cluster_know((const char (*)[CLUSTER_ID_LEN + 1]) id, a->n);
}

/*
 * map_lower_number --- that of what this node has
 */
static void
map_lower_number(int row, int64 number)
{
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		uint32		epoch;

		if (cluster_owner(i, &epoch) == row && cluster_number(i) > number)
			cluster_set_number(i, number);
	}
	memset(&map.number[row], 0, sizeof(Number));
	map.number[row].highest = number;
	map.number[row].since = lr_now();
}

/*
 * map_hear_number --- "voter" says that of the number of this node; so many masters
 * have slots
 *
 * What it says of itself is so.
 */
static void
map_hear_number(int row, const Claim *c, int voter, int masters)
{
	Number	   *n = &map.number[row];
	uint64		bit = UINT64CONST(1) << voter;
	int			voters = 0;

	if (c->number >= n->highest)
		n->lower &= ~bit;
	else if (c->is_itself)
		map_lower_number(row, c->number);
	else if (lr_now() - n->since >= NUMBER_SETTLES)
	{
		n->lower |= bit;
		n->told = Max(n->told, c->number);
		for (uint64 set = n->lower; set != 0; set &= set - 1)
			voters++;
		if (voters > masters / 2)
			map_lower_number(row, n->told);
	}
}

/*
 * map_hear_numbers --- of all masters that have slots, by one of them
 */
static void
map_hear_numbers(const ClusterClaims *a)
{
	ClusterNode node[NODE_MASTERS];
	int			masters = 0;
	int			voter = CLUSTER_NO_NODE;

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		uint32		generation;
		const Claim *c;

		node[i].has_slots = cluster_get_node(lr_place, i, &node[i], &generation) &&
			node[i].has_slots;
		if (!node[i].has_slots)
			continue;
		masters++;
		c = cluster_claims_find(a, node[i].id);
		if (c != NULL && c->is_itself)
			voter = i;
	}
	for (int i = 0; i < NODE_MASTERS && voter != CLUSTER_NO_NODE; i++)
	{
		const Claim *c = node[i].has_slots ? cluster_claims_find(a, node[i].id) : NULL;

		if (c != NULL)
			map_hear_number(i, c, voter, masters);
	}
}

/*
 * map_note_half_moved --- slots that are on their way to or from who answers
 *
 * Behind those that it has, as "[slot->-id]" and "[slot-<-id]".  Whoever waits for a lock
 * there is not told of its release, so he asks: also who has begun to wait before.
 */
static void
map_note_half_moved(const Claim *c)
{
	const char *p = c->slots;
	long		first;
	long		last;
	bool		anew = false;

	if (c->row == CLUSTER_NO_NODE)
		return;
	cluster_forget_half_moved(c->row);
	while (claim_next_range(&p, &first, &last))
		;
	for (; *p == '['; p += strspn(p, " "))
	{
		long		slot = strtol(p + 1, NULL, 10);

		if (slot >= 0 && slot < SLOT_COUNT)
			anew |= cluster_note_half_moved(c->row, slot);
		p += strcspn(p, " \r\n");
	}
	if (anew)
		topology_tell();
}

static int
compare_replicas(const void *a, const void *b)
{
	return strcmp(((const NodeReplica *) a)->address, ((const NodeReplica *) b)->address);
}

/*
 * map_show_replicas --- those that the answer names; of too many always the same
 */
static void
map_show_replicas(const ClusterClaims *a)
{
	static NodeReplica replica[CLUSTER_NODES_MAX];
	int			n = 0;

	for (int i = 0; i < a->n; i++)
	{
		const Claim *c = &a->claim[i];

		if (!c->is_replica)
			continue;
		redis_host_show(&c->at, replica[n].address, sizeof(replica[n].address));
		replica[n++].has_failed = c->has_failed;
	}
	qsort(replica, n, sizeof(NodeReplica), compare_replicas);
	node_set_replicas(replica, Min(n, NODE_REPLICAS));
	map.has_replicas = true;
}

static bool
map_may_get_slots(const Claim *c)
{
	return c->is_master && !c->has_failed;
}

/*
 * cluster_map_apply --- what the answer says of the map
 *
 * A node that has no slots any more has no row, once the map is the new one; but a master
 * may be about to get one, and nodes may send somebody there.
 */
void
cluster_map_apply(ClusterClaims *a)
{
	Present		present[NODE_MASTERS] = {0};
	int			moved = 0;
	bool		renewed = false;
	int64		now = lr_now();
	uint32		epoch;

	map.applied_at = now;
	map_know(a);
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		ClusterNode node;
		uint32		generation;
		const Claim *c;

		if (!cluster_get_node(lr_place, i, &node, &generation))
			continue;
		c = cluster_claims_find(a, node.id);
		present[i].used = true;
		present[i].yields = c == NULL || c->is_itself;
		present[i].stays = !node.has_slots && c != NULL && map_may_get_slots(c);
		if (c != NULL && c->at.host[0] != '\0')
			(void) cluster_put_node(node.id, &c->at, c->name, false);
	}
	for (int i = 0; i < a->n; i++)
		if (a->claim[i].is_master)
			moved += map_take_slots(&a->claim[i], present, &renewed);
	if (moved > 0 || renewed)
		cluster_end_change();
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		int			row = cluster_owner(i, &epoch);

		if (row != CLUSTER_NO_NODE)
			present[row].stays = true;
	}
	for (int i = 0; i < NODE_MASTERS; i++)
		if (present[i].used && !present[i].stays)
		{
			cluster_remove_node(i);
			memset(&map.number[i], 0, sizeof(Number));
		}
	for (int i = 0; i < a->n; i++)
	{
		Claim	   *c = &a->claim[i];

		if (map_may_get_slots(c))
			c->row = cluster_put_node(c->id, &c->at, c->name, false);
		if (c->is_itself)
			map_note_half_moved(c);
	}
	map_hear_numbers(a);
	map_show_replicas(a);
	cluster_note_asked();
	map_tell(moved, now);
}

/*
 * cluster_map_start --- see cluster_batch.h
 *
 * A watchdog before this one may have left replicas of which nobody tells any more.
 */
void
cluster_map_start(void)
{
	memset(&map, 0, sizeof(map));
	map.applied_at = lr_now();
	map.has_replicas = true;
	map.has_map = cluster_open_slots() < SLOT_COUNT;
	map_recall_numbers();
}

void
cluster_map_step(int64 now)
{
	if (!map.has_replicas || now - map.applied_at < REPLICAS_LIFE)
		return;
	node_doubt_replicas();
	map.has_replicas = false;
}
