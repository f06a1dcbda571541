/*-------------------------------------------------------------------------
 *
 * redis_locks.c
 *	  What must be so of the locks that the nodes of Redis have: after each script, and
 *	  for who asks.
 *
 * After each script: of a key at most one has it alone, and nobody beside him but his own
 * session's reader; nobody loses a lock by a script that does not name him; no renewal
 * makes a lease shorter; a queue is served in its order.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_locks.c
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
#include "redis_scripts.h"
#include "sentinels.h"
#include "shards.h"

/* Each token that was asked for. */
typedef struct Token
{
	char		key[REDIS_NAME];
	char		token[REDIS_OWNER];
	char		digest[REDIS_OWNER];
	char		instance[REDIS_OWNER];
	RedisTokenState state;
	uint32_t	expired;		/* masters where its time has run out while it was held:
								 * bits */
} Token;

#define MAX_TOKENS	1024

static Token tokens[MAX_TOKENS];
static int	ntokens;

/* What clients elsewhere have taken last, by the last digit of the key. */
static struct
{
	char		key[REDIS_NAME];
	char		owner[REDIS_OWNER];
	int64_t		taken_at;
	int64_t		until;
	int64_t		lease_ms;
	int64_t		seen_at[SIM_MAX_SERVERS];	/* a session of each saw for how long; 0: none
											 * did */
}			elsewhere[SIM_MAX_KEYS];

/* When a process of that server last had an answer, and its watchdog first asked after that. */
static struct
{
	int64_t		at;
	int64_t		asked_at;
}			heard[SIM_MAX_SERVERS];

void
locks_reset(void)
{
	memset(elsewhere, 0, sizeof(elsewhere));
	memset(heard, 0, sizeof(heard));
	ntokens = 0;
}

/* ----------
 * Who has it
 * ----------
 */

int64_t
redis_owned_there_until(int node, const char *key, const char *owner)
{
	int64_t		ms = view_owned_until(redis_db(node), redis_clock_ms(node), word_of(key),
									  word_of(owner));

	return ms == 0 ? 0 : ms * SIM_MS - (redis_clock(node) - sim_now());
}

int64_t
redis_owned_until(const char *key, const char *owner)
{
	int64_t		until = 0;

	for (int i = 0; i < REDIS_NODES; i++)
		if (redis_owned_there_until(i, key, owner) > until)
			until = redis_owned_there_until(i, key, owner);
	return until;
}

static bool
keeps_from(int node, const char *key, bool shared)
{
	const DbKey *there = db_look(redis_db(node), word_of(key), redis_clock_ms(node));
	const DbItem *mode;

	if (there == NULL || !shared)
		return there != NULL;
	mode = there->type == DB_HASH ? db_item(there, word_of("mode")) : NULL;
	if (mode != NULL)
		return word_is(mode->value, "write");
	return there->type != DB_HASH || db_item(there, word_of("shared")) == NULL;
}

bool
redis_keeps_from(const char *key, bool shared)
{
	for (int i = 0; i < sim_config.masters; i++)
		if (keeps_from(i, key, shared))
			return true;
	return keeps_from(redis_place_of(key), key, shared);
}

/* ----------
 * Token locks
 * ----------
 */

void
redis_note_token(const char *key, const char *token, const char *digest,
				 const char *instance, RedisTokenState state)
{
	Token	   *t = &tokens[0];

	while (t < &tokens[ntokens] && strcmp(t->token, token) != 0)
		t++;
	if (t == &tokens[MAX_TOKENS])
		sim_fail("simulator", "too many tokens");
	if (t == &tokens[ntokens])
		ntokens++;
	snprintf(t->key, sizeof(t->key), "%s", key);
	snprintf(t->token, sizeof(t->token), "%s", token);
	snprintf(t->digest, sizeof(t->digest), "%s", digest);
	snprintf(t->instance, sizeof(t->instance), "%s", instance);
	t->state = state;
	t->expired = 0;
}

