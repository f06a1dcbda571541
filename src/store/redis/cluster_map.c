/*-------------------------------------------------------------------------
 *
 * cluster_map.c
 *	  Parses what a node of a Redis Cluster says about it, and decides how that changes the
 *	  map.
 *
 * Unlike CLUSTER SLOTS, CLUSTER NODES shows the number of each master's claim (its
 * config epoch), by which the nodes themselves decide who has a slot.  The rules:
 *
 * - A slot goes to another node if that has a higher number than the present one had.
 *	 So the map of a node that is cut off changes nothing.
 * - It also goes there if the present node says so itself, when asked since it got a slot;
 *	 or if no reply has named that node for a while: a cluster that was created anew has
 *	 lower numbers.
 * - A slot that nobody claims stays where it was.
 * - The address of a node counts as given by those that hear it.
 * - If a master says that its number is lower than the one we know, or most masters do, once
 *	 they have had time to hear of it, then the one we know was wrong; or the cluster was
 *	 restored from a backup.
 *
 * Nothing in here raises or allocates.
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
#include "store/redis/cluster_map.h"

/* How long nodes may take to learn of another one, or of its new number. */
#define NUMBER_SETTLES		(10 * LR_US_PER_S)

/* A longer time without a reply counts as this long: nobody could name a node then. */
#define HEARD_MAX			(2 * LR_US_PER_S)

/* How long replies about replicas count. */
#define REPLICAS_LIFE		(5 * LR_US_PER_S)

/* Shortest interval between two log lines about changes. */
#define LOG_INTERVAL		LR_US_PER_S

/* What is known about the number of a master. */
typedef struct Number
{
	int64		highest;		/* highest number of its slots; -1: it has none */
	int64		since;			/* when that was first seen */
	uint64		lower;			/* masters (bits of rows) that say that it is lower */
	int64		reported;		/* no less than the highest number that these say */
} Number;

StaticAssertDecl(NODE_MASTERS <= 64, "sets of masters are bits of a word");

typedef struct ClusterMap
{
	int64		applied_at;		/* when a reply was last applied */
	int64		heard;			/* for how long replies have come */
	int64		named_at[NODE_MASTERS]; /* "heard" when one last named the node */
	int64		given_at[NODE_MASTERS]; /* when it last got a slot */
	Number		number[NODE_MASTERS];
	bool		has_map;
	int64		logged_at;
	int			unlogged;		/* moved slots that have not been logged yet */
} ClusterMap;

static ClusterMap map;

/* A node of the map while a reply is applied. */
typedef struct Present
{
	bool		yields;			/* the reply overrides what it had */
	bool		goes;			/* it has no slots, and will not get any */
} Present;

/* ----------
 * What a node says: the reply to CLUSTER NODES
 * ----------
 */

/*
 * claim_take_address --- parse "host:port@bus,name,..."; false if that is not valid
 *
 * If the host is empty, it is the one that we asked.  The name is sent since Redis 7.0.  What
 * follows may have the form "key=value", and is no name then.
 */
static bool
claim_take_address(Claim *c, char *text, const RedisUrl *asked)
{
	char	   *name = strchr(text, ',');
	char	   *colon;

	if (name != NULL)
	{
		*name++ = '\0';
		name[strcspn(name, ",")] = '\0';
		if (strlen(name) < LR_HOST_MAX && strchr(name, '=') == NULL)
			strlcpy(c->name, name, LR_HOST_MAX);
	}
	text[strcspn(text, "@")] = '\0';
	colon = strrchr(text, ':');
	if (colon == NULL || colon - text >= LR_HOST_MAX)
		return false;
	*colon = '\0';
	c->at.port = atoi(colon + 1);
	strlcpy(c->at.host, colon > text ? text : asked->at.host, LR_HOST_MAX);
	return strspn(c->at.host, LR_ASCII_ALNUM ".-_:") == strlen(c->at.host) &&
		c->at.port > 0 && c->at.port <= 65535;
}

