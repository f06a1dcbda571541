/*-------------------------------------------------------------------------
 *
 * shrink.c
 *	  A failing schedule made smaller.
 *
 * Choices are set to 0, many at once and then fewer, or cut off at the end, as
 * long as the same check fails.
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
static ChoiceLog attempt;
static time_t stop_at;

static uint32_t
weight(const ChoiceLog *log)
{
	uint32_t	n = 0;

	for (uint32_t i = 0; i < log->n; i++)
		n += log->choice[i] != 0;
	return n;
}

/* Does it still fail, and with less? */
static bool
try_it(void)
{
	choices_from_log(&attempt);
	if (schedule_run(false) || strcmp(failure.check, check) != 0)
		return false;

	/* As drawn now, without what was not read. */
	if (choices_made()->n > best.n || weight(choices_made()) >= weight(&best))
		return false;
	choice_log_copy(&best, choices_made());
	return true;
}

static bool
zero(uint32_t from, uint32_t n)
{
	bool		changed = false;

	choice_log_copy(&attempt, &best);
	for (uint32_t i = from; i < from + n && i < attempt.n; i++)
	{
		changed = changed || attempt.choice[i] != 0;
		attempt.choice[i] = 0;
	}
	return changed && try_it();
}

static void
shrink(void)
{
	for (uint32_t size = best.n / 2; size > 0; size /= 2)
		for (uint32_t from = 0; from < best.n; from += size)
		{
			if (time(NULL) >= stop_at)
				return;
			(void) zero(from, size);
		}
}

void
shrink_and_show(void)
{
	uint32_t	before;

	strcpy(check, failure.check);
	choice_log_copy(&best, choices_made());
	before = weight(&best);
	stop_at = time(NULL) + SECONDS_MAX;
	for (uint32_t last = 0; last != weight(&best) && time(NULL) < stop_at;)
	{
		last = weight(&best);
		shrink();
	}
	choices_from_log(&best);
	(void) schedule_run(true);
	printf("made smaller: from %u choices to %u; its trace:\n\n", before, weight(&best));
	fputs(trace_text(), stdout);
	printf("\n%s: %s\n", failure.check, failure.message);
}
