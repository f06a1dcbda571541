/*-------------------------------------------------------------------------
 *
 * redis_counts.c
 *	  The part of the model of Redis that is numbers: permits with a lease, semaphores
 *	  without owners, latches; and what must be so of them.
 *
 * What a script does here is what the file of the same name in src/kinds does.  Beside
 * that the model has a book of all tickets: what became of the call that made the request
 * is told by the workload, how often it was counted is seen here.  So a request that is
 * repeated after its ticket was forgotten, or given up though it was promised, is found
 * when it happens, or when the schedule is over.
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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "network.h"
#include "redis_counts.h"
#include "redis_script.h"

#define MAX_NUMBERS		(3 * COUNTS_NAMES)
#define MAX_HAD			48
#define MAX_TICKETS		256
#define MAX_BOOK		2048
#define MAX_LOOSE		512

#define ID_BYTES		16
#define ID_SIZE			(2 * ID_BYTES + 1)

/* Who waits for what is told to nobody looks again by then. */
#define LONGEST_POLL	(31 * SIM_S)

/* What the store gives at first. */
#define PERMITS_FIRST	2
#define SEMAPHORE_FIRST	3

typedef struct Permit
{
	char		id[ID_SIZE];
	int64_t		until_ms;		/* on its clock */
	int64_t		taken_at;		/* sim_now() */
	bool		is_old;			/* has come back, or was asked for by a server that has
								 * ended */
} Permit;

typedef struct Number
{
	char		name[REDIS_NAME];
	bool		there;
	int64_t		value;			/* free permits; what is left of a latch */
	int			npermits;		/* that are had */
	Permit		permit[MAX_HAD];
	int			ntickets;		/* that are remembered */
	char		ticket[MAX_TICKETS][REDIS_OWNER];
} Number;

typedef struct Numbers
{
	int			n;
	Number		number[MAX_NUMBERS];
} Numbers;

static Numbers present[REDIS_NODES];
static Numbers saved[REDIS_NODES];
static Numbers replica[REDIS_NODES];

/* Of all tickets; by what they were first seen as. */
typedef struct Booked
{
	char		ticket[REDIS_OWNER];
	bool		noted;			/* the workload has said something of it */
	TicketState state;
	int64_t		amount;
	int			counted;		/* so often; an acquire that was undone is not */
} Booked;

static Booked book[MAX_BOOK];
static int	nbooked;

/* Is what was counted still what was asked for? */
static bool judged;
static bool clock_was_set;

/* What was sent before is of a server that is not there any more. */
static int64_t ended_at;

static char loose[MAX_LOOSE][ID_SIZE];
static int	nloose;

static int	most[COUNTS_NAMES];
static int64_t open_at[COUNTS_NAMES];
static bool is_open[COUNTS_NAMES];

static bool made[3][COUNTS_NAMES];

/* ----------
 * Data
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

/*
 * is_made --- in a cluster: has another node made it before?  From now on it has been.
 *
 * A slot that has moved has taken it along, whatever is asked about it where it was.
 */
static bool
is_made(const char *name)
{
	bool	   *m = &made[kind_of(name)][index_of(name)];
	bool		was = *m;

	*m = sim_config.cluster;
	return was;
}

static Number *
find(int node, const char *name)
{
	Numbers    *d = &present[node];
	Number	   *number;

	for (int i = 0; i < d->n; i++)
		if (strcmp(d->number[i].name, name) == 0)
			return &d->number[i];
	if (d->n == MAX_NUMBERS)
		sim_fail("simulator", "too many numbers: %s", name);
	number = &d->number[d->n++];
	snprintf(number->name, sizeof(number->name), "%s", name);
	number->there = name[0] != 'l' && !is_made(name);
	number->value = !number->there ? 0 : name[0] == 'p' ? PERMITS_FIRST : SEMAPHORE_FIRST;
	number->npermits = number->ntickets = 0;
	return number;
}

