/*-------------------------------------------------------------------------
 *
 * redis_nodes.c
 *	  Nodes of Redis: what they have, their clocks, processes, replicas; and what
 *	  becomes of these.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_nodes.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "history.h"
#include "network.h"
#include "redis_marks.h"
#include "redis_nodes.h"
#include "redis_scripts.h"
#include "sentinels.h"
#include "shards.h"

#define MAX_DENIED		16

#define CLOCK_STEPS_MAX	(63 * SIM_S)

/* Nodes have run for so long when a schedule begins. */
#define UP_BEFORE		(100000 * SIM_S)

typedef struct Node
{
	Db			data;
	Db			saved;
	Db			backup;			/* of the whole cluster's */
	Db			replica;		/* what it had when it confirmed last */
	int64_t		away_until;		/* the replica */
	int64_t		clock_offset;
	int64_t		clock_steps;	/* the sum of those */
	bool		clock_was_set;
	bool		clock_went_back;
	int64_t		booted_at;		/* the process that answers there now, */
	int64_t		boot_second;	/* by its clock */
	int			run;			/* how many there were before it */
	RedisMood	mood;
	int64_t		mood_until;
	int			lost_messages;
	int64_t		double_after;	/* the next message comes again; 0 = not */
	int			ndenied;
	char		denied[MAX_DENIED][REDIS_NAME];
} Node;

static Node nodes[REDIS_NODES];
static int	present;
static bool was_another;		/* once */
static int64_t present_since;
static bool others_wait;

/* What was denied, and when it was allowed again. */
typedef struct Allowed
{
	char		name[REDIS_NAME];
	int64_t		at;
} Allowed;

#define MAX_ALLOWED	64

static Allowed allowed[MAX_ALLOWED];
static int	nallowed;

/* Locks of which something was denied once, whatever data a node has since. */
static char once_denied[MAX_ALLOWED][REDIS_NAME];
static int	nonce_denied;

void
redis_reset(void)
{
	nallowed = nonce_denied = 0;
	for (int i = 0; i < REDIS_NODES; i++)
	{
		Node	   *n = &nodes[i];

		db_clear(&n->data);
		db_clear(&n->saved);
		db_clear(&n->backup);
		db_clear(&n->replica);
		n->away_until = 0;
		n->clock_offset = (777 + 50 * i) * SIM_S;
		n->clock_steps = 0;
		n->clock_was_set = n->clock_went_back = false;
		n->run = 0;
		n->booted_at = sim_now() - UP_BEFORE;
		n->boot_second = redis_clock(i) / SIM_S - UP_BEFORE / SIM_S;
		n->mood = REDIS_WELL;
		n->mood_until = 0;
		n->lost_messages = n->ndenied = 0;
		n->double_after = 0;
	}
	present = 0;
	was_another = false;
	present_since = 0;
	marks_reset();
	locks_reset();
	counts_reset();
	conditions_reset();
	redis_wire_reset();
}

Db *
redis_db(int node)
{
	return &nodes[node].data;
}

int64_t
redis_clock(int node)
{
	return sim_now() + nodes[node].clock_offset;
}

int64_t
redis_clock_ms(int node)
{
	return redis_clock(node) / SIM_MS;
}

/* ----------
 * Which node it is
 * ----------
 */

int
redis_present(void)
{
	return present;
}

int64_t
redis_present_since(void)
{
	return present_since;
}

bool
redis_was_elsewhere(void)
{
	return was_another;
}

int
redis_place_of(const char *name)
{
	return sim_config.cluster ? shards_place_of(name) : present;
}

static void
mark_old(const View *v, void *node)
{
	char		owner[REDIS_OWNER];

	had_owner(v, owner);
	mark_made(*(int *) node, owner)->is_old = true;
}

/* Nobody knows of it any more, unless somebody asks for it again. */
static void
mark_all_old(int node)
{
	view_all(&nodes[node].data, redis_clock_ms(node), mark_old, &node);
}

