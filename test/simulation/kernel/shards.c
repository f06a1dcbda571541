/*-------------------------------------------------------------------------
 *
 * shards.c
 *	  A model of a Redis Cluster: which node has which slot, and who knows.
 *
 * There is a map as it is, and each node has one of its own, which is as it was when the
 * node heard last: others hear of a change one by one, a former master when it is there
 * again.  Until then it answers, and serves, by what it knows.
 *
 * A slot moves as redis-cli moves it: the one node sends on what it does not have any
 * more, the other one takes it with ASKING, one key after the other goes there, and in
 * the end both are told, mostly the new one first.  What neither a failover nor a
 * restart can repair without an operator, a slot on its way that loses one of its
 * nodes, does not happen here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/shards.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "clusters.h"
#include "history.h"
#include "network.h"
#include "redis_counts.h"
#include "shards.h"

#define NOBODY		(-1)

typedef struct View
{
	int			owner[SHARD_SLOTS];
	int			master_of[REDIS_NODES]; /* itself: it is one; NOBODY: not met */
	int64_t		epoch[REDIS_NODES];
} View;

/* A slot on its way. */
typedef struct Move
{
	int			from;
	int			to;
	bool		migrating;		/* as the one that had it knows */
	bool		importing;		/* as the other one does */
	int			round;			/* events of an earlier one are over */
}			Move;

static View truth;
static View view[REDIS_NODES];
static Move moves[SHARD_SLOTS];
static bool failing[REDIS_NODES];	/* its replica is about to take over */
static int64_t deaf_until[REDIS_NODES]; /* to the other nodes; servers reach it */
static int64_t refuses_until[REDIS_NODES];	/* what concerns slots */
static int64_t last_epoch;
static bool any_promoted;
static int64_t promoted[REDIS_NODES];	/* the epoch since which it has been a master */
static int	failovers;

static bool changed[SHARD_SLOTS];	/* of node, since the beginning */

/* Yesterday. */
static struct
{
	View		truth;
	View		view[REDIS_NODES];
	int64_t		last_epoch;
	int64_t		promoted[REDIS_NODES];
	int64_t		at;				/* 0 = none yet */
	int64_t		restored_at;
}			backup;

/* A reply from before that time is read by then. */
#define ANSWER_UNDER_WAY	(5 * SIM_S)

/* By each server. */
static struct
{
	int			row_node[SHARD_ROWS];
	int64_t		row_given_at[SHARD_ROWS];
	int			node[SHARD_SLOTS];
	int64_t		at[SHARD_SLOTS];
	int64_t		number[SHARD_SLOTS];
	bool		being_given[SHARD_SLOTS];	/* and not yet seen by all its processes */
}			belief[SIM_MAX_SERVERS];
static bool had[SHARD_SLOTS][REDIS_NODES];	/* once: by an old map it still has it */

/* How often somebody was sent on, about one name with one script. */
typedef struct Sent
{
	int			pid;
	char		what[41];
	char		name[REDIS_NAME];
	int64_t		since;
	int64_t		last;
	int			times;
}			Sent;

#define SENT_MAX		64
#define SENT_WINDOW		SIM_S

/*
 * Several locks of a batch may have the same name, more of them if many can have it at
 * once, and the map may change to and fro.
 */
#define SENT_TIMES_MAX	800
#define SENT_TIMES_OF_MANY	6400

static int
sent_times_max(void)
{
	return sim_config.counts || sim_config.read_write || sim_config.tokens || sim_config.fair ?
		SENT_TIMES_OF_MANY : SENT_TIMES_MAX;
}

static Sent sent[SENT_MAX];
static int	nsent;