static int64_t
now_ms(int node)
{
	return redis_clock(node) / SIM_MS;
}

/* It is gone, and is made anew by whoever asks. */
static void
unmake(const Numbers *of)
{
	for (int i = 0; i < of->n; i++)
		made[kind_of(of->number[i].name)][index_of(of->number[i].name)] = false;
}

/* Their leases end at another time then, or they are gone. */
static void
rob(const Numbers *of)
{
	for (int i = 0; i < of->n; i++)
		for (int j = 0; j < of->number[i].npermits; j++)
			redis_note_robbed(of->number[i].permit[j].id);
}

static void
note_latch(int node, const Number *n)
{
	int			i = index_of(n->name);
	bool		opens = !n->there || n->value <= 0;

	if (n->name[0] != 'l' || node != redis_place_of(n->name))
		return;
	if (is_open[i] && !opens)
		open_at[i] = sim_now();
	is_open[i] = opens;
}

/* What a node has is another thing from now on. */
static void
note_latches(void)
{
	for (int i = 0; i < COUNTS_NAMES; i++)
		is_open[i] = true;
	for (int node = 0; node < REDIS_NODES; node++)
		for (int i = 0; i < present[node].n; i++)
			note_latch(node, &present[node].number[i]);
}

static void
copy(Numbers *to, const Numbers *from)
{
	to->n = from->n;
	memcpy(to->number, from->number, sizeof(Number) * from->n);
}

static const Permit *
find_kept(const Numbers *of, const char *id)
{
	for (int i = 0; i < of->n; i++)
		for (int j = 0; j < of->number[i].npermits; j++)
			if (strcmp(of->number[i].permit[j].id, id) == 0)
				return &of->number[i].permit[j];
	return NULL;
}

/* What another one has not is gone; "as_long": or is had there for less long. */
static void
rob_missing(const Numbers *of, const Numbers *other, bool as_long)
{
	for (int i = 0; i < of->n; i++)
		for (int j = 0; j < of->number[i].npermits; j++)
		{
			const Permit *p = &of->number[i].permit[j];
			const Permit *kept = find_kept(other, p->id);

			if (kept == NULL || (as_long && kept->until_ms < p->until_ms))
				redis_note_robbed(p->id);
		}
}

static void
restore(int node, const Numbers *from)
{
	copy(&present[node], from);
	for (int i = 0; i < from->n; i++)
		(void) is_made(from->number[i].name);
	for (int i = 0; i < from->n; i++)
		for (int j = 0; j < from->number[i].npermits; j++)
			present[node].number[i].permit[j].is_old = true;
	judged = false;
	note_latches();
}

static void
begin(void)
{
	for (int i = 0; i < REDIS_NODES; i++)
		present[i].n = saved[i].n = replica[i].n = 0;
	nbooked = nloose = 0;
	judged = true;
	clock_was_set = false;
	memset(made, 0, sizeof(made));
	ended_at = -1;
	for (int i = 0; i < COUNTS_NAMES; i++)
	{
		most[i] = PERMITS_FIRST;
		is_open[i] = true;
		open_at[i] = 0;
	}
}

void
redis_counts_event(int node, DataEvent event)
{
	switch (event)
	{
		case DATA_RESET:
			begin();
			break;
		case DATA_LOST:
			/* Where nobody says again how many there are all would fail from then on. */
			rob(&present[node]);
			unmake(&present[node]);
			present[node].n = 0;
			judged = false;
			note_latches();
			break;
		case DATA_SAVED:
			copy(&saved[node], &present[node]);
			break;
		case DATA_RESTORED:
			rob(&present[node]);
			unmake(&present[node]);
			restore(node, &saved[node]);
			break;
		case DATA_REPLICATED:
			copy(&replica[node], &present[node]);
			break;
		case DATA_FAILED_OVER:
			rob(&present[node]);
			restore(node, &replica[node]);
			break;
		case DATA_CLOCK_SET:
			rob(&present[node]);
			clock_was_set = true;
			break;
	}
}

