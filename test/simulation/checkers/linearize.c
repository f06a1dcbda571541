/*-------------------------------------------------------------------------
 *
 * linearize.c
 *	  Is there an order of the calls of a history in which each lock behaves as
 *	  one does?
 *
 * A call takes effect at one moment between its call and its return.  So of those
 * that have not yet, each may be the next that was called before the first of them
 * returned.  All are tried, depth first; a place (which calls have taken effect, and
 * the state then) from where there was no way is not entered again (Wing and Gong,
 * with Lowe's memory of places).  Each key is judged by itself, which is enough:
 * a history is linearizable if and only if those of its objects are.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/checkers/linearize.c
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "linearize.h"
#include "model.h"

/* Of one key; what is longer is not decided. */
#define CALLS_MAX		2048

/* Steps of a search, for one key. */
#define STEPS_MAX		200000

/* A power of two. */
#define PLACES			16384

typedef struct Search
{
	const uint32_t *excludes;
	const HistoryRecord *records;
	int			nrecords;
	int			server;			/* of these sessions, or ALL_SERVERS */
	Call		calls[CALLS_MAX];	/* by when they were called */
	int			ncalls;
	int			steps;
	bool		gave_up;

	/* places from where there is no way; 0 = free */
	uint64_t	places[PLACES];
	int			nplaces;

	/* as far as it came */
	int			farthest;
	int			stuck_at;
	LockState	stuck_in;
} Search;

static Search search;

/* ----------
 * What the rest of the history says of a call
 * ----------
 */

/* What is taken away, by force too, may be a lock of any server. */
static bool
is_of_another(const HistoryRecord *r)
{
	return search.server != ALL_SERVERS && r->server != search.server && r->who != 0 &&
		r->what != HISTORY_FORCE;
}

static bool
is_same_lock(const HistoryRecord *a, const HistoryRecord *b)
{
	return a->who == b->who && a->kind == b->kind && strcmp(a->key, b->key) == 0;
}

static bool
says_lost(const HistoryRecord *r)
{
	return r->what == HISTORY_LOST ||
		(r->result == HISTORY_NO && !r->together && r->what == HISTORY_UNLOCK) ||
		(r->result == HISTORY_NO && (r->what == HISTORY_IS_HELD ||
									 r->what == HISTORY_HOLD_COUNT));
}

/*
 * Not before that does the lease end that a lock has at its grant.  One that is
 * renewed may have been handed over by another session, with the rest of its lease.
 */
static int64_t
lease_end(const HistoryRecord *r)
{
	int64_t		rest = r->lease_us / 10 < SIM_S ? r->lease_us / 10 : SIM_S;

	return model_lease_end(r, r->renewed ? rest : r->lease_us);
}

/* How often a session has a lock, by what it was told. */
typedef struct Counts
{
	int			session;
	int			xact;
	bool		sure;
} Counts;

static void
count_call(Counts *counts, const HistoryRecord *r)
{
	if (r->what == HISTORY_LOCK && r->result == HISTORY_YES)
	{
		counts->session += r->scope == 0;
		counts->xact |= r->scope != 0;
	}
	if (r->what != HISTORY_UNLOCK)
		return;
	if (r->result != HISTORY_YES)
		counts->sure = false;
	else if (r->scope == 0)
		counts->session -= r->count;
	else
		counts->xact = 0;
}

/*
 * note_end --- has its session been told that it lost the lock, before it gave it
 * back?
 */
static void
note_end(Call *call, int at, Counts counts)
{
	const HistoryRecord *r = call->record;

	for (int i = at; i < search.nrecords; i++)
	{
		const HistoryRecord *a = &search.records[i];

		if (!is_same_lock(r, a))
			continue;
		if (says_lost(a))
		{
			call->may_end = 0;
			return;
		}
		count_call(&counts, a);
		if (counts.sure && counts.session <= 0 && counts.xact == 0)
			return;
	}
}

/* It ends when its session does, which gives back all it has. */
static bool
is_span(const HistoryRecord *r)
{
	return r->what == HISTORY_TRANSACTION || r->what == HISTORY_SESSION ||
		r->what == HISTORY_JOB_BODY;
}

/*
 * An error in it is a result, so if it did not return its session has ended in it:
 * what was to happen may have, and what is recorded after it is that end.
 */
