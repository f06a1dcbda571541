/*-------------------------------------------------------------------------
 *
 * cluster_watch.c
 *	  Which node of a Redis Cluster has which slot: whom to believe.
 *
 * A few nodes at a time are asked, each second, and at once when somebody was told that
 * the map is wrong or has lost a connection.  Who is asked changes now and then, so each
 * of them is in the end.  CLUSTER NODES has, unlike CLUSTER SLOTS, the number of each
 * master's claim (its config epoch), which the nodes themselves decide by:
 *
 * - A slot goes to another node if that has a higher number than the present one had.
 *	 So the map of a node that is cut off changes nothing.
 * - It does so, too, if the present one says so itself, or is not known any more to who
 *	 is asked: a cluster that was made anew has lower numbers.  Who knows none of the
 *	 nodes of the map, and so may be one of another cluster, is believed when nobody
 *	 else has been heard for a while.
 * - What nobody claims stays where it was.
 *
 * Never waits; raises nothing but for want of memory in the beginning.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/cluster_watch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "settings.h"
#include "store/cluster.h"
#include "store/node.h"
#include "store/redis/cluster_watch.h"
#include "store/redis/conn.h"
#include "store/topology.h"

#define SCOUTS				3

#define ASK_INTERVAL		LR_US_PER_S

/* Not more often, whatever happens. */
#define ASK_MIN				(50 * LR_US_PER_MS)

/* A scout goes to another node after that. */
#define SCOUT_LIFE			(5 * LR_US_PER_S)
#define SCOUT_RETRY			(100 * LR_US_PER_MS)

/* One that answers later is of no use. */
#define ANSWER_MAX			(1500 * LR_US_PER_MS)

/* After so long without any other, an answer that knows nobody counts. */
#define STRANGER_AFTER		(10 * LR_US_PER_S)

/* Changes are logged at most this often. */
#define LOG_INTERVAL		LR_US_PER_S

/* One who asks a node. */
typedef struct Scout
{
	RedisTarget target;
	RedisConn	conn;
	int64		leaves_at;		/* goes to the next one */
	int64		next_try;
	int64		asked_at;
	int64		answer_until;	/* 0 = none is awaited */
} Scout;

/* A master, as the answer has it. */
typedef struct Claim
{
	char		id[CLUSTER_ID_LEN + 1];
	RedisHost	at;
	char		name[LR_HOST_MAX];	/* that it announces, or empty */
	int64		number;			/* config epoch */
	bool		is_master;
	bool		has_failed;
	bool		is_itself;		/* who answers */
	const char *slots;			/* to the end of the line */
	int			row;			/* CLUSTER_NO_NODE: not looked up */
} Claim;

/* More nodes than masters there can be, replicas included. */
#define CLAIMS_MAX			512

typedef struct ClusterWatch
{
	bool		on;
	Scout	   *scout[SCOUTS];
	int			next_candidate;
	int64		next_ask;
	int64		asked_at;
	uint32		wanted;			/* cluster_wanted() then */
	int64		applied_at;		/* an answer was of use then */
	Claim		claim[CLAIMS_MAX];
	int			nclaims;
	bool		has_map;
	int64		logged_at;
	int			unlogged;		/* slots that have moved since */
} ClusterWatch;

static ClusterWatch watch;

/*
 * redis_cluster_watch_start --- with the present settings, which may name no cluster
 */
void
redis_cluster_watch_start(void)
{
	int64		now = lr_now();

	for (int i = 0; i < SCOUTS; i++)
		if (watch.scout[i] != NULL)
			redis_conn_close(&watch.scout[i]->conn);
	watch.on = redis_url_is_cluster(lr_redis_url);
	cluster_start(watch.on, lr_place);
	if (!watch.on)
		return;

	watch.applied_at = now;
	watch.has_map = cluster_open_slots() < SLOT_COUNT;
	watch.next_candidate = 0;
	watch.next_ask = watch.asked_at = watch.logged_at = 0;
	watch.unlogged = 0;
	watch.wanted = cluster_wanted();
	for (int i = 0; i < SCOUTS; i++)
	{
		Scout	   *s = watch.scout[i];

		if (s == NULL)
		{
			s = MemoryContextAllocZero(TopMemoryContext, sizeof(Scout));
			redis_target_set_seed(&s->target, &lr_redis_url->seed[0]);
			redis_conn_init(&s->conn, "scout", false);
			watch.scout[i] = s;
		}
		s->next_try = now;
		s->answer_until = 0;
	}
}

/* ----------
 * The answer
 * ----------
 */

/*
 * claim_flag --- is this word one of a list with commas?
 */
