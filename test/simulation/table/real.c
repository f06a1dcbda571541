/*-------------------------------------------------------------------------
 *
 * real.c
 *	  Part of a real server with lockredis that test 353_simulated_table tells what to do.
 *
 * It is linked with all that lockredis has.  The linker lets it come before (--wrap): its clocks
 * can be put forward, its sweeps come when they are asked for, and accesses to rows fail or
 * stand still, by their number.  What it is told is shared by all processes of the server.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/table/real.c
 *
 *-------------------------------------------------------------------------
 */
#include "ask.h"

#include <sys/mman.h>
#include <time.h>

#include "fmgr.h"
#include "port/atomics.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "store/table/table_int.h"

typedef struct Told
{
	TimestampTz wall_began;		/* the wall clock goes on from there as the other does */
	int64		began;
	int64		later;			/* us */
	bool		sweeps;
	int			fails[2];		/* the access after so many fails, and then another one */
	bool		blocked;		/* it fails as if somebody were in the way */
	bool		stops;			/* before an insert into redis_lock_rows */
	bool		stopped;
} Told;

static volatile Told *told;

/* ----------
 * The clocks
 * ----------
 */

extern int	__real_clock_gettime(clockid_t clock, struct timespec *ts);
extern int	__wrap_clock_gettime(clockid_t clock, struct timespec *ts);
extern TimestampTz __real_GetCurrentTimestamp(void);
extern TimestampTz __wrap_GetCurrentTimestamp(void);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int			rc = __real_clock_gettime(clock, ts);

	if (clock == LR_CLOCK_ID)
		ts->tv_sec += told->later / LR_US_PER_S;
	return rc;
}

/* No jump of the host's clock is to be seen here. */
TimestampTz
__wrap_GetCurrentTimestamp(void)
{
	return told->wall_began + (lr_now() - told->began);
}

/* The first process shares it with all others: the library is preloaded. */
static void __attribute__((constructor))
share(void)
{
	told = mmap(NULL, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		abort();
	told->wall_began = __real_GetCurrentTimestamp();
	told->began = lr_now();
}

/* ----------
 * The worker
 * ----------
 */

extern void __real_entries_sweep(LockTables *tables);
extern void __wrap_entries_sweep(LockTables *tables);
extern bool __real_keyed_find(KeyedTable *table, const Datum *keys);
extern bool __wrap_keyed_find(KeyedTable *table, const Datum *keys);
extern bool __real_keyed_next_of_group(KeyedTable *table);
extern bool __wrap_keyed_next_of_group(KeyedTable *table);
extern void __real_keyed_insert(KeyedTable *table, Datum *values, bool *nulls);
extern void __wrap_keyed_insert(KeyedTable *table, Datum *values, bool *nulls);
extern bool __real_keyed_update(KeyedTable *table, Datum *values, bool *nulls, bool *changed);
extern bool __wrap_keyed_update(KeyedTable *table, Datum *values, bool *nulls, bool *changed);
extern bool __real_keyed_delete(KeyedTable *table);
extern bool __wrap_keyed_delete(KeyedTable *table);

void
__wrap_entries_sweep(LockTables *tables)
{
	if (told->sweeps)
		__real_entries_sweep(tables);
}

/* As in models/keyed_table.c. */
static void
before_access(void)
{
	if (told->fails[0] == 0 || --told->fails[0] > 0)
		return;
	told->fails[0] = told->fails[1];
	told->fails[1] = 0;
	ereport(ERROR,
			(errcode(told->blocked ? ERRCODE_LOCK_NOT_AVAILABLE : ERRCODE_OUT_OF_MEMORY),
			 errmsg("as told")));
}

bool
__wrap_keyed_find(KeyedTable *table, const Datum *keys)
{
	before_access();
	return __real_keyed_find(table, keys);
}

bool
__wrap_keyed_next_of_group(KeyedTable *table)
{
	before_access();
	return __real_keyed_next_of_group(table);
}

void
__wrap_keyed_insert(KeyedTable *table, Datum *values, bool *nulls)
{
	before_access();
	if (told->stops && strcmp(RelationGetRelationName(table->rel), "redis_lock_rows") == 0)
	{
		told->stopped = true;
		while (told->stops)
			pg_usleep(1000);
		told->stopped = false;
	}
	__real_keyed_insert(table, values, nulls);
}

bool
__wrap_keyed_update(KeyedTable *table, Datum *values, bool *nulls, bool *changed)
{
	before_access();
	return __real_keyed_update(table, values, nulls, changed);
}

bool
__wrap_keyed_delete(KeyedTable *table)
{
	before_access();
	return __real_keyed_delete(table);
}

/* ----------
 * What SQL calls
 * ----------
 */

PG_FUNCTION_INFO_V1(table_ask);
PG_FUNCTION_INFO_V1(table_who);
PG_FUNCTION_INFO_V1(table_later);
PG_FUNCTION_INFO_V1(table_stopped);
PG_FUNCTION_INFO_V1(table_go_on);

/* (operations, an access that fails, another one, blocked, stops) */
Datum
table_ask(PG_FUNCTION_ARGS)
{
	char	   *answer;

	told->fails[0] = PG_GETARG_INT32(1);
	told->fails[1] = PG_GETARG_INT32(2);
	told->blocked = PG_GETARG_BOOL(3);
	told->stops = PG_GETARG_BOOL(4);
	answer = ask(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	told->fails[0] = told->fails[1] = 0;
	told->stops = false;
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}

Datum
table_who(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(ask_who(PG_GETARG_INT64(0))));
}

Datum
table_later(PG_FUNCTION_ARGS)
{
	/* A sweep that is due, and does not come, would be due ten seconds later again. */
	told->sweeps = true;
	pg_write_barrier();
	told->later += PG_GETARG_INT64(0) * ASK_UNIT_MS * LR_US_PER_MS;
	ask_to_sweep();
	told->sweeps = false;
	PG_RETURN_VOID();
}

Datum
table_stopped(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(told->stopped);
}

Datum
table_go_on(PG_FUNCTION_ARGS)
{
	told->stops = false;
	PG_RETURN_VOID();
}
