/*-------------------------------------------------------------------------
 *
 * permits.c
 *	  Statements about permits, in mode counts, and what this session has of them.
 *
 * On keys of their own.  Waits are bounded: a session that has all permits and wants one
 * more waits for itself.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/permits.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "utils/builtins.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/names.h"
#include "../../../src/settings.h"
#include "../kernel/redis_counts.h"
#include "permits.h"

extern Datum lockredis_permit_set(PG_FUNCTION_ARGS);
extern Datum lockredis_permit_available(PG_FUNCTION_ARGS);
extern Datum lockredis_try_permit_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_permit_xact_lock(PG_FUNCTION_ARGS);
extern Datum lockredis_permit_unlock(PG_FUNCTION_ARGS);
extern Datum lockredis_try_permit_acquire(PG_FUNCTION_ARGS);
extern Datum lockredis_permit_release(PG_FUNCTION_ARGS);
extern Datum lockredis_permit_extend(PG_FUNCTION_ARGS);

#define WRONG(...) sim_fail("holds", __VA_ARGS__)

/* ----------
 * What is held
 * ----------
 */

#define MAX_XACT	32

static int	nsession[COUNTS_NAMES];

/* Of transaction level: where each was taken. */
static struct
{
	int			key;
	SubTransactionId sub;
}			xact[MAX_XACT];
static int	nxact = 0;

static int
number_of(const LrName *name)
{
	return atoi(name->data + 1) % COUNTS_NAMES;
}

static int
count_in_table(int key, LockScope scope)
{
	char		name[8];
	int			n = 0;

	snprintf(name, sizeof(name), "p%d", key);
	for (LrIndex i = 0; i < lt_table->max_locks; i++)
		n += lt_holds[i].session == LrMyProcNumber && lt_holds[i].kind == KIND_PERMIT &&
			(lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_LOST) &&
			lt_holds[i].scope[scope].count > 0 &&
			strcmp(lt_keys[lt_holds[i].key].name, name) == 0;
	return n;
}

void
permits_taken(const LrName *name, LockScope scope)
{
	if (scope == SCOPE_SESSION)
	{
		nsession[number_of(name)]++;
		return;
	}
	if (nxact == MAX_XACT)
		sim_fail("simulator", "too many permits in a transaction");
	xact[nxact].key = number_of(name);
	xact[nxact++].sub = GetCurrentSubTransactionId();
}

void
permits_unlocked(const LrName *name, bool given_back)
{
	int		   *n = &nsession[number_of(name)];

	if (given_back && *n == 0)
		sim_fail("wrong answer", "redis_permit_unlock says that it gave back one of %s, which was not had",
				 name->data);
	if (*n > 0)
		(*n)--;
}

void
permits_perhaps_unlocked(const LrName *name)
{
	int			key = number_of(name);
	int			n = count_in_table(key, SCOPE_SESSION);

	if (n == nsession[key] - 1)
		nsession[key] = n;
}

int
permits_keys_had(void)
{
	int			n = 0;

	for (int i = 0; i < COUNTS_NAMES; i++)
		n += nsession[i] > 0;
	return n;
}

void
permits_all_gone(bool surely)
{
	for (int i = 0; i < COUNTS_NAMES; i++)
		nsession[i] = surely ? 0 : Min(nsession[i], count_in_table(i, SCOPE_SESSION));
}

void
permits_sub_ends(SubTransactionId sub, SubTransactionId parent, bool commit)
{
	for (int i = nxact - 1; i >= 0; i--)
		if (xact[i].sub == sub && commit)
			xact[i].sub = parent;
		else if (xact[i].sub == sub)
			xact[i] = xact[--nxact];
}

void
permits_transaction_ends(void)
{
	nxact = 0;
}

void
permits_check(void)
{
	for (int i = 0; i < COUNTS_NAMES; i++)
	{
		int			n = 0;

		for (int j = 0; j < nxact; j++)
			n += xact[j].key == i;
		if (count_in_table(i, SCOPE_SESSION) != nsession[i] ||
			count_in_table(i, SCOPE_XACT) != n)
			WRONG("of p%d the session has %d permits and the transaction %d; the lock table says %d and %d",
				  i, nsession[i], n, count_in_table(i, SCOPE_SESSION),
				  count_in_table(i, SCOPE_XACT));
	}
}

/* ----------
 * Ids
 * ----------
 */

