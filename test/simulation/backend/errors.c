/*-------------------------------------------------------------------------
 *
 * errors.c
 *	  ereport, and what interrupts do.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/errors.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>

#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

typedef struct Report
{
	int			elevel;
	int			sqlstate;
	char		message[400];
	char		detail[400];
} Report;

#define REPORTS_MAX 5

static Report reports[REPORTS_MAX];
static int	top = -1;
static Report last_error;

sigjmp_buf *PG_exception_stack = NULL;
ErrorContextCallback *error_context_stack = NULL;
emit_log_hook_type emit_log_hook = NULL;
const char *backend_must_not_raise = NULL;
int			backend_signals = 0;
void		(*backend_told) (int elevel, int sqlstate, const char *message);

static bool in_context_callback = false;

bool
errstart(int elevel, const char *domain)
{
	backend_must_hold_no_lock("ereport");
	if (in_context_callback)
		sim_fail("must not report", "a context callback reports something");
	if (elevel == ERROR && PG_exception_stack == NULL)
		elevel = FATAL;
	if (elevel >= ERROR && backend_must_not_raise != NULL)
	{
		sim_fail("must not raise", "an error is raised %s", backend_must_not_raise);
	}
	if (++top == REPORTS_MAX)
		sim_fail("must not raise", "errors within errors");
	memset(&reports[top], 0, sizeof(Report));
	reports[top].elevel = elevel;
	reports[top].sqlstate = elevel >= ERROR ? ERRCODE_INTERNAL_ERROR :
		elevel >= WARNING ? ERRCODE_WARNING : 0;
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

int
errcode(int sqlstate)
{
	reports[top].sqlstate = sqlstate;
	return 0;
}

#define FORMAT(field) \
	do { \
		va_list args; \
		va_start(args, format); \
		vsnprintf(reports[top].field, sizeof(reports[top].field), format, args); \
		va_end(args); \
	} while (0)

int
errmsg(const char *format,...)
{
	FORMAT(message);
	return 0;
}

int
errmsg_internal(const char *format,...)
{
	FORMAT(message);
	return 0;
}

int
errdetail(const char *format,...)
{
	FORMAT(detail);
	return 0;
}

int
errdetail_plural(const char *singular, const char *plural, unsigned long n,...)
{
	va_list		args;

	va_start(args, n);
	vsnprintf(reports[top].detail, sizeof(reports[top].detail),
			  n == 1 ? singular : plural, args);
	va_end(args);
	return 0;
}

int
errdetail_internal(const char *format,...)
{
	FORMAT(detail);
	return 0;
}

int
errdetail_log(const char *format,...)
{
	return 0;
}

int
errdetail_log_plural(const char *singular, const char *plural, unsigned long n,...)
{
	return 0;
}

int
set_errcontext_domain(const char *domain)
{
	return 0;
}

/* As long as PostgreSQL would make of it; nobody looks at it. */
int
errcontext_msg(const char *format,...)
{
	char		context[2048];
	va_list		args;

	va_start(args, format);
	vsnprintf(context, sizeof(context), format, args);
	va_end(args);
	sim_trace("  context: %s", context);
	return 0;
}

int
errhint(const char *format,...)
{
	return 0;
}

int
errhint_internal(const char *format,...)
{
	return 0;
}

int
geterrcode(void)
{
	return reports[top].sqlstate;
}

void
pre_format_elog_string(int errnumber, const char *domain)
{
}

char *
format_elog_string(const char *format,...)
{
	return "";
}

void
FlushErrorState(void)
{
	top = -1;
}

ErrorData *
CopyErrorData(void)
{
	ErrorData  *copy = palloc0(sizeof(ErrorData));

	copy->sqlerrcode = last_error.sqlstate;
	copy->message = pstrdup(last_error.message);
	return copy;
}

void
FreeErrorData(ErrorData *edata)
{
	pfree(edata->message);
	pfree(edata);
}

/* Whoever raised it has traced it. */
void
EmitErrorReport(void)
{
}

int
backend_error_code(void)
{
	return last_error.sqlstate;
}

const char *
backend_error_message(void)
{
	return last_error.message;
}

static const char *
level_name(int elevel)
{
	return elevel >= PANIC ? "PANIC" : elevel >= FATAL ? "FATAL" :
		elevel >= ERROR ? "ERROR" : elevel >= WARNING ? "WARNING" : "LOG";
}

/*
 * run_context_callbacks --- of an error; they may not raise another one
 */
static void
run_context_callbacks(void)
{
	in_context_callback = true;
	for (ErrorContextCallback *c = error_context_stack; c != NULL; c = c->previous)
		c->callback(c->arg);
	in_context_callback = false;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	Report	   *r = &reports[top];

	if (r->elevel >= ERROR)
		run_context_callbacks();
	sim_trace("%s: %s %s%s%s", level_name(r->elevel), unpack_sql_state(r->sqlstate),
			  r->message, r->detail[0] ? " / " : "", r->detail);
	if (backend_told != NULL)
		backend_told(r->elevel, r->sqlstate, r->message);
	if (r->elevel < ERROR)
	{
		top--;
		sim_yield("report");
		return;
	}
	last_error = *r;
	if (r->elevel >= PANIC)
		sim_fail("panic", "%s", r->message);
	InterruptHoldoffCount = 0;
	QueryCancelHoldoffCount = 0;
	if (r->elevel >= FATAL)
	{
		if (emit_log_hook != NULL)
			emit_log_hook(&(ErrorData) {.elevel = r->elevel,.message = r->message});
		PG_exception_stack = NULL;
		top--;
		proc_exit(1);
	}
	pg_re_throw();
}