/* ----------
 * The book of tickets
 * ----------
 */

static Booked *
booked(const char *ticket)
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
	return &book[nbooked++];
}

void
redis_note_ticket(const char *ticket, TicketState state, int64_t amount)
{
	Booked	   *b = booked(ticket);

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
	return booked(ticket)->counted;
}

void
redis_counts_server_ended(void)
{
	ended_at = sim_now();
	for (int i = 0; i < nbooked; i++)
		if (book[i].state == TICKET_OWED || book[i].state == TICKET_LATER ||
			book[i].state == TICKET_ASKED)
			book[i].state = TICKET_PERHAPS;
	for (int i = 0; i < REDIS_NODES; i++)
		for (int j = 0; j < present[i].n; j++)
			for (int k = 0; k < present[i].number[j].npermits; k++)
				present[i].number[j].permit[k].is_old = true;
}

static void
note_counted(const char *ticket, int64_t amount)
{
	Booked	   *b = booked(ticket);

	b->counted++;
	if (!b->noted && net_sent_at() <= ended_at)
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
note_undone(const char *ticket)
{
	Booked	   *b = booked(ticket);

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
		if (b->state == TICKET_ASKED && b->counted != 0 && !clock_was_set)
			sim_fail("count", "%s has taken permits, and its call has failed", b->ticket);
		sim_reached(b->state == TICKET_OWED ? "ticket counted" :
					b->state == TICKET_HAD ? "ticket had" : "ticket of no effect");
	}
}

/* ----------
 * What the store remembers
 * ----------
 */

static int
find_ticket(const Number *n, const char *ticket)
{
	for (int i = 0; i < n->ntickets; i++)
		if (strcmp(n->ticket[i], ticket) == 0)
			return i;
	return -1;
}

static void
forget_ticket(Number *n, const char *ticket)
{
	int			i = find_ticket(n, ticket);

	if (i >= 0)
		memmove(n->ticket[i], n->ticket[--n->ntickets], REDIS_OWNER);
}

static void
remember_ticket(Number *n, const char *ticket)
{
	if (n->ntickets == MAX_TICKETS)
		sim_fail("simulator", "too many tickets");
	snprintf(n->ticket[n->ntickets++], REDIS_OWNER, "%s", ticket);
}

void
redis_counts_forget_ticket(int node, const char *tickets, const char *ticket)
{
	const char *name = strchr(tickets, '{');
	char		number[REDIS_NAME];

	if (name == NULL)
		sim_fail("protocol", "%s are no tickets", tickets);
	snprintf(number, sizeof(number), "%.*s", (int) strcspn(name + 1, "}"), name + 1);
	sim_trace("redis %d: %s of %s is forgotten", node, ticket, number);
	forget_ticket(find(node, number), ticket);
}

/* ----------
 * Semaphores and latches
 * ----------
 */

static void
put_value(int code, int64_t number, int64_t now)
{
	reply_put("*4\r\n:%d\r\n:%lld\r\n:%lld\r\n:%lld\r\n", code, (long long) number,
			  (long long) number, (long long) now);
}

static void
put_queued(int code, int64_t number, int64_t now)
{
	reply_put("*4\r\n:%d\r\n:%lld\r\n$0\r\n\r\n:%lld\r\n", code, (long long) number,
			  (long long) now);
}

/* Refused: the words are put. */
static bool
is_refused(int node, bool needs_memory)
{
	const char *words = redis_refuses(node, needs_memory);

	if (words != NULL)
		reply_error(words);
	return words != NULL;
}

static int
tell(const ScriptCall *call, const Word *channel)
{
	char		name[REDIS_NAME];

	word_copy(name, sizeof(name), channel);
	return redis_publish_until(call->node, name, sim_now() + LONGEST_POLL);
}

