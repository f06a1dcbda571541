/*-------------------------------------------------------------------------
 *
 * selftest.c
 *	  A program: do the checks say no where they have to, and only there?
 *
 *	  check-checkers PRODUCT.so
 *
 * First the lock table's check of itself, by workload/table_selftest.c, then the judge
 * of histories, with histories written by hand.  Each line of one is
 *
 *	  WHO WHAT RESULT FROM-TO [NAME=NUMBER ...]
 *
 * with the moments of its call and its return; "-" for TO if it never returned.
 * The moments are in the order of all calls and returns, and so many milliseconds.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/checkers/selftest.c
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernel/kernel.h"
#include "../kernel/schedule.h"
#include "linearize.h"

typedef struct Case
{
	const char *name;
	Linearity	expected;
	const char *history;
	int			parts;			/* 0: all servers exclude each other; else only the sessions of
								 * the server with the number before this are judged */
} Case;

/* Kind 0 excludes itself and kind 1; kind 1 excludes kind 0. */
static const uint32_t excludes[] = {3, 1, 0};

static const Case cases[] = {
	/* ---- exclusion ---- */
	{"one after the other", LINEAR,
		"1 lock yes 0-1\n1 unlock yes 2-3\n2 lock yes 4-5\n2 held yes 6-7\n"},
	{"two at once", NOT_LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3\n1 unlock yes 4-5\n2 unlock yes 6-7\n"},
	{"the release and the next grant overlap", LINEAR,
		"1 lock yes 0-1\n1 unlock yes 2-5\n2 lock yes 3-4\n2 unlock yes 6-7\n"},
	{"granted before the release was called", NOT_LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3\n1 unlock yes 4-5\n"},
	{"busy gives nothing", LINEAR,
		"1 lock yes 0-1\n2 lock no 2-3\n1 unlock yes 4-5\n"},
	{"what failed gives nothing", LINEAR,
		"1 lock failed 0-1\n2 lock yes 2-3\n2 held yes 4-5\n"},
	{"three at once, of whom one is last", LINEAR,
		"1 lock yes 0-12\n2 lock yes 1-8\n3 lock yes 2-3\n3 unlock yes 4-5\n2 unlock yes 10-11\n"
		"1 held yes 13-14\n"},
	{"three at once, and two are last", NOT_LINEAR,
		"1 lock yes 0-9\n2 lock yes 1-8\n3 lock yes 2-3\n3 unlock yes 4-5\n2 held yes 10-11\n"
		"1 held yes 12-13\n"},
	{"other keys are other locks", LINEAR,
		"1 lock yes 0-1 key=1\n2 lock yes 2-3 key=2\n1 held yes 4-5 key=1\n2 held yes 6-7 key=2\n"},

	/* ---- counts ---- */
	{"taken twice, given back once", NOT_LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3\n1 unlock yes 4-5\n2 lock yes 6-7\n1 held yes 8-9\n"},
	{"taken twice, given back twice", LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3\n1 unlock yes 4-5\n1 unlock yes 6-7\n2 lock yes 8-9\n"
		"2 held yes 10-11\n"},
	{"the count is right", LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3\n1 count yes 4-5 count=2\n"},
	{"the count is wrong", NOT_LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3\n1 count yes 4-5 count=1\n"},
	{"the transaction has it once only", LINEAR,
		"1 lock yes 0-1 scope=1\n1 lock yes 2-3 scope=1\n1 unlock yes 4-5 scope=1 together=1\n"
		"2 lock yes 6-7\n2 held yes 8-9\n"},
	{"the session has what the transaction gave back", NOT_LINEAR,
		"1 lock yes 0-1 scope=1\n1 lock yes 2-3\n1 unlock yes 4-5 scope=1 together=1\n"
		"2 lock yes 6-7\n1 held yes 8-9\n"},
	{"given back by one who had it not", NOT_LINEAR,
		"1 lock yes 0-1\n2 unlock yes 2-3\n1 unlock yes 4-5\n"},
	{"given back more often than taken", NOT_LINEAR,
		"1 lock yes 0-1\n1 unlock yes 2-3 count=2\n1 held no 4-5\n"},

	/* ---- questions ---- */
	{"held, says one who was never granted it", NOT_LINEAR, "1 held yes 0-1\n"},
	{"not held, says one who has it", NOT_LINEAR,
		"1 lock yes 0-1\n1 held no 2-3\n1 held yes 4-5\n1 unlock yes 6-7\n"},
	{"extended by one who had given it back", NOT_LINEAR,
		"1 lock yes 0-1\n1 unlock yes 2-3\n1 extend yes 4-5\n"},

	/* ---- leases and losses ---- */
	{"the lease has ended", LINEAR,
		"1 lock yes 0-1 lease=3\n2 lock yes 4-5\n2 held yes 6-7\n1 session yes 8-9\n"},
	{"the lease has not ended", NOT_LINEAR,
		"1 lock yes 0-1 lease=30\n2 lock yes 4-5\n2 held yes 6-7\n1 extend no 8-9\n"},
	{"the lease has ended, and it is held all the same", NOT_LINEAR,
		"1 lock yes 0-1 lease=3\n2 lock yes 4-5\n1 held yes 6-7\n2 held yes 8-9\n"},
	{"told of the loss", LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3\n1 lost yes 4-5\n1 unlock no 6-7\n"},
	{"told of the loss by the unlock", LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3\n1 unlock no 4-5\n"},
	{"told of the loss, but held after the other one got it", NOT_LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3\n1 held yes 4-5\n1 lost yes 6-7\n"},
	{"lost, and held again without being taken", NOT_LINEAR,
		"1 lock yes 0-1\n1 lost yes 2-3\n1 held yes 4-5\n"},
	{"lost, unlocked and taken again", LINEAR,
		"1 lock yes 0-1\n1 lost yes 2-3\n1 unlock no 4-5\n1 lock yes 6-7\n1 held yes 8-9\n"},
	{"lost, unlocked and taken again with a count of one", NOT_LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3\n1 lost yes 4-5\n1 unlock no 6-7\n1 lock yes 8-9\n"
		"1 count yes 10-11 count=3\n"},
	{"deleted", LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n2 lock yes 4-5\n2 held yes 6-7\n1 session yes 8-9\n"},
	{"deleted, and its session still has it where nobody can say so", LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n2 lock yes 4-5 server=1\n1 held yes 6-7\n"
		"1 lock yes 8-9\n1 unlock yes 10-11\n2 held yes 12-13 server=1\n"},
	{"deleted, another server has it, and who was told nothing hands it on", LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n2 lock yes 4-5 server=1\n1 unlock yes 6-8\n"
		"3 lock yes 7-9\n2 lock yes 10-11 server=1\n3 held yes 12-13\n2 held yes 14-15 server=1\n"},
	{"the same, when its session ends, after the other server has released it", LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n2 lock yes 4-5 server=1\n2 unlock yes 6-7 server=1\n"
		"1 held yes 8-11\n3 lock yes 10-12\n2 lock yes 14-15 server=1\n3 lock yes 16-17\n"
		"2 held yes 18-19 server=1\n"},
	{"deleted, and a call that fails hands it on", LINEAR,
		"4 lock yes 0-1\n4 unlock yes 2-3\n1 lock failed 5-20\n0 deleted yes 6-7\n3 lock yes 10-22\n"
		"2 lock yes 12-14 server=1\n3 lock yes 24-25\n2 held yes 26-27 server=1\n"},
	{"deleted, and nobody can have handed it on", NOT_LINEAR,
		"4 lock yes 0-1\n4 unlock yes 2-3\n0 deleted yes 6-7\n3 lock yes 10-22\n"
		"2 lock yes 12-14 server=1\n3 lock yes 24-25\n2 held yes 26-27 server=1\n"},
	{"deleted, and the session of the same server still has it", NOT_LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n2 lock yes 4-5\n1 held yes 6-7\n2 held yes 8-9\n"},
	{"two servers have it, and nobody deleted it", NOT_LINEAR,
		"1 lock yes 0-1\n2 lock yes 4-5 server=1\n1 held yes 6-7\n2 held yes 8-9 server=1\n"},
	{"two servers have it, each in a table of its own", LINEAR,
		"1 lock yes 0-1\n2 lock yes 4-5 server=1\n1 held yes 6-7\n2 held yes 8-9 server=1\n", 2},
	{"and two sessions of one of them have", NOT_LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3 server=1\n3 lock yes 4-5 server=1\n2 held yes 6-7 server=1\n"
		"1 held yes 8-9\n", 2},
	{"both are forced by a session of the other one", LINEAR,
		"2 lock yes 0-1 server=1\n1 force yes 2-3\n3 lock yes 4-5 server=1\n", 2},
	{"deleted only later", NOT_LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3\n0 deleted yes 4-5\n2 held yes 6-7\n1 session yes 8-9\n"},
	{"deleted before it was handed over", LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-7\n0 deleted yes 3-4\n1 unlock yes 5-6\n3 lock yes 8-9\n"
		"3 held yes 10-11\n2 session yes 12-13\n"},
	{"deleted before it was taken anew", NOT_LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n1 unlock yes 4-5\n2 lock yes 6-7\n3 lock yes 8-9\n"
		"3 held yes 10-11\n2 extend failed 12-13\n"},
	{"deleted before the call that took it returned", LINEAR,
		"1 lock yes 0-11\n0 deleted yes 1-2\n2 lock yes 3-4\n2 unlock yes 5-6\n1 unlock yes 12-13\n"},
	{"deleted after the call that took it returned", NOT_LINEAR,
		"1 lock yes 0-1\n0 deleted yes 2-3\n2 lock yes 4-5\n2 unlock yes 6-7\n1 unlock yes 12-13\n"},
	{"forced", LINEAR,
		"1 lock yes 0-1\n3 force yes 2-3\n2 lock yes 4-5\n2 held yes 6-7\n1 session yes 8-9\n"},
	{"forced by a request that was not answered", LINEAR,
		"1 lock yes 0-1\n3 force failed 2-3\n2 lock yes 4-5\n2 held yes 6-7\n1 session yes 8-9\n"},
	{"taken twice: it was held all the time", NOT_LINEAR,
		"1 lock yes 0-1 lease=2\n2 lock yes 4-5\n2 unlock yes 6-7\n1 lock yes 8-9\n"},

	/* ---- outcomes that nobody knows ---- */
	{"a release that failed may have given it back", LINEAR,
		"1 lock yes 0-1\n1 unlock failed 2-3\n2 lock yes 4-5\n2 held yes 6-7\n"},
	{"a release that failed may not have", LINEAR,
		"1 lock yes 0-1\n1 unlock failed 2-3\n1 held yes 4-5\n1 unlock yes 6-7\n"},
	{"but not both", NOT_LINEAR,
		"1 lock yes 0-1\n1 unlock failed 2-3\n2 lock yes 4-5\n1 held yes 6-7\n2 held yes 8-9\n"},
	{"the session ended in a call", LINEAR,
		"1 lock yes 0-1\n1 unlock pending 2--\n2 lock yes 4-5\n2 held yes 6-7\n"},
	{"what its transaction had is given back after the call in which the session ended", LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3 scope=1\n1 unlock pending 4--\n2 lock yes 5-7\n"
		"1 unlock yes 6-8 scope=1 together=1\n2 held yes 9-10\n"},
	{"a question that was not answered is no end", NOT_LINEAR,
		"1 lock yes 0-1\n1 held pending 2--\n2 lock yes 4-5\n2 held yes 6-7\n1 unlock yes 8-9\n"},
	{"the session ended after its last call", LINEAR,
		"1 lock yes 0-1\n1 held yes 2-3\n2 lock yes 4-5\n2 held yes 6-7\n"},
	{"the session ended in the call that ends its transaction", LINEAR,
		"1 lock yes 0-1\n1 transaction no 2-9\n1 unlock pending 3--\n2 lock yes 4-5\n2 held yes 6-7\n"},
	{"the session goes on after its transaction", NOT_LINEAR,
		"1 lock yes 0-1\n1 transaction no 2-9\n2 lock yes 4-5\n2 held yes 6-7\n1 extend yes 10-11\n"},
	{"a grant that was never told is none", LINEAR,
		"1 lock pending 0--\n2 lock yes 2-3\n2 held yes 4-5\n"},

	/* ---- kinds ---- */
	{"two that go together", LINEAR,
		"1 lock yes 0-1 kind=1\n2 lock yes 2-3 kind=1\n1 held yes 4-5 kind=1\n2 held yes 6-7 kind=1\n"},
	{"two that do not", NOT_LINEAR,
		"1 lock yes 0-1 kind=1\n2 lock yes 2-3\n1 held yes 4-5 kind=1\n2 held yes 6-7\n"},
	{"one that excludes nobody", LINEAR,
		"1 lock yes 0-1\n2 lock yes 2-3 kind=2\n1 held yes 4-5\n2 held yes 6-7 kind=2\n"},
	{"one session as both", LINEAR,
		"1 lock yes 0-1\n1 lock yes 2-3 kind=1\n1 held yes 4-5\n1 held yes 6-7 kind=1\n"},

	/* ---- tokens ---- */
	{"tokens grow", LINEAR,
		"1 lock yes 0-1 token=1\n1 unlock yes 2-3\n2 lock yes 4-5 token=2\n"},
	{"a token comes twice", NOT_LINEAR,
		"1 lock yes 0-1 token=1\n1 unlock yes 2-3\n2 lock yes 4-5 token=1\n"},
	{"a token goes back", NOT_LINEAR,
		"1 lock yes 0-1 token=7\n1 unlock yes 2-3\n2 lock yes 4-5 token=5\n"},
	{"the same token when taken again", LINEAR,
		"1 lock yes 0-1 token=7\n1 lock yes 2-3 token=7\n"},
	{"two at the same time, in one order", LINEAR,
		"1 lock yes 0-12 token=2\n2 lock yes 1-7 token=1\n2 unlock yes 9-10\n1 unlock yes 13-14\n"},
	{"two at the same time, in the other order", NOT_LINEAR,
		"1 lock yes 0-12 token=1\n2 lock yes 1-7 token=2\n2 unlock yes 9-10\n1 unlock yes 13-14\n"},
	{"deleted, and passed on with a token in reserve", LINEAR,
		"1 lock yes 0-1 token=1\n2 lock yes 2-9 token=2\n0 deleted yes 3-4\n"
		"3 lock yes 5-6 token=7 server=1\n1 unlock yes 7-8\n2 lock yes 10-11 token=2\n"},
	{"passed on with a token in reserve, and nobody deleted it", NOT_LINEAR,
		"1 lock yes 0-1 token=1\n2 lock yes 2-9 token=2\n3 lock yes 5-6 token=7 server=1\n"
		"3 unlock yes 7-8 server=1\n1 unlock yes 7-8\n"},
	{"deleted, and a token in reserve comes twice", NOT_LINEAR,
		"1 lock yes 0-1 token=1\n2 lock yes 2-9 token=1\n0 deleted yes 3-4\n"
		"3 lock yes 5-6 token=7 server=1\n1 unlock yes 7-8\n"},
	{"all was lost, and a token of before comes late", LINEAR,
		"1 lock yes 0-1 token=7\n1 unlock yes 2-3\n0 all yes 4-5\n2 lock yes 6-7 token=8\n"
		"2 unlock yes 8-9\n3 lock yes 10-11 token=1\n"},
	{"all was lost, and the counter", LINEAR,
		"1 lock yes 0-1 token=7\n1 unlock yes 2-3\n0 all yes 4-5\n2 lock yes 6-7 token=1\n"},

	/* ---- the search ---- */
	{"a place is not taken for another one", LINEAR,
		"103 lock yes 0-1\n103 lost yes 2-3\n103 unlock yes 4-5 together=1\n"
		"102 lock yes 6-7 lease=1\n103 lock yes 8-25 lease=1\n102 held yes 15-16\n104 held no 21-22\n"
		"104 lock yes 24-70\n103 extend yes 47-48\n103 held yes 51-52\n103 lock yes 53-54\n"},
};

/* ----------
 * From text
 * ----------
 */

static const struct
{
	const char *word;
	HistoryWhat what;
}			words[] = {
	{"lock", HISTORY_LOCK}, {"unlock", HISTORY_UNLOCK}, {"lost", HISTORY_LOST},
	{"extend", HISTORY_EXTEND}, {"force", HISTORY_FORCE}, {"held", HISTORY_IS_HELD},
	{"count", HISTORY_HOLD_COUNT}, {"session", HISTORY_SESSION},
	{"transaction", HISTORY_TRANSACTION},
	{"deleted", HISTORY_TAKEN_AWAY}, {"all", HISTORY_ALL_TAKEN_AWAY}
};

static const char *const results[] = {"pending", "yes", "no", "failed"};

#define CASE_MAX	32

static void
die(const char *line)
{
	fprintf(stderr, "not understood: %s\n", line);
	exit(2);
}

static void
parse_option(HistoryRecord *r, const char *option)
{
	int			n = 0;

	if (sscanf(option, "lease=%d", &n) == 1)
		r->lease_us = n * SIM_MS;
	else if (sscanf(option, "token=%d", &n) == 1)
		r->token = n;
	else if (sscanf(option, "count=%d", &n) == 1)
		r->count = n;
	else if (sscanf(option, "kind=%d", &n) == 1)
		r->kind = n;
	else if (sscanf(option, "scope=%d", &n) == 1)
		r->scope = n;
	else if (sscanf(option, "server=%d", &n) == 1)
		r->server = n;
	else if (sscanf(option, "together=%d", &n) == 1)
		r->together = n != 0;
	else if (sscanf(option, "key=%d", &n) == 1)
		r->key[1] = (char) ('0' + n);
	else
		die(option);
}

static void
parse_line(HistoryRecord *r, char *line)
{
	char		what[16];
	char		result[16];
	char		end[16];
	int			read = 0;
	bool		known = false;

	memset(r, 0, sizeof(HistoryRecord));
	if (sscanf(line, "%d %15s %15s %d-%15s%n", &r->who, what, result, &r->began, end, &read) < 5)
		die(line);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(words[i].word, what) == 0)
		{
			r->what = words[i].what;
			known = true;
		}
	if (!known)
		die(line);
	r->result = HISTORY_YES;
	for (int i = 0; i < 4; i++)
		if (strcmp(results[i], result) == 0)
			r->result = (HistoryResult) i;
	strcpy(r->key, r->what == HISTORY_ALL_TAKEN_AWAY || r->what == HISTORY_SESSION ||
		   r->what == HISTORY_TRANSACTION ? "" : "k0");
	r->ended = end[0] == '-' ? INT_MAX : atoi(end);
	r->called = r->began * SIM_MS;
	r->returned = end[0] == '-' ? SIM_NEVER : r->ended * SIM_MS;
	r->transaction = -1;
	r->lease_us = 1000 * SIM_S;
	r->count = 1;
	for (char *option = strtok(line + read, " "); option != NULL; option = strtok(NULL, " "))
		parse_option(r, option);
}

static int
parse(const char *history, HistoryRecord *records)
{
	char		line[128];
	int			n = 0;

	while (*history != '\0')
	{
		size_t		len = strcspn(history, "\n");

		if (len >= sizeof(line) || n == CASE_MAX)
			die(history);
		memcpy(line, history, len);
		line[len] = '\0';
		history += len + 1;
		parse_line(&records[n++], line);
	}
	return n;
}

static int	ncases = 0;
static int	nfailed = 0;

static void
tell(const char *name, bool good, const char *what)
{
	printf("%sok %d - %s%s%s\n", good ? "" : "not ", ++ncases, name, good ? "" : ": ",
		   good ? "" : what);
	nfailed += !good;
}

/* ----------
 * The lock table
 * ----------
 */

static struct
{
	const char *(*run) (int number, bool spoil, const char **name, const char **expected);
	int			number;
	bool		spoil;
	const char *name;
	const char *expected;
	const char *says;
}			table;

static void
run_table_case(void)
{
	table.says = table.run(table.number, table.spoil, &table.name, &table.expected);
}

/* What the table says, or an assertion that ended it; "": nothing. */
static const char *
say_of_table(int number, bool spoil)
{
	table.number = number;
	table.spoil = spoil;
	table.says = NULL;
	if (!schedule_observe(run_table_case))
		return failure.message;
	return table.says != NULL ? table.says : "";
}

static void
check_tables(const char *product)
{
	schedule_load(product);
	*(void **) &table.run = copy_symbol(OBSERVER(0), "sim_table_case");
	for (int i = 0;; i++)
	{
		const char *says = say_of_table(i, false);

		if (says[0] == '\0' && table.name == NULL)
			break;
		if (says[0] != '\0')
		{
			tell("a good table", false, says);
			break;
		}
		says = say_of_table(i, true);
		tell(table.name, strstr(says, table.expected) != NULL, says);
	}
}

/* ----------
 * Histories
 * ----------
 */

static void
check_case(const Case *c)
{
	static HistoryRecord records[CASE_MAX];
	char		why[400] = "";
	int			n = parse(c->history, records);
	Linearity	result = linearize(records, n, excludes, c->parts - 1, why, sizeof(why));

	tell(c->name, result == c->expected,
		 result == NOT_LINEAR ? why : result == LINEAR ? "accepted" : "not decided");
}

int
main(int argc, char **argv)
{
	if (argc != 2)
	{
		fputs("usage: check-checkers PRODUCT.so\n", stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	check_tables(argv[1]);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_case(&cases[i]);
	printf("1..%d\n", ncases);
	return nfailed > 0 ? 1 : 0;
}
