/*-------------------------------------------------------------------------
 *
 * redis_conditions.c
 *	  The part of the model of Redis that is conditions of locks: who waits, until when
 *	  each of them counts, who was told and until when that is his.
 *
 * What a script does here is what the file of the same name in src/kinds does.  The lock
 * that is given back by a wait is one of redis_model.c.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_conditions.c
 *
 *-------------------------------------------------------------------------
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "redis_conditions.h"
#include "redis_script.h"

#define MAX_CONDITIONS	(2 * SIM_MAX_KEYS)
#define MAX_WAITERS		24

/* Who waits, or was told. */
typedef struct Waiter
{
	char		owner[REDIS_OWNER];
	int64_t		until_ms;		/* on its clock */
	bool		is_old;			/* has come back */
	int			pid;			/* of his session */
} Waiter;

typedef struct List
{
	int			n;
	Waiter		w[MAX_WAITERS];
} List;

typedef struct Condition
{
	char		name[REDIS_NAME];	/* of the list of who waits */
	List		waiting;			/* in the order of arrival */
	List		told;
} Condition;

typedef struct Conditions
{
	int			n;
	Condition	condition[MAX_CONDITIONS];
} Conditions;

static Conditions present[REDIS_NODES];
static Conditions saved[REDIS_NODES];
static Conditions replica[REDIS_NODES];

static bool clock_was_set;

static struct
{
	char		name[REDIS_NAME];
	int			n;
}			things[MAX_CONDITIONS];
static int	nthings;

/* ----------
 * Data
 * ----------
 */

static Condition *
find(int node, const char *name)
{
	Conditions *d = &present[node];

	for (int i = 0; i < d->n; i++)
		if (strcmp(d->condition[i].name, name) == 0)
			return &d->condition[i];
	if (d->n == MAX_CONDITIONS)
		sim_fail("simulator", "too many conditions: %s", name);
	snprintf(d->condition[d->n].name, REDIS_NAME, "%s", name);
	d->condition[d->n].waiting.n = d->condition[d->n].told.n = 0;
	return &d->condition[d->n++];
}

static int64_t
now_ms(int node)
{
	return redis_clock(node) / SIM_MS;
}

static Waiter *
find_waiter(List *l, const char *owner)
{
	for (int i = 0; i < l->n; i++)
		if (strcmp(l->w[i].owner, owner) == 0)
			return &l->w[i];
	return NULL;
}

static void
take_away(List *l, Waiter *w)
{
	memmove(w, w + 1, sizeof(Waiter) * (&l->w[--l->n] - w));
}

static Waiter *
append(List *l, const char *owner, int64_t until_ms)
{
	if (l->n == MAX_WAITERS)
		sim_fail("simulator", "too many wait for a condition");
	memset(&l->w[l->n], 0, sizeof(Waiter));
	snprintf(l->w[l->n].owner, REDIS_OWNER, "%s", owner);
	l->w[l->n].until_ms = until_ms;
	return &l->w[l->n++];
}

static void
rob_list(const List *l)
{
	for (int i = 0; i < l->n; i++)
		redis_note_robbed(l->w[i].owner);
}

static void
rob(const Conditions *of)
{
	for (int i = 0; i < of->n; i++)
	{
		rob_list(&of->condition[i].waiting);
		rob_list(&of->condition[i].told);
	}
}

static void
copy(Conditions *to, const Conditions *from)
{
	to->n = from->n;
	memcpy(to->condition, from->condition, sizeof(Condition) * from->n);
}

static void
restore(int node, const Conditions *from)
{
	rob(&present[node]);
	copy(&present[node], from);
	for (int i = 0; i < from->n; i++)
	{
		for (int j = 0; j < from->condition[i].waiting.n; j++)
			present[node].condition[i].waiting.w[j].is_old = true;
		for (int j = 0; j < from->condition[i].told.n; j++)
			present[node].condition[i].told.w[j].is_old = true;
	}
}

void
redis_conditions_event(int node, DataEvent event)
{
	switch (event)
	{
		case DATA_RESET:
			for (int i = 0; i < REDIS_NODES; i++)
				present[i].n = saved[i].n = replica[i].n = 0;
			nthings = 0;
			clock_was_set = false;
			break;
		case DATA_LOST:
			rob(&present[node]);
			present[node].n = 0;
			break;
		case DATA_SAVED:
			copy(&saved[node], &present[node]);
			break;
		case DATA_RESTORED:
			restore(node, &saved[node]);
			break;
		case DATA_REPLICATED:
			copy(&replica[node], &present[node]);
			break;
		case DATA_FAILED_OVER:
			restore(node, &replica[node]);
			break;
		case DATA_CLOCK_SET:
			rob(&present[node]);
			clock_was_set = true;
			break;
	}
}

/* ----------
 * Telling
 * ----------
 */

static void
cancel(void *arg, int64_t pid)
{
	(void) arg;
	(void) sim_kill((int) pid, SIGINT);
}

/*
 * strike --- who is told does not come to it, now and then
 *
 * What was told must not get lost by that; a cancel at any time would hardly ever meet
 * him between being told and having the lock.
 */
