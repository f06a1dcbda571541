/*-------------------------------------------------------------------------
 *
 * watchdog.c
 *	  The background worker: its start, its loop, its end; and how the table worker, too,
 *	  is started and ends.
 *
 * The watchdog is a static worker that is connected to no database: so it serves
 * all of them, does not prevent DROP DATABASE, and runs on hot standbys, too.  It
 * holds no lock during I/O and never blocks on a socket: it steps its connections
 * without waiting, another process resolves host names, and it sleeps in a single
 * place, until something is due.  An error ends it, and the postmaster starts it
 * again; all that it has to know is in shared memory.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/watchdog.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"

#include "locktable/watch.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

/*
 * Room for sockets: of the stores, or of each node of one, once more for each number of
 * replicas; of the connection that is kept to an old place; of the Sentinels and of the
 * nodes that are asked beside them; of the listener; and the resolver's pipe.  Not all of
 * them are ever needed at once.
 */
#define MAX_INTERESTS		((4 + NODE_MASTERS) * STORE_MAX_INTERESTS)

/* Seconds after which the postmaster restarts a worker that has ended. */
#define RESTART_AFTER		1

/* The latch and the postmaster's death, which stand before the sockets in the set. */
#define FIRST_SOCKET		2

/* The wait event set, and what it was built for. */
typedef struct Watched
{
	WaitEventSet *set;
	int			n;
	StoreInterest interest[MAX_INTERESTS];
} Watched;

static Watched watched;

/* ----------
 * Both workers
 * ----------
 */

/*
 * register_worker --- have the postmaster start it, and restart it when it ends
 */
static void
register_worker(const char *name, const char *function, BgWorkerStartTime start)
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
 * workers_register --- register the watchdog and, if this server uses the table, its worker
 */
void
workers_register(void)
{
	register_worker("lockredis watchdog", "lockredis_watchdog_main",
					BgWorkerStart_ConsistentState);
	if (lr_has_store(STORE_TABLE))
		register_worker("lockredis table worker", "lockredis_table_worker_main",
						BgWorkerStart_RecoveryFinished);
}

/*
 * worker_may_end --- see watchdog.h
 *
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

/* ----------
 * The watchdog
 * ----------
 */

/* before_shmem_exit */
static void
watchdog_leave(int code, Datum arg)
{
	failover_leave();
	lt_watchdog_leave();
	resolver_stop();
}

/* ----------
 * Sleeping
 * ----------
 */

static bool
same_sockets(const StoreInterests *in)
{
	if (watched.set == NULL || watched.n != in->n)
		return false;
	for (int i = 0; i < in->n; i++)
		if (watched.interest[i].sock != in->socket[i].sock ||
			watched.interest[i].number != in->socket[i].number ||
			watched.interest[i].events != in->socket[i].events)
			return false;
	return true;
}

/*
 * rebuild_wait_set --- make the wait event set for these sockets
 */
static void
rebuild_wait_set(const StoreInterests *in)
{
	if (watched.set != NULL)
		FreeWaitEventSet(watched.set);
	watched.set = NULL;
	watched.set = LrCreateWaitEventSet(FIRST_SOCKET + in->n);
	AddWaitEventToSet(watched.set, WL_LATCH_SET, PGINVALID_SOCKET, MyLatch, NULL);
	AddWaitEventToSet(watched.set, WL_EXIT_ON_PM_DEATH, PGINVALID_SOCKET, NULL, NULL);
	for (int i = 0; i < in->n; i++)
	{
		watched.interest[i] = in->socket[i];
		AddWaitEventToSet(watched.set, in->socket[i].events, in->socket[i].sock, NULL, NULL);
	}
	watched.n = in->n;
}

/*
 * watch_sockets --- bring the wait event set up to date; returns until when to sleep
 */
static int64
watch_sockets(void)
{
	StoreInterest socket[MAX_INTERESTS];
	StoreInterests in = {.socket = socket,.max = MAX_INTERESTS,.until = LR_NEVER};

	renewals_interests(&in);
	subscriptions_interests(&in);
	failover_interests(&in);
	resolver_interests(&in);
	if (!same_sockets(&in))
		rebuild_wait_set(&in);
	return in.until;
}