/* To make one costs more than a look at all else that is checked. */
const char *
permit_id_of(LrIndex hold)
{
	static struct
	{
		uint64		owner;
		char		id[2 * LR_SECRET_ID_LEN + 1];
	}			known[SIM_MAX_LOCKS];
	uint64		owner = lt_holds[hold].claim.owner;

	if (known[hold].owner != owner)
	{
		uint8		id[LR_SECRET_ID_LEN];

		lr_secret_id(owner, id);
		(void) hex_encode((const char *) id, LR_SECRET_ID_LEN, known[hold].id);
		known[hold].id[2 * LR_SECRET_ID_LEN] = '\0';
		known[hold].owner = owner;
	}
	return known[hold].id;
}

/* ----------
 * Statements
 * ----------
 */

static const char *
draw_permit_key(void)
{
	static char key[8];

	snprintf(key, sizeof(key), "p%d", (int) sim_draw(COUNTS_NAMES));
	sim_trace("  %s", key);
	return key;
}

static NullableDatum
draw_wait(void)
{
	return sql_interval(SIM_PICK(0, 2 * SIM_S, 100 * SIM_MS, 20 * SIM_S));
}

static void
take(PGFunction function)
{
	const char *key = draw_permit_key();
	bool		taken;

	if (lr_mode != MODE_REDIS)
		return;
	taken = DatumGetBool(SQL_CALL(function, NULL, sql_text(key), draw_wait(), draw_lease()));
	sim_trace("-> %s", taken ? "taken" : "none");
	sim_reached(taken ? "permit taken" : "permit busy");
}

static void
permit_lock(void)
{
	take(lockredis_try_permit_lock);
}

static void
permit_xact_lock(void)
{
	take(lockredis_try_permit_xact_lock);
}

static void
permit_unlock(void)
{
	const char *key = draw_permit_key();

	if (lr_mode == MODE_REDIS)
		sim_trace("-> %s", DatumGetBool(SQL_CALL(lockredis_permit_unlock, NULL, sql_text(key))) ?
				  "true" : "false");
}

/* What this session knows the id of. */
static char had[COUNTS_NAMES][2 * LR_SECRET_ID_LEN + 1];

static void
permit_acquire(void)
{
	const char *key = draw_permit_key();
	bool		isnull = false;
	Datum		id;

	if (lr_mode != MODE_REDIS)
		return;
	id = SQL_CALL(lockredis_try_permit_acquire, &isnull, sql_text(key), draw_wait(),
				  sql_interval(SIM_PICK(2 * SIM_S, 600 * SIM_S, 100 * SIM_MS)));
	sim_trace("-> %s", isnull ? "none" : "taken");
	sim_reached(isnull ? "no permit by id" : "permit by id");
	if (isnull)
		return;
	strlcpy(had[key[1] - '0'], text_to_cstring(DatumGetTextPP(id)), sizeof(had[0]));
	redis_note_permit(key, had[key[1] - '0']);
}

static void
permit_release(void)
{
	const char *key = draw_permit_key();
	char	   *id = had[key[1] - '0'];

	if (lr_mode != MODE_REDIS || id[0] == '\0')
		return;
	sim_trace("-> %s", DatumGetBool(SQL_CALL(lockredis_permit_release, NULL, sql_text(key),
											 sql_text(id))) ? "true" : "false");
	id[0] = '\0';
}

static void
permit_extend(void)
{
	const char *key = draw_permit_key();
	char	   *id = had[key[1] - '0'];

	if (lr_mode != MODE_REDIS || id[0] == '\0')
		return;
	sim_trace("-> %s", DatumGetBool(SQL_CALL(lockredis_permit_extend, NULL, sql_text(key),
											 sql_text(id), sql_interval(600 * SIM_S))) ?
			  "true" : "false");
}

static void
permit_set(void)
{
	NullableDatum total = {.value = Int32GetDatum((int32) SIM_PICK(2, 1, 3)),.isnull = false};

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_permit_set, NULL, sql_text(draw_permit_key()), total);
}

static void
permit_available(void)
{
	bool		isnull;

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_permit_available, &isnull, sql_text(draw_permit_key()));
}

const Statement permit_statements[] = {
	{"redis_try_permit_lock", 20, ANYWHERE, permit_lock},
	{"redis_try_permit_xact_lock", 10, ANYWHERE, permit_xact_lock},
	{"redis_permit_unlock", 16, ANYWHERE, permit_unlock},
	{"redis_try_permit_acquire", 6, ANYWHERE, permit_acquire},
	{"redis_permit_release", 6, ANYWHERE, permit_release},
	{"redis_permit_extend", 2, ANYWHERE, permit_extend},
	{"redis_permit_set", 1, ANYWHERE, permit_set},
	{"redis_permit_available", 1, ANYWHERE, permit_available},
	{NULL}
};