int
redis_count_tokens(const char *instance, RedisTokenState state)
{
	int			n = 0;

	for (int i = 0; i < ntokens; i++)
		n += tokens[i].state == state && strcmp(tokens[i].instance, instance) == 0;
	return n;
}

void
note_token_expired(int node, const char *token)
{
	for (int i = 0; i < ntokens; i++)
		if (strcmp(tokens[i].token, token) == 0 && tokens[i].state == REDIS_TOKEN_HAD)
			tokens[i].expired |= 1U << node;
}

static const Token *
token_of(const char *token)
{
	for (int i = 0; i < ntokens; i++)
		if (strcmp(tokens[i].token, token) == 0)
			return &tokens[i];
	return NULL;
}

/*
 * takes_token_away --- from who has it
 *
 * One of several masters that was slow does now what it was asked by an attempt before, the
 * create and, behind it, the release.  That is no vote if most others have it, or have had
 * it until they forgot it or its time was over.  But a release that was sent before the
 * create which it takes back is never right.
 */
static bool
takes_token_away(int node, const Token *t)
{
	const Mark *m = mark_find(node, t->token);
	int			others = 0;

	if (t->state != REDIS_TOKEN_HAD)
		return false;
	for (int i = 0; i < sim_config.masters; i++)
		redis_expire(i);
	for (int i = 0; i < sim_config.masters; i++)
		others += i != node &&
			(redis_owned_there_until(i, t->key, t->token) > 0 ||
			 redis_was_robbed_at(i, t->token) || (t->expired & (1U << i)) != 0);
	return others <= sim_config.masters / 2 || (m != NULL && net_sent_at() < m->sent_at);
}

static void
token_gone(const ScriptCall *call, const Had *had)
{
	const Token *t = token_of(had->owner);

	if (script_does(call, "force"))
		return;
	if (t == NULL || !script_does(call, "release") || !script_names(call, t->digest))
		sim_fail("token lock", "%s of the token %s is taken away by the script \"%s\"", had->key,
				 had->owner, call->name);
	if (takes_token_away(call->node, t))
		sim_fail("token lock", "%s is taken away from who has it by the token %s", had->key,
				 t->token);
	note_released(had->owner);
}

/* ----------
 * Before a script
 * ----------
 */

/*
 * is_released_elsewhere --- by the node that is still believed to be the master
 *
 * When another one is heard of, nobody knows of the lock any more.
 */
static void
is_released_elsewhere(int node, const char *name, const char *owner)
{
	int			place = redis_place_of(name);
	int			believed = sim_config.sentinels ? sentinels_believed() :
		sim_config.cluster ? shards_believed(name) : place;

	if (node != place && node == believed)
		mark_made(place, owner)->is_old = true;
}

/* What is given back before it is seen that a majority has it no more changes nothing. */
static void
note_lost_of(const ScriptCall *call, const Had *had)
{
	int			n = 0;

	for (int i = 0; i < sim_config.masters; i++)
		n += redis_owned_there_until(i, had->key, had->owner) > 0;
	if (note_lost(had->owner, n <= sim_config.masters / 2))
		note_robbed(call->node, had->owner, true);
}

/* Where the time until which it may run stands; -1: it has none, or that is not judged. */
static int
place_of_not_after(const ScriptCall *call)
{
	return !script_does(call, "create") ? -1 : script_is(call, "fair") ? 4 :
		script_is(call, "reentrant") || script_is(call, "token") ||
		script_is(call, "read") || script_is(call, "write") ? 2 : -1;
}

/* Nobody waits longer for an answer; the clocks of two nodes differ by more. */
#define LONGEST_CALL	(25 * SIM_S / SIM_MS)

/*
 * check_clock --- the time until which it may run is by the clock of the node that is
 * asked, whichever had been asked before
 */