void
pg_re_throw(void)
{
	if (PG_exception_stack == NULL)
		proc_exit(1);
	siglongjmp(*PG_exception_stack, 1);
}

char *
unpack_sql_state(int sqlstate)
{
	static char text[6];

	for (int i = 0; i < 5; i++)
	{
		text[i] = PGUNSIXBIT(sqlstate);
		sqlstate >>= 6;
	}
	return text;
}

void
ExceptionalCondition(const char *condition, SIM_ASSERTION_TYPE const char *file, int line)
{
	const char *name = strrchr(file, '/');

	sim_fail("assertion", "%s, %s line %d", condition, name ? name + 1 : file, line);
}

/* ----------
 * Interrupts
 * ----------
 */

volatile sig_atomic_t InterruptPending = false;
volatile sig_atomic_t QueryCancelPending = false;
volatile sig_atomic_t ProcDiePending = false;
volatile sig_atomic_t ConfigReloadPending = false;
volatile sig_atomic_t ShutdownRequestPending = false;
volatile uint32 InterruptHoldoffCount = 0;
volatile uint32 QueryCancelHoldoffCount = 0;
volatile uint32 CritSectionCount = 0;

static pqsigfunc handler[32];

/* They are blocked until there is a handler. */
static uint32 blocked_signals = 0;
static int64 statement_ends_at = SIM_NEVER;
static int64 statement_number = 0;

static pqsigfunc
set_handler(int signo, pqsigfunc func)
{
	pqsigfunc	before = handler[signo];

	handler[signo] = func;
	if (blocked_signals & (1 << signo))
	{
		blocked_signals &= ~(1 << signo);
		func(SIM_SIGNAL_ARGS(signo));
	}
	return before;
}

/* 18 no longer returns the former handler. */
#if PG_VERSION_NUM >= 180000
void
pqsignal(int signo, pqsigfunc func)
{
	set_handler(signo, func);
}
#else
pqsigfunc
pqsignal(int signo, pqsigfunc func)
{
	return set_handler(signo, func);
}
#endif

static void
set_own_latch(void)
{
	MyLatch->is_set = true;
}

void
SignalHandlerForConfigReload(SIGNAL_ARGS)
{
	ConfigReloadPending = true;
	set_own_latch();
}

void
SignalHandlerForShutdownRequest(SIGNAL_ARGS)
{
	ShutdownRequestPending = true;
	set_own_latch();
}

void
StatementCancelHandler(SIGNAL_ARGS)
{
	if (!backend_exiting)
	{
		InterruptPending = true;
		QueryCancelPending = true;
	}
	set_own_latch();
}

void
die(SIGNAL_ARGS)
{
	if (!backend_exiting)
	{
		InterruptPending = true;
		ProcDiePending = true;
	}
	set_own_latch();
}

/* Called by the kernel when the process runs again. */
extern void sim_backend_signal(int signo);

void
sim_backend_signal(int signo)
{
	backend_signals++;
	if (signo == SIGALRM)
	{
		set_own_latch();
		backend_timeouts_ring();
		if (sim_now() >= statement_ends_at)
			StatementCancelHandler(SIM_SIGNAL_ARGS(signo));
	}
	else if (handler[signo] != NULL)
		handler[signo] (SIM_SIGNAL_ARGS(signo));
	else
		blocked_signals |= 1 << signo;
}

static void
alarm_rings(void *arg, int64_t pid)
{
	(void) sim_kill((int) pid, SIGALRM);
}

void
backend_ring_at(int64 when)
{
	sim_at(when, alarm_rings, NULL, MyProcPid);
}

void
backend_statement_timeout(int64 until)
{
	statement_number++;
	statement_ends_at = until;
	if (until < SIM_NEVER)
		backend_ring_at(until);
}

void
sim_check_for_interrupts(void)
{
	backend_must_hold_no_lock("CHECK_FOR_INTERRUPTS");
	if (backend_must_not_raise != NULL)
		sim_fail("must not raise", "interrupts are taken %s", backend_must_not_raise);
	sim_yield("interrupts?");
	if (InterruptPending)
		ProcessInterrupts();
}

void
ProcessInterrupts(void)
{
	if (InterruptHoldoffCount != 0 || CritSectionCount != 0)
		return;
	InterruptPending = false;
	if (ProcDiePending)
	{
		ProcDiePending = false;
		QueryCancelPending = false;
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to administrator command")));
	}
	if (QueryCancelPending)
	{
		if (QueryCancelHoldoffCount != 0)
		{
			InterruptPending = true;
			return;
		}
		QueryCancelPending = false;
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to %s",
						sim_now() >= statement_ends_at ? "statement timeout" :
						"user request")));
	}
}
