/*-------------------------------------------------------------------------
 *
 * strategy.h
 *	  Who gives way where, and to whom.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/strategy.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_STRATEGY_H
#define SIM_STRATEGY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Stop
{
	int64_t		length;			/* 0: none, it only gives way */
	bool		keeps_writes;	/* nobody sees yet what it wrote */
	bool		fault;			/* and a fault comes: */
	void		(*which) (void);	/* this; NULL: the one that the schedule aims */
} Stop;

/*
 * Is a process stopped because of the code that it is in?  Otherwise a build of the same code at
 * other addresses does the same.
 */
extern bool strategy_aims;

extern void strategy_reset(void);

/* Draw that of a schedule. */
extern void strategy_draw(void);

/* Nothing that is not plain from now on. */
extern void strategy_calm(void);

/* Is the running process stopped at this step? */
extern bool strategy_stops(Stop *stop);

/* Does it let others go on? */
extern bool strategy_gives_way(int slot, uint64_t step);

/* One of those that can run; -1 among them is an event of the kernel. */
extern int	strategy_choose(const int *candidate, int n);

extern void strategy_is_ready(int slot);

#endif							/* SIM_STRATEGY_H */
