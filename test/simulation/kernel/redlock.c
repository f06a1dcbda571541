/*-------------------------------------------------------------------------
 *
 * redlock.c
 *	  A client elsewhere that takes locks at most of several masters.
 *
 * He does what any has to do, by himself and not by the code that is tried: he asks
 * all nodes at once; he has the lock if more than half of those that there are have
 * granted it in time, none of which was started so lately that it may have forgotten
 * somebody's, or took the place of another node so lately; until his lease is over,
 * counted from before he asked, less what clocks differ by.  Whoever has the same key
 * meanwhile has it wrongly.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redlock.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "faults.h"
#include "names.h"
#include "network.h"
#include "redis_nodes.h"
#include "redlock.h"

#define CLIENTS		2

/* Longer than any lease of anybody. */
#define FORGETS_MAX	(62 * SIM_S)

typedef enum RedlockState
{
	IDLE,
	ASKING,
	HOLDING,
	LEAVING
} RedlockState;

typedef struct Client
{
	RedlockState state;
	int			attempt;		/* what is under way belongs to one */
	char		key[REDIS_NAME];
	char		channel[REDIS_NAME];
	char		owner[REDIS_OWNER];
	int64_t		sent_at;
	int64_t		lease;
	int64_t		until;			/* he relies on it */
	int			votes;
	int			voter;			/* a node that has granted it, */
	bool		forgets;		/* and is to be started again soon */
	int			asked;			/* nodes that were asked, and given back to */
} Client;

static Client clients[CLIENTS];

void
redlock_reset(void)
{
	memset(clients, 0, sizeof(clients));
}

/* Of what is under way: client, node and attempt as one number. */

static int64_t
number_of(const Client *c, int node)
{
	return ((int64_t) c->attempt * CLIENTS + (c - clients)) * REDIS_NODES + node;
}

static Client *
client_of(int64_t n)
{
	Client	   *c = &clients[n / REDIS_NODES % CLIENTS];

	return c->attempt == n / REDIS_NODES / CLIENTS ? c : NULL;
}

static int
node_of(int64_t n)
{
	return (int) (n % REDIS_NODES);
}

static int64_t
arrival(void)
{
	return sim_now() + SIM_PICK(100, 2 * SIM_MS, 50 * SIM_MS);
}

/* ----------
 * Giving back
 * ----------
 */

static void
is_given_back(void *arg, int64_t n)
{
	Client	   *c = client_of(n);

	(void) arg;
	if (c == NULL)
		return;
	if (net_is_up(names_place(node_of(n))))
		redis_foreign_release(names_place(node_of(n)), c->key, c->owner, c->channel);
	if (--c->asked == 0)
		c->state = IDLE;
}

static void
give_back(Client *c)
{
	c->state = LEAVING;
	c->until = 0;
	c->asked = sim_config.masters;
	for (int i = 0; i < sim_config.masters; i++)
		sim_at(arrival(), is_given_back, NULL, number_of(c, i));
}

static void
has_had_it(void *arg, int64_t n)
{
	Client	   *c = client_of(n);

	(void) arg;
	if (c != NULL && c->state == HOLDING)
		give_back(c);
}

/* ----------
 * Taking
 * ----------
 */

static void
is_asked(void *arg, int64_t n)
{
	Client	   *c = client_of(n);
	int			node = names_place(node_of(n));
	int64_t		since = names_since(node_of(n));

	(void) arg;
	if (c == NULL || c->state != ASKING)
		return;
	if (net_is_up(node) && redis_mood(node) == REDIS_WELL &&
		redis_foreign_take(node, c->key, c->owner, c->lease / SIM_MS, false) &&
		c->sent_at - redis_booted_at(node) >= FORGETS_MAX &&
		(since == 0 || c->sent_at - since >= FORGETS_MAX))
	{
		c->votes++;
		c->voter = node;
	}
}

/* A node that has granted it is started again. */
static void
is_forgotten(const Client *c)
{
	if (c->voter < sim_config.struck && !sim_config.calm)
		fault_forgets(c->voter, SIM_PICK(100, SIM_MS, 20 * SIM_MS));
}

static void
decide(void *arg, int64_t n)
{
	Client	   *c = client_of(n);

	(void) arg;
	if (c == NULL || c->state != ASKING)
		return;
	c->until = c->sent_at + c->lease - c->lease / 100 - 2 * SIM_MS;
	if (c->votes <= sim_config.masters / 2 || c->until <= sim_now())
	{
		give_back(c);
		return;
	}
	c->state = HOLDING;
	sim_trace("%s has %s of most masters for %.3f ms", c->owner, c->key,
			  (c->until - sim_now()) / (double) SIM_MS);
	sim_reached("somebody elsewhere has most of the masters");
	if (c->forgets)
		is_forgotten(c);
	if (faults_are_told || !sim_chance(300))
		sim_at(sim_now() + sim_draw((uint32_t) (c->until - sim_now())), has_had_it, NULL, n);
	else
		sim_at(c->until, has_had_it, NULL, n);
}

void
redlock_take(const char *key, const char *channel)
{
	Client	   *c = &clients[sim_draw(CLIENTS)];

	if (c->state != IDLE)
		return;
	c->state = ASKING;
	c->attempt++;
	snprintf(c->key, sizeof(c->key), "%s", key);
	snprintf(c->channel, sizeof(c->channel), "%s", channel);
	snprintf(c->owner, sizeof(c->owner), "redlock%d:%d", (int) (c - clients), c->attempt);
	c->sent_at = sim_now();
	c->lease = (sim_draw(2) != 0 ? sim_config.lease_ms : sim_config.max_lease_ms) * SIM_MS;
	c->votes = 0;
	c->forgets = !faults_are_told && sim_chance(200);
	for (int i = 0; i < sim_config.masters; i++)
		sim_at(arrival(), is_asked, NULL, number_of(c, i));
	sim_at(sim_now() + SIM_PICK(3 * SIM_MS, 60 * SIM_MS), decide, NULL, number_of(c, 0));
}

void
redlock_end(void)
{
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].state == HOLDING)
			give_back(&clients[i]);
}

const char *
redlock_holder(const char *key, int64_t *until)
{
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].state == HOLDING && clients[i].until > sim_now() &&
			strcmp(clients[i].key, key) == 0)
		{
			*until = clients[i].until;
			return clients[i].owner;
		}
	return NULL;
}
