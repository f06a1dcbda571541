/*-------------------------------------------------------------------------
 *
 * watchdog.h
 *	  What others use of the watchdog: its start, and the life of a background worker.
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

#include "postmaster/bgworker.h"

/* ----------
 * watchdog.c: The background worker that renews leases, releases what was left
 * behind, and listens for releases.
 * ----------
 */

extern void watchdog_register(void);
LR_NORETURN_PREFIX extern PGDLLEXPORT void lockredis_watchdog_main(Datum arg) LR_NORETURN_SUFFIX;

/*
 * fallback.c: warn of settings that do not fit each other, at the start of the server.
 */
extern void fallback_check_settings(void);

/* ----------
 * worker.c: What the watchdog and the table worker have in common as processes.
 * ----------
 */

/* A worker that is to end checks at this interval whether it may. */
#define WORKER_END_POLL		(20 * LR_US_PER_MS)

/* Have the postmaster start the worker, and restart it when it ends. */
extern void worker_register(const char *name, const char *function,
							BgWorkerStartTime start);

/*
 * May the worker end?  It was asked to, and either has nothing left to do for sessions,
 * or "limit" (microseconds) has passed since.  *end_at is 0 until it was asked.
 */
extern bool worker_may_end(int64 *end_at, int64 limit);

#endif							/* LR_WATCHDOG_H */