void
shards_reset(void)
{
	memset(&truth, 0, sizeof(truth));
	memset(view, 0, sizeof(view));
	memset(moves, 0, sizeof(moves));
	memset(failing, 0, sizeof(failing));
	memset(deaf_until, 0, sizeof(deaf_until));
	memset(refuses_until, 0, sizeof(refuses_until));
	memset(had, 0, sizeof(had));
	memset(promoted, 0, sizeof(promoted));
	any_promoted = false;
	memset(changed, 0, sizeof(changed));
	last_epoch = failovers = nsent = 0;
	backup.at = backup.restored_at = 0;
	memset(belief, 0, sizeof(belief));
	for (int i = 0; i < SIM_MAX_SERVERS; i++)
	{
		memset(belief[i].row_node, 0xff, sizeof(belief[i].row_node));
		memset(belief[i].node, 0xff, sizeof(belief[i].node));
	}
}

static void
give_slot(int slot, int node)
{
	changed[slot] = truth.epoch[node] > 0;
	truth.owner[slot] = node;
	had[slot][node] = true;
}

/* Another cluster has one node, of a higher number than any. */
static void
begin_other(void)
{
	View	   *v = &view[OTHER_NODE];

	memset(v->master_of, 0xff, sizeof(v->master_of));
	v->master_of[OTHER_NODE] = OTHER_NODE;
	v->epoch[OTHER_NODE] = 1000000;
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
	{
		v->owner[slot] = OTHER_NODE;
		had[slot][OTHER_NODE] = true;
	}
}

/*
 * With two masters there is room for one that has no slots yet, and may never be met; and for
 * another cluster.
 */
void
shards_begin(void)
{
	int			n = sim_config.other_cluster != OTHER_NEVER ? 2 : (int) SIM_PICK(3, 2);

	for (int slot = 0; slot < SHARD_SLOTS; slot++)
		give_slot(slot, slot % n);
	for (int i = 0; i < REDIS_NODES; i++)
	{
		truth.master_of[i] = i < 2 * n ? i % n : i == 2 * n ? i : NOBODY;
		truth.epoch[i] = i < n ? i + 1 : 0;
		if (i >= n && i < 2 * n)
			redis_share_clock(i, i % n);
	}
	last_epoch = n;
	for (int i = 0; i < REDIS_NODES; i++)
	{
		view[i] = truth;
		if (2 * n < REDIS_NODES && i != 2 * n)
			view[i].master_of[2 * n] = NOBODY;
	}
	if (sim_config.other_cluster != OTHER_NEVER)
		begin_other();
	clusters_begin();
}

int
shards_slot_of(const char *name)
{
	const char *open = strchr(name, '{');
	size_t		len = strlen(name);
	uint16_t	crc = 0;

	if (open != NULL && strcspn(open + 1, "}") > 0 && strchr(open, '}') != NULL)
	{
		name = open + 1;
		len = strcspn(name, "}");
	}
	for (size_t i = 0; i < len; i++)
	{
		crc ^= (uint16_t) ((unsigned char) name[i] << 8);
		for (int bit = 0; bit < 8; bit++)
			crc = (uint16_t) (crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1);
	}
	return crc % SHARD_SLOTS;
}

/* ----------
 * What a node says
 * ----------
 */

const char *
shards_id_of(int node)
{
	static char id[41];

	snprintf(id, sizeof(id), "%040d", node + 1);
	return id;
}

static size_t
put_slots(const View *v, int node, char *out, size_t size)
{
	size_t		len = 0;

	out[0] = '\0';
	for (int first = 0; first < SHARD_SLOTS; first++)
	{
		int			last = first;

		if (v->owner[first] != node)
			continue;
		while (last + 1 < SHARD_SLOTS && v->owner[last + 1] == node)
			last++;
		len += last > first ? snprintf(out + len, size - len, " %d-%d", first, last) :
			snprintf(out + len, size - len, " %d", first);
		first = last;
	}
	return len;
}