static bool
claim_flag(const char *flags, int len, const char *word)
{
	int			n = strlen(word);

	for (const char *p = flags; p < flags + len;)
	{
		const char *comma = memchr(p, ',', flags + len - p);
		const char *end = comma != NULL ? comma : flags + len;

		if (end - p == n && memcmp(p, word, n) == 0)
			return true;
		p = end + 1;
	}
	return false;
}

/*
 * claim_take_address --- "host:port@bus", and more behind that; without a host it is
 * where it was asked; false: there is none
 */
static bool
claim_take_address(RedisHost *at, const char *text, int len, const RedisUrl *asked)
{
	const char *at_sign = memchr(text, '@', len);
	const char *end = at_sign != NULL ? at_sign : text + len;
	const char *colon = end;
	int			host_len;

	while (colon > text && *colon != ':')
		colon--;
	host_len = colon - text;
	if (*colon != ':' || host_len >= LR_HOST_MAX)
		return false;
	memset(at, 0, sizeof(RedisHost));
	if (host_len == 0)
		strlcpy(at->host, asked->host, LR_HOST_MAX);
	else
		memcpy(at->host, text, host_len);
	if (strspn(at->host, LR_ASCII_ALNUM ".-_:") != strlen(at->host))
		return false;
	at->host_is_numeric = redis_host_is_numeric(at->host);
	at->port = atoi(colon + 1);
	return at->port > 0 && at->port <= 65535;
}

/*
 * claim_take_name --- "address,name,...", from Redis 7.0 on; behind it "what=it is"
 */
static void
claim_take_name(char *name, const char *text, int len)
{
	const char *comma = memchr(text, ',', len);
	int			name_len;

	if (comma == NULL)
		return;
	name_len = strcspn(comma + 1, ", ");
	if (name_len < LR_HOST_MAX && memchr(comma + 1, '=', name_len) == NULL)
		memcpy(name, comma + 1, name_len);
}

/*
 * claim_take_line --- of CLUSTER NODES; false: it is none
 *
 * id address flags master ping pong number link slots...
 */
static bool
claim_take_line(Claim *c, const char *line, const char *end, const RedisUrl *asked,
				bool *counts)
{
	const char *word[8];
	int			len[8];
	const char *p = line;

	for (int i = 0; i < lengthof(word); i++)
	{
		const char *space = memchr(p, ' ', end - p);

		word[i] = p;
		len[i] = (space != NULL ? space : end) - p;
		if (len[i] == 0 || (space == NULL && i < lengthof(word) - 1))
			return false;
		p = space != NULL ? space + 1 : end;
	}
	if (len[0] != CLUSTER_ID_LEN)
		return false;
	memset(c, 0, sizeof(Claim));
	memcpy(c->id, word[0], CLUSTER_ID_LEN);
	c->is_itself = claim_flag(word[2], len[2], "myself");
	c->is_master = claim_flag(word[2], len[2], "master");
	c->has_failed = claim_flag(word[2], len[2], "fail");
	claim_take_name(c->name, word[1], len[1]);
	c->number = strtoi64(word[6], NULL, 10);
	c->slots = p;
	c->row = CLUSTER_NO_NODE;
	*counts = !claim_flag(word[2], len[2], "handshake");
	if (claim_flag(word[2], len[2], "noaddr"))
		c->is_master = false;
	else if (!claim_take_address(&c->at, word[1], len[1], asked))
		return false;
	return c->number >= 0;
}

/*
 * watch_read --- the lines of an answer; false: that is none, or it is not whole
 */
static bool
watch_read(const RedisValue *v, const RedisUrl *asked)
{
	const char *line = v->str;

	watch.nclaims = 0;
	if (v->type != REDIS_REPLY_STRING || v->len == 0 || v->str[v->len - 1] != '\n')
		return false;
	while (*line != '\0')
	{
		const char *end = line + strcspn(line, "\r\n");
		bool		counts;

		if (end > line)
		{
			if (watch.nclaims == CLAIMS_MAX ||
				!claim_take_line(&watch.claim[watch.nclaims], line, end, asked, &counts))
				return false;
			if (counts)
				watch.nclaims++;
		}
		line = end + strspn(end, "\r\n");
	}
	return watch.nclaims > 0;
}

static const Claim *
watch_find_claim(const char *id)
{
	for (int i = 0; i < watch.nclaims; i++)
		if (strcmp(watch.claim[i].id, id) == 0)
			return &watch.claim[i];
	return NULL;
}

/* The nodes of the map, and whether the answer is by or without them. */
typedef struct Present
{
	bool		used;
	bool		yields;			/* what it had counts no more */
	bool		stays;			/* has slots, or may get some */
} Present;

/*
 * watch_take_slots --- of one claim; returns how many have moved
 *
 * By a higher number than it had the same node may have been a replica meanwhile, of one
 * that had more: its locks are asked about as if the slot had moved ("renewed").
 */
