/*-------------------------------------------------------------------------
 *
 * watchdog.h
 *	  The background worker that renews leases, gives back what was left
 *	  behind and listens for releases.
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

extern void watchdog_register(void);
LR_NORETURN_PREFIX extern PGDLLEXPORT void lockredis_watchdog_main(Datum arg) LR_NORETURN_SUFFIX;

#endif							/* LR_WATCHDOG_H */
