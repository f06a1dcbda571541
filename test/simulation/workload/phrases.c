/*-------------------------------------------------------------------------
 *
 * phrases.c
 *	  Statements that belong together.
 *
 * What a program does with locks has a form: a lock that is taken before a savepoint,
 * another one after it, both given back and the savepoint rolled back.  Of statements
 * that are drawn one by one few make such a sequence, so a session follows one of those
 * below from time to time, of which anything may be left out or be something else.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/phrases.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

/* One of several, with "|" between them; "?" before them: or nothing. */
static const char *const savepoint_phrase[] = {
	"?redis_lock", "BEGIN", "redis_lock|redis_xact_lock|redis_fenced_lock", "?INSERT", "SAVEPOINT",
	"redis_lock|redis_xact_lock", "?redis_lock|SAVEPOINT", "?sleep",
	"redis_unlock_all|redis_unlock|redis_lock", "?redis_unlock|redis_unlock_all",
	"ROLLBACK TO|RELEASE", "?ROLLBACK TO", "?INSERT", "COMMIT", NULL
};

static const char *const loss_phrase[] = {
	"?redis_lock", "BEGIN", "redis_lock", "?INSERT", "SAVEPOINT", "redis_lock", "redis_force_unlock|sleep",
	"?redis_force_unlock", "redis_unlock_all|redis_unlock", "?redis_unlock", "ROLLBACK TO|RELEASE",
	"?INSERT", "COMMIT", NULL
};

static const char *const nested_phrase[] = {
	"BEGIN", "?redis_lock", "SAVEPOINT", "SAVEPOINT", "redis_lock", "redis_force_unlock|sleep", "redis_unlock|redis_unlock_all",
	"RELEASE", "?RELEASE|redis_lock", "ROLLBACK TO", "INSERT", "COMMIT", NULL
};

/* A lock of the session, and one transaction after the other that looks whether it is there. */
static const char *const verify_phrase[] = {
	"redis_lock", "?redis_lock|redis_extend", "BEGIN", "INSERT", "COMMIT", "BEGIN", "INSERT", "?redis_xact_lock", "COMMIT",
	"?redis_lock|redis_extend", "BEGIN", "INSERT", "COMMIT", "BEGIN", "INSERT", "?redis_lock", "COMMIT",
	"?redis_unlock", NULL
};

static const char *const again_phrase[] = {
	"redis_lock", "redis_lock", "?redis_lock|redis_fenced_lock", "?sleep", "redis_extend|redis_lock|redis_unlock",
	"sleep", "redis_unlock|redis_extend|redis_fenced_lock", "redis_unlock|redis_lock", "?sleep",
	"?redis_unlock", "?redis_unlock", NULL
};

static const char *const fence_phrase[] = {
	"?redis_lock|redis_fenced_lock", "BEGIN", "?SAVEPOINT", "redis_fenced_xact_lock", "UPDATE account",
	"?ROLLBACK TO|RELEASE|redis_fence_check|redis_fence_forget", "redis_fenced_xact_lock|redis_fence_check",
	"?UPDATE account", "COMMIT|COMMIT|ROLLBACK|PREPARE TRANSACTION", "?redis_fence_check",
	"?redis_fenced_xact_lock", NULL
};

static const char *const guard_phrase[] = {
	"?redis_lock", "BEGIN", "redis_lock|redis_xact_lock", "INSERT", "?redis_xact_lock|redis_lock", "?sleep",
	"?redis_unlock|redis_assert_held", "COMMIT|COMMIT|PREPARE TRANSACTION", "?redis_unlock_all", NULL
};

static const char *const job_phrase[] = {
	"?redis_lock", "redis_with_lock", "?redis_hold_count", "?redis_with_lock", "?redis_unlock", NULL
};

static const char *const *const phrases[] = {
	savepoint_phrase, loss_phrase, again_phrase, fence_phrase, guard_phrase, job_phrase,
	nested_phrase, verify_phrase
};

static const char *const *next = NULL;

/*
 * draw_alternative --- into name; false: nothing
 */
static bool
draw_alternative(const char *of, char *name, Size size)
{
	int			n = 1;

	if (*of == '?')
	{
		if (sim_draw(2) == 0)
			return false;
		of++;
	}
	for (const char *at = of; (at = strchr(at, '|')) != NULL; at++)
		n++;
	for (n = sim_draw(n); n > 0; n--)
		of = strchr(of, '|') + 1;
	n = strcspn(of, "|");
	Assert(n < (int) size);
	memcpy(name, of, n);
	name[n] = '\0';
	return true;
}

/*
 * phrase_next --- what comes next in the phrase and may stand there, if there is one
 */
static const Statement *
phrase_next(int where)
{
	const Statement *s = NULL;
	char		name[40];

	while (s == NULL && next != NULL)
	{
		if (draw_alternative(*next, name, sizeof(name)))
			s = statement_named(name);
		if (s != NULL && (s->where & where) == 0)
			s = NULL;
		if (*++next == NULL)
			next = NULL;
	}
	return s;
}

bool
phrase_is_under_way(void)
{
	return next != NULL;
}

const Statement *
statement_next(int where)
{
	const Statement *s = NULL;

	if (next == NULL && where == AT_TOP && sim_chance(sim_config.phrases))
	{
		next = phrases[sim_draw(lengthof(phrases))];
		draw_phrase_key();
	}
	if (!sim_chance(100))
		s = phrase_next(where);
	return s != NULL ? s : statement_draw(where);
}