static void
check_clock(const ScriptCall *call)
{
	int			at = place_of_not_after(call);
	int64_t		left;

	if (!sim_config.cluster || at < 0 || at >= call->nargs)
		return;
	left = word_number(call->argv[at]) - redis_clock_ms(call->node);
	if (left > LONGEST_CALL && !redis_clock_went_back(call->node))
		sim_fail("clock guard", "redis %d: a create of %.*s may run for another %lld ms",
				 call->node, (int) call->keys[0].len, call->keys[0].text, (long long) left);
}

/* ----------
 * A client of Redisson, which stands in the queue of a fair lock during one script: behind who
 * asks, as it has come just now, and it gives up at once
 * ----------
 */

#define GUEST			"redisson:1"

/* As Redisson has them. */
#define GUEST_WAITS_MS	300000

/* Places of the script's arguments. */
#define FAIR_QUEUE		2
#define FAIR_SCORES		3
#define FAIR_PLACES		4
#define FAIR_OWNER		3
#define FAIR_WAIT		5

static bool guest_stands;

static DbKey *
key_of_fair(const ScriptCall *call, int at, DbType type)
{
	DbKey	   *key = db_find(redis_db(call->node), call->keys[at], redis_clock_ms(call->node));

	return key != NULL && key->type == type ? key : NULL;
}

/*
 * has_strangers --- is there one who counts as a client of Redisson?
 *
 * That may be one of ours whose place has expired since, as the clock was set.
 */
static bool
has_strangers(const DbKey *queue, const DbKey *places)
{
	for (int i = 0; i < queue->n; i++)
		if (db_item(places, queue->item[i].name) == NULL)
			return true;
	return false;
}

static void
guest_comes(const ScriptCall *call)
{
	DbKey	   *queue;
	DbKey	   *scores;
	DbKey	   *places;
	const DbItem *own;
	double		score = (double) redis_clock_ms(call->node) + 2.0 * GUEST_WAITS_MS;

	guest_stands = false;
	if (!script_is(call, "fair") || !script_does(call, "create") ||
		word_number(call->argv[FAIR_WAIT]) <= 0)
		return;
	queue = key_of_fair(call, FAIR_QUEUE, DB_LIST);
	scores = key_of_fair(call, FAIR_SCORES, DB_ZSET);
	places = key_of_fair(call, FAIR_PLACES, DB_ZSET);
	own = places == NULL ? NULL : db_item(places, call->argv[FAIR_OWNER]);
	if (queue == NULL || scores == NULL || own == NULL ||
		own->score <= (double) redis_clock_ms(call->node) ||
		db_item(queue, call->argv[FAIR_OWNER]) == NULL || !sim_chance(300) ||
		has_strangers(queue, places))
		return;
	db_insert(queue, queue->n, word_of(GUEST));
	db_insert(scores, db_place(scores, word_of(GUEST), score), word_of(GUEST))->score = score;
	guest_stands = true;
}

static void
remove_guest(const ScriptCall *call, int at, DbType type)
{
	DbKey	   *key = key_of_fair(call, at, type);
	DbItem	   *item = key == NULL ? NULL : db_item(key, word_of(GUEST));

	if (item != NULL)
		db_remove(key, item);
	if (item != NULL && key->n == 0)
		db_delete(redis_db(call->node), key);
}

/*
 * guest_leaves --- as it has stood behind who asks, that one's place counts for Redisson for
 * as long as he has asked for
 */
static void
guest_leaves(const ScriptCall *call)
{
	const DbKey *scores;
	const DbItem *own;

	if (!guest_stands)
		return;
	scores = key_of_fair(call, FAIR_SCORES, DB_ZSET);
	own = scores == NULL ? NULL : db_item(scores, call->argv[FAIR_OWNER]);
	if (own != NULL && own->score >= (double) (redis_clock_ms(call->node) + GUEST_WAITS_MS +
											   word_number(call->argv[FAIR_WAIT])))
		sim_fail("fair order", "redis %d: a place in %.*s counts for longer for those behind it",
				 call->node, (int) call->keys[FAIR_QUEUE].len, call->keys[FAIR_QUEUE].text);
	remove_guest(call, FAIR_QUEUE, DB_LIST);
	remove_guest(call, FAIR_SCORES, DB_ZSET);
}

