/*-------------------------------------------------------------------------
 *
 * shrink.c
 *	  A failing schedule made smaller.
 *
 * Choices are left out or set to 0, whole streams of them, then many at once and
 * fewer and fewer, for as long as the same check fails.  Smaller is what has fewer
 * lines in its trace, as that has to be read, and of as many what has fewer choices
 * that are not 0.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/shrink.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernel.h"
#include "schedule.h"
#include "shrink.h"

#define SECONDS_MAX	20

static char check[64];
static ChoiceLog best;
static uint64_t best_size;
static ChoiceLog attempt;
static clock_t stop_at;

static uint64_t
size_of(const ChoiceLog *log)
{
	uint64_t	n = 0;

	for (int s = 0; s < CHOICE_STREAMS; s++)
		for (uint32_t i = 0; i < log->stream[s].n; i++)
			n += (log->stream[s].choice[i] & ~CHOICE_BEGINS) != 0;
	return n + trace_lines * UINT64_C(100);
}

static bool
is_over(void)
{
	return clock() >= stop_at;
}

/* Does it still fail, and is smaller? */
static bool
try_it(void)
{
	uint64_t	size;

	choices_from_log(&attempt);
	if (schedule_run(false) || strcmp(failure.check, check) != 0)
		return false;
	size = size_of(choices_made());
	if (size >= best_size)
		return false;

	/* As drawn now, without what was not read. */
	best_size = size;
	choice_log_copy(&best, choices_made());
	return true;
}

static bool
leave_out(int s, uint32_t from, uint32_t n)
{
	ChoiceStream *a = &attempt.stream[s];

	choice_log_copy(&attempt, &best);
	if (n > a->n - from)
		n = a->n - from;
	memmove(a->choice + from, a->choice + from + n, sizeof(uint32_t) * (a->n - from - n));
	a->n -= n;
	return try_it();
}

/* Until what belongs together ends, "units" of it. */
static uint32_t
span(const ChoiceStream *b, uint32_t from, uint32_t units)
{
	uint32_t	n = 1;

	for (; from + n < b->n; n++)
		if ((b->choice[from + n] & CHOICE_BEGINS) != 0 && --units == 0)
			break;
	return n;
}

static void
leave_out_units(int s)
{
	const ChoiceStream *b = &best.stream[s];

	for (uint32_t units = 64; units > 0; units /= 2)
		for (uint32_t from = 0; from < b->n && !is_over();)
			if (!leave_out(s, from, span(b, from, units)))
				from += span(b, from, 1);
}

static bool
set_to_0(int s, uint32_t from, uint32_t n)
{
	ChoiceStream *a = &attempt.stream[s];
	bool		changed = false;

	choice_log_copy(&attempt, &best);
	for (uint32_t i = from; i < from + n && i < a->n; i++)
	{
		changed = changed || (a->choice[i] & ~CHOICE_BEGINS) != 0;
		a->choice[i] &= CHOICE_BEGINS;
	}
	return changed && try_it();
}

static void
shrink_stream(int s)
{
	const ChoiceStream *b = &best.stream[s];

	for (uint32_t size = b->n; size > 0; size /= 2)
		for (uint32_t from = 0; from < b->n && !is_over();)
			if (!leave_out(s, from, size) && !set_to_0(s, from, size))
				from += size;
}

/* Sessions first, then how they give way, the kernel last. */
static void
shrink(void)
{
	for (int s = CHOICE_STREAMS - 1; s >= 0; s--)
		if (best.stream[s].n > 0)
			(void) leave_out(s, 0, best.stream[s].n);
	for (int s = CHOICE_STREAMS - 1; s >= 0; s--)
		leave_out_units(s);
	for (int s = CHOICE_STREAMS - 1; s >= 0; s--)
		shrink_stream(s);
}

void
shrink_and_show(void)
{
	uint32_t	before = trace_lines;

	strcpy(check, failure.check);
	choice_log_copy(&best, choices_made());
	best_size = size_of(&best);
	stop_at = clock() + SECONDS_MAX * CLOCKS_PER_SEC;
	for (uint64_t last = 0; last != best_size && !is_over();)
	{
		last = best_size;
		shrink();
	}
	choices_from_log(&best);
	trace_switches = true;
	(void) schedule_run(true);
	trace_switches = false;
	printf("made smaller: from %u lines to %u; its trace:\n\n", before, trace_lines);
	fputs(trace_text(), stdout);
	printf("\n%s: %s\n", failure.check, failure.message);
}
