/*-------------------------------------------------------------------------
 *
 * redlock.h
 *	  A client elsewhere that takes locks at most of several masters.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redlock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDLOCK_H
#define SIM_REDLOCK_H

#include "sim.h"

extern void redlock_reset(void);

/*
 * He asks all of them for that key, if he is not busy; and gives it back some time.  His
 * leases are as long as any can be.
 */
extern void redlock_take(const char *key, const char *channel);

/* He asks no more, and gives back what he has. */
extern void redlock_end(void);

/*
 * Who has the key by that, and until when he relies on it (sim_now() time); NULL: nobody.
 */
extern const char *redlock_holder(const char *key, int64_t *until);

#endif							/* SIM_REDLOCK_H */
