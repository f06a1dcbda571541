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
 *	  src/watchdog.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WATCHDOG_H
#define LR_WATCHDOG_H

#include "lockredis.h"

#include "store.h"

extern void watchdog_register(void);
extern PGDLLEXPORT LR_NORETURN_PREFIX void lockredis_watchdog_main(Datum arg) LR_NORETURN_SUFFIX;

/* renewals.c */
extern void renewals_start(void);
extern void renewals_reconnect(void);
extern void renewals_step(void);
extern uint32 renewals_idle(void);
extern bool renewals_connected(void);
extern int	renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* subscriptions.c */
extern void subscriptions_start(void);
extern void subscriptions_reconnect(void);
extern void subscriptions_step(void);
extern int	subscriptions_interests(StoreInterest *out, int64 *until,
									uint32 *epoch);

#endif							/* LR_WATCHDOG_H */
