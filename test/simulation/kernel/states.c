/*-------------------------------------------------------------------------
 *
 * states.c
 *	  How much has been seen, and whether a schedule is the same again.
 *
 * Different states are counted without being kept (HyperLogLog: Flajolet and
 * others, 2007): a state's hash chooses a register, which keeps the longest row of
 * zeros that its other bits began with.  With 65,536 registers the figure is within
 * half a percent two times in three.  Registers of several runs can be put together,
 * so hours of them are counted as one.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/states.c
 *
 *-------------------------------------------------------------------------
 */
#include <math.h>
#include <stdio.h>

#include "states.h"

#define REGISTER_BITS	16
#define NREGISTERS		(1 << REGISTER_BITS)

static uint8_t registers[NREGISTERS];

uint64_t	schedule_digest;

void
states_add(uint64_t state)
{
	/* The hash may have been made for a shorter table than this one is. */
	uint64_t	h = hash_with(hash_with(0, state), 1);
	uint32_t	n = h >> (64 - REGISTER_BITS);
	uint8_t		rank = 1 + __builtin_clzll(h << REGISTER_BITS | 1 << (REGISTER_BITS - 1));

	if (registers[n] < rank)
		registers[n] = rank;
}

double
states_seen(void)
{
	const double n = NREGISTERS;
	double		sum = 0;
	int			empty = 0;
	double		estimate;

	for (int i = 0; i < NREGISTERS; i++)
	{
		sum += ldexp(1, -registers[i]);
		empty += registers[i] == 0;
	}
	estimate = 0.7213 / (1 + 1.079 / n) * n * n / sum;

	/* Few: most registers are empty, and how many says more. */
	return estimate < 2.5 * n && empty > 0 ? n * log(n / empty) : estimate;
}

bool
states_load(const char *path)
{
	FILE	   *f = fopen(path, "rb");
	uint8_t		more[NREGISTERS];
	bool		good;

	if (f == NULL)
		return true;			/* the first run */
	good = fread(more, 1, sizeof(more), f) == sizeof(more);
	fclose(f);
	for (int i = 0; good && i < NREGISTERS; i++)
		if (registers[i] < more[i])
			registers[i] = more[i];
	return good;
}

bool
states_save(const char *path)
{
	FILE	   *f = fopen(path, "wb");
	bool		good;

	if (f == NULL)
		return false;
	good = fwrite(registers, 1, sizeof(registers), f) == sizeof(registers);
	return fclose(f) == 0 && good;
}
