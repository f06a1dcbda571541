/*-------------------------------------------------------------------------
 *
 * table_worker.c
 *	  The background worker that reads and writes the tables of table mode.
 *
 * The worker is connected to lockredis.database and carries out the requests of all processes
 * of this server, in transactions of its own.  So a row is committed before its
 * session gets the answer, whatever the outcome of the session's transaction.  Requests that
 * are submitted while a transaction runs share the next one, and its commit.
 *
 * If a transaction fails, the operation that it failed at is refused.  Those before it run again
 * in one transaction, and those behind it go on in the next one.  So an operation that cannot be
 * carried out does not affect the others, and none is repeated for each failure of others.
 *
 * A process that connects to a database that does not exist ends with a fatal error.
 * The next worker then does not try at once: for a while it answers requests with the reason.
 *
 * The worker starts when recovery has ended, so a standby has none.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_worker.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/xact.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "settings.h"
#include "stats.h"
#include "store/nodes.h"
#include "store/table/table_int.h"
#include "watchdog/watchdog.h"

/* How often rows that no longer count are deleted. */
#define SWEEP_INTERVAL		(10 * LR_US_PER_S)

/* When to try again to connect to the database. */
#define RETRY_INTERVAL		(10 * LR_US_PER_S)

/* For how long a worker that is to end still serves the sessions that end, too. */
#define END_LIMIT			(3 * LR_US_PER_S)

/* The worker waits for no lock on purpose; this limits any wait that happens nevertheless. */
#define LOCK_TIMEOUT		"200ms"

#define DATABASE_HINT	\
	"Create the database, and the extension in it, or set \"lockredis.database\" to another one."

/* Room for all operations that can be submitted at once. */
static TableJob *jobs = NULL;

/* Those of the current transaction, and which of the jobs is being carried out, if any. */
static LockTables tables;
static TableJob *running = NULL;

/* The hook that was there before note_fatal. */
static emit_log_hook_type next_log_hook = NULL;

/* Committing, perhaps waiting for a standby: only die() ends that wait. */
static volatile sig_atomic_t committing = false;

/* before_shmem_exit */
static void
worker_leave(int code, Datum arg)
{
	requests_worker_leave();
}

/* SIGTERM */
static void
handle_terminate(SIGNAL_ARGS)
{
	if (committing)
		die(LR_PASS_SIGNAL_ARGS);
	else
		SignalHandlerForShutdownRequest(LR_PASS_SIGNAL_ARGS);
}

/* ----------
 * Outcomes
 * ----------
 */

/*
 * refuse_job --- answer that the operation was not carried out, and why
 *
 * A value that cannot be changed is the fault of its row; the table serves others.
 */
static void
refuse_job(TableJob *job, const TableTrouble *trouble)
{
	memset(&job->op->answer, 0, sizeof(StoreAnswer));
	job->op->outcome = trouble->sqlstate == ERRCODE_LOCK_NOT_AVAILABLE ?
		STORE_BLOCKED : STORE_REFUSED;
	job->op->answer.own_fault = ERRCODE_TO_CATEGORY(trouble->sqlstate) ==
		ERRCODE_TO_CATEGORY(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE);
	job->request->trouble = *trouble;
}

static void
refuse_jobs(int from, int to, const TableTrouble *trouble)
{
	for (int i = from; i < to; i++)
		refuse_job(&jobs[i], trouble);
}

/*
 * note_error --- note why the transaction has failed, and log an error of PostgreSQL's own
 *
 * If another transaction was writing the row at that moment, the operation was blocked: the
 * worker did not fail.
 */