static void
semaphore_create(const ScriptCall *call, Number *n)
{
	int64_t		now = now_ms(call->node);
	int64_t		amount = word_number(&call->argv[1]);
	char		ticket[REDIS_OWNER];

	word_copy(ticket, sizeof(ticket), &call->argv[2]);
	if (now > word_number(&call->argv[0]))
		put_queued(2, 0, now);
	else if (!n->there || n->value < amount)
		put_queued(1, -1, now);
	else if (!is_refused(call->node, true))
	{
		n->value -= amount;
		remember_ticket(n, ticket);
		note_counted(ticket, amount);
		sim_trace("redis %d: %s takes %lld of %s, %lld are left", call->node, ticket,
				  (long long) amount, n->name, (long long) n->value);
		put_queued(0, 0, now);
	}
}

/* Of each: n, ticket. */
static void
semaphore_release(const ScriptCall *call)
{
	reply_put("*%d\r\n", call->nkeys / 3);
	for (int i = 0; i < call->nkeys / 3; i++)
	{
		char		name[REDIS_NAME];
		char		ticket[REDIS_OWNER];
		Number	   *n;

		word_copy(name, sizeof(name), &call->keys[3 * i]);
		word_copy(ticket, sizeof(ticket), &call->argv[2 * i + 2]);
		n = find(call->node, name);
		if (find_ticket(n, ticket) < 0)
			reply_put(":-1\r\n");
		else if (!is_refused(call->node, false))
		{
			if (n->there)
				n->value += word_number(&call->argv[2 * i + 1]);
			forget_ticket(n, ticket);
			note_undone(ticket);
			sim_trace("redis %d: %s is undone, %lld of %s are free", call->node, ticket,
					  (long long) n->value, name);
			reply_put(":%d\r\n", tell(call, &call->keys[3 * i + 2]));
		}
	}
}

/* A semaphore is given so many, a latch is counted down. */
static void
count(const ScriptCall *call, Number *n, bool latch)
{
	int64_t		now = now_ms(call->node);
	int64_t		amount = word_number(&call->argv[1]);
	bool		was_there = n->there;
	char		ticket[REDIS_OWNER];

	word_copy(ticket, sizeof(ticket), &call->argv[2]);
	if (find_ticket(n, ticket) >= 0)
	{
		sim_trace("redis %d: %s was counted before", call->node, ticket);
		put_value(1, n->there ? n->value : 0, now);
		return;
	}
	if (is_refused(call->node, true))
		return;
	remember_ticket(n, ticket);
	note_counted(ticket, amount);
	if (latch)
		n->value = n->there && n->value > amount ? n->value - amount : 0;
	else
		n->value = (n->there ? n->value : 0) + amount;
	n->there = !latch || n->value > 0;
	note_latch(call->node, n);
	sim_trace("redis %d: %s counts %lld at %s: %lld", call->node, ticket, (long long) amount,
			  n->name, (long long) n->value);
	if (!latch || (was_there && !n->there))
		(void) tell(call, &call->keys[2]);
	put_value(0, n->value, now);
}

static void
define(const ScriptCall *call, Number *n, bool latch)
{
	int64_t		now = now_ms(call->node);
	const Word *what = &call->argv[2];

	if (now > word_number(&call->argv[1]))
		put_value(2, 0, now);
	else if (word_is(what, "init") ? n->there : word_is(what, "delete") && !n->there)
		put_value(1, n->there ? n->value : 0, now);
	else if (!is_refused(call->node, !word_is(what, "delete")))
	{
		int64_t		before = n->there ? n->value : 0;

		n->there = !word_is(what, "delete");
		n->value = word_is(what, "init") || word_is(what, "set") ? word_number(&call->argv[3]) :
			word_is(what, "add") ? before + word_number(&call->argv[3]) : 0;
		note_latch(call->node, n);
		sim_trace("redis %d: %s is %lld", call->node, n->name, (long long) n->value);
		(void) tell(call, &call->keys[1]);
		put_value(0, word_is(what, "drain") ? before : n->value, now);
	}
}