/*
 * claim_take_line --- parse one line of CLUSTER NODES; false if it is not valid
 *
 * The fields: id address flags master ping pong number link slots...
 */
static bool
claim_take_line(Claim *c, char *line, const RedisUrl *asked, bool *counts, char **slots)
{
	char	   *word[8];
	char	   *rest = NULL;
	char		flags[128];
	bool		has_address;

	for (int i = 0; i < lengthof(word); i++)
	{
		word[i] = strtok_r(i == 0 ? line : NULL, " ", &rest);
		if (word[i] == NULL)
			return false;
	}
	if (strlen(word[0]) != CLUSTER_ID_LEN)
		return false;
	memset(c, 0, sizeof(Claim));
	strlcpy(c->id, word[0], sizeof(c->id));
	snprintf(flags, sizeof(flags), ",%s,", word[2]);
	has_address = strstr(flags, ",noaddr,") == NULL;
	c->is_itself = strstr(flags, ",myself,") != NULL;
	c->is_master = has_address && strstr(flags, ",master,") != NULL;
	c->is_replica = has_address && strstr(flags, ",slave,") != NULL;
	c->has_failed = strstr(flags, ",fail,") != NULL;
	c->in_doubt = strstr(flags, ",fail") != NULL;
	c->number = strtoi64(word[6], NULL, 10);
	*slots = strtok_r(NULL, "", &rest);
	c->row = CLUSTER_NO_NODE;
	*counts = strstr(flags, ",handshake,") == NULL;
	return (!has_address || claim_take_address(c, word[1], asked)) && c->number >= 0;
}

/*
 * claims_take_slots --- read which slots a line claims; false if they are not valid, or one is
 * claimed by a line before
 *
 * What follows are slots that are being moved: "[slot->-id]" away, "[slot-<-id]" to there.
 */
static bool
claims_take_slots(ClusterClaims *a, int number, char *p)
{
	while (*p >= '0' && *p <= '9')
	{
		long		slot = strtol(p, &p, 10);
		long		last = *p == '-' ? strtol(p + 1, &p, 10) : slot;

		if (slot < 0 || last < slot || last >= SLOT_COUNT)
			return false;
		for (; slot <= last; slot++)
		{
			if (a->claimed_by[slot] != CLUSTER_NO_NODE)
				return false;
			a->claimed_by[slot] = number;
		}
		p += strspn(p, " ");
	}
	a->claim[number].gives = strstr(p, "->-") != NULL;
	return true;
}

/*
 * cluster_claims_read --- see cluster_map.h; the reply is cut into words where it is
 */
bool
cluster_claims_read(ClusterClaims *a, const redisReply *v, const RedisUrl *asked)
{
	char	   *rest = NULL;

	a->n = a->ids.n = 0;
	memset(a->claimed_by, 0xff, sizeof(a->claimed_by));
	if (v->type != REDIS_REPLY_STRING || v->len == 0 || v->str[v->len - 1] != '\n')
		return false;
	for (char *line = strtok_r(v->str, "\r\n", &rest); line != NULL;
		 line = strtok_r(NULL, "\r\n", &rest))
	{
		bool		counts;
		char	   *slots;

		if (a->n == CLUSTER_NODES_MAX ||
			!claim_take_line(&a->claim[a->n], line, asked, &counts, &slots) ||
			(counts && slots != NULL && !claims_take_slots(a, a->n, slots)))
			return false;
		if (counts)
			strlcpy(a->ids.id[a->ids.n++], a->claim[a->n++].id, sizeof(a->ids.id[0]));
	}
	return a->n > 0;
}

/*
 * claims_find --- the claim with this id, or NULL
 */
static Claim *
claims_find(ClusterClaims *a, const char *id)
{
	for (int i = 0; i < a->n; i++)
		if (strcmp(a->claim[i].id, id) == 0)
			return &a->claim[i];
	return NULL;
}

