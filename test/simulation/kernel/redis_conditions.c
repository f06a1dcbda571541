/*-------------------------------------------------------------------------
 *
 * redis_conditions.c
 *	  What must be so of those who wait for conditions of locks, and of what they were
 *	  told.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_conditions.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "kernel.h"
#include "redis_conditions.h"
#include "redis_marks.h"
#include "redis_scripts.h"
#include "server.h"

#define MAX_CONDITIONS	(2 * SIM_MAX_KEYS)

#define WAITING			"lockredis_condition_waiting:"
#define TOLD			"lockredis_condition_told:"

static struct
{
	char		name[REDIS_NAME];
	int			n;
}			things[MAX_CONDITIONS];
static int	nthings;

void
conditions_reset(void)
{
	nthings = 0;
}

int *
redis_condition_things(const char *waiting)
{
	for (int i = 0; i < nthings; i++)
		if (strcmp(things[i].name, waiting) == 0)
			return &things[i].n;
	if (nthings == MAX_CONDITIONS)
		sim_fail("simulator", "too many conditions: %s", waiting);
	snprintf(things[nthings].name, REDIS_NAME, "%s", waiting);
	things[nthings].n = 0;
	return &things[nthings++].n;
}

/* ----------
 * After a script
 * ----------
 */

static void
cancel(void *arg, int64_t pid)
{
	(void) arg;
	(void) sim_kill((int) pid, SIGINT);
}

static void
crash(void *arg, int64_t pid)
{
	(void) arg;
	memory_of(server_of_pid((int) pid));
	server_crash(server_watchdog());
}

/*
 * strike --- who is told does not come to it, now and then
 *
 * What was told must not get lost by that; a cancel or a crash at any time would hardly ever
 * meet him between being told and having the lock.
 */
static void
strike(const Mark *told)
{
	if (told != NULL && !sim_config.calm && sim_chance(300))
		sim_at(sim_now() + sim_draw((uint32_t) SIM_PICK(500, 5 * SIM_MS)),
			   sim_config.nservers > 1 && sim_chance(200) ? crash : cancel, NULL, told->pid);
}

/* Nobody who came before him waits on. */
static void
check_order(const ScriptCall *call, const Had *told)
{
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];

		if (had->kind != VIEW_WAITING ||
			strcmp(had->in + strlen(WAITING), told->in + strlen(TOLD)) != 0)
			continue;
		if (strcmp(had->owner, told->owner) == 0)
			return;
		if (had_find(call->after, had) != NULL)
			sim_fail("condition", "redis %d: %s is told, and %s has waited for longer", call->node,
					 told->owner, had->owner);
	}
	sim_fail("condition", "redis %d: %s is told, and does not wait", call->node, told->owner);
}

/* Does he who gives it up say that he has acted on it? */
static bool
is_acted_on(const ScriptCall *call, const char *waiter)
{
	for (int i = 0; i + 1 < call->nargs; i++)
		if (word_is(call->argv[i], waiter))
			return word_is(call->argv[i + 1], "1");
	return false;
}

static void
told_gone(const ScriptCall *call, const Had *had)
{
	const Mark *m = mark_find(call->node, had->owner);

	if (had->ends_ms <= redis_clock_ms(call->node))
		return;
	if (!script_does(call, "release") || !script_names(call, had->owner))
		sim_fail("condition", "redis %d: what %s was told is taken away by the script \"%s\"",
				 call->node, had->owner, call->name);
	/* Whoever gives it up in another one's name does not know that. */
	if (is_acted_on(call, had->owner) && m != NULL && m->pid != call->pid)
		sim_fail("condition", "%s was told of %s and gives that up, and nobody else is told",
				 had->owner, had->in);
}

void
conditions_after(const ScriptCall *call)
{
	if (!script_is(call, "condition"))
		return;
	for (int i = 0; i < call->after->n; i++)
	{
		const Had  *had = &call->after->had[i];

		if (had_find(call->before, had) != NULL)
			continue;
		if (had->kind == VIEW_WAITING)
		{
			mark_made(call->node, had->owner)->pid = call->pid;
			mark_made(call->node, had->owner)->is_old = false;
		}
		else if (had->kind == VIEW_TOLD)
		{
			check_order(call, had);
			strike(mark_find(call->node, had->owner));
		}
	}
	for (int i = 0; i < call->before->n; i++)
		if (call->before->had[i].kind == VIEW_TOLD &&
			had_find(call->after, &call->before->had[i]) == NULL)
			told_gone(call, &call->before->had[i]);
	if (script_does(call, "notify") && call->answer[0] == ':')
	{
		char		waiting[REDIS_NAME];

		snprintf(waiting, sizeof(waiting), "%.*s", (int) call->keys[2].len, call->keys[2].text);
		*redis_condition_things(waiting) += (int) word_number(word_of(call->answer + 1));
	}
}

/* ----------
 * For the workload and its checks
 * ----------
 */

static HadList list;

int64_t
redis_told_until(const char *waiter)
{
	int			node = redis_present();

	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
		if (list.had[i].kind == VIEW_TOLD && strcmp(list.had[i].owner, waiter) == 0)
			return list.had[i].ends_ms * SIM_MS - (redis_clock(node) - sim_now());
	return 0;
}

bool
redis_is_forgotten(const char *waiting, const char *waiter)
{
	int			node = redis_present();
	char		told[REDIS_NAME];

	snprintf(told, sizeof(told), "%s%s", TOLD, waiting + strlen(WAITING));
	if (*redis_condition_things(waiting) == 0 ||
		db_look(redis_db(node), word_of(told), redis_clock_ms(node)) != NULL)
		return false;
	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
		if (list.had[i].kind == VIEW_WAITING && strcmp(list.had[i].in, waiting) == 0 &&
			list.had[i].ends_ms > redis_clock_ms(node) &&
			strcmp(list.had[i].owner, waiter) == 0)
			return true;
	return false;
}

/*
 * With a clock that was set back a request may run that could not any more, and who was given
 * up as one who does not count does so again.
 */
const char *
redis_find_waiter(const char *prefix)
{
	int			node = redis_present();

	if (!redis_clocks_are_good())
		return NULL;
	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
		if ((list.had[i].kind == VIEW_WAITING || list.had[i].kind == VIEW_TOLD) &&
			list.had[i].ends_ms > redis_clock_ms(node) &&
			!mark_is_old(node, list.had[i].owner) &&
			strncmp(list.had[i].owner, prefix, strlen(prefix)) == 0)
			return list.had[i].in;
	return NULL;
}