static int
watch_take_slots(Claim *c, const Present *present, bool *renewed)
{
	int			moved = 0;

	for (const char *p = c->slots; *p >= '0' && *p <= '9';)
	{
		char	   *end;
		long		first = strtol(p, &end, 10);
		long		last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		for (long slot = first; slot <= last && slot < SLOT_COUNT; slot++)
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
			cluster_set_number(slot, row != c->row ? c->number :
							   Max(cluster_number(slot), c->number));
		}
		p = end + strspn(end, " ");
	}
	return moved;
}

/*
 * watch_tell --- one line a change, but not more than a log can bear
 */
static void
watch_tell(int moved, int64 now)
{
	int			masters = 0;
	ClusterNode node;
	uint32		generation;

	watch.unlogged += moved;
	if (watch.unlogged == 0 || now - watch.logged_at < LOG_INTERVAL)
		return;
	for (int i = 0; i < NODE_MASTERS; i++)
		masters += cluster_get_node(lr_place, i, &node, &generation) && node.has_slots;
	ereport(LOG,
			(watch.has_map ?
			 errmsg("lockredis: the cluster has %d masters now, %d slots moved",
					masters, watch.unlogged) :
			 errmsg("lockredis: the cluster has %d masters, which have %d slots",
					masters, watch.unlogged)));
	watch.has_map = true;
	watch.logged_at = now;
	watch.unlogged = 0;
}

/*
 * watch_is_strange --- does the answer know none of the nodes of the map?
 */
static bool
watch_is_strange(void)
{
	bool		strange = false;

	for (int i = 0; i < NODE_MASTERS; i++)
	{
		ClusterNode node;
		uint32		generation;

		if (!cluster_get_node(lr_place, i, &node, &generation))
			continue;
		if (watch_find_claim(node.id) != NULL)
			return false;
		strange = true;
	}
	return strange;
}

static bool
watch_may_get_slots(const Claim *c)
{
	return c->is_master && !c->has_failed;
}

/*
 * watch_apply --- what the answer says of the map
 *
 * A node that has no slots any more has no row, once the map is the new one; but a master
 * may be about to get one, and nodes may send somebody there.
 */
static void
watch_apply(void)
{
	Present		present[NODE_MASTERS] = {0};
	int			moved = 0;
	bool		renewed = false;
	int64		now = lr_now();
	uint32		epoch;

	if (watch_is_strange() && now - watch.applied_at < STRANGER_AFTER)
		return;
	watch.applied_at = now;
	for (int i = 0; i < NODE_MASTERS; i++)
	{
		ClusterNode node;
		uint32		generation;
		const Claim *c;

		if (!cluster_get_node(lr_place, i, &node, &generation))
			continue;
		c = watch_find_claim(node.id);
		present[i].used = true;
		present[i].yields = c == NULL || c->is_itself;
		present[i].stays = !node.has_slots && c != NULL && watch_may_get_slots(c);
		if (c != NULL && c->at.host[0] != '\0')
			(void) cluster_put_node(node.id, &c->at, c->name, false);
	}
	for (int i = 0; i < watch.nclaims; i++)
		if (watch.claim[i].is_master)
			moved += watch_take_slots(&watch.claim[i], present, &renewed);
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
			cluster_remove_node(i);
	for (int i = 0; i < watch.nclaims; i++)
		if (watch_may_get_slots(&watch.claim[i]))
			(void) cluster_put_node(watch.claim[i].id, &watch.claim[i].at,
									watch.claim[i].name, false);
	watch_tell(moved, now);
}

/* ----------
 * Scouts
 * ----------
 */

/*
 * scout_choose --- the next node to be asked: one of the masters, or that the settings
 * name
 */
static void
scout_choose(Scout *s)
{
	for (int i = 0; i < NODE_MASTERS + LR_MAX_SEEDS; i++)
	{
		int			n = watch.next_candidate++ % (NODE_MASTERS + LR_MAX_SEEDS);
		ClusterNode node;
		uint32		generation;

		if (n >= NODE_MASTERS && n - NODE_MASTERS < lr_redis_url->nseeds)
		{
			redis_target_set_seed(&s->target, &lr_redis_url->seed[n - NODE_MASTERS]);
			return;
		}
		if (n < NODE_MASTERS && cluster_get_node(lr_place, n, &node, &generation))
		{
			redis_target_set_seed(&s->target, &node.at);
			return;
		}
	}
}

static void
scout_failed(Scout *s, int64 now)
{
	const StoreError *error = &s->conn.failure.error;

	if (cluster_open_slots() == SLOT_COUNT)
	{
		node_set_address(NODE_REDIS, error->address);
		node_set_error(NODE_REDIS, error->detail);
	}
	topology_set_reason(error->detail);
	redis_conn_close(&s->conn);
	s->answer_until = 0;
	s->next_try = now + SCOUT_RETRY;
}