/*
 * cluster_claims_name --- see cluster_map.h
 */
bool
cluster_claims_name(ClusterClaims *a, const ClusterIds *ids, bool itself_counts)
{
	for (int i = 0; i < ids->n; i++)
	{
		const Claim *c = claims_find(a, ids->id[i]);

		if (c != NULL && (itself_counts || !c->is_itself))
			return true;
	}
	return false;
}

/* ----------
 * Changing the map
 * ----------
 */

/*
 * map_take_slot --- apply the claim of a slot; returns true if it has moved
 *
 * If a node has a higher number than before, another node may have been the master of
 * its slots in between.  Then its locks are treated as if the slots had moved.
 */
static bool
map_take_slot(int slot, Claim *c, const Present *present, bool *changed)
{
	int			row = cluster_owner(slot, NULL);
	bool		higher = c->number > cluster_number(slot);

	if (!higher && row != CLUSTER_NO_NODE && (row == c->row || !present[row].yields))
		return false;
	c->row = cluster_put_node(c->id, &c->at, c->name, true);
	if (c->row == CLUSTER_NO_NODE)
		return false;
	cluster_give_slot(slot, c->row, c->number);
	map.named_at[c->row] = map.heard;
	map.given_at[c->row] = map.applied_at;
	*changed = true;
	return row != c->row;
}

/*
 * map_tell --- log changes, in one line, but not too often
 */
static void
map_tell(int moved, int64 now)
{
	int			masters = 0;
	ClusterNode node;

	map.unlogged += moved;
	if (map.unlogged == 0 || now - map.logged_at < LOG_INTERVAL)
		return;
	for (int i = 0; i < NODE_MASTERS; i++)
		masters += cluster_get_node(lr_place, i, &node, NULL) && node.has_slots;
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
 * names_owner --- does the reply name a node that has slots, other than the one replying?
 */
static bool
names_owner(ClusterClaims *a)
{
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		ClusterNode node;
		const Claim *c = cluster_get_node(lr_place, i, &node, NULL) && node.has_slots ?
			claims_find(a, node.id) : NULL;

		if (c != NULL && !c->is_itself)
			return true;
	}
	return false;
}

/*
 * has_row --- is this the node in that row of the map?
 */
static bool
has_row(const Claim *c, int row)
{
	ClusterNode node;

	return cluster_get_node(lr_place, row, &node, NULL) && strcmp(node.id, c->id) == 0;
}

/*
 * keeps_slots --- does the known node that replies still have the slots of the map?
 *
 * If it names nodes, which are all unknown, it must have had all assigned slots, and still
 * have them.  If it names none, the others may have left: then it may have lost some of its
 * slots, and have those of others by a higher number, as among the nodes.  But one that was
 * reset has none of its slots any more.  If no slot is assigned yet, only the one known node
 * can tell that others have joined it.
 */
static bool
keeps_slots(const ClusterClaims *a, int itself)
{
	const Claim *c = &a->claim[itself];
	bool		alone = a->n == 1;
	bool		keeps_some = false;
	int			its = CLUSTER_NO_NODE;

	if (!cluster_has_map())
		return cluster_known()->n == 1;
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		int			row = cluster_owner(i, NULL);
		bool		has = a->claimed_by[i] == itself;

		if (row == CLUSTER_NO_NODE)
			continue;
		if (row != its && has_row(c, row))
			its = row;
		if (!has && !(alone && row == its))
			return false;
		if (row != its && !(alone && c->number > cluster_number(i)))
			return false;
		keeps_some |= has && row == its;
	}
	return keeps_some;
}

/*
 * cluster_map_is_ours --- is the reply from the cluster that we know?
 *
 * It is if it names a node of that cluster other than the one replying, which may have
 * been reset since and joined another cluster with its old id.  The nodes with slots count
 * besides those that were named last, as the reply of a node that has just joined names
 * few.  It also is if the node that replies is known, and still has the slots of the map.
 */