bool
redis_counts_has(const char *key, int64_t amount)
{
	int			node = redis_place_of(key);
	const Number *n = find(node, key);

	if (key[0] == 'p')
	{
		int64_t		free = n->value;

		for (int i = 0; i < n->npermits; i++)
			free += n->permit[i].until_ms <= now_ms(node);
		return n->there && free > 0;
	}
	return key[0] == 'l' ? !n->there || n->value <= 0 : n->there && n->value >= amount;
}

int64_t
redis_latch_open_at(const char *key)
{
	return is_open[index_of(key)] ? sim_now() : open_at[index_of(key)];
}

/* ----------
 * Permits
 * ----------
 */

static void
id_of(const Word *word, char *id)
{
	if (word->len != ID_BYTES)
		sim_fail("protocol", "the id of a permit has %zu bytes", word->len);
	for (int i = 0; i < ID_BYTES; i++)
		snprintf(id + 2 * i, 3, "%02x", (unsigned char) word->text[i]);
}

static Permit *
find_permit(Number *n, const char *id)
{
	for (int i = 0; i < n->npermits; i++)
		if (strcmp(n->permit[i].id, id) == 0)
			return &n->permit[i];
	return NULL;
}

/* It is free; who waits is told. */
static int
free_permit(const ScriptCall *call, Number *n, Permit *p, const Word *channel)
{
	*p = n->permit[--n->npermits];
	n->value++;
	return n->value > 0 ? tell(call, channel) : 0;
}

static void
reap(const ScriptCall *call, Number *n)
{
	for (int i = n->npermits - 1; i >= 0; i--)
		if (n->permit[i].until_ms <= now_ms(call->node))
		{
			sim_trace("redis %d: permit %.8s of %s has expired", call->node, n->permit[i].id,
					  n->name);
			(void) free_permit(call, n, &n->permit[i], &call->keys[2]);
		}
}

static void
permit_create(const ScriptCall *call, Number *n)
{
	int64_t		now = now_ms(call->node);
	int64_t		first = -1;
	Permit	   *p;

	if (now > word_number(&call->argv[3]))
	{
		put_queued(2, 0, now);
		return;
	}
	if (!n->there)
	{
		put_queued(6, 0, now);
		return;
	}
	if (is_refused(call->node, true))
		return;
	reap(call, n);
	if (n->value < 1)
	{
		for (int i = 0; i < n->npermits; i++)
			if (first < 0 || n->permit[i].until_ms - now < first)
				first = n->permit[i].until_ms - now;
		put_queued(1, first < 0 ? -1 : first > 0 ? first : 1, now);
		return;
	}
	if (n->npermits == MAX_HAD)
		sim_fail("simulator", "too many permits");
	p = &n->permit[n->npermits++];
	n->value--;
	memset(p, 0, sizeof(Permit));
	id_of(&call->argv[2], p->id);
	p->until_ms = now + word_number(&call->argv[1]) + 1;
	p->taken_at = sim_now();
	p->is_old = net_sent_at() <= ended_at;
	sim_trace("redis %d: permit %.8s of %s is taken, %lld are free", call->node, p->id, n->name,
			  (long long) n->value);
	put_queued(0, 0, now);
}

