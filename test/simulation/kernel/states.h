/*-------------------------------------------------------------------------
 *
 * states.h
 *	  How much has been seen, and whether a schedule is the same again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/states.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_STATES_H
#define SIM_STATES_H

#include <stdbool.h>
#include <stdint.h>

/* The world is in the state that has this hash. */
extern void states_add(uint64_t state);

/* How many different ones there were, to about a percent. */
extern double states_seen(void);

/* Those of other runs count too; false: the file cannot be read, or written. */
extern bool states_load(const char *path);
extern bool states_save(const char *path);

/* A number mixed into a hash. */
static inline uint64_t
hash_with(uint64_t hash, uint64_t n)
{
	hash = (hash ^ n) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Of all that a schedule has done so far; 0 when it begins. */
extern uint64_t schedule_digest;

static inline void
digest_add(uint64_t n)
{
	schedule_digest = hash_with(schedule_digest, n);
}

#endif							/* SIM_STATES_H */