static void
strike(const Waiter *told)
{
	if (!sim_config.calm && sim_chance(300))
		sim_at(sim_now() + sim_draw((uint32_t) SIM_PICK(500, 5 * SIM_MS)), cancel, NULL, told->pid);
}

/* The first who counts; 0: there is none. */
static int
tell_one(int node, Condition *c, const Word *topic)
{
	while (c->waiting.n > 0)
	{
		Waiter		first = c->waiting.w[0];
		Waiter	   *w;
		char		name[REDIS_NAME];
		char		channel[REDIS_NAME + REDIS_OWNER];

		take_away(&c->waiting, &c->waiting.w[0]);
		if (first.until_ms <= now_ms(node))
			continue;
		w = append(&c->told, first.owner, first.until_ms);
		w->is_old = first.is_old;
		w->pid = first.pid;
		strike(&first);
		word_copy(name, sizeof(name), topic);
		snprintf(channel, sizeof(channel), "%s:%s", name, first.owner);
		sim_trace("redis %d: %s is told of %s", node, first.owner, c->name);
		(void) redis_publish_until(node, channel, sim_now() +
								   sim_config.wait_lease_ms * SIM_MS / 3 + SIM_S);
		return 1;
	}
	return 0;
}

/* What the dead were told is the next one's. */
static void
pass_on_of_dead(int node, Condition *c, const Word *topic)
{
	int			ndead = 0;

	for (int i = c->told.n - 1; i >= 0; i--)
		if (c->told.w[i].until_ms <= now_ms(node))
		{
			take_away(&c->told, &c->told.w[i]);
			ndead++;
		}
	while (ndead-- > 0)
		(void) tell_one(node, c, topic);
}

/* ----------
 * Scripts
 * ----------
 */

static bool
is_refused(int node, bool needs_memory)
{
	const char *words = redis_refuses(node, needs_memory);

	if (words != NULL)
		reply_error(words);
	return words != NULL;
}

static void
put_queued(int code, int64_t number, int64_t now)
{
	reply_put("*4\r\n:%d\r\n:%lld\r\n$0\r\n\r\n:%lld\r\n", code, (long long) number,
			  (long long) now);
}

/* Does somebody else have the lock, or nobody?  Then that is put. */
static bool
has_another(int node, const RedisArg *lock)
{
	RedisAnswer answer;

	if (redis_owned_there_until(node, lock->key, lock->owner) != 0)
		return false;
	redis_run(node, REDIS_INSPECT, lock, &answer);
	reply_text(answer.there ? answer.holder : "");
	return true;
}

static void
read_lock(const ScriptCall *call, const Word *channel, const Word *owner, RedisArg *lock)
{
	memset(lock, 0, sizeof(RedisArg));
	word_copy(lock->key, sizeof(lock->key), &call->keys[0]);
	if (channel != NULL)
		word_copy(lock->channel, sizeof(lock->channel), channel);
	word_copy(lock->owner, sizeof(lock->owner), owner);
}

/* The lock goes, and who waits comes. */
static void
give_back_and_wait(const ScriptCall *call, Condition *c, const char *waiter)
{
	int64_t		wait = word_number(&call->argv[5]);
	RedisArg	lock;
	RedisAnswer answer;

	read_lock(call, &call->keys[1], &call->argv[6], &lock);
	if (has_another(call->node, &lock) || is_refused(call->node, true))
		return;
	append(&c->waiting, waiter, now_ms(call->node) + wait)->pid = call->pid;
	redis_run(call->node, REDIS_RELEASE, &lock, &answer);
	put_queued(1, wait, now_ms(call->node));
}

static void
create(const ScriptCall *call, Condition *c)
{
	int64_t		now = now_ms(call->node);
	int64_t		wait = word_number(&call->argv[5]);
	char		waiter[REDIS_OWNER];
	Waiter	   *w;

	word_copy(waiter, sizeof(waiter), &call->argv[2]);
	if (now > word_number(&call->argv[3]))
	{
		put_queued(2, 0, now);
		return;
	}
	if (call->argv[6].len > 0)
	{
		give_back_and_wait(call, c, waiter);
		return;
	}
	if (is_refused(call->node, true))
		return;
	pass_on_of_dead(call->node, c, &call->keys[2]);
	w = find_waiter(&c->told, waiter);
	if (w != NULL)
	{
		w->until_ms = now + word_number(&call->argv[4]) + 1;
		w->is_old = false;
		put_queued(0, 0, now);
		return;
	}
	w = find_waiter(&c->waiting, waiter);
	if (w == NULL)
	{
		put_queued(0, 0, now);
		return;
	}
	w->until_ms = now + wait;
	w->is_old = false;
	if (wait == 0)
		take_away(&c->waiting, w);
	put_queued(1, wait, now);
}