/* Of each: id, lease; once more: a wish to write. */
static void
permit_renew(const ScriptCall *call)
{
	int			n = call->nkeys / 3;

	reply_put("*%d\r\n", n);
	for (int i = 0; i < n; i++)
	{
		char		name[REDIS_NAME];
		char		id[ID_SIZE];
		int64_t		until = now_ms(call->node) + word_number(&call->argv[2 * i + 2]) + 1;
		Number	   *number;
		Permit	   *p;

		word_copy(name, sizeof(name), &call->keys[3 * i]);
		id_of(&call->argv[2 * i + 1], id);
		number = find(call->node, name);
		p = find_permit(number, id);
		if (p == NULL || !number->there)
			reply_text("");
		else if (is_refused(call->node, false))
			continue;
		else if (p->until_ms <= now_ms(call->node))
		{
			(void) free_permit(call, number, p, &call->keys[3 * i + 2]);
			reply_text("");
		}
		else
		{
			if (until > p->until_ms && word_number(&call->argv[2 * i + 2]) > 0)
				p->until_ms = until;
			reply_put(":1\r\n");
		}
	}
}

static void
permit_release(const ScriptCall *call)
{
	reply_put("*%d\r\n", call->nkeys / 3);
	for (int i = 0; i < call->nkeys / 3; i++)
	{
		char		name[REDIS_NAME];
		char		id[ID_SIZE];
		Number	   *number;
		Permit	   *p;
		bool		had;
		int			told;

		word_copy(name, sizeof(name), &call->keys[3 * i]);
		id_of(&call->argv[i + 1], id);
		number = find(call->node, name);
		p = find_permit(number, id);
		if (p == NULL)
			reply_put(":-1\r\n");
		else if (!is_refused(call->node, false))
		{
			had = p->until_ms > now_ms(call->node);
			told = free_permit(call, number, p, &call->keys[3 * i + 2]);
			sim_trace("redis %d: permit %.8s of %s is given back, %lld are free", call->node,
					  id, name, (long long) number->value);
			reply_put(":%d\r\n", had ? told : -1);
		}
	}
}

static void
permit_define(const ScriptCall *call, Number *n)
{
	int64_t		now = now_ms(call->node);
	bool		look = call->nargs == 1;
	int64_t		wanted = look ? 0 : word_number(&call->argv[3]);
	int			code = 0;

	if (!look && now > word_number(&call->argv[1]))
	{
		put_queued(2, 0, now);
		return;
	}
	if (is_refused(call->node, true))
		return;
	reap(call, n);
	if (!look && word_is(&call->argv[2], "init"))
		code = n->there ? 1 : 0;
	if (!look && code == 0)
	{
		n->there = true;
		n->value = wanted - n->npermits;
		if (wanted > most[index_of(n->name)])
			most[index_of(n->name)] = (int) wanted;
		if (n->value > 0)
			(void) tell(call, &call->keys[2]);
	}
	reply_put("*4\r\n:%d\r\n:%lld\r\n:%lld\r\n:%lld\r\n", code, (long long) n->value,
			  (long long) n->value + n->npermits, (long long) now);
}