void
shards_put_nodes(int node, char *out, size_t size)
{
	const View *v = &view[node];
	size_t		len = 0;

	out[0] = '\0';
	for (int i = 0; i < REDIS_NODES; i++)
	{
		bool		master = v->master_of[i] == i;

		if (v->master_of[i] == NOBODY && i != node)
			continue;
		len += snprintf(out + len, size - len, "%s 127.0.0.1:%d@%d %s%s ", shards_id_of(i),
						REDIS_PORT(i), REDIS_PORT(i) + 10000, i == node ? "myself," : "",
						master ? "master" : "slave");
		len += snprintf(out + len, size - len, "%s 0 0 %lld connected",
						master ? "-" : shards_id_of(v->master_of[i]), (long long) v->epoch[i]);
		len += put_slots(v, i, out + len, size - len);
		for (int slot = 0; slot < SHARD_SLOTS && i == node; slot++)
		{
			const		Move *m = &moves[slot];

			if (m->migrating && m->from == node)
				len += snprintf(out + len, size - len, " [%d->-%s]", slot, shards_id_of(m->to));
			if (m->importing && m->to == node)
				len += snprintf(out + len, size - len, " [%d-<-%s]", slot, shards_id_of(m->from));
		}
		len += snprintf(out + len, size - len, "\n");
	}
}

static const char *
redirect(const char *how, int slot, int node)
{
	static char words[64];

	snprintf(words, sizeof(words), "%s %d 127.0.0.1:%d", how, slot, REDIS_PORT(node));
	return words;
}

/* In the order of getNodeByQuery(). */
const char *
shards_refuse(int node, char names[][REDIS_NAME], int n, bool asking, bool channel)
{
	int			slot = shards_slot_of(names[0]);
	const		Move *m = &moves[slot];
	int			owner = view[node].owner[slot];
	bool		migrating = m->migrating && m->from == node && owner == node;
	bool		importing = m->importing && m->to == node && owner != node;
	int			missing = 0;

	for (int i = 0; i < n; i++)
	{
		if (shards_slot_of(names[i]) != slot)
			sim_fail("protocol", "%s and %s are not in one slot", names[0], names[i]);
		missing += !channel && !redis_has_name(node, names[i]);
	}
	if (sim_now() < refuses_until[node])
		return "CLUSTERDOWN The cluster is down";
	if (migrating && missing > 0)
		return missing < n ? "TRYAGAIN Multiple keys request during rehashing of slot" :
			redirect("ASK", slot, m->to);

	/*
	 * Only the node that has the slot sends somebody there, for once.  But what was routed
	 * to a former master may reach who has its row in the map by now.
	 */
	if (importing && m->migrating && !asking && !had[slot][node] && !any_promoted)
		sim_fail("redirects", "redis %d is asked about slot %d, on its way, without ASKING",
				 node, slot);
	if (importing && asking)
		return n > 1 && missing > 0 ?
			"TRYAGAIN Multiple keys request during rehashing of slot" : NULL;
	return owner == node ? NULL : redirect("MOVED", slot, owner);
}

void
shards_note_sent_on(int pid, const char *what, const char *name)
{
	Sent	   *s = sent;

	while (s < &sent[nsent] && (s->pid != pid || strncmp(s->what, what, 40) != 0 ||
								strcmp(s->name, name) != 0))
		s++;
	if (s == &sent[SENT_MAX])
		s = &sent[nsent = 0];
	if (s == &sent[nsent] || sim_now() - s->since > SENT_WINDOW)
	{
		nsent += s == &sent[nsent];
		s->pid = pid;
		snprintf(s->what, sizeof(s->what), "%.40s", what);
		snprintf(s->name, sizeof(s->name), "%s", name);
		s->since = sim_now();
		s->last = s->times = 0;
	}
	/* What a batch has more of by the same name is sent on by the same answer. */
	if (s->last == sim_now())
		return;
	s->last = sim_now();
	if (++s->times > sent_times_max())
		sim_fail("redirects", "process %d is sent on %d times within %.3f ms, with %s", pid,
				 s->times, (sim_now() - s->since) / (double) SIM_MS, name);
}

