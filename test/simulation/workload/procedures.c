/*-------------------------------------------------------------------------
 *
 * procedures.c
 *	  Statements that end transactions in themselves: DO and CALL, jobs, a lock that is
 *	  awaited without a snapshot, prepared transactions.
 *
 * The command of a job runs while its lock is held, or lost, and only then; when
 * the call returns the job has given its hold back.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/procedures.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "executor/spi.h"

#include "../backend/heap.h"
#include "../kernel/history.h"
#include "../kernel/server.h"

extern Datum lockredis_with_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_await_lock(PG_FUNCTION_ARGS);

/* Of DO, CALL and jobs in each other. */
#define NESTED_MAX	3

static int	nested = 0;

/* ----------
 * Procedures
 * ----------
 */

static void
procedure_body(void)
{
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
	for (int n = 1 + sim_draw(4); n > 0; n--)
		statements_inside(INSIDE_LOOSE);
	SPI_finish();
}

static void
procedure(void)
{
	if (nested >= NESTED_MAX)
		return;
	nested++;
	PG_TRY();
	{
		utility_run(sim_draw(2) ? T_CallStmt : T_DoStmt, procedure_body);
	}
	PG_FINALLY();
	{
		nested--;
	}
	PG_END_TRY();
}

static void
commit_inside(void)
{
	SPI_commit();
}

static void
rollback_inside(void)
{
	SPI_rollback();
}

/* ----------
 * Jobs
 * ----------
 */

typedef struct Job
{
	char		key[24];
	int			statements;		/* of the command that were run to their end */
} Job;

static Job *running = NULL;

static void
check_job(const Job *job, const char *when)
{
	const BookItem *item = book_find(job->key, KIND_REENTRANT);

	if (item->job == 0 || !book_has_session_part(item))
		sim_fail("job", "the command of a job runs, and the job's lock of %s is gone (%s)",
				 job->key, when);
}

/* One of its command. */
static void
job_statement(const char *statement, bool may_commit)
{
	Job		   *job = running;
	int			n = history_call(HISTORY_JOB_BODY, MyProcPid, job->key, KIND_REENTRANT, 0);

	check_job(job, "before a statement");
	if (may_commit)
		procedure_body();
	else
		statements_inside(INSIDE);
	running = job;
	check_job(job, "after a statement");
	job->statements++;
	history_return(n, HISTORY_YES);
}

static const char *
draw_command(int *n)
{
	switch (sim_draw(6))
	{
		case 1:
			*n = 1;
			return "CALL something()";
		case 2:
			*n = 2;
			return "SELECT 1;SELECT 2";
		case 3:
			*n = 3;
			return "SELECT 1;DO something;SELECT 2";
		case 4:
			*n = -1;
			return "SELECT 1;BEGIN";
		case 5:
			*n = -1;
			return "!";
		default:
			*n = 1;
			return "SELECT 1";
	}
}

static NullableDatum job_args[6];
static bool job_atomic;
static bool job_ran;

static void
call_job(void)
{
	job_ran = DatumGetBool(sql_first_column(sql_call_procedure(lockredis_with_lock, 6,
															   job_args, job_atomic)));
}

static void
run_job(bool atomic)
{
	Job			job = {{0}};
	Job		   *before = running;
	int			n;

	if (nested >= NESTED_MAX)
		return;
	strlcpy(job.key, draw_key(), sizeof(job.key));
	job_args[0] = sql_text(job.key);
	job_args[1] = sql_text(draw_command(&n));
	job_args[2] = sql_interval(SIM_PICK(0, 100 * SIM_MS, 2 * SIM_S));
	job_args[3] = draw_lease();
	job_args[4] = sim_chance(200) ? sql_interval(within_max_lease(SIM_PICK(200, 3000)) * SIM_MS) :
		sql_null;
	job_args[5] = sql_null;
	job_atomic = atomic;
	nested++;
	running = &job;
	spi_statement = job_statement;
	recorder_job_begins(true);
	PG_TRY();
	{
		utility_run(T_CallStmt, call_job);
	}
	PG_FINALLY();
	{
		recorder_job_begins(false);
		running = before;
		nested--;
	}
	PG_END_TRY();
	if (atomic)
		sim_fail("job", "redis_with_lock runs where it cannot end the transaction");
	if (job.statements != (job_ran ? n : 0))
		sim_fail("job", "%d of %d statements of a command ran, and redis_with_lock says that it %s",
				 job.statements, n, job_ran ? "ran" : "did not run");
	sim_reached(job_ran ? "job ran" : "job did not run");
}

