/*-------------------------------------------------------------------------
 *
 * locks.c
 *	  Statements that take locks, change them and give them back.
 *
 * By the SQL functions.  Kinds of locks that the product has not have none: for
 * these, for read-write locks, and for several keys at once, what the functions call
 * is called.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/locks.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "../../../src/session/session.h"
#include "../../../src/settings.h"
#include "../models/kinds.h"

extern Datum lockredis_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_xact_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_xact_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_unlock(PG_FUNCTION_ARGS);
extern Datum lockredis_unlock_all(PG_FUNCTION_ARGS);
extern Datum lockredis_extend(PG_FUNCTION_ARGS);
extern Datum lockredis_force_unlock(PG_FUNCTION_ARGS);

static void
make_request(AcquireRequest *request, KindId kind, LockScope scope, int64 wait_us)
{
	NullableDatum lease = draw_lease();

	memset(request, 0, sizeof(AcquireRequest));
	request->wait_us = wait_us;
	request->terms.kind = kind;
	request->terms.scope = scope;
	request->terms.renewed = lease.isnull;
	request->terms.lease_ms = lease.isnull ? lr_lease :
		DatumGetIntervalP(lease.value)->time / SIM_MS;
	request->terms.guard = lr_commit_guard;
	request->terms.on_lost = lr_on_lost;
	request->terms.min_replicas = lr_min_replicas;
}

/*
 * take_other_kind --- of a key; it may be that nobody can have it for as long as
 * this session has it as another kind
 */
static bool
take_other_kind(const char *key, KindId kind, LockScope scope, int64 wait_us)
{
	LrName		name;
	AcquireRequest request;

	set_name(&name, key);
	make_request(&request, kind, scope, wait_us);
	return session_lock(&name, &request, NULL);
}

static void
take(LockScope scope, bool may_be_busy)
{
	const char *key = draw_key();
	KindId		kind = draw_kind_of(key);
	int64		wait_us = !may_be_busy ? WAIT_FOREVER :
		sim_config.shared ? SIM_PICK(0, 100 * SIM_MS, 2 * SIM_S, 30 * SIM_S) :
		SIM_PICK(0, 0, 100 * SIM_MS, 2 * SIM_S);
	bool		fair = sim_config.fair && kind == KIND_REENTRANT && sim_chance(700);
	bool		got = true;

	/* Sometimes as the other one: to read beside, or what is refused. */
	if (sim_config.read_write && sim_chance(200))
		kind = kind == KIND_READ ? KIND_WRITE : KIND_READ;

	/* It may wait for itself, in the store: not for ever. */
	if (sim_config.shared && may_be_busy && sim_chance(200))
		kind = kind == KIND_REENTRANT ? KIND_SHARED : KIND_REENTRANT;
	if (fair)
		kind = KIND_FAIR;
	sim_trace("  %s, wait %lld us, kind %d", key, (long long) wait_us, kind);
	if (kind != KIND_REENTRANT)
		got = take_other_kind(key, kind, scope, wait_us);
	else if (may_be_busy)
		got = DatumGetBool(SQL_CALL(scope == SCOPE_XACT ? lockredis_try_xact_lock :
									lockredis_try_lock, NULL, sql_text(key),
									wait_us == 0 && sim_draw(2) ? sql_interval(0) :
									sql_interval(wait_us), draw_lease()));
	else
		(void) SQL_CALL(scope == SCOPE_XACT ? lockredis_xact_lock : lockredis_lock,
						NULL, sql_text(key), draw_lease());
	sim_trace("-> %s", got ? "taken" : "busy");
	sim_reached(got ? "taken" : "busy");
}

static void
lock(void)
{
	take(SCOPE_SESSION, false);
}

static void
try_lock(void)
{
	take(SCOPE_SESSION, true);
}

static void
xact_lock(void)
{
	take(SCOPE_XACT, false);
}

static void
try_xact_lock(void)
{
	take(SCOPE_XACT, true);
}

static void
unlock(void)
{
	const char *key = draw_key();
	KindId		kind = draw_kind_of(key);
	LrName		name;
	bool		done;

	sim_trace("  %s, kind %d", key, kind);
	set_name(&name, key);
	done = kind != KIND_REENTRANT ? session_unlock(&name, kind) :
		DatumGetBool(SQL_CALL(lockredis_unlock, NULL, sql_text(key)));
	sim_trace("-> %s", done ? "true" : "false");
}

static void
unlock_all(void)
{
	sim_trace("-> %lld", (long long)
			  DatumGetInt64(sql_call(lockredis_unlock_all, 0, NULL, NULL)));
}

