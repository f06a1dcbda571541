/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  What the watchdog and the table worker have in common as processes: how they
 *	  are started, and when they may end.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "postmaster/interrupt.h"

#include "locktable/watch.h"
#include "watchdog/watchdog.h"

/* Seconds after which the postmaster restarts a worker that has ended. */
#define RESTART_AFTER		1

/*
 * worker_register --- see watchdog.h
 */
void
worker_register(const char *name, const char *function, BgWorkerStartTime start)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = start;
	worker.bgw_restart_time = RESTART_AFTER;
	strlcpy(worker.bgw_library_name, "lockredis", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, name, sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/*
 * At a shutdown the sessions end at the same time, and leave unanswered releases to us.
 */
bool
worker_may_end(int64 *end_at, int64 limit)
{
	if (!ShutdownRequestPending)
		return false;
	if (*end_at == 0)
		*end_at = lr_now() + limit;
	return lt_row_count() == 0 || lr_now() >= *end_at;
}