void
locks_before(const ScriptCall *call)
{
	check_clock(call);
	guest_comes(call);
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];

		if (sim_config.masters > 0 && script_does(call, "release") && had->kind <= VIEW_FREE &&
			script_names(call, had->owner))
			note_lost_of(call, had);
	}
	for (int i = 0; i < call->nargs; i++)
	{
		char		owner[REDIS_OWNER];
		Mark	   *m;

		if (!is_owner(call->argv[i]))
			continue;
		snprintf(owner, sizeof(owner), "%.*s", (int) call->argv[i].len, call->argv[i].text);
		m = mark_find(call->node, owner);
		if (m != NULL && script_does(call, "create"))
			m->told = false;
	}
}

/* ----------
 * After a script
 * ----------
 */

/* Those whom the session of a reader may have the key beside: its own write lock. */
static bool
is_beside(const ScriptCall *call, const Had *writer)
{
	char		field[REDIS_OWNER + 8];

	snprintf(field, sizeof(field), "%s:write", writer->owner);
	return script_names(call, field);
}

/* What is made may be held beside what was there before. */
static void
check_alone(const ScriptCall *call, const Had *made)
{
	for (int i = 0; i < call->before->n && made->kind != VIEW_FREE; i++)
	{
		const Had  *had = &call->before->had[i];

		if (had->kind > VIEW_TOKEN || had->kind == VIEW_FREE || strcmp(had->key, made->key) != 0 ||
			(made->kind == had->kind && (made->kind == VIEW_READER || made->kind == VIEW_SHARED)) ||
			(made->kind == VIEW_READER && is_beside(call, had)))
			continue;
		if (!script_does(call, "release"))
			sim_fail("two holders", "redis %d: %s is given to %s by the script \"%s\", and %s has it",
					 call->node, made->key, made->owner, call->name, had->owner);
	}
}

/* Nobody who still counts was in the queue before him. */
static void
check_turn(const ScriptCall *call, const Had *made)
{
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];

		if (had->kind != VIEW_PLACE || strcmp(had->key, made->key) != 0 ||
			had->ends_ms <= redis_clock_ms(call->node))
			continue;
		if (strcmp(had->owner, made->owner) == 0)
			return;
		sim_fail("fair order", "redis %d: %s is given to %s, and it is the turn of %s",
				 call->node, made->key, made->owner, had->owner);
	}
}

/* Whoever comes stands behind all who were there. */
static void
check_place(const ScriptCall *call, int at)
{
	const Had  *came = &call->after->had[at];

	for (int i = at + 1; i < call->after->n; i++)
	{
		const Had  *had = &call->after->had[i];

		if (had->kind == came->kind && strcmp(had->in, came->in) == 0 &&
			had_find(call->before, had) != NULL)
			sim_fail("fair order", "redis %d: %s came last and stands before %s in %s", call->node,
					 came->owner, had->owner, came->in);
	}
}

/*
 * is_too_late --- with a clock that was set back a create may run after the release that
 * was the last one, as it had run when no create could any more
 */
static bool
is_too_late(const ScriptCall *call, const Had *made)
{
	return script_does(call, "create") && redis_clock_went_back(call->node) &&
		redis_was_released(made->owner);
}

static void
lock_made(const ScriptCall *call, const Had *made)
{
	Mark	   *m = mark_find(call->node, made->owner);
	bool		is_old = is_too_late(call, made);

	check_alone(call, made);
	if (script_is(call, "fair"))
		check_turn(call, made);
	if (m == NULL && (made->kind == VIEW_TOKEN || call->asks_for_replica || is_old))
		m = mark_made(call->node, made->owner);
	if (m == NULL)
		return;
	m->is_old = is_old;
	m->promised = call->asks_for_replica;
	m->sent_at = net_sent_at();
}