static void
note_error(void)
{
	ErrorData  *error = CopyErrorData();

	if (tables.trouble.sqlstate == 0 && error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
		table_trouble_set(&tables.trouble, error->sqlerrcode, BLOCKED_HINT,
						  "Another transaction was in the way: %s.", error->message);
	else if (tables.trouble.sqlstate == 0)
	{
		table_trouble_set(&tables.trouble, error->sqlerrcode, "",
						  "The table worker failed: %s.", error->message);
		EmitErrorReport();
	}
	FlushErrorState();
	FreeErrorData(error);
}

/* ----------
 * A transaction
 * ----------
 */

/*
 * commit_tables --- commit the transaction, and flush it if it has to survive a crash
 */
static void
commit_tables(void)
{
	if (tables.must_flush)
		ForceSyncCommit();
	tables_close(&tables);
	PopActiveSnapshot();
	committing = synchronous_commit > SYNCHRONOUS_COMMIT_LOCAL_FLUSH;
	CommitTransactionCommand();
	committing = false;
}

/*
 * run_transaction --- carry out the operations in one transaction; false: it has failed
 *
 * An operation for which a table cannot be used is refused before it has written anything, so the
 * transaction goes on.  With no operations it does the sweep.
 */
static bool
run_transaction(int from, int to)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool done = false;

	running = NULL;
	tables.trouble.sqlstate = 0;
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		tables_open(&tables);
		for (int i = from; i < to; i++)
		{
			running = &jobs[i];
			rows_execute(&tables, running->op);
			if (tables.trouble.sqlstate != 0)
			{
				refuse_job(running, &tables.trouble);
				tables.trouble.sqlstate = 0;
			}
		}
		running = NULL;
		if (from == to)
			entries_sweep(&tables);
		commit_tables();
		for (int i = from; i < to; i++)
			condition_committed(jobs[i].op);
		done = true;
	}
	PG_CATCH();
	{
		committing = false;
		MemoryContextSwitchTo(context);
		note_error();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);

	/*
	 * If the transaction has waited (for a lock, a standby, a page), it has reset
	 * our latch, which a new request may have set: look for requests once more before
	 * sleeping.
	 */
	SetLatch(MyLatch);
	return done;
}

/*
 * run_jobs --- carry out the operations together
 *
 * The operation that made the transaction fail is refused.  Those before it are committed by
 * themselves, so with many failures none of the others runs again for each.
 */
static void
run_jobs(int from, int to)
{
	while (from < to && !run_transaction(from, to))
	{
		if (running != NULL)
		{
			int			failed = running - jobs;

			refuse_job(running, &tables.trouble);
			run_jobs(from, failed);
			from = failed + 1;
		}
		else
		{
			refuse_jobs(from, to, &tables.trouble);
			return;
		}
	}
}

/* ----------
 * Requests
 * ----------
 */

/*
 * serve_requests --- carry out all submitted requests and answer them
 *
 * If "trouble" is given, all are refused with it.
 */
static void
serve_requests(const TableTrouble *trouble)
{
	int			njobs = requests_take(jobs);

	if (njobs == 0)
		return;
	if (trouble == NULL)
		run_jobs(0, njobs);
	else
		refuse_jobs(0, njobs, trouble);
	for (int i = 0; i < njobs; i++)
		if (i + 1 == njobs || jobs[i + 1].request != jobs[i].request)
			request_answer(jobs[i].request);
}

/*
 * settle_transactions --- override defaults of the server and the database
 *
 * The time limit of transactions is switched off.  It would end a worker whose transaction
 * takes long, for example because the owner of the tables has added a slow index.  Other limits are
 * for statements of clients only.
 */
static void
settle_transactions(void)
{
	LrUnlimitTransactions();
	SetConfigOption("lock_timeout", LOCK_TIMEOUT, PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_isolation", "read committed",
					PGC_SUSET, PGC_S_OVERRIDE);
	SetConfigOption("default_transaction_read_only", "off",
					PGC_SUSET, PGC_S_OVERRIDE);
}

static void
reload_settings(void)
{
	if (!ConfigReloadPending)
		return;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	SetConfigOption("synchronous_commit",
					lr_table_synchronous_commit ? "on" : "off",
					PGC_SUSET, PGC_S_OVERRIDE);
}

