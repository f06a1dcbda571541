/*-------------------------------------------------------------------------
 *
 * redis_counts.c
 *	  What must be so of permits, semaphores and latches: after each script, and when the
 *	  schedule is over.
 *
 * There is a book of all tickets: the workload says what became of the call that made the
 * request, what Redis has says how often it was counted.  So a request that is repeated
 * after its ticket was forgotten, or given up though it was promised, is found when it
 * happens, or when the schedule is over.  What is free and what is held are as many permits
 * before a script as after it, unless it says how many there are.
 *
 * What was counted is not judged any more once a node has lost data.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_counts.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clusters.h"
#include "config.h"
#include "network.h"
#include "redis_counts.h"
#include "redis_marks.h"
#include "redis_scripts.h"
#include "server.h"

#define MAX_BOOK		2048
#define MAX_LOOSE		512
#define ID_SIZE			33

#define LONGEST_POLL	(31 * SIM_S)

/* What the store gives at first. */
#define PERMITS_FIRST	2
#define SEMAPHORE_FIRST	3

/* Of all tickets; by what they were first seen as. */
typedef struct Booked
{
	char		ticket[REDIS_OWNER];
	bool		noted;			/* the workload has said something of it */
	int			server;
	TicketState state;
	int64_t		amount;
	int			counted;		/* so often; an acquire that was undone is not */
} Booked;

static Booked book[MAX_BOOK];
static int	nbooked;

/* Is what was counted still what was asked for? */
static bool judged;

/* Has one of two clusters counted anything?  The other one does not know its tickets. */
static bool counted_at[2];

/* What each server sent before is of a life of it that is over. */
static int64_t ended_at[SIM_MAX_SERVERS];

static char loose[MAX_LOOSE][ID_SIZE];
static int	nloose;

static int	most[COUNTS_NAMES];
static int64_t open_at[COUNTS_NAMES];
static bool is_open[COUNTS_NAMES];

/* In a cluster: there is one of that name, at whichever node. */
static bool made[3][COUNTS_NAMES];

/* ----------
 * Numbers
 * ----------
 */

static int
index_of(const char *name)
{
	return atoi(name + 1) % COUNTS_NAMES;
}

static int
kind_of(const char *name)
{
	return name[0] == 'p' ? 0 : name[0] == 's' ? 1 : 2;
}

/* Permits, semaphores and latches have names of their own: a letter and a number. */
static bool
is_number(Word name)
{
	return name.len == 2 && strchr("psl", name.text[0]) != NULL;
}

static int64_t
value_of(int node, const char *name)
{
	long long	value;

	(void) view_number(redis_db(node), redis_clock_ms(node), word_of(name), &value);
	return value;
}

static bool
is_there(int node, const char *name)
{
	return db_look(redis_db(node), word_of(name), redis_clock_ms(node)) != NULL;
}

/*
 * make --- somebody has said how many there are: of permits and semaphores
 *
 * In a cluster once: a slot that has moved has taken it along, whatever is asked about it
 * where it was.
 */
static void
make(int node, const char *name)
{
	bool	   *m;
	DbKey	   *key;
	char		first[8];

	if (name[0] == 'l' || is_there(node, name))
		return;
	m = &made[kind_of(name)][index_of(name)];
	if (sim_config.cluster && *m)
		return;
	*m = true;
	key = db_make(redis_db(node), word_of(name), DB_STRING);
	snprintf(first, sizeof(first), "%d", name[0] == 'p' ? PERMITS_FIRST : SEMAPHORE_FIRST);
	(void) db_insert(key, 0, word_of(first));
}

/* What a node has of the number itself: it is made anew where that is gone. */
static void
set_made(int node, bool to)
{
	for (int i = 0; i < redis_db(node)->n; i++)
	{
		Word		name = redis_db(node)->key[i]->name;

		if (is_number(name))
			made[kind_of(name.text)][index_of(name.text)] = to;
	}
}

