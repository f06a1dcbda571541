/*-------------------------------------------------------------------------
 *
 * simulate.c
 *	  The program: schedules from seeds, until one fails or the time is over.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/simulate.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "meeting.h"
#include "schedule.h"
#include "shrink.h"
#include "states.h"
#include "site.h"
#include "strategy.h"

static uint64_t seed;

/* Of the processor: a busy machine tries as much as a quiet one. */
static double
seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void
die(int signo)
{
	char		text[128];
	int			n = snprintf(text, sizeof(text),
							 "simulate: seed %" PRIu64 ": crashed with signal %d\n",
							 seed, signo);

	if (write(STDOUT_FILENO, text, n) < 0)
		_exit(4);
	if (sim_tracing)
	{
		const char *t = trace_text();
		size_t		len = strlen(t);

		if (write(STDOUT_FILENO, len > 6000 ? t + len - 6000 : t, len > 6000 ? 6000 : len) < 0)
			_exit(4);
	}
	_exit(3);
}

/*
 * In the product it is a failure like any other: the schedule ends there, and can be
 * made smaller.  In the simulator itself, or with a sanitizer's report, it is the end.
 */
static void
crashed(int signo, siginfo_t *info, void *context)
{
	static volatile sig_atomic_t again;
	Site		site;

	(void) info;
	if (signo == SIGABRT || sim_slot() < 0 || again)
		die(signo);
	again = true;
	site_of_signal(context, &site);
	again = false;
	if (site.offset[0] == 0)
		die(signo);
	sim_fail("crash", "signal %d in %s", signo, site_name(&site));
}

static void
catch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
	static char stack[65536];
	stack_t		alternate = {.ss_sp = stack,.ss_size = sizeof(stack)};
	struct sigaction action;

	sigaltstack(&alternate, NULL);
	memset(&action, 0, sizeof(action));
	action.sa_sigaction = crashed;
	action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaction(signals[i], &action, NULL);
}

/* With --keep-going: how often each check failed, and where first. */
#define CHECKS_MAX	64

static struct
{
	char		check[sizeof(failure.check)];
	uint64_t	times;
	uint64_t	seed;
}			counted[CHECKS_MAX];
static int	ncounted;

static void
count_failure(void)
{
	int			i;

	for (i = 0; i < ncounted; i++)
		if (strcmp(counted[i].check, failure.check) == 0)
			break;
	if (i == CHECKS_MAX)
		return;
	if (i == ncounted)
	{
		strcpy(counted[ncounted].check, failure.check);
		counted[ncounted++].seed = seed;
	}
	counted[i].times++;
}

/* Is it one of those, with " | " between them? */
static bool
is_one_of(const char *check, const char *list)
{
	size_t		n = strlen(check);

	for (const char *at = list; (at = strstr(at, check)) != NULL; at++)
		if ((at == list || at[-1] == ' ') && (at[n] == '\0' || strncmp(at + n, " | ", 3) == 0))
			return true;
	return false;
}