bool
shards_is_master(int node)
{
	return view[node].master_of[node] == node;
}

/* ----------
 * As it is
 * ----------
 */

bool
shards_is_moving(const char *name)
{
	const		Move *m = &moves[shards_slot_of(name)];

	return (m->migrating || m->importing) && clusters_used() != 1;
}

int
shards_master_of(const char *name)
{
	return clusters_used() == 1 ? OTHER_NODE : truth.owner[shards_slot_of(name)];
}

int
shards_place_of(const char *name)
{
	const		Move *m = &moves[shards_slot_of(name)];

	if (!shards_is_moving(name))
		return shards_master_of(name);
	return redis_has_name(m->from, name) && !redis_has_name(m->to, name) ? m->from : m->to;
}

bool
shards_has_changed(const char *name)
{
	return shards_is_moving(name) || changed[shards_slot_of(name)];
}

static bool
has_slots(int node)
{
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
		if (truth.owner[slot] == node)
			return true;
	return false;
}

static bool
is_master(int node)
{
	return truth.master_of[node] == node;
}

static int
draw_of(bool (*is) (int node))
{
	int			of[REDIS_NODES];
	int			n = 0;

	for (int i = 0; i < REDIS_NODES; i++)
		if (is(i))
			of[n++] = i;
	return of[sim_draw(n)];
}

int
shards_draw(void)
{
	return clusters_used() == 1 ? OTHER_NODE : draw_of(has_slots);
}

int
shards_failovers(void)
{
	return failovers;
}

/* ----------
 * Who hears of it
 * ----------
 */

/* A former master is a replica from now on, of whoever has what it had. */
static void
turn_round(int node)
{
	sim_trace("redis %d: is a replica of %d from now on", node, truth.master_of[node]);
	redis_forget(node, truth.master_of[node]);
}

static void
hear(void *arg, int64_t node)
{
	View		before = view[node];
	int64_t		until = net_away_until((int) node);

	(void) arg;
	if (clusters_is_other((int) node))
		return;
	if (deaf_until[node] > until)
		until = deaf_until[node];
	if (sim_now() < until)
	{
		sim_at(until + 1, hear, NULL, node);
		return;
	}
	view[node] = truth;
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
	{
		/* It was told so, and the other one was not yet. */
		if (moves[slot].importing && !moves[slot].migrating && moves[slot].from == node)
			view[node].owner[slot] = moves[slot].to;
		if (before.owner[slot] == node && view[node].owner[slot] != node)
			redis_end_channels((int) node, slot);
	}
	if (before.master_of[node] == node && truth.master_of[node] != node)
		turn_round((int) node);
	if (memcmp(&before, &view[node], sizeof(View)) != 0)
		sim_trace("redis %d: has heard of it", (int) node);
}

/* All but these two hear of it, one by one. */
static void
tell_others(int one, int other)
{
	int64_t		last = sim_now();

	for (int i = 0; i < REDIS_NODES; i++)
	{
		int64_t		when = sim_now() + SIM_PICK(SIM_MS, 100 * SIM_MS, SIM_S);

		if (i == one || i == other)
			continue;
		sim_at(when, hear, NULL, i);
		last = when > last ? when : last;
	}
	sim_disturbed(last + SIM_S);
}

void
shards_restarted(int node, int64_t up_at)
{
	refuses_until[node] = up_at + SIM_PICK(SIM_MS, 200 * SIM_MS, 2 * SIM_S);
	sim_disturbed(refuses_until[node]);
}

/* ----------
 * A slot moves
 * ----------
 */

/* The number of an event: the slot, and which of its moves. */
#define EVENT_OF(slot)		((int64_t) moves[slot].round * SHARD_SLOTS + (slot))
#define EVENT_SLOT(n)		((int) ((n) % SHARD_SLOTS))

static bool
is_over(int64_t n)
{
	return moves[EVENT_SLOT(n)].round != n / SHARD_SLOTS;
}

