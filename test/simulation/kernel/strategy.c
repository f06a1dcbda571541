/*-------------------------------------------------------------------------
 *
 * strategy.c
 *	  Who gives way where, and to whom.
 *
 * No way to draw finds everything, so each schedule draws which one it takes:
 *
 * - Walk: at each step somebody else may go on, rarely or often.
 * - Priorities: whoever of those that can run has the highest goes on, and at a
 *   few steps the one that runs gets the lowest.  A defect that needs n steps in
 *   an order is found with n - 1 such changes.
 *
 * Beside these, in any schedule:
 *
 * - Stops: a process stands still for a time, anywhere.
 * - Aims: it does so, or a fault comes just then, at some places of src/ only, but
 *   there often.  What has to happen between two steps of one function is found
 *   this way: there are some thousand such places, and as many schedules are tried
 *   in a few seconds.
 * - Meetings: it stands still in one function until somebody else has been through
 *   another (meeting.h).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/strategy.c
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "config.h"
#include "kernel.h"
#include "meeting.h"
#include "site.h"
#include "strategy.h"

#define CHANGES_MAX	3

static const int64_t stall_lengths[] = {
	20, 300, 3 * SIM_MS, 40 * SIM_MS, 200 * SIM_MS, 900 * SIM_MS,
	2 * SIM_S, 5 * SIM_S, 12 * SIM_S
};

typedef struct Strategy
{
	uint32_t	switch_permille;	/* at a step somebody else goes on */
	uint32_t	stall_permille100;	/* in 100,000: the process stops there */
	int			max_stall;		/* up to which entry of stall_lengths[] */

	bool		by_priority;
	int64_t		change[CHANGES_MAX];	/* at which steps */
	int			nchanges;

	uint32_t	aim_of;			/* at one place in so many; 0 = none */
	uint32_t	aim_salt;		/* at which */
	uint32_t	aim_permille;
	int			aim_stall;		/* how long */
	uint32_t	aim_faults;		/* permille of them */
	bool		aim_keeps_writes;
} Strategy;

static Strategy strategy;
static int	priority[SIM_MAX_PROCS];
static int	lowest;
static bool better_is_ready;

/* Of each process: steps until it gives way, until it is stopped; 0: never. */
static uint32_t switch_in[SIM_MAX_PROCS];
static uint32_t stall_in[SIM_MAX_PROCS];
static bool drawn[SIM_MAX_PROCS];

bool		strategy_aims = true;

void
strategy_reset(void)
{
	memset(&strategy, 0, sizeof(strategy));
	better_is_ready = false;
	lowest = 0;
	meeting_reset();
	memset(drawn, 0, sizeof(drawn));
}

static void
draw_switch(int slot)
{
	switch_in[slot] = sim_gap_of(strategy.switch_permille, 1000);
}

static void
draw_stall(int slot)
{
	stall_in[slot] = sim_gap_of(strategy.stall_permille100, 100000);
}

/* It comes now if it counts to 0; one that never comes stays there. */
static bool
count_down(uint32_t *steps)
{
	return *steps > 0 && --*steps == 0;
}

static void
draw_priorities(void)
{
	strategy.by_priority = true;
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		priority[i] = 1 + sim_draw(1000);
	strategy.nchanges = sim_draw(CHANGES_MAX + 1);
	for (int i = 0; i < strategy.nchanges; i++)
		strategy.change[i] = sim_draw((uint32_t) SIM_PICK(1000, 4000, 16000));
}

static void
draw_aims(void)
{
	strategy.aim_of = (uint32_t) SIM_PICK(30, 6, 150, 600);
	strategy.aim_salt = sim_draw(1 << 30);
	strategy.aim_permille = (uint32_t) SIM_PICK(500, 100, 900);

	/* It takes seconds until another store is in use. */
	strategy.aim_stall = sim_config.mode == 2 ? (int) SIM_PICK(2, 1, 3, 4, 6, 6, 7, 7) :
		(int) SIM_PICK(2, 1, 3, 4, 5, 6, 7);
	strategy.aim_faults = (uint32_t) SIM_PICK(0, 200, 800);
	strategy.aim_keeps_writes = sim_draw(2) != 0;
}

