/*-------------------------------------------------------------------------
 *
 * lockredis.c
 *	  Loading of the library: settings, shared memory, hooks, background workers.
 *
 * Without shared_preload_libraries the library can be loaded, but it has no
 * shared memory, and every function raises an error.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/lockredis.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "commands/extension.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "tcop/utility.h"

#include "locktable/locktable.h"
#include "names.h"
#include "session/session.h"
#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/stores.h"
#include "watchdog/watchdog.h"

#ifdef PG_MODULE_MAGIC_EXT
PG_MODULE_MAGIC_EXT(.name = "lockredis",.version = LOCKREDIS_VERSION);
#else
PG_MODULE_MAGIC;
#endif

PGDLLEXPORT void _PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static ProcessUtility_hook_type prev_process_utility_hook = NULL;

/* The parts of shared memory. */
static const struct
{
	Size		(*size) (void);
	void		(*init) (void);
}			shared_parts[] =
{
	{instance_shmem_size, instance_shmem_init},
	{locktable_shmem_size, locktable_shmem_init},
	{stats_shmem_size, stats_shmem_init},
	{node_shmem_size, node_shmem_init},
	{silence_shmem_size, silence_shmem_init},
	{requests_shmem_size, requests_shmem_init}
};

/*
 * request_shmem --- reserve what each part needs
 */
static void
request_shmem(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	for (int i = 0; i < lengthof(shared_parts); i++)
		RequestAddinShmemSpace(shared_parts[i].size());
	RequestNamedLWLockTranche("lockredis", NODE_LWLOCKS + locktable_lwlocks());
}

/* This runs again after a crash-restart, so it must not register anything. */
static void
startup_shmem(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(shared_parts); i++)
		shared_parts[i].init();
	LWLockRelease(AddinShmemInitLock);
}

/*
 * run_utility --- run the statement; others have to know that a DO or CALL, or an ALTER SYSTEM,
 * runs
 */
static void
run_utility(PlannedStmt *pstmt, const char *query_string,
			bool read_only_tree, ProcessUtilityContext context,
			ParamListInfo params, QueryEnvironment *query_env,
			DestReceiver *dest, QueryCompletion *qc)
{
	volatile int procedural = IsA(pstmt->utilityStmt, DoStmt) ||
		IsA(pstmt->utilityStmt, CallStmt);

	track_procedural_depth += procedural;
	lr_in_alter_system = IsA(pstmt->utilityStmt, AlterSystemStmt);
	PG_TRY();
	{
		if (prev_process_utility_hook)
			prev_process_utility_hook(pstmt, query_string, read_only_tree, context,
									  params, query_env, dest, qc);
		else
			standard_ProcessUtility(pstmt, query_string, read_only_tree, context,
									params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		lr_in_alter_system = false;
		track_procedural_depth -= procedural;
	}
	PG_END_TRY();
}

/*
 * process_utility --- five things for which there is no other hook
 *
 * DISCARD ALL releases the locks of the session, as it does with advisory locks: a
 * pooler hands the session to another client.  A DO or CALL may take a lock inside a
 * transaction that goes on after it.  The check of a setting cannot tell otherwise that
 * it runs for ALTER SYSTEM.  COMMIT PREPARED commits and waits for a standby without
 * any callback; ROLLBACK PREPARED waits, too, but if that is interrupted, nothing is
 * missing that anybody has seen.  Finally, a statement that is refused because its
 * transaction has failed disables all timeouts without an abort, and so does the
 * ROLLBACK that follows; our timeout has to be enabled again.
 */
static void
process_utility(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *query_env,
				DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		discard_all = IsA(stmt, DiscardStmt) &&
		((DiscardStmt *) stmt)->target == DISCARD_ALL;

	if (IsA(stmt, TransactionStmt) &&
		((TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED)
		xact_before_commit_prepared();
	run_utility(pstmt, query_string, read_only_tree, context, params, query_env, dest, qc);
	if (discard_all)
		session_discard();
	if (IsA(stmt, TransactionStmt))
		idle_mind();
}

/*
 * warn_of_late_load --- warn of CREATE EXTENSION without the preload
 *
 * It works, so that a dump can be restored, but without a warning it would look like a
 * success.
 */
static void
warn_of_late_load(void)
{
	if (creating_extension && !IsBinaryUpgrade)
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lockredis is not loaded via \"%s\"",
						"shared_preload_libraries"),
				 errdetail("Its functions raise errors until it is."),
				 errhint("Add \"lockredis\" to \"%s\" and restart the server.",
						 "shared_preload_libraries")));
}

/*
 * _PG_init --- called when the library is loaded
 */
void
_PG_init(void)
{
	/* There is no shared memory if we are loaded later; every function checks that. */
	if (!process_shared_preload_libraries_in_progress)
	{
		warn_of_late_load();
		return;
	}

	lr_define_settings();

	/* pg_upgrade's servers need no locks and must start no worker. */
	if (IsBinaryUpgrade)
		return;
	lr_require_fit_lease();
	fallback_check_settings();

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shmem;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shmem;
	prev_process_utility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;

	xact_register_callbacks();
	workers_register();
}
