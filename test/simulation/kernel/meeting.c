/*-------------------------------------------------------------------------
 *
 * meeting.c
 *	  A process that is stopped in one function until another has been through another.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/meeting.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "kernel.h"
#include "meeting.h"
#include "site.h"
#include "symbols.h"

#define MEETINGS_MAX	128

typedef struct Range
{
	uint32_t	begin;			/* both 0: nowhere */
	uint32_t	end;
} Range;

typedef struct Known
{
	const Meeting *of;
	Range		at;
	Range		in;
	Range		until;
} Known;

const char *meeting_only = NULL;

static Known known[MEETINGS_MAX];
static int	nknown;
static int	(*locks_held[SIM_MAX_PROCS]) (void);

/* Of this schedule */
static struct
{
	bool		there;
	Range		at;
	Range		in;
	Range		until;
	bool		locked;			/* even if it has a light-weight lock */
	void		(*fault) (void);
	uint32_t	permille;		/* who comes there stops */
	int64_t		limit;
	bool		keeps_writes;
	int			waits;			/* slot that is stopped; -1 = none */
	int			been;			/* slot that is in the other function; -1 = none */
}			meeting;

/* ----------
 * Which there are
 * ----------
 */

static Range
range_of(const char *function)
{
	Range		r = {0, 0};

	if (function != NULL && !symbol_range(function, &r.begin, &r.end))
	{
		fprintf(stderr, "simulate: there is no function %s (workload/meetings.c)\n", function);
		exit(2);
	}
	return r;
}

static bool
is_wanted(const Meeting *m)
{
	char		name[200];

	if (meeting_only == NULL)
		return true;
	snprintf(name, sizeof(name), "%s %s %s", m->at, m->in != NULL ? m->in : "-",
			 m->until != NULL ? m->until : "-");
	return strcmp(name, meeting_only) == 0;
}

void
meetings_load(const Meeting *table)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		*(void **) &locks_held[i] = copy_symbol(i, "backend_locks_held");
	for (const Meeting *m = table; m->at != NULL; m++)
	{
		if (!is_wanted(m))
			continue;
		if (nknown == MEETINGS_MAX)
		{
			fprintf(stderr, "simulate: too many meetings\n");
			exit(2);
		}
		known[nknown].of = m;
		known[nknown].at = range_of(m->at);
		known[nknown].in = range_of(m->in);
		known[nknown++].until = range_of(m->until);
	}
	if (nknown == 0)
	{
		fprintf(stderr, "simulate: there is no meeting \"%s\"\n", meeting_only);
		exit(2);
	}
}

static int
where_now(void)
{
	return sim_config.sentinels ? MEET_SENTINELS :
		sim_config.cluster ? MEET_CLUSTER :
		sim_config.mode == 2 ? MEET_FALLBACK : MEET_PLAIN;
}

static const Known *
draw_known(void)
{
	const Known *can[MEETINGS_MAX];
	int			n = 0;

	for (int i = 0; i < nknown; i++)
		if (meeting_only != NULL || (known[i].of->where & where_now()) != 0)
			can[n++] = &known[i];
	return n > 0 ? can[sim_draw(n)] : NULL;
}

void
meeting_reset(void)
{
	memset(&meeting, 0, sizeof(meeting));
	meeting.waits = meeting.been = -1;
}

/*
 * meeting_draw --- one of those that are known, or one of them and the end of another
 */
void
meeting_draw(void)
{
	const Known *k;

	if (meeting_only == NULL && !sim_chance(500))
		return;
	k = draw_known();
	if (k == NULL)
		return;
	meeting.there = true;
	meeting.at = k->at;
	meeting.in = k->in;
	meeting.until = sim_chance(200) ? draw_known()->until : k->until;
	meeting.locked = (k->of->where & MEET_LOCKED) != 0;
	meeting.fault = k->of->fault;
	meeting.permille = (uint32_t) SIM_PICK(300, 60, 900);
	meeting.limit = SIM_PICK(300 * SIM_MS, 3 * SIM_S, 7 * SIM_S, 7 * SIM_S);
	meeting.keeps_writes = meeting.until.end != 0 && sim_draw(2) != 0;

	/* A process that is stopped for so long has lost all with a shorter lease. */
	if (meeting.limit >= 3 * SIM_S && sim_chance(700))
		sim_config.lease_ms = (int) SIM_PICK(9000, 20000, 40000);
	if (sim_config.max_lease_ms < sim_config.lease_ms)
		sim_config.max_lease_ms = sim_config.lease_ms;
}

/* ----------
 * At each step
 * ----------
 */

static bool
is_there(void)
{
	if (!site_is_within(meeting.at.begin, meeting.at.end) ||
		(meeting.in.end != 0 && !site_is_within(meeting.in.begin, meeting.in.end)))
		return false;
	return meeting.locked || locks_held[sim_slot()] () == 0;
}

bool
meeting_stops(Stop *stop)
{
	if (!meeting.there || meeting.waits >= 0 || !is_there() || !sim_chance(meeting.permille))
		return false;
	stop->length = meeting.limit;
	stop->keeps_writes = meeting.keeps_writes;
	stop->fault = meeting.fault != NULL;
	stop->which = meeting.fault;
	meeting.waits = sim_slot();
	meeting.been = -1;
	return true;
}

/* Has somebody been through, or the one that waits gone on by himself? */
void
meeting_look(void)
{
	int			slot = sim_slot();

	if (meeting.waits < 0)
		return;
	if (slot == meeting.waits)
		meeting.waits = -1;
	else if (meeting.until.end != 0 && site_is_within(meeting.until.begin, meeting.until.end))
		meeting.been = slot;
	else if (meeting.been == slot)
	{
		process_goes_on(meeting.waits);
		meeting.waits = -1;
	}
}
