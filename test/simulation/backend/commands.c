/*-------------------------------------------------------------------------
 *
 * commands.c
 *	  Transactions as a background worker has them, and the errors that it catches.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/commands.c
 *
 *-------------------------------------------------------------------------
 */
#include "heap.h"

#include "access/transam.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

int			synchronous_commit = SYNCHRONOUS_COMMIT_ON;
MemoryContext TopTransactionContext = NULL;

/* It is asked for its outcome only. */
static SnapshotData no_snapshot;

static void
shutdown_postgres(int code, Datum arg)
{
	xact_abort();
}

/* Whoever connects to a database that is not there ends; the next one waits for 10 s. */
void
BackgroundWorkerInitializeConnection(const char *dbname, const char *username, uint32 flags)
{
	before_shmem_exit(shutdown_postgres, 0);
	if (sim_config.calm || !sim_chance(sim_config.strangers))
		return;
	sim_disturbed(sim_now() + 15 * SIM_S);
	ereport(FATAL,
			(errcode(ERRCODE_UNDEFINED_DATABASE),
			 errmsg("database \"%s\" does not exist", dbname)));
}

void
SetConfigOption(const char *name, const char *value, GucContext context, GucSource source)
{
	if (strcmp(name, "synchronous_commit") == 0)
		synchronous_commit = strcmp(value, "on") == 0 ? SYNCHRONOUS_COMMIT_ON :
			SYNCHRONOUS_COMMIT_OFF;
}

void
SetCurrentStatementStartTimestamp(void)
{
}

void
StartTransactionCommand(void)
{
	xact_start();
	TopTransactionContext = AllocSetContextCreateInternal(TopMemoryContext, "transaction",
														  0, 0, 0);
	CurrentMemoryContext = TopTransactionContext;
}

static void
forget_memory(void)
{
	CurrentMemoryContext = TopMemoryContext;
	if (TopTransactionContext != NULL)
		MemoryContextDelete(TopTransactionContext);
	TopTransactionContext = NULL;
}

void
CommitTransactionCommand(void)
{
	xact_commit();
	forget_memory();
}

void
AbortCurrentTransaction(void)
{
	xact_abort();
	forget_memory();
}

TransactionId
GetTopTransactionId(void)
{
	return xact_assign_xid();
}

bool
TransactionIdIsCurrentTransactionId(TransactionId xid)
{
	return xact_is_own(xid);
}

bool
TransactionIdDidCommit(TransactionId xid)
{
	return transam_did_commit(xid);
}

/* The one that a scan is given is the present one. */
Snapshot
GetTransactionSnapshot(void)
{
	return &no_snapshot;
}

Snapshot
GetActiveSnapshot(void)
{
	return &no_snapshot;
}

void
PushActiveSnapshot(Snapshot snapshot)
{
}

void
PopActiveSnapshot(void)
{
}

long
pgstat_report_stat(bool force)
{
	return 0;
}
