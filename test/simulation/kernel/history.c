/*-------------------------------------------------------------------------
 *
 * history.c
 *	  What was asked for and what came of it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/history.c
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "history.h"

static HistoryRecord records[HISTORY_MAX];
static HistoryRecord no_room;
static int	nrecords;
static int	nevents;
static int	times[HISTORY_WHATS];
static bool complete = true;
static bool in_parts;
static int	asks_together[SIM_MAX_PROCS];

void
history_reset(void)
{
	nrecords = nevents = 0;
	complete = true;
	in_parts = false;
	memset(times, 0, sizeof(times));
	memset(asks_together, 0, sizeof(asks_together));
}

void
history_asks_together(int slot, int who)
{
	asks_together[slot] = who;
}

bool
history_is_asking_together(int slot, int who)
{
	return who != 0 && asks_together[slot] == who;
}

int
history_call(HistoryWhat what, int who, const char *key, int kind, int scope)
{
	HistoryRecord *r;

	times[what]++;
	if (nrecords == HISTORY_MAX)
	{
		complete = false;
		return -1;
	}
	r = &records[nrecords];
	memset(r, 0, sizeof(HistoryRecord));
	r->what = what;
	r->result = HISTORY_PENDING;
	r->began = nevents++;
	r->ended = INT_MAX;
	r->called = sim_now();
	r->returned = SIM_NEVER;
	r->server = sim_server();
	r->who = who;
	r->transaction = -1;
	snprintf(r->key, sizeof(r->key), "%s", key == NULL ? "" : key);
	r->kind = kind;
	r->scope = scope;
	return nrecords++;
}

HistoryRecord *
history_at(int number)
{
	return number < 0 ? &no_room : &records[number];
}

void
history_return(int number, HistoryResult result)
{
	HistoryRecord *r = history_at(number);

	r->ended = nevents++;
	r->returned = sim_now();
	r->result = result;
}

void
history_event(HistoryWhat what, const char *key)
{
	history_return(history_call(what, 0, key, 0, 0), HISTORY_YES);
}

void
history_parts(void)
{
	in_parts = true;
}

bool
history_is_in_parts(void)
{
	return in_parts;
}

int
history_count(void)
{
	return nrecords;
}

int
history_times(HistoryWhat what)
{
	return times[what];
}

bool
history_is_complete(void)
{
	return complete;
}

const char *
history_text(const HistoryRecord *r)
{
	static const char *const what[] = {
		"lock", "unlock", "lost", "extend", "force", "is_locked", "is_held",
		"hold_count", "fence", "record", "forget", "transaction", "job body",
		"session", "foreign lock", "foreign unlock", "taken away", "all taken away"
	};
	static const char *const result[] = {"pending", "yes", "no", "failed"};
	static char text[256];

	snprintf(text, sizeof(text), "%.6f-%.6f %d %s(%s) %s, scope %d count %d token %lld",
			 r->called / (double) SIM_S,
			 r->returned >= SIM_NEVER ? 0.0 : r->returned / (double) SIM_S, r->who,
			 what[r->what], r->key, result[r->result], r->scope, r->count,
			 (long long) r->token);
	return text;
}
