/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  Every decision of a schedule: drawn from the seed and logged, or replayed.
 *
 * What is decided for a process, by the strategy (when it gives way) or by itself
 * (its statements), has a stream of its own, and so has the kernel.  So a decision
 * can be left out when a schedule is made smaller, and those of others stay as they
 * were.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/choice.c
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static uint64_t state;
static const ChoiceLog *replay;
static ChoiceLog made;
static bool of_strategy;
static bool begins[CHOICE_STREAMS];

/* splitmix64 */
static uint64_t
next_random(void)
{
	uint64_t	z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static void
begin(const ChoiceLog *log)
{
	replay = log;
	of_strategy = false;
	for (int i = 0; i < CHOICE_STREAMS; i++)
	{
		made.stream[i].n = 0;
		begins[i] = false;
	}
}

void
choices_from_seed(uint64_t seed)
{
	state = seed;
	begin(NULL);
}

void
choices_from_log(const ChoiceLog *log)
{
	begin(log);
}

void
choices_of_strategy(bool yes)
{
	of_strategy = yes;
}

const ChoiceLog *
choices_made(void)
{
	return &made;
}

void
choice_log_copy(ChoiceLog *to, const ChoiceLog *from)
{
	for (int i = 0; i < CHOICE_STREAMS; i++)
	{
		ChoiceStream *t = &to->stream[i];
		const ChoiceStream *f = &from->stream[i];

		if (t->size < f->n)
		{
			t->size = f->n;
			t->choice = realloc(t->choice, sizeof(uint32_t) * t->size);
		}
		t->n = f->n;
		if (f->n > 0)
			memcpy(t->choice, f->choice, sizeof(uint32_t) * f->n);
	}
}

static int
stream_now(void)
{
	return 1 + sim_slot() + (of_strategy ? 1 + SIM_MAX_PROCS : 0);
}

static uint32_t
note(uint32_t choice)
{
	int			i = stream_now();
	ChoiceStream *s = &made.stream[i];

	if (begins[i])
		choice |= CHOICE_BEGINS;
	begins[i] = false;
	if (s->n == s->size)
	{
		s->size = s->size == 0 ? 1024 : s->size * 2;
		s->choice = realloc(s->choice, sizeof(uint32_t) * s->size);
	}
	s->choice[s->n++] = choice;
	return choice & ~CHOICE_BEGINS;
}

static uint32_t
replayed(void)
{
	int			i = stream_now();
	uint32_t	at = made.stream[i].n;

	return at < replay->stream[i].n ? replay->stream[i].choice[at] & ~CHOICE_BEGINS : 0;
}

void
sim_draw_begins(void)
{
	begins[stream_now()] = true;
}

uint32_t
sim_draw(uint32_t n)
{
	if (n <= 1)
		return 0;
	return note(replay ? replayed() % n : (uint32_t) (next_random() >> 33) % n);
}

bool
sim_chance_of(uint32_t times, uint32_t of)
{
	if (times == 0)
		return false;
	return note(replay ? replayed() % 2 :
				(uint32_t) (next_random() >> 33) % of < times) != 0;
}

bool
sim_chance(uint32_t permille)
{
	return sim_chance_of(permille, 1000);
}

/* In how many steps does what has that chance at each come next?  0: never. */
uint32_t
sim_gap_of(uint32_t times, uint32_t of)
{
	double		u;

	if (times == 0)
		return 0;
	if (replay)
		return note(replayed());
	if (times >= of)
		return note(1);
	u = ((double) (next_random() >> 11) + 1) / 9007199254740993.0;
	return note(1 + (uint32_t) fmin(log(u) / log1p(-(double) times / of), 1e9));
}

int64_t
sim_pick(const int64_t *of, uint32_t n)
{
	return of[sim_draw(n)];
}