/* In place of a lock that goes another name keeps the key for a while. */
static bool
is_kept(const char *owner)
{
	return strstr(owner, "/kept") != NULL;
}

static void
lock_gone(const ScriptCall *call, const Had *had)
{
	/* In the last millisecond of its lease a reader may be taken for one that has crashed. */
	if (had->ends_ms <= redis_clock_ms(call->node))
	{
		note_robbed(call->node, had->owner, true);
		return;
	}
	if (script_does(call, "force"))
	{
		note_robbed(call->node, had->owner, false);
		history_event(HISTORY_TAKEN_AWAY, had->key);
	}
	else if (!script_names(call, had->owner) ||
			 !(script_does(call, "release") || script_is(call, "condition")))
		sim_fail("taken away", "redis %d: %s of %s is taken away by the script \"%s\"", call->node,
				 had->key, had->owner, call->name);
}

/* Read again: what ended at another time before. */
static void
check_lease(const ScriptCall *call, const Had *before, const Had *after)
{
	if (after->ends_ms < before->ends_ms &&
		(script_does(call, "renew") || script_does(call, "set") || script_does(call, "create")))
		sim_fail("taken away", "redis %d: the lease of %s at %s is %lld ms shorter after the script \"%s\"",
				 call->node, after->owner, after->key,
				 (long long) (before->ends_ms - after->ends_ms), call->name);
}

/*
 * is_wanted_again --- by a request that was not sent before lockredis.url was changed
 */
static void
is_wanted_again(const ScriptCall *call, const Had *had)
{
	Mark	   *m = mark_find(call->node, had->owner);

	if (m != NULL && m->is_old && script_names(call, had->owner) &&
		!script_does(call, "release") &&
		(script_is(call, "condition") || had->kind == VIEW_PLACE || had->kind == VIEW_WRITER ||
		 (net_sent_at() >= redis_present_since() && !redis_was_released(had->owner))))
		m->is_old = false;
}

static void
note_releases(const ScriptCall *call)
{
	for (int i = 0; i < call->nargs && call->nkeys > 0; i++)
	{
		char		owner[REDIS_OWNER];
		char		key[REDIS_NAME];
		Word		base = view_base(call->keys[0]);

		if (!is_owner(call->argv[i]))
			continue;
		snprintf(owner, sizeof(owner), "%.*s", (int) call->argv[i].len, call->argv[i].text);
		snprintf(key, sizeof(key), "%.*s", (int) base.len, base.text);
		note_released(owner);
		is_released_elsewhere(call->node, key, owner);
	}
}

void
locks_after(const ScriptCall *call)
{
	guest_leaves(call);
	for (int i = 0; i < call->after->n; i++)
	{
		const Had  *after = &call->after->had[i];
		const Had  *before = had_find(call->before, after);

		if (before != NULL)
		{
			if (after->kind <= VIEW_TOKEN)
				check_lease(call, before, after);
			is_wanted_again(call, after);
		}
		else if (after->kind <= VIEW_TOKEN && !is_kept(after->owner))
			lock_made(call, after);
		else if (after->kind == VIEW_PLACE || after->kind == VIEW_WAITING)
			check_place(call, i);
		if (before == NULL && after->kind == VIEW_PLACE)
			mark_made(call->node, after->owner)->stands_since = sim_now();
	}
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];

		if (had_find(call->after, had) != NULL)
			continue;
		if (had->kind == VIEW_TOKEN)
			token_gone(call, had);
		else if (had->kind < VIEW_TOKEN)
			lock_gone(call, had);
		else if (had->kind == VIEW_PLACE)
			mark_made(call->node, had->owner)->stands_since = 0;
	}
	if (script_does(call, "release") && !script_is(call, "condition") &&
		!script_is(call, "permit") && !script_is(call, "semaphore"))
		note_releases(call);
}

/* ----------
 * What others do
 * ----------
 */

typedef struct Deletion
{
	int			node;
	Word		key;
} Deletion;