/*
 * It publishes the time, so that a process that makes something due earlier wakes it.
 * That does not count for a store with a batch under way, as nothing more could be sent
 * there.
 */
static void
sleep_until(int64 until)
{
	WaitEvent	event;
	int64		now = lr_now();

	if (until > now && lt_watchdog_sleeps_until(until, renewals_idle()))
	{
		(void) WaitEventSetWait(watched.set, lr_ms_until(until, now), &event, 1,
								LR_WAIT_WATCHDOG);
		lt_watchdog_is_awake();
	}
	ResetLatch(MyLatch);
}

/* ----------
 * The loop
 * ----------
 */

/*
 * way_has_changed --- must connections be made again, by settings that are usable?
 *
 * With a new URL no connection is worth keeping.  New TLS files that cannot be used change
 * nothing: good connections are kept, and a warning says that no new ones can be made.
 */
static bool
way_has_changed(const StoreRoutine *store, LrWay before)
{
	StoreError	error;

	if (before.settings != lr_way().settings)
		return true;
	if (before.tls_files == lr_way().tls_files)
		return false;
	if (store->usable == NULL || store->usable(&error))
		return true;
	node_set_error(store->node, "", error.detail);
	ereport(WARNING,
			(errcode(error.sqlstate),
			 errmsg("lockredis: the files of the TLS settings cannot be used"),
			 errdetail("%s  Existing connections are kept, and new ones cannot be made.",
					   error.detail),
			 error.hint == NULL ? 0 : errhint("%s", _(error.hint))));
	return false;
}

/*
 * reload_settings --- SIGHUP; a new place of the store is treated like a failover
 */
static void
reload_settings(void)
{
	LrWay		before = lr_way();
	uint32		place = lr_place;
	StoreId		store = lr_store_with(STORE_HAS_PLACE);

	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	fallback_check_settings();
	fallback_start();
	if (store == STORE_COUNT)
		return;
	if (!way_has_changed(lr_store(store), before))
	{
		if (lr_store(store)->follow_reload != NULL)
			lr_store(store)->follow_reload();
		return;
	}
	node_set_silent(lr_store(store)->node, false);
	failover_start();

	/* From here on no session wants an address of the former place any more. */
	resolver_restart(lr_store(store)->node, place != lr_place);
	if (place != lr_place)
		fallback_new_place(store);
	renewals_reconnect(store, place != lr_place);
	subscriptions_reconnect();
	lt_renew_now(store, RENEW_ALL);
	lt_wake_all_waiters();
}

/*
 * watchdog_round --- do all that is due, then sleep until the next thing is
 */
static void
watchdog_round(bool ending)
{
	int64		until;

	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
		reload_settings();
	resolver_step();
	failover_step();
	renewals_step();
	fallback_step();
	failover_tell();
	subscriptions_step();
	loss_log_write();

	until = lr_earlier(watch_sockets(), lr_earlier(fallback_next(), loss_log_next()));
	if (ending)
		until = lr_earlier(until, lr_now() + WORKER_END_POLL);
	sleep_until(until);
}

/*
 * lockredis_watchdog_main --- main entry point of the watchdog
 */
void
lockredis_watchdog_main(Datum arg)
{
	int64		end_at = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	CurrentResourceOwner = ResourceOwnerCreate(NULL, "lockredis watchdog");
	pgstat_report_appname("lockredis watchdog");
	pgstat_report_activity(STATE_IDLE, NULL);

	before_shmem_exit(watchdog_leave, 0);
	fallback_start();
	failover_start();
	renewals_start();
	subscriptions_start();
	lt_watchdog_enter();

	while (!worker_may_end(&end_at, lr_command_timeout * LR_US_PER_MS))
		watchdog_round(end_at != 0);
	farewell_end();
	loss_log_finish();

	/* With 0 the postmaster would not restart it after pg_terminate_backend. */
	proc_exit(1);
}
