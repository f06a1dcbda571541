/*-------------------------------------------------------------------------
 *
 * conditions.c
 *	  Statements about conditions of locks, in mode condition; and what must be so when a
 *	  wait for one has ended.
 *
 * Whoever notifies puts a thing there for each who was told, and who waits takes one away,
 * with the lock, before he waits or when he was told: as with a buffer.  What is judged
 * is what such programs rely on: while there is a thing and the lock is free, nobody
 * sleeps who has not been told, but for a moment.
 *
 * To the history a wait is that all of the lock is given back and taken again; see
 * history.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/conditions.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "common/cryptohash.h"
#include "utils/builtins.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/names.h"
#include "../../../src/session/session.h"
#include "../../../src/settings.h"
#include "../kernel/history.h"
#include "../kernel/network.h"
#include "../kernel/redis_conditions.h"
#include "../kernel/redis_nodes.h"

extern Datum lockredis_condition_wait(PG_FUNCTION_ARGS);
extern Datum lockredis_condition_notify(PG_FUNCTION_ARGS);
extern Datum lockredis_condition_notify_all(PG_FUNCTION_ARGS);
extern Datum lockredis_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_unlock(PG_FUNCTION_ARGS);

/* Names of conditions. */
static const char *const conditions[] = {"", "x"};

#define HOLDS_MAX	16

bool		condition_is_awaited = false;

/* The list in Redis of who waits for it. */
static const char *
waiting_name(const char *key, int c)
{
	static char waiting[LR_DERIVED_MAX + 1];
	static char digest[lengthof(conditions)][2 * STORE_ID_LEN + 1];

	if (digest[c][0] == '\0')
	{
		uint8		id[STORE_ID_LEN];
		pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA1);

		if (pg_cryptohash_init(ctx) < 0 ||
			pg_cryptohash_update(ctx, (const uint8 *) conditions[c], strlen(conditions[c])) < 0 ||
			pg_cryptohash_final(ctx, id, STORE_ID_LEN) < 0)
			sim_fail("simulator", "no digest can be made");
		pg_cryptohash_free(ctx);
		(void) hex_encode((const char *) id, STORE_ID_LEN, digest[c]);
		digest[c][2 * STORE_ID_LEN] = '\0';
	}
	waiting[lr_derived_name(NAME_WAITING, key, strlen(key), digest[c], waiting)] = '\0';
	return waiting;
}

/* ----------
 * What a wait does to the lock
 * ----------
 */

extern bool __real_session_condition_wait(const LrName *name, KindId kind, const uint8 *id, int64 wait_us);
extern bool __wrap_session_condition_wait(const LrName *name, KindId kind, const uint8 *id, int64 wait_us);

bool
__wrap_session_condition_wait(const LrName *name, KindId kind, const uint8 *id, int64 wait_us)
{
	BookItem   *item = book_find(name->data, KIND_REENTRANT);
	int			n = Min(item->session, HOLDS_MAX);
	int			unlocked = n == 0 ? -1 :
		history_call(HISTORY_UNLOCK, MyProcPid, name->data, KIND_REENTRANT, SCOPE_SESSION);
	int			locked[HOLDS_MAX];
	HeldEntry  *entry = held_find(name, KIND_REENTRANT);
	uint64		before = entry == NULL ? 0 : lt_holds[entry->hold].claim.owner;
	volatile bool returned = false;
	volatile bool result = false;

	history_at(unlocked)->count = item->session;
	for (int i = 0; i < n; i++)
	{
		locked[i] = history_call(HISTORY_LOCK, MyProcPid, name->data, KIND_REENTRANT,
								 SCOPE_SESSION);
		history_at(locked[i])->wait_us = WAIT_FOREVER;
		history_at(locked[i])->lease_us = SIM_MS;
	}
	condition_is_awaited = true;
	PG_TRY();
	{
		result = __real_session_condition_wait(name, kind, id, wait_us);
		returned = true;
	}
	PG_FINALLY();
	{
		condition_is_awaited = false;
		for (int i = 0; !returned && i < n; i++)
			history_return(locked[i], HISTORY_FAILED);
	}
	PG_END_TRY();
	history_return(unlocked, HISTORY_YES);
	for (int i = 0; i < n; i++)
		history_return(locked[i], HISTORY_YES);
	if (n == 0)
		sim_fail("wrong answer", "redis_condition_wait returns, and %s is not held", name->data);
	if (item->job > 0)
		sim_fail("job", "the lock %s of a job was released by a wait for its condition",
				 name->data);
	ledger_retaken(held_find(name, KIND_REENTRANT), before);
	return result;
}

/*
 * condition_acted --- this session says that nobody else has to be told: it has the lock
 */