void
strategy_draw(void)
{
	strategy.switch_permille = (uint32_t) SIM_PICK(30, 5, 150, 500);
	strategy.stall_permille100 = (uint32_t) SIM_PICK(0, 0, 20, 100, 400);
	strategy.max_stall = (int) SIM_PICK(2, 3, 5, 7, 8);
	if (sim_chance(300))
		draw_priorities();
	if (sim_chance(600))
		draw_aims();
}

void
strategy_calm(void)
{
	memset(&strategy, 0, sizeof(strategy));
	memset(drawn, 0, sizeof(drawn));
	meeting_reset();
	strategy.switch_permille = 30;
}

static int64_t
stop_length(int which)
{
	int64_t		length = stall_lengths[which];

	return length + sim_draw((uint32_t) (length / 2));
}

static bool
is_aimed_at(void)
{
	Site		site;

	site_here(&site);
	return ((site_hash(&site) ^ strategy.aim_salt) * 2654435761u >> 8) % strategy.aim_of == 0;
}

static bool
is_stopped(Stop *stop)
{
	int			slot = sim_slot();

	if (!drawn[slot])
	{
		drawn[slot] = true;
		draw_switch(slot);
		draw_stall(slot);
	}
	meeting_look();
	if (strategy_aims && meeting_stops(stop))
		return true;
	stop->which = NULL;
	if (count_down(&stall_in[slot]))
	{
		draw_stall(slot);
		stop->length = stop_length(sim_draw(strategy.max_stall + 1));
		stop->keeps_writes = stop->fault = false;
		return true;
	}
	if (!strategy_aims || strategy.aim_of == 0 || !is_aimed_at() || !sim_chance(strategy.aim_permille))
		return false;
	stop->fault = sim_chance(strategy.aim_faults);
	stop->length = stop->fault && sim_draw(2) != 0 ? 0 : stop_length(strategy.aim_stall);
	stop->keeps_writes = strategy.aim_keeps_writes && strategy.aim_stall < 3;
	return true;
}

bool
strategy_stops(Stop *stop)
{
	bool		stops;

	choices_of_strategy(true);
	stops = is_stopped(stop);
	choices_of_strategy(false);
	return stops;
}

bool
strategy_gives_way(int slot, uint64_t step)
{
	if (!strategy.by_priority)
	{
		if (!count_down(&switch_in[slot]))
			return false;
		choices_of_strategy(true);
		draw_switch(slot);
		choices_of_strategy(false);
		return true;
	}
	for (int i = 0; i < strategy.nchanges; i++)
		if ((int64_t) step >= strategy.change[i])
		{
			strategy.change[i] = strategy.change[--strategy.nchanges];
			priority[slot] = --lowest;
			return true;
		}
	return better_is_ready;
}

void
strategy_is_ready(int slot)
{
	int			running = sim_slot();

	if (running >= 0 && priority[slot] > priority[running])
		better_is_ready = true;
}

static int
choose(const int *candidate, int n)
{
	int			best = candidate[0];

	better_is_ready = false;

	/* Not always: nobody is to be starved by one that waits for him in a loop. */
	if (!strategy.by_priority || candidate[n - 1] < 0 || sim_chance(20))
		return candidate[sim_draw(n)];
	for (int i = 1; i < n; i++)
		if (priority[candidate[i]] > priority[best])
			best = candidate[i];
	return best;
}

int
strategy_choose(const int *candidate, int n)
{
	int			chosen;

	choices_of_strategy(true);
	chosen = choose(candidate, n);
	choices_of_strategy(false);
	return chosen;
}