static void
worker_sleep(long timeout)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 timeout, LR_WAIT_TABLE);
	ResetLatch(MyLatch);
}

/* ----------
 * Connecting
 * ----------
 */

/*
 * refuse_for_a_while --- the last worker could not connect, and this one may not be able to either:
 * answer requests with the reason, before it tries
 */
static void
refuse_for_a_while(const TableTrouble *trouble)
{
	int64		retry_at = lr_now() + RETRY_INTERVAL;

	requests_worker_enter();
	while (!ShutdownRequestPending && lr_now() < retry_at)
	{
		CHECK_FOR_INTERRUPTS();
		reload_settings();
		serve_requests(trouble);
		worker_sleep(lr_ms_until(retry_at, lr_now()));
	}
	requests_worker_leave();
}

/* emit_log_hook, while we connect: a fatal error ends this process */
static void
note_fatal(ErrorData *error)
{
	if (error->elevel == FATAL)
		table_trouble_set(requests_unconnected(), ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						  DATABASE_HINT, "Database \"%s\" cannot be used: %s.", lr_database, error->message);
	if (next_log_hook != NULL)
		next_log_hook(error);
}

/*
 * connect_database --- connect, or leave the reason to the next worker
 */
static void
connect_database(TableTrouble *trouble)
{
	table_trouble_set(trouble, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, DATABASE_HINT,
					  "Database \"%s\" cannot be used; the server log says why.", lr_database);
	next_log_hook = emit_log_hook;
	emit_log_hook = note_fatal;
	BackgroundWorkerInitializeConnection(lr_database, NULL, 0);
	emit_log_hook = next_log_hook;
	trouble->sqlstate = 0;
}

/* ----------
 * The loop
 * ----------
 */

/*
 * worker_round --- serve requests, sweep when it is time, and sleep
 */
static void
worker_round(bool ending)
{
	static int64 next_sweep = 0;
	int64		now;
	long		timeout;
	long		report;

	CHECK_FOR_INTERRUPTS();
	reload_settings();
	serve_requests(NULL);

	now = lr_now();
	if (now >= next_sweep)
	{
		(void) run_transaction(0, 0);
		next_sweep = now + SWEEP_INTERVAL;
	}
	timeout = ending ? (long) lr_ms_up(WORKER_END_POLL) : lr_ms_until(next_sweep, now);
	report = pgstat_report_stat(false);
	worker_sleep(report > 0 ? Min(timeout, report) : timeout);
}

/*
 * show_database --- let redis_lock_status show which database has the tables
 */
static void
show_database(void)
{
	NodeFacts	facts = {.role = ROLE_TABLE,.version = PG_VERSION};
	char		where[128];

	snprintf(where, sizeof(where), "database \"%s\"", lr_database);
	node_set_facts(NODE_TABLE, where, &facts);
}

/*
 * lockredis_table_worker_main --- the entry point of the table worker
 */
void
lockredis_table_worker_main(Datum arg)
{
	TableTrouble *trouble = requests_unconnected();
	int64		end_at = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_terminate);
	BackgroundWorkerUnblockSignals();

	show_database();
	jobs = MemoryContextAlloc(TopMemoryContext, sizeof(TableJob) * requests_max_ops());
	before_shmem_exit(worker_leave, 0);
	if (trouble->sqlstate != 0)
		refuse_for_a_while(trouble);
	connect_database(trouble);
	pgstat_report_appname("lockredis table worker");
	pgstat_report_activity(STATE_IDLE, NULL);
	settle_transactions();
	ConfigReloadPending = true; /* for reload_settings */

	entries_start();
	requests_worker_enter();
	while (!worker_may_end(&end_at, END_LIMIT))
		worker_round(end_at != 0);

	/* Not 0, or it would not be started again after pg_terminate_backend. */
	proc_exit(1);
}