static void
see_deleted(const View *v, void *arg)
{
	const Deletion *d = arg;
	char		owner[REDIS_OWNER];
	char		key[REDIS_NAME];

	if (v->kind > VIEW_TOKEN || v->kind == VIEW_FREE || !word_equals(v->key, d->key))
		return;
	had_owner(v, owner);
	snprintf(key, sizeof(key), "%.*s", (int) v->key.len, v->key.text);
	sim_trace("redis %d: somebody deletes %s of %s", d->node, key, owner);
	sim_disturbed(v->ends_ms * SIM_MS - (redis_clock(d->node) - sim_now()));
	note_robbed(d->node, owner, false);
	history_event(HISTORY_TAKEN_AWAY, key);
}

void
redis_delete(int node, const char *key)
{
	Deletion	d = {node, word_of(key)};
	DbKey	   *there = db_find(redis_db(node), d.key, redis_clock_ms(node));

	if (there == NULL)
		return;
	view_all(redis_db(node), redis_clock_ms(node), see_deleted, &d);
	db_delete(redis_db(node), there);
}

void
redis_note_seen(const char *key, const char *owner)
{
	for (int i = 0; i < SIM_MAX_KEYS; i++)
		if (strcmp(elsewhere[i].key, key) == 0 && strcmp(elsewhere[i].owner, owner) == 0)
			elsewhere[i].seen_at[sim_server()] = sim_now();
}

void
redis_note_heard(void)
{
	heard[sim_server()].at = sim_now();
}

void
redis_note_asked(int64_t at)
{
	if (heard[sim_server()].asked_at <= heard[sim_server()].at)
		heard[sim_server()].asked_at = at;
}

int64_t
redis_heard_until(void)
{
	return heard[sim_server()].asked_at <= heard[sim_server()].at ? sim_now() :
		heard[sim_server()].asked_at;
}

void
redis_forget_seen(void)
{
	memset(&heard[sim_server()], 0, sizeof(heard[0]));
	for (int i = 0; i < SIM_MAX_KEYS; i++)
		elsewhere[i].seen_at[sim_server()] = 0;
}

bool
redis_is_held_elsewhere(const char *key, int64_t answered_at, int64_t here_from)
{
	for (int i = 0; i < SIM_MAX_KEYS; i++)
	{
		bool		is_long = elsewhere[i].lease_ms > sim_config.least_lease_ms;
		int64_t		known_at = is_long ? elsewhere[i].seen_at[sim_server()] :
			elsewhere[i].taken_at;
		int64_t		until;

		if (strcmp(elsewhere[i].key, key) != 0 || known_at == 0 || known_at > answered_at ||
			here_from > elsewhere[i].taken_at ||
			redis_clock_was_set(redis_present()))
			continue;
		until = redis_owned_until(key, elsewhere[i].owner);
		if (until > sim_now() && until <= elsewhere[i].until)
			return true;
	}
	return false;
}

/* Has another server a lock there whose lease ends by then? */
bool
redis_is_leased_to_others(const char *key, const char *instance, int64_t until)
{
	static HadList list;
	int			node = redis_present();

	if (redis_clock_was_set(node))
		return false;
	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
	{
		const Had  *had = &list.had[i];
		int64_t		ends = redis_owned_there_until(node, key, had->owner);

		if (had->kind < VIEW_TOKEN && strcmp(had->key, key) == 0 &&
			strncmp(had->owner, instance, strlen(instance)) != 0 &&
			strncmp(had->owner, "elsewhere", 9) != 0 && ends > sim_now() && ends <= until)
			return true;
	}
	return false;
}

static void
note_elsewhere(const char *key, const char *owner, int64_t lease_ms)
{
	int			i = (key[strlen(key) - 1] - '0') % SIM_MAX_KEYS;

	snprintf(elsewhere[i].key, REDIS_NAME, "%s", key);
	snprintf(elsewhere[i].owner, REDIS_OWNER, "%s", owner);
	elsewhere[i].taken_at = sim_now();
	elsewhere[i].until = sim_now() + (lease_ms + 1) * SIM_MS;
	elsewhere[i].lease_ms = lease_ms;
	memset(elsewhere[i].seen_at, 0, sizeof(elsewhere[i].seen_at));
}