void
redis_take_permits(int node, const char *key)
{
	Number	   *n = find(node, key);

	sim_trace("redis %d: somebody takes all permits of %s away", node, key);
	for (int i = 0; i < n->npermits; i++)
		redis_note_robbed(n->permit[i].id);
	n->value += n->npermits;
	n->npermits = 0;
	sim_disturbed(sim_now() + LONGEST_POLL);
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

int64_t
redis_permit_until(const char *key, const char *id)
{
	int			node = redis_place_of(key);
	const Permit *p = find_permit(find(node, key), id);

	return p == NULL ? 0 : p->until_ms * SIM_MS - (redis_clock(node) - sim_now());
}

int
redis_permits_most(const char *key)
{
	return most[index_of(key)];
}

static const char *
find_unknown_permit(int node, bool (*knows) (const char *key, const char *id))
{
	for (int i = 0; i < present[node].n && !clock_was_set; i++)
		for (int j = 0; j < present[node].number[i].npermits; j++)
		{
			const Number *n = &present[node].number[i];
			const Permit *p = &n->permit[j];

			if (!p->is_old && p->until_ms > now_ms(node) && !is_loose(p->id) &&
				node == redis_place_of(n->name) && !knows(n->name, p->id))
				return n->name;
		}
	return NULL;
}

const char *
redis_find_permit(bool (*knows) (const char *key, const char *id))
{
	const char *key = NULL;

	for (int i = 0; i < REDIS_NODES && key == NULL; i++)
		key = find_unknown_permit(i, knows);
	return key;
}

/* ----------
 * In a cluster
 * ----------
 */

bool
redis_counts_has_name(int node, const char *name)
{
	const char *open = strchr(name, '{');
	const Numbers *d = &present[node];

	for (int i = 0; i < d->n; i++)
	{
		const Number *n = &d->number[i];
		size_t		len = strlen(n->name);

		if (open == NULL ? strcmp(name, n->name) == 0 && n->there :
			strncmp(open + 1, n->name, len) == 0 && open[1 + len] == '}' &&
			(strstr(name, "tickets") != NULL ? n->ntickets > 0 :
			 strcmp(open + 2 + len, ":timeout") == 0 && n->npermits > 0))
			return true;
	}
	return false;
}

/* All of a name goes at once: no script asks about a part of it by itself. */
bool
redis_counts_migrate(int from, int to, int (*slot_of) (const char *name), int slot)
{
	Numbers    *d = &present[from];
	bool		gone = false;

	for (int i = 0; i < d->n; i++)
	{
		Number	   *n = &d->number[i];
		Number	   *there;
		char		name[REDIS_NAME];

		if (slot_of(n->name) != slot || (!n->there && n->npermits == 0 && n->ntickets == 0))
			continue;
		sim_trace("redis %d: %s goes to %d", from, n->name, to);
		there = find(to, n->name);
		*there = *n;
		for (int j = 0; j < n->npermits; j++)
			there->permit[j].until_ms += now_ms(to) - now_ms(from);
		strcpy(name, n->name);
		memset(n, 0, sizeof(Number));
		strcpy(n->name, name);
		gone = true;
	}
	note_latches();
	return gone;
}

void
redis_counts_hand_over(int from, int to)
{
	copy(&present[to], &present[from]);
	present[from].n = 0;
	note_latches();
}

void
redis_counts_take_over(int from, int to)
{
	rob_missing(&present[from], &saved[from], false);
	unmake(&present[from]);
	restore(to, &saved[from]);
}

void
redis_counts_forget(int node, int master)
{
	rob_missing(&present[node], &present[master], true);
	present[node].n = 0;
	note_latches();
}

/* ----------
 * Which script it is
 * ----------
 */

static const char *const names[] = {
	"permit create", "permit renew", "permit release", "permit define",
	"semaphore create", "semaphore release", "semaphore define", "semaphore value",
	"semaphore count", "latch create", "latch define", "latch value", "latch count", NULL
};

bool
redis_is_counts_script(const char *name)
{
	for (int i = 0; names[i] != NULL; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

void
redis_run_counts(const char *name, const ScriptCall *call)
{
	const char *verb = strchr(name, ' ') + 1;
	bool		permit = name[0] == 'p';
	bool		latch = name[0] == 'l';
	char		key[REDIS_NAME];
	Number	   *n;

	word_copy(key, sizeof(key), &call->keys[0]);
	n = find(call->node, key);
	if (strcmp(verb, "renew") == 0)
		permit_renew(call);
	else if (strcmp(verb, "release") == 0)
		(permit ? permit_release : semaphore_release) (call);
	else if (strcmp(verb, "define") == 0)
	{
		if (permit)
			permit_define(call, n);
		else
			define(call, n, latch);
	}
	else if (strcmp(verb, "count") == 0)
		count(call, n, latch);
	else if (strcmp(verb, "value") == 0)
		put_value(0, n->there ? n->value : 0, 0);
	else if (latch)
		put_queued(redis_counts_has(key, 1) ? 0 : 1, redis_counts_has(key, 1) ? 0 : -1,
				   now_ms(call->node));
	else
		(permit ? permit_create : semaphore_create) (call, n);
}