/* Is one of the two not there?  Then it goes on later. */
static bool
must_wait(const Move * m, SimEvent event, int64_t n)
{
	int64_t		until = net_away_until(m->from);

	if (net_away_until(m->to) > until)
		until = net_away_until(m->to);
	if (sim_now() >= until)
		return false;
	sim_at(until + 1, event, NULL, n);
	return true;
}

/* One of the keys goes. */
static void
one_goes(void *arg, int64_t n)
{
	Move	   *m = &moves[EVENT_SLOT(n)];

	(void) arg;
	if (!is_over(n) && m->migrating && !must_wait(m, one_goes, n))
		redis_migrate(m->from, m->to, EVENT_SLOT(n), true);
}

static void
old_one_is_told(void *arg, int64_t n)
{
	Move	   *m = &moves[EVENT_SLOT(n)];

	(void) arg;
	if (is_over(n) || must_wait(m, old_one_is_told, n))
		return;
	m->migrating = false;
	if (view[m->from].owner[EVENT_SLOT(n)] == m->from)
		redis_end_channels(m->from, EVENT_SLOT(n));
	view[m->from].owner[EVENT_SLOT(n)] = m->to;
	sim_trace("redis %d: slot %d is that of %d", m->from, EVENT_SLOT(n), m->to);
	sim_disturbed(sim_now() + SIM_S);
}

static void
new_one_is_told(void *arg, int64_t n)
{
	int			slot = EVENT_SLOT(n);
	Move	   *m = &moves[slot];

	(void) arg;
	if (is_over(n) || must_wait(m, new_one_is_told, n))
		return;
	m->importing = false;
	truth.epoch[m->to] = ++last_epoch;
	give_slot(slot, m->to);
	sim_trace("redis %d: has slot %d", m->to, slot);
	hear(NULL, m->to);
	tell_others(m->from, m->to);
}

static void
all_has_gone(void *arg, int64_t n)
{
	Move	   *m = &moves[EVENT_SLOT(n)];
	int64_t		later = sim_now() + SIM_PICK(0, SIM_MS, 50 * SIM_MS, 400 * SIM_MS);

	(void) arg;
	if (is_over(n) || must_wait(m, all_has_gone, n))
		return;
	redis_migrate(m->from, m->to, EVENT_SLOT(n), false);
	if (sim_chance(200))
	{
		old_one_is_told(NULL, n);
		sim_at(later, new_one_is_told, NULL, n);
	}
	else
	{
		new_one_is_told(NULL, n);
		sim_at(later, old_one_is_told, NULL, n);
	}
}

/* It takes no part in changes of the map, but for the one that has begun. */
static bool
is_apart(int node)
{
	return failing[node] || sim_now() <= deaf_until[node];
}

static bool
is_busy(int node)
{
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
		if ((moves[slot].migrating || moves[slot].importing) &&
			(moves[slot].from == node || moves[slot].to == node))
			return true;
	return is_apart(node);
}

void
shards_move_slot(void)
{
	char		name[8];
	int			slot;
	int			to = draw_of(is_master);
	int64_t		takes = SIM_PICK(0, 30 * SIM_MS, 400 * SIM_MS, 3 * SIM_S);
	Move	   *m;

	if (sim_config.tokens && sim_draw(2) != 0)
		snprintf(name, sizeof(name), "t%d", (int) sim_draw(2));
	else if (sim_config.counts && sim_draw(4) != 0)
		snprintf(name, sizeof(name), "%c%d", (char) SIM_PICK('p', 's', 'l'),
				 (int) sim_draw(COUNTS_NAMES));
	else
		snprintf(name, sizeof(name), "k%d", (int) sim_draw(sim_config.nkeys));
	slot = sim_chance(150) ? (int) sim_draw(SHARD_SLOTS) : shards_slot_of(name);
	m = &moves[slot];
	if (m->migrating || m->importing || truth.owner[slot] == to ||
		is_apart(truth.owner[slot]) || is_apart(to) ||
		view[to].owner[slot] != truth.owner[slot])
		return;
	m->from = truth.owner[slot];
	m->to = to;
	m->migrating = m->importing = true;
	m->round++;
	view[m->from].master_of[to] = to;
	sim_trace("fault: slot %d goes from redis %d to redis %d within %.3f ms", slot, m->from,
			  to, takes / (double) SIM_MS);
	for (int i = 0; i < 3 && takes > 0; i++)
		sim_at(sim_now() + sim_draw((uint32_t) takes), one_goes, NULL, EVENT_OF(slot));
	sim_at(sim_now() + takes, all_has_gone, NULL, EVENT_OF(slot));
	sim_disturbed(sim_now() + takes + SIM_S);
}

