/*-------------------------------------------------------------------------
 *
 * redis_scripts.c
 *	  The scripts of src/kinds, run by a node of Redis; and what there was before and
 *	  after each, for checks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_scripts.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../redis/script.h"
#include "config.h"
#include "redis_marks.h"
#include "redis_scripts.h"

/* A session that waits for what is told to nobody looks again by then. */
#define LONGEST_POLL	(31 * SIM_S)

/* ----------
 * What there is
 * ----------
 */

static bool
is_text(Word word)
{
	for (size_t i = 0; i < word.len; i++)
		if (word.text[i] < ' ' || word.text[i] > '~')
			return false;
	return true;
}

void
had_owner(const View *v, char *owner)
{
	if (v->kind != VIEW_PERMIT && is_text(v->owner))
	{
		snprintf(owner, REDIS_OWNER, "%.*s", (int) v->owner.len, v->owner.text);
		return;
	}
	for (size_t i = 0; i < v->owner.len && 2 * i + 2 < REDIS_OWNER; i++)
		snprintf(owner + 2 * i, 3, "%02x", (unsigned char) v->owner.text[i]);
}

static void
put(char *to, size_t size, Word from)
{
	size_t		len = from.len < size ? from.len : size - 1;

	memcpy(to, from.text, len);
	to[len] = '\0';
}

static void
add_had(const View *v, void *arg)
{
	HadList    *list = arg;
	Had		   *had = &list->had[list->n++];

	if (list->n == MAX_HAD)
		sim_fail("simulator", "too much is held");
	had->kind = v->kind;
	put(had->key, sizeof(had->key), v->key);
	put(had->in, sizeof(had->in), v->in);
	had_owner(v, had->owner);
	had->ends_ms = v->ends_ms;
}

void
had_list(int node, HadList *list)
{
	list->n = 0;
	view_all(redis_db(node), redis_clock_ms(node), add_had, list);
}

const Had *
had_find(const HadList *list, const Had *one)
{
	for (int i = 0; i < list->n; i++)
		if (list->had[i].kind == one->kind && strcmp(list->had[i].owner, one->owner) == 0 &&
			strcmp(list->had[i].in, one->in) == 0)
			return &list->had[i];
	return NULL;
}

/* ----------
 * A call
 * ----------
 */

bool
script_is(const ScriptCall *call, const char *kind)
{
	size_t		len = strlen(kind);

	return strncmp(call->name, kind, len) == 0 && call->name[len] == ' ';
}

bool
script_does(const ScriptCall *call, const char *verb)
{
	return strcmp(call->verb, verb) == 0 ||
		(strcmp(call->verb, "together") == 0 && strcmp(verb, "create") == 0);
}

bool
script_names(const ScriptCall *call, const char *owner)
{
	for (int i = 0; i < call->nargs; i++)
		if (word_is(call->argv[i], owner))
			return true;
	return false;
}

int64_t
word_number(Word word)
{
	return strtoll(word.text, NULL, 10);
}

/* ----------
 * Messages of scripts
 * ----------
 */

/* Who is told has his own channel: its name ends with him. */
static const char *
told_owner(const char *channel)
{
	const char *end = strstr(channel, "}:");

	while (end != NULL && !is_owner(word_of(end + 2)))
		end = strchr(end + 1, ':') != NULL ? strchr(end + 1, ':') - 1 : NULL;
	return end == NULL ? NULL : end + 2;
}

/*
 * until_of --- if it is lost, when is what it says known without it?
 *
 * A lock that was given back: when it would have ended.  A place in a queue: when that
 * counts no more.
 */
static int64_t
until_of(const ScriptCall *call, const char *told)
{
	int64_t		until = sim_now();

	if (script_is(call, "condition") && told != NULL)
		return sim_now() + sim_config.wait_lease_ms * SIM_MS / 3 + SIM_S;
	if (script_is(call, "permit") || script_is(call, "semaphore") || script_is(call, "latch"))
		return sim_now() + LONGEST_POLL;
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];
		int64_t		ends = had->ends_ms * SIM_MS - (redis_clock(call->node) - sim_now());

		if ((had->kind <= VIEW_TOKEN ||
			 (had->kind == VIEW_PLACE && told != NULL && strcmp(had->owner, told) == 0)) &&
			ends > until && ends < sim_now() + SIM_NEVER / 2)
			until = ends;
	}
	return until;
}

static int
publish(Redis *r, Word channel, Word message, bool sharded)
{
	const ScriptCall *call = r->arg;
	char		name[2 * REDIS_NAME];
	char		text[64];
	const char *told;
	int			n;

	put(name, sizeof(name), channel);
	put(text, sizeof(text), message);
	told = told_owner(name);
	n = redis_publish_until(call->node, name, text, sharded, until_of(call, told));
	if (told != NULL)
		mark_made(call->node, told)->told = n > 0;
	return n;
}

static const char *
refuses(Redis *r, bool needs_memory)
{
	const ScriptCall *call = r->arg;

	return redis_refuses(call->node, needs_memory);
}

/* ----------
 * Running one
 * ----------
 */

static void
trace(const ScriptCall *call)
{
	char		owner[REDIS_OWNER] = "";
	char		text[120];
	size_t		len = 0;

	if (!sim_tracing)
		return;
	for (int i = 0; i < call->nargs && owner[0] == '\0'; i++)
		if (is_owner(call->argv[i]))
			put(owner, sizeof(owner), call->argv[i]);
	for (const char *p = call->answer; *p != '\0' && len < sizeof(text) - 1; p++)
		if (*p != '\r')
			text[len++] = *p == '\n' ? ' ' : *p;
	text[len] = '\0';
	sim_trace("redis %d: %s %.*s%s%s: %s", call->node, call->name,
			  call->nkeys > 0 ? (int) call->keys[0].len : 0, call->keys[0].text,
			  owner[0] ? " of " : "", owner, text);
}

/*
 * check_ends --- what is not counted ends by itself, whoever crashes
 *
 * Keys of Redisson's own need no end: its clients look after them.
 */
static void
check_ends(const ScriptCall *call)
{
	const Db   *db = redis_db(call->node);

	for (int i = 0; i < db->n; i++)
	{
		const DbKey *key = db->key[i];

		if (key->ends_ms == 0 &&
			(word_begins(key->name, "lockredis_") ||
			 (key->type == DB_HASH && memchr(key->name.text, '{', key->name.len) == NULL)))
			sim_fail("left behind", "redis %d: %s never ends after the script \"%s\"", call->node,
					 key->name.text, call->name);
	}
}

bool
redis_run_script(const Script *script, ScriptCall *call, Reply *reply)
{
	static HadList before;
	static HadList after;
	size_t		from = reply->len;
	Redis		redis = {
		.db = redis_db(call->node),.now_us = redis_clock(call->node),.reply = reply,
		.publish = publish,.refuses = refuses,.arg = call
	};

	call->name = script->name;
	call->verb = strchr(script->name, ' ') + 1;
	call->before = &before;
	call->after = &after;
	redis_expire(call->node);
	counts_before(call);
	had_list(call->node, &before);
	locks_before(call);
	script_run(&redis, script->sha1, script->text, call->keys, call->nkeys,
			   call->argv, call->nargs);
	reply_bytes(reply, "", 1);
	reply->len--;
	call->answer = reply->data + from;
	had_list(call->node, &after);
	trace(call);
	locks_after(call);
	counts_after(call);
	conditions_after(call);
	check_ends(call);
	return redis.changes > 0;
}
