/*-------------------------------------------------------------------------
 *
 * farewell.h
 *	  The watchdog's requests to the place where a store was before.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/farewell.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FAREWELL_H
#define LR_FAREWELL_H

#include "lockredis.h"

#include "watchdog/due_batch.h"

/*
 * The store's place has changed: take over the connection to the old one, with
 * the batch that is under way there, and leave another workplace.
 */
extern void farewell_begin(StoreId store, bool under_way, Workplace *w);

/* Give this back there; false: there is no room just now. */
extern bool farewell_give_back(const DueItem *item);

extern void farewell_step(void);
extern int	farewell_interests(StoreInterest *out, int64 *until, uint32 *epoch);

#endif							/* LR_FAREWELL_H */