bool
cluster_map_is_ours(ClusterClaims *a)
{
	if (cluster_claims_name(a, cluster_known(), false) || names_owner(a))
		return true;
	for (int i = 0; i < a->n; i++)
		if (a->claim[i].is_itself)
			return cluster_claims_name(a, cluster_known(), true) && keeps_slots(a, i);
	return false;
}

/*
 * has_its_word --- was the node in that row, which replies, asked since it last got a slot?
 *
 * An earlier reply may be read after those by which it got it.
 */
static bool
has_its_word(const ClusterClaims *a, int row)
{
	return a->asked_at > map.given_at[row];
}

/*
 * map_lower_number --- lower the number of a node, and of its slots
 *
 * The cluster may have been restored from a backup.  Another node may have been the master
 * of these slots since then, by a number that is lower than the one we knew.  So their
 * locks are treated as if the slots had moved.
 */
static void
map_lower_number(int row, int64 number)
{
	bool		lowered = false;

	for (int i = 0; i < SLOT_COUNT; i++)
	{
		if (cluster_owner(i, NULL) != row || cluster_number(i) <= number)
			continue;
		cluster_give_slot(i, row, number);
		lowered = true;
	}
	if (lowered)
		cluster_end_change();
}

static int
rows_count(uint64 rows)
{
	int			n = 0;

	for (; rows != 0; rows &= rows - 1)
		n++;
	return n;
}

/*
 * map_hear_number --- "voter" reports this number of a node; "masters" are the rows (bits)
 * that have slots
 *
 * What a node says about itself counts at once.
 */
static void
map_hear_number(const Claim *c, int voter, uint64 masters)
{
	Number	   *n = &map.number[c->row];
	uint64		bit = UINT64CONST(1) << voter;

	n->lower &= masters;
	if (c->number >= n->highest)
		n->lower &= ~bit;
	else if (c->is_itself)
		map_lower_number(c->row, c->number);
	else if (lr_now() - n->since >= NUMBER_SETTLES)
	{
		n->lower |= bit;
		n->reported = Max(n->reported, c->number);
		if (rows_count(n->lower) > rows_count(masters) / 2)
			map_lower_number(c->row, n->reported);
	}
}

/*
 * map_look_up_numbers --- look up the number of each node, and return the rows (bits) of those
 * with slots; what others have said of another number does not count
 */
static uint64
map_look_up_numbers(void)
{
	int64		highest[NODE_MASTERS];
	uint64		rows = 0;

	memset(highest, 0xff, sizeof(highest));
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		int			row = cluster_owner(i, NULL);

		if (row != CLUSTER_NO_NODE)
			highest[row] = Max(highest[row], cluster_number(i));
	}
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		if (map.number[i].highest != highest[i])
			map.number[i] = (Number) {.highest = highest[i],.since = lr_now()};
		if (highest[i] >= 0)
			rows |= UINT64CONST(1) << i;
	}
	return rows;
}

/*
 * map_hear_numbers --- evaluate what one master says about the numbers of all of them
 */
static void
map_hear_numbers(const ClusterClaims *a)
{
	uint64		rows = map_look_up_numbers();
	int			voter = CLUSTER_NO_NODE;

	for (int i = 0; i < a->n; i++)
		if (a->claim[i].is_itself)
			voter = a->claim[i].row;
	if (voter == CLUSTER_NO_NODE || (rows >> voter & 1) == 0)
		return;
	for (int i = 0; i < a->n; i++)
		if (a->claim[i].row != CLUSTER_NO_NODE && (rows >> a->claim[i].row & 1) != 0 &&
			(!a->claim[i].is_itself || has_its_word(a, voter)))
			map_hear_number(&a->claim[i], voter, rows);
}