static int
count_permits(int node, const char *name)
{
	char		text[REDIS_NAME];
	const DbKey *had;

	snprintf(text, sizeof(text), "{%s}:timeout", name);
	had = db_look(redis_db(node), word_of(text), redis_clock_ms(node));
	return had == NULL ? 0 : had->n;
}

/* What a latch is now is another thing, perhaps. */
static void
note_latches(void)
{
	for (int i = 0; i < COUNTS_NAMES; i++)
	{
		char		name[8];
		bool		open;

		snprintf(name, sizeof(name), "l%d", i);
		open = value_of(redis_place_of(name), name) <= 0;
		if (is_open[i] && !open)
			open_at[i] = sim_now();
		is_open[i] = open;
	}
}

void
counts_reset(void)
{
	nbooked = nloose = 0;
	memset(counted_at, 0, sizeof(counted_at));
	judged = true;
	memset(made, 0, sizeof(made));
	memset(ended_at, 0, sizeof(ended_at));
	for (int i = 0; i < COUNTS_NAMES; i++)
	{
		most[i] = PERMITS_FIRST;
		is_open[i] = true;
		open_at[i] = 0;
	}
}

void
counts_lose(int node)
{
	set_made(node, false);
	judged = false;
	note_latches();
}

void
counts_restored(int node)
{
	set_made(node, true);
	note_latches();
}

void
counts_moved(void)
{
	note_latches();
}

/* ----------
 * The book of tickets
 * ----------
 */

static Booked *
booked(const char *ticket, int server)
{
	for (int i = nbooked - 1; i >= 0; i--)
		if (strcmp(book[i].ticket, ticket) == 0)
			return &book[i];
	if (nbooked == MAX_BOOK)
	{
		judged = false;
		nbooked = 0;
	}
	memset(&book[nbooked], 0, sizeof(Booked));
	snprintf(book[nbooked].ticket, REDIS_OWNER, "%s", ticket);
	book[nbooked].server = server;
	return &book[nbooked++];
}

void
redis_note_ticket(const char *ticket, TicketState state, int64_t amount)
{
	Booked	   *b = booked(ticket, sim_server());

	b->noted = true;
	b->state = state;
	b->amount = amount;
	if (judged && state == TICKET_HAD && b->counted != 1)
		sim_fail("count", "a call has returned, and what it was to take (%s) is not taken",
				 ticket);
	if (judged && state == TICKET_NOT && b->counted != 0)
		sim_fail("count", "%s was counted, and is given up", ticket);
}

int
redis_times_counted(const char *ticket)
{
	return booked(ticket, sim_server())->counted;
}

/* Has this server taken that permit? */
static bool
is_of_server(int node, const char *id)
{
	const Mark *m = mark_find(node, id);

	return m != NULL && server_of_pid(m->pid) == sim_server();
}

static void
mark_permits_old(int node)
{
	static HadList list;

	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
		if (list.had[i].kind == VIEW_PERMIT && is_of_server(node, list.had[i].owner))
			mark_made(node, list.had[i].owner)->is_old = true;
}

void
redis_counts_server_ended(void)
{
	ended_at[sim_server()] = sim_now();
	for (int i = 0; i < nbooked; i++)
		if (book[i].server == sim_server() &&
			(book[i].state == TICKET_OWED || book[i].state == TICKET_LATER ||
			 book[i].state == TICKET_ASKED))
			book[i].state = TICKET_PERHAPS;
	for (int i = 0; i < REDIS_NODES && sim_config.counts; i++)
		mark_permits_old(i);
}

/* Of a life of its server that is over. */
static bool
is_of_former_life(const ScriptCall *call)
{
	return net_sent_at() <= ended_at[server_of_pid(call->pid)];
}