bool
redis_foreign_take(int node, const char *key, const char *owner, int64_t lease_ms,
				   bool by_force)
{
	char		field[REDIS_OWNER + 8];
	DbKey	   *made;

	if (by_force)
		redis_delete(node, key);
	if (db_find(redis_db(node), word_of(key), redis_clock_ms(node)) != NULL)
		return false;
	sim_trace("redis %d: %s is taken by %s for %lld ms", node, key, owner,
			  (long long) lease_ms);
	made = db_make(redis_db(node), word_of(key), DB_HASH);
	if (sim_config.read_write)
		db_set_value(db_insert(made, made->n, word_of("mode")), word_of("write"));
	snprintf(field, sizeof(field), "%s%s", owner, sim_config.read_write ? ":write" : "");
	db_set_value(db_insert(made, made->n, word_of(field)), word_of("1"));
	made->ends_ms = redis_clock_ms(node) + lease_ms;
	if (node == redis_present())
		note_elsewhere(key, owner, lease_ms);
	return true;
}

void
redis_foreign_release(int node, const char *key, const char *owner, const char *channel)
{
	int64_t		until = redis_owned_there_until(node, key, owner);

	if (until == 0)
		return;
	sim_trace("redis %d: %s is given back by %s", node, key, owner);
	db_delete(redis_db(node), db_find(redis_db(node), word_of(key), redis_clock_ms(node)));
	(void) redis_publish_until(node, channel, "0", sim_config.cluster, until);
}

/* ----------
 * For who asks
 * ----------
 */

/* The first who counts in the queue of a fair lock. */
typedef struct First
{
	Word		key;
	int64_t		now_ms;
	char		owner[REDIS_OWNER];
} First;

static void
see_first(const View *v, void *arg)
{
	First	   *first = arg;

	if (v->kind == VIEW_PLACE && first->owner[0] == '\0' && v->ends_ms > first->now_ms &&
		word_equals(v->key, first->key))
		had_owner(v, first->owner);
}

bool
redis_is_next(const char *key, const char *owner)
{
	int			node = redis_place_of(key);
	First		first = {.key = word_of(key),.now_ms = redis_clock_ms(node)};
	const Mark *m = mark_find(node, owner);

	if (m == NULL || !m->told || keeps_from(node, key, false))
		return false;
	view_all(redis_db(node), redis_clock_ms(node), see_first, &first);
	return strcmp(first.owner, owner) == 0;
}

typedef struct Oldest
{
	Word		key;
	int			node;
	const char *instance;
	int64_t		since;
} Oldest;

static void
see_oldest(const View *v, void *arg)
{
	Oldest	   *oldest = arg;
	char		owner[REDIS_OWNER];
	const Mark *m;

	if (v->kind != VIEW_PLACE || v->ends_ms <= redis_clock_ms(oldest->node) ||
		!word_equals(v->key, oldest->key))
		return;
	had_owner(v, owner);
	m = mark_find(oldest->node, owner);
	if (strncmp(owner, oldest->instance, strlen(oldest->instance)) != 0 && m != NULL &&
		m->stands_since != 0 && (oldest->since == 0 || m->stands_since < oldest->since))
		oldest->since = m->stands_since;
}

int64_t
redis_others_stand_since(const char *key, const char *instance)
{
	int			node = redis_place_of(key);
	Oldest		oldest = {.key = word_of(key),.node = node,.instance = instance};

	view_all(redis_db(node), redis_clock_ms(node), see_oldest, &oldest);
	return oldest.since;
}

/* By silence, beside what the watchdog waits for. */
#define SLOWEST_MESSAGE		(8 * SIM_S)

