/*-------------------------------------------------------------------------
 *
 * job.c
 *	  Procedures that end the caller's transaction: redis_with_lock, which runs a
 *	  command that only one of several servers shall run, and redis_await_lock.
 *
 * A session that waits inside a transaction keeps its snapshot, which prevents
 * vacuum from removing rows deleted since, in all tables of the database.  A
 * procedure commits before it waits, and waits without a snapshot.
 *
 * A job takes the lock, commits (so that the command starts on a fresh snapshot),
 * runs the command, commits, and releases the lock.  If the command fails, its
 * error is re-thrown as it is, and the lock is released at the end of the abort.
 * The hold belongs to the runner: neither redis_unlock nor ROLLBACK in the command
 * releases it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/job.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "parser/parser.h"
#include "tcop/dest.h"
#include "utils/builtins.h"

#include "session/session.h"
#include "sql/arguments.h"

/*
 * job_require_control --- raise an error unless we may end the caller's transaction
 */
static void
job_require_control(FunctionCallInfo fcinfo, const char *procedure, const char *detail)
{
	CallContext *context = (CallContext *) fcinfo->context;

	/*
	 * All commands of a pipeline up to its Sync are one transaction, although not all
	 * versions of PostgreSQL call that a transaction block.
	 */
	if (context != NULL && IsA(context, CallContext) && !context->atomic &&
		!IsSubTransaction() && !(MyXactFlags & XACT_FLAGS_PIPELINING))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
			 errmsg("%s cannot run inside a transaction block", procedure),
			 errdetail_internal("%s", detail),
			 errhint("Call it outside of BEGIN, of functions and of exception blocks, and first in a pipeline, or use redis_xact_lock.")));
}

/*
 * job_commit_call --- end the transaction with this command, even in a pipeline
 *
 * PostgreSQL does so after each command that commits by itself.  That way a job can
 * follow another one.  Inside another CALL or DO we do not, as that may go on to write.
 */
static void
job_commit_call(void)
{
	if (track_procedural_depth == 1)
		MyXactFlags |= XACT_FLAGS_NEEDIMMEDIATECOMMIT;
}

/*
 * job_run_statement --- run one statement of the command, discarding its result
 *
 * Only CALL and DO may end transactions themselves.
 */
static void
job_run_statement(const char *statement, bool may_commit, const char *procedure)
{
	SPIExecuteOptions options;
	int			result;

	memset(&options, 0, sizeof(options));
	options.allow_nonatomic = may_commit;
	options.dest = None_Receiver;
	result = SPI_execute_extended(statement, &options);
	if (result < 0)
		ereport(ERROR,
				(errcode(result == SPI_ERROR_TRANSACTION ?
						 ERRCODE_INVALID_TRANSACTION_TERMINATION :
						 ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot run this command under %s", procedure),
				 result == SPI_ERROR_TRANSACTION ?
				 errdetail("It must not begin or end transactions.") :
				 result == SPI_ERROR_COPY ?
				 errdetail("It must not copy from or to the client.") :
				 errdetail_internal("%s", SPI_result_code_string(result))));
}

/* Report the position of a syntax error within the command, not within the CALL. */
static void
job_parse_error(void *arg)
{
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery((const char *) arg);
	}
}

static List *
job_parse_command(const char *command)
{
	ErrorContextCallback callback;
	List	   *statements;

	callback.callback = job_parse_error;
	callback.arg = unconstify(char *, command);
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	statements = raw_parser(command, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	return statements;
}

/*
 * job_run_command --- run the statements of the command, each seeing the changes before
 * it
 */
static void
job_run_command(const char *command, const char *procedure)
{
	List	   *statements = job_parse_command(command);
	ListCell   *cell;

	foreach(cell, statements)
	{
		RawStmt    *raw = lfirst_node(RawStmt, cell);
		const char *text = command + raw->stmt_location;

		job_run_statement(raw->stmt_len > 0 ? pnstrdup(text, raw->stmt_len) : text,
						  IsA(raw->stmt, CallStmt) || IsA(raw->stmt, DoStmt), procedure);
	}
}

/*
 * job_run --- take the lock and run the command; false if the time limit passed before
 *
 * Without waiting (a limit of 0), a busy lock returns before anything is committed.
 */
static bool
job_run(const LrName *name, const AcquireRequest *request, const char *command,
		const char *procedure)
{
	HeldEntry  *entry;

	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
	if (request->wait_us != 0)
		SPI_commit();
	if (!session_lock(name, request, &entry))
	{
		SPI_finish();
		job_commit_call();
		return false;
	}
	entry->job_count++;

	PG_TRY();
	{
		SPI_commit();
		job_run_command(command, procedure);
		SPI_commit();
	}
	PG_CATCH();
	{
		xact_job_failed();
		PG_RE_THROW();
	}
	PG_END_TRY();

	(void) session_unlock_job(name, entry);
	SPI_finish();
	job_commit_call();
	return true;
}

/*
 * job_call --- see arguments.h
 */
Datum
job_call(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	AcquireRequest request;
	TupleDesc	desc;
	MemoryContext caller = CurrentMemoryContext;
	Datum		value;
	bool		isnull = false;
	int64		keep_us = 0;
	bool		ran;

	arg_require(fcinfo, 1, "command");
	arg_request(fcinfo, verb, 2, &request);
	if (PG_NARGS() > 5)
		keep_us = arg_keep_us(fcinfo, 4);
	if (keep_us > 0)
		request.terms.keep_until = lr_now() + keep_us;
	job_require_control(fcinfo, verb->procedure, _("It commits before and after the command."));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);

	ran = job_run(name, &request, text_to_cstring(PG_GETARG_TEXT_PP(1)), verb->procedure);

	MemoryContextSwitchTo(caller);
	value = BoolGetDatum(ran);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(desc, &value, &isnull)));
}

/*
 * job_await --- see arguments.h
 */
Datum
job_await(FunctionCallInfo fcinfo, const Verb *verb, const LrName *name)
{
	AcquireRequest request;

	arg_request(fcinfo, verb, 1, &request);
	request.terms.kind = arg_kind(fcinfo, 2, name, verb->kind);
	require_session_locks();
	job_require_control(fcinfo, verb->procedure, _("It commits before it waits."));
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
	SPI_commit();
	(void) session_lock(name, &request, NULL);
	SPI_finish();
	job_commit_call();
	PG_RETURN_VOID();
}