static void
note_counted(const ScriptCall *call, const char *ticket, int64_t amount)
{
	Booked	   *b = booked(ticket, server_of_pid(call->pid));

	b->counted++;
	counted_at[clusters_is_other(call->node)] = true;
	judged = judged && !(counted_at[false] && counted_at[true]);
	if (!b->noted && is_of_former_life(call))
		b->state = TICKET_PERHAPS;
	if (!judged)
		return;
	if (b->counted > 1)
		sim_fail("count", "%s is counted twice", ticket);
	if (b->noted && (b->state == TICKET_LATER || b->state == TICKET_NOT))
		sim_fail("count", "%s is counted, and %s", ticket, b->state == TICKET_NOT ?
				 "nobody wants that any more" : "its transaction has not committed");
	if (b->noted && b->state == TICKET_OWED && b->amount != amount)
		sim_fail("count", "%s is counted with %lld instead of %lld", ticket,
				 (long long) amount, (long long) b->amount);
}

static void
note_undone(const ScriptCall *call, const char *ticket)
{
	Booked	   *b = booked(ticket, server_of_pid(call->pid));

	b->counted--;
	if (judged && b->state == TICKET_HAD)
		sim_fail("count", "%s is undone, and its call has returned", ticket);
}

void
redis_check_counts(void)
{
	for (int i = 0; i < nbooked && judged; i++)
	{
		const Booked *b = &book[i];

		if (b->state == TICKET_OWED && b->counted != 1)
			sim_fail("count", "%s was promised, and not counted", b->ticket);
		/* With a clock that was set back it may have run after it was given back. */
		if (b->state == TICKET_ASKED && b->counted != 0 && redis_clocks_are_good())
			sim_fail("count", "%s has taken permits, and its call has failed", b->ticket);
		sim_reached(b->state == TICKET_OWED ? "ticket counted" :
					b->state == TICKET_HAD ? "ticket had" : "ticket of no effect");
	}
}

/* ----------
 * Before and after a script
 * ----------
 */

/* Of the numbers that a script is about: what each was before. */
typedef struct Number
{
	char		name[8];
	int64_t		value;
	int			permits;
} Number;

#define MAX_NUMBERS		8

static Number numbers[MAX_NUMBERS];
static int	nnumbers;

static void
add_number(const ScriptCall *call, Word key)
{
	Number	   *n = &numbers[nnumbers];

	if (!is_number(key) || nnumbers == MAX_NUMBERS)
		return;
	snprintf(n->name, sizeof(n->name), "%.*s", (int) key.len, key.text);
	for (int i = 0; i < nnumbers; i++)
		if (strcmp(numbers[i].name, n->name) == 0)
			return;
	make(call->node, n->name);
	n->value = value_of(call->node, n->name);
	n->permits = count_permits(call->node, n->name);
	nnumbers++;
}

static bool
is_counted(const ScriptCall *call)
{
	return script_is(call, "permit") || script_is(call, "semaphore") || script_is(call, "latch");
}

void
counts_before(const ScriptCall *call)
{
	nnumbers = 0;
	for (int i = 0; i < call->nkeys && is_counted(call); i++)
		add_number(call, call->keys[i]);
}

/* Where an argument stands: the ticket; how many it is about is before it. */
static int64_t
amount_of(const ScriptCall *call, const char *ticket)
{
	for (int i = 1; i < call->nargs; i++)
		if (word_is(call->argv[i], ticket))
			return word_number(call->argv[i - 1]);
	return 0;
}

/* By how much is the number to change because of the tickets that came or went? */
static int64_t
change_of(const ScriptCall *call, const Number *n)
{
	int64_t		change = 0;

	for (int i = 0; i < call->after->n; i++)
	{
		const Had  *had = &call->after->had[i];

		if (had->kind == VIEW_TICKET && strcmp(had->key, n->name) == 0 &&
			had_find(call->before, had) == NULL)
			change += (script_is(call, "semaphore") && script_does(call, "count") ? 1 : -1) *
				amount_of(call, had->owner);
	}
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];

		if (had->kind == VIEW_TICKET && strcmp(had->key, n->name) == 0 &&
			script_does(call, "release") && had_find(call->after, had) == NULL)
			change += amount_of(call, had->owner);
	}
	return change;
}