static void
extend(void)
{
	const char *key = draw_key();
	KindId		kind = draw_kind_of(key);
	NullableDatum lease = draw_lease();
	LrName		name;
	bool		done;

	sim_trace("  %s, kind %d, %s", key, kind, lease.isnull ? "renewed" : "lease given");
	set_name(&name, key);
	/* A fair lock with a lease of its own is not passed on as it is. */
	done = kind == KIND_FAIR && !lease.isnull ? session_extend(&name, kind, 2 * lr_lease, false) :
		kind != KIND_REENTRANT ? session_extend(&name, kind, lr_lease, true) :
		DatumGetBool(SQL_CALL(lockredis_extend, NULL, sql_text(key), lease));
	sim_trace("-> %s", done ? "true" : "false");
}

static void
force(void)
{
	const char *key = draw_key();
	KindId		kind = draw_kind_of(key);
	LrName		name;
	bool		done;

	sim_trace("  %s, kind %d", key, kind);
	set_name(&name, key);
	/* Only the kinds of mode shared have no SQL function for it. */
	done = sim_config.shared && kind != KIND_REENTRANT ? session_force(&name, kind) :
		DatumGetBool(SQL_CALL(lockredis_force_unlock, NULL, sql_text(key)));
	sim_trace("-> %s", done ? "true" : "false");
}

/* ----------
 * Several keys at once
 * ----------
 */

static LrName several[SIM_MAX_KEYS];

/* Different ones, in the order of their names; how many. */
static int
draw_several(void)
{
	int			n = 0;

	for (int left = 1 + sim_draw(4); left > 0; left--)
	{
		LrName		name;
		int			at = 0;

		set_name(&name, draw_key());
		while (at < n && strcmp(several[at].data, name.data) < 0)
			at++;
		if (at < n && strcmp(several[at].data, name.data) == 0)
			continue;
		memmove(&several[at + 1], &several[at], sizeof(LrName) * (n - at));
		several[at] = name;
		n++;
	}
	for (int i = 0; i < n; i++)
		sim_trace("  %s", several[i].data);
	return n;
}

static void
take_several(LockScope scope)
{
	AcquireRequest request;
	bool		taken;
	int			n;

	/* Keys that are no reentrant locks, or can be others beside */
	if (sim_config.read_write || sim_config.shared)
		return;
	n = draw_several();
	make_request(&request, KIND_REENTRANT, scope,
				 SIM_PICK(WAIT_FOREVER, 0, 100 * SIM_MS, 2 * SIM_S, 30 * SIM_S));
	sim_trace("  wait %lld us", (long long) request.wait_us);
	taken = session_multi_lock(several, n, &request);
	sim_trace("-> %s", taken ? "taken" : "busy");
	sim_reached(taken ? "several taken" : "several busy");
}

static void
multi_lock(void)
{
	take_several(SCOPE_SESSION);
}

static void
multi_xact_lock(void)
{
	take_several(SCOPE_XACT);
}

static void
multi_unlock(void)
{
	int			n = draw_several();

	if (sim_config.read_write || sim_config.shared)
		return;
	sim_trace("-> %s", session_multi_unlock(several, n, KIND_REENTRANT) ? "true" : "false");
}

/* Code of a table's owner in a session of somebody else must not touch its locks. */
static void
restricted(void)
{
	users_set_restricted();
	if (sim_draw(2))
		(void) SQL_CALL(lockredis_lock, NULL, sql_text(draw_key()), sql_null);
	else
		(void) SQL_CALL(lockredis_unlock, NULL, sql_text(draw_key()));
	sim_fail("SQL", "a session-level lock is touched in a restricted operation");
}

const Statement lock_statements[] = {
	{"redis_lock", 16, ANYWHERE, lock},
	{"redis_try_lock", 6, ANYWHERE, try_lock},
	{"redis_xact_lock", 14, ANYWHERE, xact_lock},
	{"redis_try_xact_lock", 3, ANYWHERE, try_xact_lock},
	{"redis_unlock", 14, ANYWHERE, unlock},
	{"redis_unlock_all", 4, ANYWHERE, unlock_all},
	{"redis_extend", 5, ANYWHERE, extend},
	{"redis_force_unlock", 2, ANYWHERE, force},
	{"redis_multi_lock", 4, ANYWHERE, multi_lock},
	{"redis_multi_xact_lock", 3, ANYWHERE, multi_xact_lock},
	{"redis_multi_unlock", 4, ANYWHERE, multi_unlock},
	{"restricted operation", 1, ANYWHERE, restricted},
	{NULL}
};
