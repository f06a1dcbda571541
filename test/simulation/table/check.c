/*-------------------------------------------------------------------------
 *
 * check.c
 *	  A program that runs a simulated server in table mode, and does what it is told.
 *
 * One session of the server (simulated.c) reads what it is told from the standard input, and
 * answers.  There are no faults, and each choice is the plainest.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/table/check.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include "../kernel/config.h"
#include "../kernel/kernel.h"
#include "../kernel/schedule.h"

/* lockredis.mode */
#define MODE_TABLE	1

static bool
session_has_ended(void)
{
	return !sim_config.told;
}

static void
check_nothing(void)
{
}

static void
serve(void)
{
	sim_config.calm = true;
	sim_config.told = true;
	if (!scheduler_run(session_has_ended))
		sim_fail("stuck", "nobody can go on");
}

int
main(int argc, char **argv)
{
	int			c;

	if (argc != 2)
	{
		fputs("usage: check-table PRODUCT.so\n", stderr);
		return 2;
	}
	schedule_mode = MODE_TABLE;
	schedule_load(argv[1]);
	scheduler_check = check_nothing;

	/* Each time it is told to begin anew, until there is no more to read. */
	while ((c = getchar()) != EOF)
	{
		ungetc(c, stdin);
		if (!schedule_observe(serve))
		{
			printf("%s: %s\n.\n", failure.check, failure.message);
			return 1;
		}
	}
	return 0;
}