static bool
is_fatal(const HistoryRecord *r)
{
	return r->result == HISTORY_PENDING && r->what <= HISTORY_IS_LOCKED &&
		r->what != HISTORY_LOST;
}

/*
 * note_last_call --- its session may have ended after its last call, or in one that
 * did not return
 */
static void
note_last_call(Call *call)
{
	int64_t		last = 0;
	int64_t		ended = SIM_NEVER;

	for (int i = 0; i < search.nrecords; i++)
	{
		const HistoryRecord *a = &search.records[i];
		int64_t		when = a->result == HISTORY_PENDING || is_span(a) ? a->called : a->returned;

		if (a->who != call->record->who)
			continue;
		if (when > last)
			last = when;
		if (is_fatal(a) && a->called < ended)
			ended = a->called;
	}
	call->last_call = last;
	if (last < ended)
		ended = last;
	if (ended < call->may_end)
		call->may_end = ended;
}

/*
 * note_wanted --- since when has somebody asked for it all the time?
 *
 * A call that failed may have been given the lock just then, and have handed it on: then
 * nothing is known.
 */
static void
note_wanted(Call *call)
{
	int64_t		until = -1;
	bool		handed_on = false;

	for (int i = 0; i < search.nrecords; i++)
	{
		const HistoryRecord *r = &search.records[i];

		if (r->what != HISTORY_LOCK || strcmp(r->key, call->record->key) != 0 || is_of_another(r))
			continue;
		if (r->called > until)
		{
			call->wanted_since = r->called;
			handed_on = false;
		}
		if (r->returned > until)
			until = r->returned;
		if (r == call->record)
			break;
		handed_on |= r->result == HISTORY_FAILED;
	}
	if (handed_on)
		call->wanted_since = 0;
}

/*
 * judge_lock --- of a lock that was taken: did its session surely have it before,
 * and when may it have been lost?
 */
static void
judge_lock(Call *call, int at)
{
	const HistoryRecord *r = call->record;
	Counts		counts = {0, 0, true};

	for (int i = 0; i < at; i++)
	{
		const HistoryRecord *b = &search.records[i];

		if (!is_same_lock(r, b))
			continue;
		if (says_lost(b))
			counts.sure = false;
		count_call(&counts, b);
	}
	call->again = counts.sure && (counts.session > 0 || counts.xact > 0);
	call->perhaps_again = !counts.sure && (counts.session > 0 || counts.xact > 0);
	call->may_end = lease_end(r);
	note_end(call, at, counts);
	note_last_call(call);
	note_wanted(call);
}

static void
collect_calls(const char *key)
{
	search.ncalls = 0;
	for (int i = 0; i < search.nrecords; i++)
	{
		const HistoryRecord *r = &search.records[i];
		Call	   *call;

		if (!model_has(r) || is_of_another(r) || (strcmp(r->key, key) != 0 && r->what != HISTORY_ALL_TAKEN_AWAY))
			continue;
		if (search.ncalls == CALLS_MAX)
		{
			search.gave_up = true;
			return;
		}
		call = &search.calls[search.ncalls++];
		memset(call, 0, sizeof(Call));
		call->record = r;
		if (r->what == HISTORY_LOCK)
			judge_lock(call, i);
	}
}

/* ----------
 * The search
 * ----------
 */

/* Those before "first" have taken effect, and those behind it that have a bit. */
typedef struct Place
{
	int			first;
	uint64_t	done;
	LockState	state;
} Place;

#define WINDOW	64

static uint64_t
mix(uint64_t h, uint64_t value)
{
	h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
	return h ^ h >> 29;
}

/* Never 0. */
static uint64_t
hash_of(const Place *place)
{
	uint64_t	h = mix(mix(1, place->first), place->done);

	for (int i = 0; i < SIM_MAX_SERVERS; i++)
		h = mix(h, place->state.token[i]);
	h = mix(mix(h, place->state.freed), place->state.robbed);
	for (int i = 0; i < place->state.n; i++)
	{
		const Holder *holder = &place->state.holder[i];

		h = mix(mix(h, holder->who), holder->kind);
		h = mix(mix(h, holder->session), holder->xact * 4 + holder->lost * 2 + holder->unseen);
		h = mix(h, holder->may_end);
	}
	return h | 1;
}