/* What has changed is what the tickets say; a latch stops at 0. */
static void
check_value(const ScriptCall *call, const Number *n)
{
	int64_t		value = value_of(call->node, n->name);
	int64_t		wanted = n->value + change_of(call, n);

	if (n->name[0] == 's' && !is_there(call->node, n->name))
		return;
	if (n->name[0] == 'l' && wanted < 0)
		wanted = 0;
	if (n->name[0] == 's' && script_does(call, "create") && value < 0 && value < n->value)
		sim_fail("count", "redis %d: %s has %lld, and more than that is taken", call->node, n->name,
				 (long long) n->value);
	if (value != wanted)
		sim_fail("count", "redis %d: %s is %lld after the script \"%s\", and was %lld", call->node,
				 n->name, (long long) value, call->name, (long long) n->value);
}

/* What is free and what is held are all that there is. */
static void
check_total(const ScriptCall *call, const Number *n)
{
	int64_t		total = value_of(call->node, n->name) + count_permits(call->node, n->name);
	bool		set = script_does(call, "define") && call->nargs > 3;

	if (set && total == word_number(call->argv[3]))
	{
		if (total > most[index_of(n->name)])
			most[index_of(n->name)] = (int) total;
	}
	else if (total != n->value + n->permits)
		sim_fail("count", "redis %d: there are %lld permits of %s after the script \"%s\", and were %lld",
				 call->node, (long long) total, n->name, call->name,
				 (long long) (n->value + n->permits));
}

/* One is taken by who asks, while he may, and given back by who has it. */
static void
permit_taken(const ScriptCall *call, const Had *had)
{
	if (!script_does(call, "create"))
		sim_fail("count", "redis %d: a permit of %s is taken by the script \"%s\"", call->node,
				 had->key, call->name);
	mark_made(call->node, had->owner)->is_old = is_of_former_life(call);
	mark_made(call->node, had->owner)->pid = call->pid;
}

static bool
names_permit(const ScriptCall *call, const char *id)
{
	for (int i = 0; i < call->nargs; i++)
	{
		char		owner[REDIS_OWNER];
		View		v = {.kind = VIEW_PERMIT,.owner = call->argv[i]};

		if (call->argv[i].len != 16)
			continue;
		had_owner(&v, owner);
		if (strcmp(owner, id) == 0)
			return true;
	}
	return false;
}

static void
permit_gone(const ScriptCall *call, const Had *had)
{
	if (script_does(call, "force"))
		redis_note_robbed(had->owner);
	else if (had->ends_ms > redis_clock_ms(call->node) &&
			 !(script_does(call, "release") && names_permit(call, had->owner)))
		sim_fail("taken away", "redis %d: a permit of %s is taken away by the script \"%s\"",
				 call->node, had->key, call->name);
}

static void
check_permit_lease(const ScriptCall *call, const Had *before, const Had *after)
{
	if (after->ends_ms < before->ends_ms)
		sim_fail("taken away", "redis %d: the lease of a permit of %s is %lld ms shorter after the script \"%s\"",
				 call->node, after->key, (long long) (before->ends_ms - after->ends_ms), call->name);
}

void
counts_after(const ScriptCall *call)
{
	for (int i = 0; i < call->after->n; i++)
	{
		const Had  *had = &call->after->had[i];
		const Had  *before = had_find(call->before, had);

		if (had->kind == VIEW_PERMIT && before != NULL)
			check_permit_lease(call, before, had);
		else if (had->kind == VIEW_PERMIT)
			permit_taken(call, had);
		else if (had->kind == VIEW_TICKET && before == NULL)
			note_counted(call, had->owner, amount_of(call, had->owner));
	}
	for (int i = 0; i < call->before->n; i++)
	{
		const Had  *had = &call->before->had[i];

		if (had_find(call->after, had) != NULL)
			continue;
		if (had->kind == VIEW_PERMIT)
			permit_gone(call, had);
		else if (had->kind == VIEW_TICKET && script_does(call, "release"))
			note_undone(call, had->owner);
	}
	for (int i = 0; i < nnumbers; i++)
	{
		if (numbers[i].name[0] == 'p')
			check_total(call, &numbers[i]);
		else if (!script_does(call, "define"))
			check_value(call, &numbers[i]);
	}
	if (nnumbers > 0)
		note_latches();
}

