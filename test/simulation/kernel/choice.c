/*-------------------------------------------------------------------------
 *
 * choice.c
 *	  Every decision of a schedule: drawn from the seed and logged, or replayed.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/choice.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static uint64_t state;
static const ChoiceLog *replay;
static ChoiceLog made;

/* splitmix64 */
static uint64_t
next_random(void)
{
	uint64_t	z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void
choices_from_seed(uint64_t seed)
{
	state = seed;
	replay = NULL;
	made.n = 0;
}

void
choices_from_log(const ChoiceLog *log)
{
	replay = log;
	made.n = 0;
}

const ChoiceLog *
choices_made(void)
{
	return &made;
}

void
choice_log_copy(ChoiceLog *to, const ChoiceLog *from)
{
	if (to->size < from->n)
	{
		to->size = from->n;
		to->choice = realloc(to->choice, sizeof(uint32_t) * to->size);
	}
	to->n = from->n;
	if (from->n > 0)
		memcpy(to->choice, from->choice, sizeof(uint32_t) * from->n);
}

static uint32_t
note(uint32_t choice)
{
	if (made.n == made.size)
	{
		made.size = made.size == 0 ? 65536 : made.size * 2;
		made.choice = realloc(made.choice, sizeof(uint32_t) * made.size);
	}
	made.choice[made.n++] = choice;
	return choice;
}

static uint32_t
replayed(uint32_t n)
{
	return made.n < replay->n ? replay->choice[made.n] % n : 0;
}

uint32_t
sim_draw(uint32_t n)
{
	if (n <= 1)
		return 0;
	return note(replay ? replayed(n) : (uint32_t) (next_random() >> 33) % n);
}

bool
sim_chance_of(uint32_t times, uint32_t of)
{
	if (times == 0)
		return false;
	return note(replay ? replayed(2) :
				(uint32_t) (next_random() >> 33) % of < times) != 0;
}

bool
sim_chance(uint32_t permille)
{
	return sim_chance_of(permille, 1000);
}

int64_t
sim_pick(const int64_t *of, uint32_t n)
{
	return of[sim_draw(n)];
}