static void
job(void)
{
	run_job(false);
}

static void
job_that_cannot(void)
{
	run_job(true);
}

/* ----------
 * Awaited locks
 * ----------
 */

static NullableDatum await_args[3];

static void
call_await_lock(void)
{
	(void) sql_call_procedure(lockredis_await_lock, 3, await_args, false);
}

/*
 * await_lock --- as what the key is held, if it is: as another kind the session would wait
 * for itself, for ever
 *
 * The simulator's own kinds have no name in SQL.
 */
static void
await_lock(void)
{
	const char *key = draw_key();
	KindId		kind = draw_kind_of(key);

	if (kind >= KIND_COUNT)
		return;
	await_args[0] = sql_text(key);
	await_args[1] = draw_lease();
	await_args[2] = sql_text(lr_kind(kind)->name);
	utility_run(T_CallStmt, call_await_lock);
	sim_reached("awaited");
}

/* ----------
 * Prepared transactions
 * ----------
 */

/*
 * somebody_finishes --- it must not be forgotten; in the kernel's own time
 *
 * The session may have ended since, and its slot begun anew.
 */
static void
somebody_finishes(void *arg, int64_t number)
{
	if (!server_is_up())
		return;
	transam_init();
	heavy_locks_init();
	prepared_init();
	prepared_ends = fences_prepared_ends;
	for (int i = 0; i < PREPARED_PLACES; i++)
		if (prepared_number(i) == number)
			prepared_finish(i, true);
}

static void
note_prepared(int n)
{
	sim_at(sim_now() + SIM_PICK(SIM_S, 50 * SIM_MS, 4 * SIM_S), somebody_finishes, NULL,
		   prepared_number(n));
}

static void
prepare(void)
{
	if (!prepared_has_room())
		return;
	while (xact_depth() > 1)
		xact_sub_commit();
	block = BLOCK_NONE;
	note_prepared(xact_prepare());
}

static int	finished;
static bool commits;

static void
finish_prepared(void)
{
	finished = prepared_first();
	if (finished < 0)
		return;

	/* Its wait for a standby; nobody else finishes it. */
	if (commits && sim_chance(200))
		pg_usleep((long) SIM_PICK(100, 5 * SIM_MS, 500 * SIM_MS));
	if (finished == prepared_first())
		prepared_finish(finished, commits);
}

static void
commit_prepared(void)
{
	commits = true;
	utility_run(T_TransactionStmt, finish_prepared);
}

static void
rollback_prepared(void)
{
	commits = false;
	finish_prepared();
}

const Statement procedure_statements[] = {
	{"DO or CALL", 5, AT_TOP | INSIDE_LOOSE, procedure},
	{"COMMIT in a procedure", 5, INSIDE_LOOSE, commit_inside},
	{"ROLLBACK in a procedure", 2, INSIDE_LOOSE, rollback_inside},
	{"redis_with_lock", 6, AT_TOP | INSIDE_LOOSE, job},
	{"redis_with_lock in a block", 1, IN_BLOCK | INSIDE, job_that_cannot},
	{"redis_await_lock", 3, AT_TOP | INSIDE_LOOSE, await_lock},
	{"PREPARE TRANSACTION", 3, IN_BLOCK | CONTROL, prepare},
	{"COMMIT PREPARED", 3, AT_TOP, commit_prepared},
	{"ROLLBACK PREPARED", 1, AT_TOP, rollback_prepared},
	{NULL}
};