/* ----------
 * A failover
 * ----------
 */

static int
replica_of(int master)
{
	for (int i = 0; i < REDIS_NODES; i++)
		if (i != master && truth.master_of[i] == master)
			return i;
	return NOBODY;
}

static void
promote(int from, int to)
{
	truth.master_of[to] = truth.master_of[from] = to;
	truth.epoch[to] = promoted[to] = ++last_epoch;
	any_promoted = true;
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
		if (truth.owner[slot] == from)
			give_slot(slot, to);
	failing[from] = false;
	redis_flush_scripts(to);
	redis_replica_away(to, sim_now() + SIM_PICK(SIM_MS, 100 * SIM_MS, SIM_S));
	hear(NULL, to);
}

/* As CLUSTER FAILOVER: the master serves nobody until its replica has all. */
static void
hand_over(int from, int to)
{
	sim_trace("fault: redis %d hands over to redis %d", from, to);
	redis_hand_over(from, to);
	promote(from, to);
	hear(NULL, from);
	tell_others(from, to);
}

/* The former master gets its place again, soon enough that a server may not see it. */
static void
comes_back(void *arg, int64_t node)
{
	int			from = truth.master_of[node];

	(void) arg;
	if (!sim_config.calm && from != node && !is_busy(from) && !is_busy((int) node) &&
		view[node].master_of[node] == from && sim_now() >= net_away_until(from) && sim_now() >= net_away_until((int) node))
		hand_over(from, (int) node);
}

/* It may have what was in slots of others long ago. */
static void
drop_strays(int node)
{
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
		if (truth.owner[slot] != node)
			redis_drop_slot(node, slot);
}

/* It has died, or nobody hears from it. */
static void
replica_takes_over(void *arg, int64_t from)
{
	int			to = replica_of((int) from);

	(void) arg;
	if (sim_now() < net_away_until(to))
	{
		sim_at(net_away_until(to) + 1, replica_takes_over, NULL, from);
		return;
	}
	sim_trace("redis %d: takes the place of redis %d", to, (int) from);
	failovers++;
	redis_take_over((int) from, to);
	promote((int) from, to);
	drop_strays(to);
	sim_at(sim_now() + SIM_PICK(SIM_MS, 50 * SIM_MS, 500 * SIM_MS), hear, NULL, from);
	tell_others((int) from, to);
	if (sim_chance(400))
		sim_at(sim_now() + SIM_PICK(SIM_MS, 60 * SIM_MS, 600 * SIM_MS), comes_back, NULL, from);
}