static int
compare_replicas(const void *a, const void *b)
{
	const RedisHost *one = &(*(const Claim *const *) a)->at;
	const RedisHost *other = &(*(const Claim *const *) b)->at;
	int			order = strcmp(one->host, other->host);

	return order != 0 ? order : one->port - other->port;
}

/*
 * map_show_replicas --- show the replicas that the reply names; if too many, always the
 * same ones
 */
static void
map_show_replicas(const ClusterClaims *a)
{
	const Claim *replica[CLUSTER_NODES_MAX] = {0};
	int			n = 0;

	for (int i = 0; i < a->n; i++)
		if (a->claim[i].is_replica)
			replica[n++] = &a->claim[i];
	qsort(replica, n, sizeof(Claim *), compare_replicas);
	for (int i = 0; i < n; i++)
	{
		char		address[LR_HOST_MAX + 16];

		redis_host_show(&replica[i]->at, address, sizeof(address));
		node_set_replica(i, address, replica[i]->has_failed ? NODE_DOWN : NODE_UP);
	}
	node_end_replicas(n);
}

static bool
map_may_get_slots(const Claim *c)
{
	return c->is_master && !c->has_failed;
}

/*
 * cluster_map_apply --- change the map as the reply says
 *
 * A node without slots loses its row once the new map is in place.  A master keeps or
 * gets a row all the same: it may be about to get slots, and nodes may redirect requests
 * to it.
 */
void
cluster_map_apply(ClusterClaims *a)
{
	Present		present[NODE_MASTERS] = {0};
	int			moved = 0;
	bool		changed = false;
	int64		now = lr_now();

	map.heard += Min(now - map.applied_at, HEARD_MAX);
	map.applied_at = now;
	cluster_know(&a->ids);
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		ClusterNode node;
		Claim	   *c;

		if (!cluster_get_node(lr_place, i, &node, NULL))
			continue;
		c = claims_find(a, node.id);
		if (c != NULL)
			map.named_at[i] = map.heard;
		present[i].yields = c != NULL ? c->is_itself && has_its_word(a, i) :
			map.heard - map.named_at[i] >= NUMBER_SETTLES;
		present[i].goes = node.has_slots || c == NULL || !map_may_get_slots(c);
		if (c == NULL)
			continue;
		c->row = i;
		if (c->at.host[0] != '\0' && !c->in_doubt)
			(void) cluster_put_node(node.id, &c->at, c->name, false);
	}
	for (int i = 0; i < SLOT_COUNT; i++)
	{
		int			by = a->claimed_by[i];
		int			row;

		if (by != CLUSTER_NO_NODE && a->claim[by].is_master)
			moved += map_take_slot(i, &a->claim[by], present, &changed);
		row = cluster_owner(i, NULL);
		if (row != CLUSTER_NO_NODE)
			present[row].goes = false;
	}
	if (changed)
		cluster_end_change();
	for (int i = 0; i < NODE_MASTERS; i++)
		if (present[i].goes)
			cluster_remove_node(i);
	for (int i = 0; i < a->n; i++)
	{
		Claim	   *c = &a->claim[i];

		if (map_may_get_slots(c) && !(c->in_doubt && c->row != CLUSTER_NO_NODE))
			c->row = cluster_put_node(c->id, &c->at, c->name, false);
		if (c->is_itself && c->row != CLUSTER_NO_NODE && cluster_set_giver(c->row, c->gives))
			topology_tell();
	}
	map_hear_numbers(a);
	map_show_replicas(a);
	cluster_note_asked();
	map_tell(moved, now);
}

/*
 * cluster_map_start --- see cluster_map.h
 *
 * An earlier watchdog may have left rows of replicas that nobody reports any more.
 */
void
cluster_map_start(void)
{
	memset(&map, 0, sizeof(map));
	map.applied_at = lr_now();
	map.has_map = cluster_has_map();
}

void
cluster_map_step(int64 now)
{
	if (now - map.applied_at >= REPLICAS_LIFE)
		node_doubt_replicas();
}