/*
 * scout_connect --- true when there is a connection
 */
static bool
scout_connect(Scout *s, int64 now)
{
	RedisConn  *c = &s->conn;

	if (c->state == CONN_READY && s->answer_until == 0 &&
		(now >= s->leaves_at || redis_target_is_outdated(&s->target)))
		redis_conn_close(c);
	if (c->state == CONN_CLOSED)
	{
		if (now < s->next_try)
			return false;
		scout_choose(s);
		s->leaves_at = now + SCOUT_LIFE;
		s->asked_at = 0;
		redis_conn_open(c, &s->target, now + ANSWER_MAX);
	}
	if (c->state == CONN_READY)
		return true;
	redis_conn_advance(c);
	if (c->state == CONN_CLOSED)
		scout_failed(s, now);
	return c->state == CONN_READY;
}

static void
scout_ask(Scout *s, int64 now)
{
	RespOut    *out = &s->conn.out;

	resp_put_array(out, 2);
	resp_put_text(out, "CLUSTER");
	resp_put_text(out, "NODES");
	s->asked_at = now;
	s->answer_until = now + Min(ANSWER_MAX, lr_command_timeout * LR_US_PER_MS);
	if (out->failed || !redis_conn_flush(&s->conn))
		scout_failed(s, now);
}

/*
 * scout_take --- the answer, or what is wrong with it
 */
static void
scout_take(Scout *s, int64 now)
{
	const RedisValue *v = s->conn.in.values;
	char		words[REDIS_WORDS_MAX];
	char		detail[256];

	if (s->answer_until != 0 && watch_read(v, &s->target.url))
	{
		s->answer_until = 0;
		watch_apply();
		return;
	}
	strlcpy(detail, "The node's answer makes no sense.", sizeof(detail));
	if (v->type == REDIS_REPLY_ERROR)
	{
		(void) redis_error_words(v, s->target.url.user, words, sizeof(words));
		snprintf(detail, sizeof(detail), "The node answered: %s", words);
	}
	redis_conn_fail(&s->conn, ERRCODE_CONNECTION_FAILURE, detail);
	scout_failed(s, now);
}

static void
scout_step(Scout *s, int64 now)
{
	RedisRead	got;
	int			nreads = 0;

	if (!scout_connect(s, now))
		return;
	do
	{
		got = redis_conn_receive(&s->conn, false);
		while (redis_conn_reply(&s->conn))
			scout_take(s, now);
		if (s->conn.state == CONN_CLOSED)
		{
			if (s->next_try <= now)
				scout_failed(s, now);
			return;
		}
	} while (redis_conn_reads_on(got, &nreads));
	if (s->answer_until != 0 && now >= s->answer_until)
	{
		redis_conn_fail(&s->conn, ERRCODE_CONNECTION_FAILURE,
						"The node did not answer in time.");
		scout_failed(s, now);
	}
	else if (s->answer_until == 0 && s->asked_at < watch.asked_at)
		scout_ask(s, now);
	else
		(void) redis_conn_flush(&s->conn);
}

void
redis_cluster_watch_step(void)
{
	int64		now = lr_now();
	uint32		wanted = cluster_wanted();

	if (!watch.on)
		return;
	if (wanted != watch.wanted)
	{
		watch.wanted = wanted;
		watch.next_ask = Min(watch.next_ask, watch.asked_at + ASK_MIN);
	}
	if (now >= watch.next_ask)
	{
		watch.asked_at = now;
		watch.next_ask = now + ASK_INTERVAL;
	}
	for (int i = 0; i < SCOUTS; i++)
		scout_step(watch.scout[i], now);
}

int
redis_cluster_watch_interests(StoreInterest *out, int64 *until, uint32 *epoch)
{
	int			n = 0;

	*until = LR_NEVER;
	*epoch = 0;
	if (!watch.on)
		return 0;
	*until = watch.next_ask;
	for (int i = 0; i < SCOUTS; i++)
	{
		const Scout *s = watch.scout[i];
		const RedisConn *c = &s->conn;

		*epoch += c->socket.epoch;
		if (c->state == CONN_CLOSED)
			*until = Min(*until, s->next_try);
		else if (s->answer_until != 0)
			*until = Min(*until, s->answer_until);
		else
			*until = Min(*until, redis_conn_until(c));
		if (redis_conn_has_more(c))
			*until = 0;
		if (c->socket.fd == PGINVALID_SOCKET)
			continue;
		out[n].sock = c->socket.fd;
		out[n++].events = redis_conn_events(c);
	}
	return n;
}