static void
fails(int from)
{
	int64_t		noticed = sim_now() + SIM_PICK(300 * SIM_MS, SIM_MS, 1500 * SIM_MS);
	int64_t		back = noticed + SIM_PICK(SIM_MS, 200 * SIM_MS, 2 * SIM_S);
	bool		full_coverage = sim_chance(300);

	sim_trace("fault: redis %d fails", from);
	failing[from] = true;
	if (sim_chance(600))
		redis_save(from);
	switch (sim_draw(3))
	{
		case 0:
			net_down_until(from, back);
			redis_flush_scripts(from);
			shards_restarted(from, back);
			break;
		case 1:
			net_block_until(from, back);
			break;
		default:				/* only the other nodes do not hear from it */
			deaf_until[from] = noticed + SIM_PICK(0, 500 * SIM_MS, 5 * SIM_S);
			if (sim_chance(500))	/* the one that takes its place has just joined */
				view[from].master_of[replica_of(from)] = NOBODY;
			break;
	}
	for (int i = 0; i < REDIS_NODES && full_coverage; i++)
		if (i != from && refuses_until[i] < noticed)
			refuses_until[i] = noticed + SIM_PICK(SIM_MS, 200 * SIM_MS);
	sim_at(noticed, replica_takes_over, NULL, from);
	sim_disturbed(back + SIM_S);
}

void
shards_fail_over(void)
{
	int			from = draw_of(is_master);
	int			to = replica_of(from);

	if (to == NOBODY || is_busy(from) || is_busy(to) || view[from].master_of[from] != from ||
		view[to].master_of[to] != from)
		return;
	if (sim_chance(400) && sim_now() >= net_away_until(from) && sim_now() >= net_away_until(to))
		hand_over(from, to);
	else
		fails(from);
}

static bool
may_be_unmet(const View *v, int node, int by)
{
	for (int slot = 0; slot < SHARD_SLOTS; slot++)
		if (v->owner[slot] == node)
			return false;
	return node != by && node != v->master_of[by];
}

/*
 * shards_cut_off --- a node that servers ask does not hear the others for a while, and one that
 * may get slots has just joined
 */
void
shards_cut_off(void)
{
	int			node = (int) sim_draw(CLUSTER_SEEDS);
	int			fresh = (int) sim_draw(REDIS_NODES);

	if (is_busy(node) || is_busy(truth.master_of[node]) || clusters_is_other(fresh))
		return;
	deaf_until[node] = sim_now() + SIM_PICK(5 * SIM_S, SIM_S, 9 * SIM_S);
	sim_trace("fault: redis %d does not hear other nodes for %.3f ms", node,
			  (deaf_until[node] - sim_now()) / (double) SIM_MS);
	if (may_be_unmet(&view[node], fresh, node))
		view[node].master_of[fresh] = NOBODY;
	sim_at(deaf_until[node] + 1, hear, NULL, node);
}

/*
 * shards_raise_epoch --- as CLUSTER BUMPEPOCH, or when two masters have the same number: no
 * slot has another node
 */
void
shards_raise_epoch(void)
{
	int			node = draw_of(has_slots);

	if (is_busy(node) || view[node].master_of[node] != node || sim_now() < net_away_until(node))
		return;
	truth.epoch[node] = ++last_epoch;
	sim_trace("fault: the number of redis %d rises to %lld", node, (long long) last_epoch);
	hear(NULL, node);
	tell_others(node, node);
}

/* ----------
 * A backup
 * ----------
 */

/* Each of them is restored, by events. */
#define BACKUPS_APART	(100 * SIM_MS)

static bool
any_is_busy(void)
{
	for (int i = 0; i < REDIS_NODES; i++)
		if (is_busy(i))
			return true;
	return false;
}

/*
 * All nodes are stopped, and started with the map and the numbers of then, and the data that
 * they saved then or later.
 */
static void
restore(void *arg, int64_t n)
{
	int64_t		up_at = sim_now() + SIM_PICK(SIM_MS, 200 * SIM_MS, 2 * SIM_S);

	(void) arg;
	if (sim_config.calm)
		return;
	if (any_is_busy())
	{
		sim_at(sim_now() + 100 * SIM_MS, restore, NULL, 0);
		return;
	}
	sim_trace("fault: the cluster is restored");
	backup.restored_at = sim_now();
	truth = backup.truth;
	last_epoch = backup.last_epoch;
	memcpy(promoted, backup.promoted, sizeof(promoted));
	any_promoted = true;
	memset(changed, true, sizeof(changed));
	for (int i = 0; i < REDIS_NODES; i++)
	{
		if (clusters_is_other(i))
			continue;
		view[i] = backup.view[i];
		net_down_until(i, up_at);
		redis_boot(i, up_at);
		redis_flush_scripts(i);
		redis_restore(i);
		drop_strays(i);
		shards_restarted(i, up_at);
	}
	tell_others(NOBODY, NOBODY);
}