/* Of each: waiter, lease. */
static void
renew(const ScriptCall *call)
{
	reply_put("*%d\r\n", call->nkeys / 4);
	for (int i = 0; i < call->nkeys / 4; i++)
	{
		int64_t		until = now_ms(call->node) + word_number(&call->argv[2 * i + 3]) + 1;
		char		name[REDIS_NAME];
		char		waiter[REDIS_OWNER];
		Condition  *c;
		Waiter	   *w;

		word_copy(name, sizeof(name), &call->keys[4 * i + 1]);
		word_copy(waiter, sizeof(waiter), &call->argv[2 * i + 2]);
		c = find(call->node, name);
		if (is_refused(call->node, true))
			continue;
		pass_on_of_dead(call->node, c, &call->keys[4 * i]);
		w = find_waiter(&c->told, waiter);
		if (w == NULL)
		{
			reply_text("");
			continue;
		}
		if (w->until_ms < until)
			w->until_ms = until;
		w->is_old = false;
		reply_put(":1\r\n");
	}
}

/* Of each: waiter, has he acted on it? */
static void
release(const ScriptCall *call)
{
	reply_put("*%d\r\n", call->nkeys / 4);
	for (int i = 0; i < call->nkeys / 4; i++)
	{
		bool		acted = word_number(&call->argv[2 * i + 3]) != 0;
		char		name[REDIS_NAME];
		char		waiter[REDIS_OWNER];
		Condition  *c;
		Waiter	   *w;

		word_copy(name, sizeof(name), &call->keys[4 * i + 1]);
		word_copy(waiter, sizeof(waiter), &call->argv[2 * i + 2]);
		c = find(call->node, name);
		if (is_refused(call->node, false))
			continue;
		if ((w = find_waiter(&c->told, waiter)) != NULL)
		{
			/* Who gives it up in another one's name does not know that. */
			if (acted && w->pid != call->pid)
				sim_fail("condition", "%s was told of %s and gives that up, and nobody else is told",
						 waiter, name);
			take_away(&c->told, w);
			sim_trace("redis %d: %s %s", call->node, waiter, acted ? "has acted on it" : "passes it on");
			reply_put(":%d\r\n", acted ? 0 : tell_one(call->node, c, &call->keys[4 * i]));
		}
		else if ((w = find_waiter(&c->waiting, waiter)) != NULL)
		{
			take_away(&c->waiting, w);
			sim_trace("redis %d: %s waits no more", call->node, waiter);
			reply_put(":0\r\n");
		}
		else
			reply_put(":-1\r\n");
	}
}

static void
notify(const ScriptCall *call, Condition *c)
{
	int			most = (int) word_number(&call->argv[3]);
	int			n = 0;
	RedisArg	lock;

	read_lock(call, NULL, &call->argv[2], &lock);
	if (has_another(call->node, &lock) || is_refused(call->node, true))
		return;
	pass_on_of_dead(call->node, c, &call->keys[1]);
	while (n < most && tell_one(call->node, c, &call->keys[1]) == 1)
		n++;
	*redis_condition_things(c->name) += n;
	reply_put(":%d\r\n", n);
}

/* ----------
 * For the workload and its checks
 * ----------
 */

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

int64_t
redis_told_until(const char *waiter)
{
	Conditions *d = &present[redis_present()];

	for (int i = 0; i < d->n; i++)
	{
		const Waiter *w = find_waiter(&d->condition[i].told, waiter);

		if (w != NULL)
			return w->until_ms * SIM_MS - (redis_clock(redis_present()) - sim_now());
	}
	return 0;
}

bool
redis_is_forgotten(const char *waiting, const char *waiter)
{
	Condition  *c = find(redis_present(), waiting);
	const Waiter *w = find_waiter(&c->waiting, waiter);

	return *redis_condition_things(waiting) > 0 && c->told.n == 0 && w != NULL &&
		w->until_ms > now_ms(redis_present());
}

static bool
is_left(int node, const List *l, const char *prefix)
{
	for (int i = 0; i < l->n; i++)
		if (!l->w[i].is_old && l->w[i].until_ms > now_ms(node) &&
			strncmp(l->w[i].owner, prefix, strlen(prefix)) == 0)
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

	for (int i = 0; i < present[node].n && !clock_was_set; i++)
		if (is_left(node, &present[node].condition[i].waiting, prefix) ||
			is_left(node, &present[node].condition[i].told, prefix))
			return present[node].condition[i].name;
	return NULL;
}

/* ----------
 * Which script it is
 * ----------
 */

bool
redis_is_condition_script(const char *name)
{
	return strncmp(name, "condition ", 10) == 0;
}

void
redis_run_condition(const char *name, const ScriptCall *call)
{
	const char *verb = strchr(name, ' ') + 1;
	char		waiting[REDIS_NAME];

	if (strcmp(verb, "renew") == 0)
		renew(call);
	else if (strcmp(verb, "release") == 0)
		release(call);
	else if (strcmp(verb, "create") == 0)
	{
		word_copy(waiting, sizeof(waiting), &call->keys[3]);
		create(call, find(call->node, waiting));
	}
	else
	{
		word_copy(waiting, sizeof(waiting), &call->keys[2]);
		notify(call, find(call->node, waiting));
	}
}