/* ----------
 * For who asks
 * ----------
 */

bool
redis_counts_has(const char *key, int64_t amount)
{
	int			node = redis_place_of(key);
	int64_t		value;
	static HadList list;

	make(node, key);
	value = value_of(node, key);
	if (key[0] == 'l')
		return value <= 0;
	if (key[0] == 's')
		return is_there(node, key) && value >= amount;
	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
		value += list.had[i].kind == VIEW_PERMIT && strcmp(list.had[i].key, key) == 0 &&
			list.had[i].ends_ms <= redis_clock_ms(node);
	return is_there(node, key) && value > 0;
}

int64_t
redis_latch_open_at(const char *key)
{
	return is_open[index_of(key)] ? sim_now() : open_at[index_of(key)];
}

void
redis_note_permit(const char *key, const char *id)
{
	if (nloose == MAX_LOOSE)
		sim_fail("simulator", "too many permits without a session");
	snprintf(loose[nloose++], ID_SIZE, "%s", id);
}

static bool
is_loose(const char *id)
{
	for (int i = 0; i < nloose; i++)
		if (strcmp(loose[i], id) == 0)
			return true;
	return false;
}

static void
see_permit(const View *v, void *arg)
{
	Had		   *wanted = arg;
	char		owner[REDIS_OWNER];

	if (v->kind != VIEW_PERMIT || !word_is(v->key, wanted->key))
		return;
	had_owner(v, owner);
	if (strcmp(owner, wanted->owner) == 0)
		wanted->ends_ms = v->ends_ms;
}

int64_t
redis_permit_until(const char *key, const char *id)
{
	int			node = redis_place_of(key);
	Had			wanted = {.ends_ms = 0};

	snprintf(wanted.key, sizeof(wanted.key), "%s", key);
	snprintf(wanted.owner, sizeof(wanted.owner), "%s", id);
	view_all(redis_db(node), redis_clock_ms(node), see_permit, &wanted);
	return wanted.ends_ms == 0 ? 0 : wanted.ends_ms * SIM_MS - (redis_clock(node) - sim_now());
}

int
redis_permits_most(const char *key)
{
	return most[index_of(key)];
}

static const char *
find_unknown_permit(int node, bool (*knows) (const char *key, const char *id))
{
	static HadList list;

	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
	{
		const Had  *had = &list.had[i];

		if (had->kind == VIEW_PERMIT && !mark_is_old(node, had->owner) &&
			is_of_server(node, had->owner) && had->ends_ms > redis_clock_ms(node) && !is_loose(had->owner) &&
			node == redis_place_of(had->key) && !knows(had->key, had->owner))
			return had->key;
	}
	return NULL;
}

const char *
redis_find_permit(bool (*knows) (const char *key, const char *id))
{
	const char *key = NULL;

	for (int i = 0; i < REDIS_NODES && key == NULL && sim_config.counts && redis_clocks_are_good(); i++)
		key = find_unknown_permit(i, knows);
	return key;
}

void
redis_take_permits(int node, const char *key)
{
	static HadList list;
	char		text[REDIS_NAME];
	DbKey	   *had;

	sim_trace("redis %d: somebody takes all permits of %s away", node, key);
	had_list(node, &list);
	for (int i = 0; i < list.n; i++)
		if (list.had[i].kind == VIEW_PERMIT && strcmp(list.had[i].key, key) == 0)
			redis_note_robbed(list.had[i].owner);
	make(node, key);
	snprintf(text, sizeof(text), "{%s}:timeout", key);
	had = db_find(redis_db(node), word_of(text), redis_clock_ms(node));
	if (had != NULL && is_there(node, key))
	{
		DbKey	   *number = db_find(redis_db(node), word_of(key), redis_clock_ms(node));

		snprintf(text, sizeof(text), "%lld", (long long) value_of(node, key) + had->n);
		db_set_name(&number->item[0], word_of(text));
		db_delete(redis_db(node), had);
	}
	sim_disturbed(sim_now() + LONGEST_POLL);
}