void
shards_back_up(void)
{
	if (any_is_busy() || (backup.at != 0 && sim_now() - backup.at < BACKUPS_APART))
		return;
	backup.at = sim_now();
	backup.truth = truth;
	memcpy(backup.view, view, sizeof(view));
	backup.last_epoch = last_epoch;
	memcpy(backup.promoted, promoted, sizeof(promoted));
	for (int i = 0; i < REDIS_NODES; i++)
		redis_back_up(i);
	sim_trace("the cluster is backed up");
	sim_at(sim_now() + SIM_PICK(SIM_S, 200 * SIM_MS, 4 * SIM_S), restore, NULL, 0);
}

/* ----------
 * Another cluster
 * ----------
 */

void
shards_other_begins(void)
{
	for (int i = 0; i < sim_config.nservers; i++)
		for (int slot = 0; slot < SHARD_SLOTS; slot++)
			if (belief[i].at[slot] == 0 || belief[i].being_given[slot])
				return;
	if (net_node_at(REDIS_PORT(OTHER_NODE)) == OTHER_NODE)
		return;
	sim_trace("fault: a node of another cluster is at port %d", REDIS_PORT(OTHER_NODE));
	net_listen(REDIS_PORT(OTHER_NODE), OTHER_NODE);
}

void
shards_note_left(void)
{
	memset(changed, true, sizeof(changed));
}

/* ----------
 * What is believed
 * ----------
 */

void
shards_note_row(int row, int port)
{
	belief[sim_server()].row_node[row] = port - REDIS_PORT(0);
}

void
shards_note_slot(int slot, int row)
{
	belief[sim_server()].node[slot] = row < 0 ? NOBODY : belief[sim_server()].row_node[row];
	belief[sim_server()].at[slot] = sim_now();
	belief[sim_server()].being_given[slot] = true;
	if (row >= 0)
		belief[sim_server()].row_given_at[row] = sim_now();
}

int64_t
shards_row_given_at(int row)
{
	return belief[sim_server()].row_given_at[row];
}

void
shards_note_all_given(void)
{
	memset(belief[sim_server()].being_given, 0, sizeof(belief[0].being_given));
}

void
shards_note_number(int slot, int64_t number)
{
	belief[sim_server()].number[slot] = number;
}

static bool
slot_is_known(int slot, int owner)
{
	return belief[sim_server()].node[slot] == owner &&
		belief[sim_server()].number[slot] == view[owner].epoch[owner];
}

bool
shards_is_known(const char *name)
{
	return slot_is_known(shards_slot_of(name), shards_master_of(name));
}

bool
shards_is_settled(int slot)
{
	return !moves[slot].importing && clusters_used() != 1 &&
		sim_now() - backup.restored_at > ANSWER_UNDER_WAY && slot_is_known(slot, truth.owner[slot]);
}

bool
shards_is_disputed(const char *name)
{
	int			slot = shards_slot_of(name);
	int			owner = shards_master_of(name);

	return belief[sim_server()].node[slot] != owner ||
		belief[sim_server()].number[slot] < promoted[owner];
}

int
shards_believed(const char *name)
{
	return belief[sim_server()].node[shards_slot_of(name)];
}

int64_t
shards_believed_at(const char *name)
{
	return belief[sim_server()].at[shards_slot_of(name)];
}

bool
shards_is_being_given(const char *name)
{
	return belief[sim_server()].being_given[shards_slot_of(name)];
}