void
redis_note_elsewhere(void)
{
	was_another = true;
	for (int i = 0; i < REDIS_NODES; i++)
		mark_all_old(i);
}

void
redis_set_present(int node)
{
	if (node == present)
		return;
	present = node;
	redis_know_anew();
}

void
redis_know_anew(void)
{
	redis_note_elsewhere();
	present_since = sim_now();
}

/* ----------
 * What it refuses
 * ----------
 */

RedisMood
redis_mood(int node)
{
	return sim_now() < nodes[node].mood_until ? nodes[node].mood : REDIS_WELL;
}

const char *
redis_mood_words(RedisMood mood)
{
	static const char *const words[] = {
		NULL,
		"LOADING Redis is loading the dataset in memory",
		"READONLY You can't write against a read only replica.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	};

	return words[mood];
}

/*
 * redis_refuses --- the words of a command in a script that is not carried out
 */
const char *
redis_refuses(int node, bool needs_memory)
{
	RedisMood	mood = redis_mood(node);

	return mood == REDIS_READONLY || mood == REDIS_MISCONF ||
		(mood == REDIS_OOM && needs_memory) ? redis_mood_words(mood) : NULL;
}

void
redis_set_mood(int node, RedisMood mood, int64_t until)
{
	/* What Sentinels have made a replica remains one until they say otherwise. */
	if (sim_config.sentinels && node != redis_present() &&
		nodes[node].mood_until == INT64_MAX && until > 0)
		return;
	nodes[node].mood = mood;
	nodes[node].mood_until = until;
	sim_disturbed(until < INT64_MAX ? until : sim_now());
}

/* ----------
 * What is gone
 * ----------
 */

void
redis_expire(int node)
{
	Db		   *db = &nodes[node].data;

	for (int i = db->n - 1; i >= 0; i--)
	{
		DbKey	   *key = db->key[i];

		if (!db_has_ended(key, redis_clock_ms(node)))
			continue;
		if (key->type == DB_STRING)
			note_token_expired(node, key->item[0].name.text);
		sim_trace("redis %d: %s expires", node, key->name.text);
		db_delete(db, key);
	}
}

/* Of the same owner, in other data: until when; 0: it is not there. */
typedef struct Wanted
{
	const View *view;
	int64_t		ends_ms;
} Wanted;

static void
look_for(const View *v, void *arg)
{
	Wanted	   *wanted = arg;

	if (v->kind == wanted->view->kind && word_equals(v->key, wanted->view->key) &&
		word_equals(v->owner, wanted->view->owner))
		wanted->ends_ms = v->ends_ms;
}

typedef struct Loss
{
	int			node;
	const Db   *kept;			/* what is still there, or NULL */
	bool		as_long;		/* or is there for less long */
	bool		keeps_promises;
	bool		by_restart;
} Loss;

static void
rob(const View *v, void *arg)
{
	const Loss *loss = arg;
	Wanted		wanted = {v, 0};
	char		owner[REDIS_OWNER];
	const Mark *m;

	if (v->kind == VIEW_PLACE || v->kind == VIEW_WRITER || v->kind == VIEW_TICKET)
		return;
	had_owner(v, owner);
	m = mark_find(loss->node, owner);
	if (loss->keeps_promises && m != NULL && m->promised)
		return;
	if (loss->kept != NULL)
		view_all(loss->kept, 0, look_for, &wanted);
	if (wanted.ends_ms > 0 && !(loss->as_long && wanted.ends_ms < v->ends_ms))
		return;
	note_robbed(loss->node, owner, loss->by_restart);
	/* What had ended was nobody's any more. */
	if (v->kind <= VIEW_TOKEN && v->ends_ms > redis_clock_ms(loss->node))
	{
		char		key[REDIS_NAME];

		snprintf(key, sizeof(key), "%.*s", (int) v->key.len, v->key.text);
		history_event(HISTORY_TAKEN_AWAY, key);
	}
}

static void
rob_all(const Loss *loss)
{
	view_all(&nodes[loss->node].data, redis_clock_ms(loss->node), rob, (void *) loss);
}

/* Fencing tokens go on, as if their counters had been kept elsewhere. */
void
redis_lose_data(int node)
{
	Db		   *db = &nodes[node].data;

	history_event(HISTORY_ALL_TAKEN_AWAY, NULL);
	sim_trace("redis %d: all data are lost", node);
	rob_all(&(Loss){.node = node, .by_restart = true});
	counts_lose(node);
	for (int i = db->n - 1; i >= 0; i--)
		if (sim_config.masters > 0 || !view_is_counter(db->key[i]->name))
			db_delete(db, db->key[i]);
}

void
redis_save(int node)
{
	sim_trace("redis %d: saves", node);
	db_copy(&nodes[node].saved, &nodes[node].data);
}

/*
 * take_saved --- a node has what was saved; others' clients do not know
 */
static void
take_saved(int node, const Db *saved, bool keeps_promises)
{
	history_event(HISTORY_ALL_TAKEN_AWAY, NULL);
	rob_all(&(Loss){.node = node, .kept = saved, .as_long = true,
		.keeps_promises = keeps_promises, .by_restart = true});
	counts_lose(node);
	db_copy(&nodes[node].data, saved);
	mark_all_old(node);
	counts_restored(node);
}

void
redis_lose_later(int node)
{
	sim_trace("redis %d: has what it had when it saved", node);
	take_saved(node, &nodes[node].saved, false);
}

void
redis_back_up(int node)
{
	sim_trace("redis %d: is backed up", node);
	db_copy(&nodes[node].backup, &nodes[node].data);
}

void
redis_restore(int node)
{
	sim_trace("redis %d: has what it had when it was backed up", node);
	take_saved(node, &nodes[node].backup, false);
}

/* ----------
 * A replica
 * ----------
 */

bool
redis_replicate(int node)
{
	Node	   *n = &nodes[node];

	if (sim_config.min_replicas == 0 || sim_now() < n->away_until)
		return false;
	db_copy(&n->replica, &n->data);
	return true;
}

int64_t
redis_replica_until(const char *key, const char *owner)
{
	int64_t		until = 0;

	for (int i = 0; i < REDIS_NODES; i++)
	{
		int64_t		ms = view_owned_until(&nodes[i].replica, redis_clock_ms(i), word_of(key),
										  word_of(owner));

		if (ms > 0 && ms * SIM_MS - nodes[i].clock_offset > until)
			until = ms * SIM_MS - nodes[i].clock_offset;
	}
	return until;
}

void
redis_replica_away(int node, int64_t until)
{
	sim_trace("redis %d: its replica is away for %.3f ms", node,
			  (until - sim_now()) / (double) SIM_MS);
	nodes[node].away_until = until;
	sim_disturbed(until);
}

void
redis_fail_over(int node)
{
	sim_trace("redis %d: has what its replica has", node);
	take_saved(node, &nodes[node].replica, true);
}

void
redis_copy_saved(int from, int to)
{
	sim_trace("redis %d: has what %d had when it saved", to, from);
	/* What ends sooner there is wanted for longer by whoever asks first. */
	rob_all(&(Loss){.node = from, .kept = &nodes[from].saved});
	take_saved(to, &nodes[from].saved, false);
	nodes[to].clock_offset = nodes[from].clock_offset;
}

/* ----------
 * A cluster
 * ----------
 */

/* Nothing is ever kept by the name of a channel, but it may be among the keys of a script. */
static bool
is_channel(const char *name)
{
	return strstr(name, "__channel_") != NULL || strstr(name, "__channel:") != NULL ||
		strncmp(name, "redisson_rwlock:", 16) == 0 || strncmp(name, "redisson_sc:", 12) == 0;
}

bool
redis_has_name(int node, const char *name)
{
	return !is_channel(name) &&
		db_look(&nodes[node].data, word_of(name), redis_clock_ms(node)) != NULL;
}

/*
 * What goes to another node together: a lock with the time-outs of its readers, its queue
 * with all that is about it, a number with its permits and tickets.
 */
static int
part_of(Word name)
{
	const char *open = memchr(name.text, '{', name.len);

	if (view_is_counter(name))
		return 1;
	return open == NULL || open == name.text ||
		strchr("psl", view_base(name).text[0]) != NULL ? 0 : 2;
}

/* Its scores are times of the node's clock. */
static bool
has_times(const DbKey *key)
{
	return key->type == DB_ZSET;
}

/* Announced writers have the time of their arrival in their names. */
static void
move_arrival(DbItem *item, int64_t later_ms)
{
	char		text[REDIS_NAME + 16];

	snprintf(text, sizeof(text), "%013lld%s", strtoll(item->name.text, NULL, 10) +
			 (long long) later_ms, item->name.text + 13);
	db_set_name(item, word_of(text));
}

typedef struct Move
{
	int			from;
	int			to;
	const DbKey *key;
} Move;

static void
move_mark(const View *v, void *arg)
{
	const Move *move = arg;
	char		owner[REDIS_OWNER];

	if (!word_equals(v->in, move->key->name))
		return;
	had_owner(v, owner);
	mark_copy(move->from, move->to, owner);
}

/* In whole milliseconds that are left, as MIGRATE has it. */
static void
migrate_key(int from, int to, DbKey *key)
{
	int64_t		later_ms = redis_clock_ms(to) - redis_clock_ms(from);
	DbKey	   *there = db_copy_key(&nodes[to].data, key);

	sim_trace("redis %d: %s goes to %d", from, key->name.text, to);
	if (there->ends_ms != 0)
		there->ends_ms += later_ms;
	for (int i = 0; i < there->n && has_times(there); i++)
	{
		there->item[i].score += later_ms;
		if (word_begins(there->name, "lockredis_writers:"))
			move_arrival(&there->item[i], later_ms);
	}
	db_delete(&nodes[from].data, key);
}

static bool
is_of_part(const DbKey *key, const char *base, int part)
{
	return word_is(view_base(key->name), base) && part_of(key->name) == part;
}

/* The marks first: without his time-out nobody sees that a reader is there. */
static void
migrate_part(int from, int to, const char *base, int part)
{
	Db		   *db = &nodes[from].data;

	for (int i = 0; i < db->n; i++)
		if (is_of_part(db->key[i], base, part))
			view_all(db, redis_clock_ms(from), move_mark, &(Move){from, to, db->key[i]});
	for (int i = 0; i < db->n;)
		if (is_of_part(db->key[i], base, part))
			migrate_key(from, to, db->key[i]);
		else
			i++;
}

/* "base": the lock of that key. */
static bool
is_in_slot(const DbKey *key, int slot, char *base)
{
	Word		word = view_base(key->name);

	snprintf(base, REDIS_NAME, "%.*s", (int) word.len, word.text);
	return shards_slot_of(base) == slot;
}

void
redis_drop_slot(int node, int slot)
{
	Db		   *db = &nodes[node].data;
	char		base[REDIS_NAME];

	for (int i = db->n - 1; i >= 0; i--)
		if (is_in_slot(db->key[i], slot, base))
			db_delete(db, db->key[i]);
	counts_moved();
}

void
redis_migrate(int from, int to, int slot, bool one)
{
	Db		   *db = &nodes[from].data;
	int			i = 0;

	redis_expire(from);
	while (i < db->n)
	{
		char		base[REDIS_NAME];

		if (!is_in_slot(db->key[i], slot, base) || (one && sim_chance(300)))
		{
			i++;
			continue;
		}
		migrate_part(from, to, base, part_of(db->key[i]->name));
		if (one)
			break;
		i = 0;
	}
	counts_moved();
}

void
redis_share_clock(int node, int as)
{
	nodes[node].clock_offset = nodes[as].clock_offset;
}

/* It was set at both, whatever had become of it there. */
static void
take_clock(int from, int to)
{
	nodes[to].clock_offset = nodes[from].clock_offset;
	nodes[to].clock_steps = nodes[from].clock_steps;
	nodes[to].clock_was_set |= nodes[from].clock_was_set;
	nodes[to].clock_went_back |= nodes[from].clock_went_back;
}

void
redis_hand_over(int from, int to)
{
	db_copy(&nodes[to].data, &nodes[from].data);
	marks_copy(from, to);
	take_clock(from, to);
	db_clear(&nodes[from].data);
	counts_moved();
}

void
redis_take_over(int from, int to)
{
	bool		by_replica = sim_config.min_replicas != 0;
	const Db   *had = by_replica ? &nodes[from].replica : &nodes[from].saved;

	/* What ends sooner there is wanted for longer by whoever asks first. */
	rob_all(&(Loss){.node = from, .kept = had, .keeps_promises = by_replica});
	counts_lose(from);
	db_clear(&nodes[to].data);
	take_saved(to, had, false);
	take_clock(from, to);
}

void
redis_forget(int node, int master)
{
	rob_all(&(Loss){.node = node, .kept = &nodes[master].data, .as_long = true});
	db_clear(&nodes[node].data);
	counts_moved();
}

/* ----------
 * Its clock
 * ----------
 */

/* Leases end at another time then: whoever had one may lose it. */
void
redis_set_clock(int node, int64_t offset)
{
	int64_t		sum = nodes[node].clock_steps + offset;

	/* Else a schedule might end long after all of its leases. */
	if (sum > CLOCK_STEPS_MAX || sum < -CLOCK_STEPS_MAX)
		return;
	nodes[node].clock_steps = sum;
	sim_trace("redis %d: the clock is set by %.3f s", node, offset / (double) SIM_S);
	/* Also what has ended, but was not removed yet: that may be there again. */
	view_all(&nodes[node].data, 0, rob, &(Loss){.node = node});
	nodes[node].clock_offset += offset;
	nodes[node].clock_was_set = true;
	nodes[node].clock_went_back |= offset < 0;
}

bool
redis_clocks_are_good(void)
{
	for (int i = 0; i < REDIS_NODES; i++)
		if (nodes[i].clock_was_set)
			return false;
	return true;
}

bool
redis_clock_was_set(int node)
{
	return nodes[node].clock_was_set;
}

bool
redis_clock_went_back(int node)
{
	return nodes[node].clock_went_back;
}

/* ----------
 * Its process
 * ----------
 */

void
redis_boot(int node, int64_t when)
{
	nodes[node].run++;
	nodes[node].booted_at = when;
	nodes[node].boot_second = (when + nodes[node].clock_offset) / SIM_S;
}

int64_t
redis_booted_at(int node)
{
	return nodes[node].booted_at;
}

int
redis_run_number(int node)
{
	return nodes[node].run;
}

int64_t
redis_uptime(int node)
{
	return redis_clock(node) / SIM_S - nodes[node].boot_second;
}

/* ----------
 * Rights
 * ----------
 */

bool
redis_denies(int node, const char *name)
{
	for (int i = 0; i < nodes[node].ndenied; i++)
		if (strcmp(nodes[node].denied[i], name) == 0)
			return true;
	return false;
}

bool
redis_was_denied(const char *key)
{
	for (int i = 0; i < nonce_denied; i++)
		if (strcmp(once_denied[i], key) == 0)
			return true;
	return false;
}

/* Of the lock, in the name of its channel or counter too. */
static void
note_denied(const char *name)
{
	const char *base = strchr(name, '{');
	char		key[REDIS_NAME];

	snprintf(key, sizeof(key), "%s", base != NULL ? base + 1 : name);
	key[strcspn(key, "}")] = '\0';
	if (!redis_was_denied(key) && nonce_denied < MAX_ALLOWED)
		snprintf(once_denied[nonce_denied++], REDIS_NAME, "%s", key);
}

static void
note_allowed(const char *name)
{
	int			i;

	for (i = 0; i < nallowed; i++)
		if (strcmp(allowed[i].name, name) == 0)
			break;
	if (i == MAX_ALLOWED)
		return;
	if (i == nallowed)
		snprintf(allowed[nallowed++].name, REDIS_NAME, "%s", name);
	allowed[i].at = sim_now();
}

void
redis_deny_name(int node, const char *name, bool deny)
{
	Node	   *n = &nodes[node];

	sim_trace("redis %d: %s is %s", node, name, deny ? "denied" : "allowed");
	if (deny && n->ndenied < MAX_DENIED)
	{
		snprintf(n->denied[n->ndenied++], REDIS_NAME, "%s", name);
		note_denied(name);
		if (strchr(name, '{') != NULL)
			redis_end_subscribers(node, name);
	}
	if (!deny)
		note_allowed(name);
	for (int i = n->ndenied - 1; !deny && i >= 0; i--)
		if (strcmp(n->denied[i], name) == 0)
			memmove(n->denied[i], n->denied[--n->ndenied], REDIS_NAME);
}

bool
redis_is_denied(const char *key)
{
	for (int i = 0; i < REDIS_NODES; i++)
		for (int j = 0; j < nodes[i].ndenied; j++)
			if (strstr(nodes[i].denied[j], key) != NULL)
				return true;
	return false;
}

int64_t
redis_denied_until(const char *key)
{
	int64_t		until = 0;

	if (redis_is_denied(key))
		return INT64_MAX;
	for (int i = 0; i < nallowed; i++)
		if (strstr(allowed[i].name, key) != NULL && allowed[i].at > until)
			until = allowed[i].at;
	return until;
}

/* ----------
 * Messages
 * ----------
 */

typedef struct Message
{
	char		channel[2 * REDIS_NAME];
	char		text[64];
	bool		sharded;
} Message;

static void
tell_again(void *arg, int64_t node)
{
	Message    *m = arg;

	(void) redis_tell((int) node, m->channel, m->text, m->sharded);
	free(m);
}

int
redis_publish_until(int node, const char *channel, const char *message, bool sharded,
					int64_t until)
{
	Node	   *n = &nodes[node];

	if (n->lost_messages > 0)
	{
		n->lost_messages--;
		sim_trace("redis %d: a message of %s is lost", node, channel);
		sim_disturbed(until);
		return 0;
	}
	if (n->double_after > 0)
	{
		Message    *m = malloc(sizeof(Message));

		snprintf(m->channel, sizeof(m->channel), "%s", channel);
		snprintf(m->text, sizeof(m->text), "%s", message);
		m->sharded = sharded;
		sim_at(sim_now() + n->double_after, tell_again, m, node);
		n->double_after = 0;
	}
	return redis_tell(node, channel, message, sharded) +
		(others_wait && sim_chance(500) ? 1 : 0);
}

void
redis_publish(int node, const char *channel)
{
	(void) redis_publish_until(node, channel, "0", sim_config.cluster, sim_now());
}

void
redis_others_wait(bool wait)
{
	others_wait = wait;
}

void
redis_lose_message(int node)
{
	nodes[node].lost_messages++;
}

void
redis_double_message(int node, int64_t later)
{
	nodes[node].double_after = later;
}

void
redis_calm(void)
{
	for (int i = 0; i < REDIS_NODES; i++)
	{
		nodes[i].lost_messages = 0;
		nodes[i].double_after = 0;
	}
}