void
condition_acted(LrIndex told)
{
	for (LrIndex i = lt_keys[lt_holds[told].key].first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].session == LrMyProcNumber && !lr_kind(lt_holds[i].kind)->passing &&
			(lt_holds[i].state == HOLD_HELD ||
			 (lt_holds[i].state == HOLD_LOST && lt_holds[i].as.lost.reason != LOST_WAITING)))
			return;
	sim_fail("condition", "what was told of %s is said to be acted on, and the lock is not had",
			 lt_keys[lt_holds[told].key].name);
}

/* ----------
 * Statements
 * ----------
 */


/* The lock, in most cases. */
static void
take_lock(const char *key)
{
	if (book_find(key, KIND_REENTRANT)->session == 0 && sim_chance(900))
		(void) SQL_CALL(lockredis_lock, NULL, sql_text(key), draw_lease());
}

static void
give_back(const char *key)
{
	if (sim_chance(800))
		(void) SQL_CALL(lockredis_unlock, NULL, sql_text(key));
}

/* Long enough to be forgotten, unless the schedule is to come to its end. */
static int64
draw_patience(void)
{
	return sim_config.calm ? SIM_PICK(100 * SIM_MS, 3 * SIM_S) :
		SIM_PICK(8 * SIM_S, 2 * SIM_S, 8 * SIM_S, 100 * SIM_MS);
}

static void
condition_wait(void)
{
	const char *key = draw_key();
	int			c = (int) SIM_PICK(0, 0, 0, 1);
	int		   *things = redis_condition_things(waiting_name(key, c));

	if (lr_mode != MODE_REDIS)
		return;
	sim_trace("  %s, condition \"%s\"", key, conditions[c]);
	take_lock(key);
	for (int i = 0; i < 2 && *things == 0; i++)
	{
		bool		told = DatumGetBool(SQL_CALL(lockredis_condition_wait, NULL, sql_text(key),
												 sql_interval(draw_patience()),
												 sql_text(conditions[c])));

		sim_trace("-> %s, there are %d", told ? "told" : "not told", *things);
		sim_reached(told ? "told of a condition" : "not told of a condition");
		if (!told)
			break;
	}
	if (*things > 0)
		(*things)--;
	give_back(key);
}

static void
notify(PGFunction function)
{
	const char *key = draw_key();
	int			c = (int) SIM_PICK(0, 0, 0, 1);

	if (lr_mode != MODE_REDIS)
		return;
	sim_trace("  %s, condition \"%s\"", key, conditions[c]);
	take_lock(key);
	sim_trace("-> %lld", (long long) DatumGetInt64(SQL_CALL(function, NULL, sql_text(key),
															sql_text(conditions[c]))));
	give_back(key);
}

static void
condition_notify(void)
{
	notify(lockredis_condition_notify);
}

static void
condition_notify_all(void)
{
	notify(lockredis_condition_notify_all);
}

const Statement condition_statements[] = {
	{"redis_condition_wait", 150, ANYWHERE, condition_wait},
	{"redis_condition_notify", 110, ANYWHERE, condition_notify},
	{"redis_condition_notify_all", 20, ANYWHERE, condition_notify_all},
	{NULL}
};

/* ----------
 * The check
 * ----------
 */

/* Longer than it takes the watchdog to pass on what somebody has left. */
#define FORGOTTEN_MAX	(2 * SIM_S)

static int64 forgotten_since[SIM_MAX_PROCS];
static uint64 forgotten_owner[SIM_MAX_PROCS];

static bool
is_free(const LrKey *key)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED ||
			lt_holds[i].state == HOLD_RELEASING)
			return false;
	return key->queue.list.head == LR_NONE && !redis_keeps_from(key->name, false);
}

static bool
is_forgotten(const LrWait *w)
{
	const LrKey *key = &lt_keys[w->key];
	char		owner[LR_OWNER_MAX];

	if (w->state != WAIT_PLACED || !lr_kind(w->terms.kind)->passing || w->asked.trying ||
		!is_free(key) || redis_is_denied(key->name))
		return false;
	lr_owner_text(w->asked.claim.owner, owner);
	for (int c = 0; c < lengthof(conditions); c++)
		if (redis_is_forgotten(waiting_name(key->name, c), owner))
			return true;
	return false;
}

void
check_conditions(void)
{
	bool		good = lr_mode == MODE_REDIS && net_is_well() && lr_watchdog_running();

	for (int s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = &lt_sessions[s].wait;

		if (!good || !is_forgotten(w) || forgotten_owner[s] != w->asked.claim.owner)
			forgotten_since[s] = 0;
		else if (forgotten_since[s] == 0)
			forgotten_since[s] = sim_now();
		else if (sim_now() - Max(forgotten_since[s], sim_quiet_since()) > FORGOTTEN_MAX)
			sim_fail("sleeps for ever", "session %d waits for a condition of %s, of which somebody was told, and has not been for %.3f s",
					 s, lt_keys[w->key].name, (sim_now() - forgotten_since[s]) / (double) SIM_S);
		forgotten_owner[s] = w->asked.claim.owner;
	}
}