static bool
is_hopeless(uint64_t hash)
{
	for (uint64_t i = hash % PLACES; search.places[i] != 0; i = (i + 1) % PLACES)
		if (search.places[i] == hash)
			return true;
	return false;
}

static void
note_hopeless(uint64_t hash)
{
	uint64_t	i = hash % PLACES;

	if (search.nplaces >= PLACES / 2)
		return;
	while (search.places[i] != 0)
		i = (i + 1) % PLACES;
	search.places[i] = hash;
	search.nplaces++;
}

/* A call that fails may take effect later, and one without a return never. */
static int
latest(const HistoryRecord *r)
{
	return r->what == HISTORY_FORCE && r->result == HISTORY_FAILED ? INT_MAX : r->ended;
}

static bool
is_done(const Place *place, int i)
{
	return i < place->first ||
		(i < place->first + WINDOW && (place->done >> (i - place->first) & 1) != 0);
}

static void
note_done(Place *place, int i)
{
	place->done |= UINT64_C(1) << (i - place->first);
	while ((place->done & 1) != 0)
	{
		place->done >>= 1;
		place->first++;
	}
}

static void
note_stuck(const Place *place, int i)
{
	int			n = place->first;

	for (uint64_t d = place->done; d != 0; d >>= 1)
		n += (int) (d & 1);
	if (n < search.farthest)
		return;
	search.farthest = n;
	search.stuck_at = i;
	search.stuck_in = place->state;
}

static bool go_on(const Place *place);

static bool
try_call(const Place *place, int i)
{
	const Call *call = &search.calls[i];

	for (int outcome = 0; outcome < model_outcomes(call); outcome++)
	{
		Place		next = *place;

		if (++search.steps > STEPS_MAX)
		{
			search.gave_up = true;
			return true;
		}
		if (!model_step(&next.state, call, outcome, search.excludes))
		{
			note_stuck(place, i);
			continue;
		}
		note_done(&next, i);
		if (go_on(&next))
			return true;
	}
	return false;
}

static bool
go_on(const Place *place)
{
	int			first_return = INT_MAX;
	int			last = place->first;
	uint64_t	hash;

	for (int i = place->first; i < search.ncalls; i++)
	{
		const HistoryRecord *r = search.calls[i].record;

		if (r->began > first_return)
			break;
		if (i >= place->first + WINDOW)
		{
			search.gave_up = true;
			return true;
		}
		last = i;
		if (!is_done(place, i) && latest(r) < first_return)
			first_return = latest(r);
	}
	if (first_return == INT_MAX)
		return true;
	hash = hash_of(place);
	if (is_hopeless(hash))
		return false;
	for (int i = place->first; i <= last; i++)
		if (!is_done(place, i) && search.calls[i].record->began <= first_return &&
			try_call(place, i))
			return true;
	note_hopeless(hash);
	return false;
}

static Linearity
judge_key(const char *key, char *why, size_t size)
{
	Place		place;
	char		state[256];

	search.gave_up = false;
	search.steps = search.farthest = 0;
	if (search.nplaces > 0)
		memset(search.places, 0, sizeof(search.places));
	search.nplaces = 0;
	collect_calls(key);
	memset(&place, 0, sizeof(place));
	if (!search.gave_up && !go_on(&place))
	{
		model_describe(&search.stuck_in, state, sizeof(state));
		snprintf(why, size, "no order of the %d calls of %s is one of a lock: %d come, %s, then not %s",
				 search.ncalls, key, search.farthest, state,
				 history_text(search.calls[search.stuck_at].record));
		return NOT_LINEAR;
	}
	return search.gave_up ? NOT_DECIDED : LINEAR;
}

Linearity
linearize(const HistoryRecord *records, int n, const uint32_t *excludes, int server, char *why,
		  size_t size)
{
	Linearity	result = LINEAR;

	search.records = records;
	search.nrecords = n;
	search.excludes = excludes;
	search.server = server;
	for (int i = 0; i < n; i++)
	{
		bool		seen = records[i].key[0] == '\0';
		Linearity	of_key;

		for (int j = 0; j < i && !seen; j++)
			seen = strcmp(records[j].key, records[i].key) == 0;
		if (seen)
			continue;
		of_key = judge_key(records[i].key, why, size);
		if (of_key == NOT_LINEAR)
			return NOT_LINEAR;
		if (of_key == NOT_DECIDED)
			result = NOT_DECIDED;
	}
	return result;
}