static void
usage(void)
{
	fputs("usage: simulate [--minutes N] [--schedules N] [--seed N] [--mode redis|table|fallback|shared|sentinel|readwrite|fair|token|counts|condition|masters|cluster]\n"
		  "                [--trace] [--keep-going] [--no-shrink] [--reached] [--until CHECK]\n"
		  "                [--meeting 'AT IN UNTIL'] [--small-batches]\n"
		  "                [--no-aims] [--digests] [--states FILE] PRODUCT.so\n",
		  stderr);
	exit(2);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"minutes", required_argument, NULL, 'm'},
		{"schedules", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 's'},
		{"mode", required_argument, NULL, 'M'},
		{"trace", no_argument, NULL, 't'},
		{"keep-going", no_argument, NULL, 'k'},
		{"no-shrink", no_argument, NULL, 'S'},
		{"reached", no_argument, NULL, 'r'},
		{"until", required_argument, NULL, 'u'},
		{"meeting", required_argument, NULL, 'e'},
		{"small-batches", no_argument, NULL, 'b'},
		{"no-aims", no_argument, NULL, 'a'},
		{"digests", no_argument, NULL, 'd'},
		{"states", required_argument, NULL, 'f'},
		{NULL, 0, NULL, 0}
	};
	double		minutes = 1;
	uint64_t	schedules = 0;
	uint64_t	done = 0;
	uint64_t	failed = 0;
	bool		tracing = false;
	bool		keep_going = false;
	bool		shrinking = true;
	bool		reached = false;
	bool		digests = false;	/* what each schedule did, as a number */
	const char *states = NULL;	/* file of those that other runs have seen */
	const char *until = NULL;	/* other checks than these do not end the run */
	double		began;
	int			c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c)
		{
			case 'm':
				minutes = atof(optarg);
				break;
			case 'n':
				schedules = strtoull(optarg, NULL, 10);
				break;
			case 's':
				seed = strtoull(optarg, NULL, 10);
				break;
			case 'M':
				schedule_mode = strcmp(optarg, "table") == 0 ? 1 :
					strcmp(optarg, "fallback") == 0 ? 2 :
					strcmp(optarg, "shared") == 0 ? 3 :
					strcmp(optarg, "sentinel") == 0 ? 4 :
					strcmp(optarg, "readwrite") == 0 ? 5 :
					strcmp(optarg, "fair") == 0 ? 6 :
					strcmp(optarg, "token") == 0 ? 7 :
					strcmp(optarg, "counts") == 0 ? 8 :
					strcmp(optarg, "condition") == 0 ? 9 :
					strcmp(optarg, "masters") == 0 ? 10 :
					strcmp(optarg, "cluster") == 0 ? 11 : 0;
				break;
			case 't':
				tracing = true;
				break;
			case 'k':
				keep_going = true;
				break;
			case 'S':
				shrinking = false;
				break;
			case 'r':
				reached = true;
				break;
			case 'u':
				until = optarg;
				break;
			case 'e':
				meeting_only = optarg;
				break;
			case 'b':
				schedule_small_batches = true;
				break;
			case 'a':
				strategy_aims = false;
				break;
			case 'd':
				digests = true;
				break;
			case 'f':
				states = optarg;
				break;
			default:
				usage();
		}
	if (optind != argc - 1)
		usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	schedule_load(argv[optind]);
	catch_crashes();
	if (states != NULL && !states_load(states))
	{
		perror(states);
		exit(2);
	}

	began = seconds();
	for (; schedules > 0 ? done < schedules : seconds() - began < minutes * 60; seed++)
	{
		bool		good;

		choices_from_seed(seed);
		good = schedule_run(tracing);
		done++;
		if (tracing)
			fputs(trace_text(), stdout);
		if (digests)
			printf("seed %" PRIu64 ": %016" PRIx64 "\n", seed, schedule_digest);
		if (good)
			continue;
		failed++;
		printf("seed %" PRIu64 ": %s: %s\n", seed, failure.check, failure.message);
		count_failure();
		if (!keep_going && (until == NULL || is_one_of(failure.check, until)))
		{
			if (shrinking)
				shrink_and_show();
			break;
		}
	}
	for (int i = 0; keep_going && i < ncounted; i++)
		printf("  %8" PRIu64 " times, first with seed %" PRIu64 ": %s\n",
			   counted[i].times, counted[i].seed, counted[i].check);
	if (reached)
		reached_report();
	if (states != NULL && !states_save(states))
	{
		perror(states);
		exit(2);
	}
	printf("simulate: %" PRIu64 " schedules, %" PRIu64 " failed, %" PRIu64 " steps, %"
		   PRIu64 " switches, %.0f states, %.1f s, %.0f schedules a minute\n",
		   done, failed, scheduler_steps, scheduler_switches, states_seen(), seconds() - began,
		   done / (seconds() - began) * 60);
	return failed > 0 ? 1 : 0;
}
