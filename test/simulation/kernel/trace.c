/*-------------------------------------------------------------------------
 *
 * trace.c
 *	  What a schedule did, for people; and how it failed.
 *
 * Only the schedule that is shown is traced: it is run again for that.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/trace.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

#define TRACE_MAX	(64 * 1024 * 1024)

bool		sim_tracing = false;
Failure		failure;

uint32_t	trace_lines;
bool		trace_switches;

static char *text;
static size_t used;

extern const char *process_name(void);

void
trace_begin(bool tracing)
{
	sim_tracing = tracing;
	failure.failed = false;
	used = 0;
	trace_lines = 0;
	if (tracing && text == NULL)
		text = malloc(TRACE_MAX);
	if (text != NULL)
		text[0] = '\0';
}

const char *
trace_text(void)
{
	return text;
}

void
sim_trace(const char *format,...)
{
	va_list		args;

	trace_lines++;
	if (!sim_tracing || used > TRACE_MAX - 4096)
		return;
	used += snprintf(text + used, 256, "%11.6f  %-9s ",
					 sim_now() / (double) SIM_S, process_name());
	va_start(args, format);
	used += vsnprintf(text + used, 2048, format, args);
	va_end(args);
	text[used++] = '\n';
	text[used] = '\0';
}

void
sim_fail(const char *check, const char *format,...)
{
	va_list		args;

	failure.failed = true;
	snprintf(failure.check, sizeof(failure.check), "%s", check);
	va_start(args, format);
	vsnprintf(failure.message, sizeof(failure.message), format, args);
	va_end(args);
	sim_trace("*** %s: %s", failure.check, failure.message);
	scheduler_leave();
}

/* ----------
 * What was reached
 * ----------
 */

#define REACHED_MAX	256

static struct
{
	const char *what;
	uint64_t	times;
}			reached[REACHED_MAX];
static int	nreached;

void
sim_reached(const char *what)
{
	int			i;

	for (i = 0; i < nreached; i++)
		if (reached[i].what == what || strcmp(reached[i].what, what) == 0)
			break;
	if (i == nreached)
	{
		if (nreached == REACHED_MAX)
			return;
		reached[nreached++].what = strdup(what);
	}
	reached[i].times++;
}

void
reached_report(void)
{
	for (int i = 0; i < nreached; i++)
		printf("  %10llu  %s\n", (unsigned long long) reached[i].times,
			   reached[i].what);
}
