/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  What the watchdog and the table worker have in common as processes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/worker.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_WORKER_H
#define LR_WORKER_H

#include "lockredis.h"

#include "postmaster/bgworker.h"

/* While one ends, it looks so often whether it may. */
#define WORKER_END_POLL		(20 * LR_US_PER_MS)

/* Have the postmaster start it, and again after its end. */
extern void worker_register(const char *name, const char *function,
							BgWorkerStartTime start);

/*
 * Asked to end, and nothing is left to be done for the sessions, or "limit"
 * (microseconds) has passed since.  *end_at is 0 before it was asked.
 */
extern bool worker_may_end(int64 *end_at, int64 limit);

#endif							/* LR_WORKER_H */
