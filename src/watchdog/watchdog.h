/*-------------------------------------------------------------------------
 *
 * watchdog.h
 *	  The background worker that renews leases, gives back what was left
 *	  behind and listens for releases.
 *
 * watchdog.c has the process and its loop, renewals.c what goes to the store,
 * subscriptions.c what comes from it.  All three run in the watchdog only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/watchdog.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WATCHDOG_H
#define LR_WATCHDOG_H

#include "lockredis.h"

#include "locktable/watch.h"
#include "store/store.h"

/* So many holds in one batch: some 2 MB of requests, 10 ms of Redis. */
#define BATCH_MAX			5000

/*
 * The batch: a TIME, perhaps a PROBE, the operations of each item, and perhaps
 * FACTS.
 */
#define MAX_HEADERS			2
#define MAX_OPS				(MAX_HEADERS + 2 * BATCH_MAX + 1)

extern void watchdog_register(void);
extern PGDLLEXPORT LR_NORETURN_PREFIX void lockredis_watchdog_main(Datum arg) LR_NORETURN_SUFFIX;

/* renewals.c */
extern void renewals_start(void);
extern void renewals_reconnect(bool place_changed);
extern void renewals_step(void);
extern uint32 renewals_idle(void);
extern bool renewals_connected(void);
extern int	renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* farewell.c */

/* What a handle of the watchdog works with. */
typedef struct Workplace
{
	StoreHandle *handle;
	DueItem    *items;
	StoreOp    *ops;
} Workplace;

extern void workplace_make(const StoreRoutine *store, Workplace *w);

/*
 * lockredis.url has changed: take over the connection to the old place, with the
 * batch that is under way there, and leave another workplace.
 */
extern void farewell_begin(const StoreRoutine *store, bool under_way,
						   Workplace *w);

/* Give this back there; false: there is no room just now. */
extern bool farewell_give_back(const DueItem *item);
extern void farewell_step(void);
extern int	farewell_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* subscriptions.c */
extern void subscriptions_start(void);
extern void subscriptions_reconnect(void);
extern void subscriptions_step(void);
extern int	subscriptions_interests(StoreInterest *out, int64 *until,
									uint32 *epoch);

#endif							/* LR_WATCHDOG_H */