static int64_t
longest_on_its_way(void)
{
	return (sim_config.connect_timeout_ms + sim_config.command_timeout_ms) * SIM_MS +
		SLOWEST_MESSAGE;
}

bool
redis_has_for_long(const char *key, const char *owner)
{
	int			node = redis_place_of(key);

	return !mark_is_old(node, owner) && !redis_was_robbed(owner) &&
		redis_owned_there_until(node, key, owner) > sim_now() + longest_on_its_way();
}

/*
 * is_given_up --- what is refused is left when it should have run out; so is what
 * comes or comes back after its release, and what is at a place of before
 *
 * It has not yet if the clock was set back, or if the last renewal was a while on
 * its way.
 */
static bool
is_given_up(int node, const Had *had)
{
	return mark_is_old(node, had->owner) ||
		(node != redis_place_of(had->key) && sim_config.masters == 0) ||
		(sim_config.masters > 0 && redis_clock_was_set(node)) ||
		(redis_was_denied(had->key) &&
		 (redis_was_robbed(had->owner) ||
		  had->ends_ms * SIM_MS - redis_clock(node) <= longest_on_its_way()));
}

/*
 * is_at_few --- masters that were not told may keep it until its lease ends, which can be
 * long after a schedule
 */
static bool
is_at_few(const Had *had)
{
	int			n = 0;

	for (int i = 0; i < sim_config.masters; i++)
		n += redis_owned_there_until(i, had->key, had->owner) > 0;
	return sim_config.masters > 0 && n <= sim_config.masters / 2;
}

static bool
begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* There in the name of one of those whose names begin so, and to be given back. */
static bool
is_left(int node, const Had *had, const char *prefix)
{
	const Token *t;

	if (had->kind != VIEW_TOKEN)
		return had->kind < VIEW_TOKEN && begins(had->owner, prefix) && !is_kept(had->owner) &&
			!is_given_up(node, had);
	t = token_of(had->owner);
	return t != NULL && t->state == REDIS_TOKEN_ASKED && begins(t->instance, prefix) &&
		!is_given_up(node, had) && !is_at_few(had);
}

/* One who waits no more has taken back that he does. */
static bool
is_left_waiting(int node, const Had *had, const char *prefix)
{
	return (had->kind == VIEW_PLACE || had->kind == VIEW_WRITER) &&
		had->ends_ms > redis_clock_ms(node) &&
		(node == redis_place_of(had->key) || sim_config.masters > 0) &&
		!mark_is_old(node, had->owner) && begins(had->owner, prefix) &&
		!redis_was_denied(had->key);
}

static HadList list;

const char *
redis_find_owner(const char *prefix)
{
	for (int i = 0; i < REDIS_NODES; i++)
	{
		had_list(i, &list);
		for (int j = 0; j < list.n; j++)
			if (is_left_waiting(i, &list.had[j], prefix) || is_left(i, &list.had[j], prefix))
				return list.had[j].key;
	}
	return NULL;
}

/*
 * With a clock that was set back a create may run that could not any more; and one at
 * a place that lockredis.url has left and come back to, whose clock nobody asks.
 */
static const char *
find_unknown_at(int node, const char *prefix, bool (*knows) (const char *key, const char *owner))
{
	if (redis_clock_went_back(node))
		return NULL;
	had_list(node, &list);
	for (int j = 0; j < list.n; j++)
	{
		const Had  *had = &list.had[j];

		if (had->kind != VIEW_TOKEN && is_left(node, had, prefix) &&
			!redis_was_denied(had->key) && !knows(had->key, had->owner))
			return had->key;
	}
	return NULL;
}

const char *
redis_find_unknown(const char *prefix, bool (*knows) (const char *key, const char *owner))
{
	const char *key = NULL;

	for (int i = 0; i < REDIS_NODES && key == NULL && !redis_was_elsewhere(); i++)
		if (sim_config.cluster || i == redis_present())
			key = find_unknown_at(i, prefix, knows);
	return key;
}
