/*-------------------------------------------------------------------------
 *
 * redis_conditions.h
 *	  What is known of who waits for conditions of locks, and what they
 *	  were told.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_conditions.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_CONDITIONS_H
#define SIM_REDIS_CONDITIONS_H

#include "sim.h"

/*
 * Things that those who notify have put there, one for each who was told, and that those
 * who wait take away; of a condition, by the name of the list of who waits for it.
 */
extern int *redis_condition_things(const char *waiting);

/* Until when (sim_now() time) what that one was told is his; 0: it is not. */
extern int64_t redis_told_until(const char *waiter);

/*
 * Somebody waits for the condition whose name begins so, there is a thing for him, and
 * nobody is told.
 */
extern bool redis_is_forgotten(const char *waiting, const char *waiter);

/* There in the name of one that begins so: the lock; NULL: nothing is. */
extern const char *redis_find_waiter(const char *prefix);

#endif							/* SIM_REDIS_CONDITIONS_H */
