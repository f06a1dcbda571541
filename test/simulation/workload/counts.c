/*-------------------------------------------------------------------------
 *
 * counts.c
 *	  Statements about semaphores and latches, in mode counts.
 *
 * On keys of their own.  The book of tickets (kernel/redis_counts.c) has what the call of
 * each request has said: what is promised is counted once in the end, what a transaction
 * did not commit is not, and what was taken by a call that failed is given back.  A session
 * that awaits a latch goes on only if it was open meanwhile.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "../../../src/locktable/locktable_int.h"
#include "../../../src/names.h"
#include "../../../src/session/session_int.h"
#include "../../../src/settings.h"
#include "../kernel/redis_counts.h"

extern Datum lockredis_semaphore_acquire(PG_FUNCTION_ARGS);
extern Datum lockredis_try_semaphore_acquire(PG_FUNCTION_ARGS);
extern Datum lockredis_semaphore_release(PG_FUNCTION_ARGS);
extern Datum lockredis_semaphore_xact_release(PG_FUNCTION_ARGS);
extern Datum lockredis_semaphore_available(PG_FUNCTION_ARGS);
extern Datum lockredis_latch_init(PG_FUNCTION_ARGS);
extern Datum lockredis_latch_set(PG_FUNCTION_ARGS);
extern Datum lockredis_latch_count_down(PG_FUNCTION_ARGS);
extern Datum lockredis_latch_xact_count_down(PG_FUNCTION_ARGS);
extern Datum lockredis_latch_wait(PG_FUNCTION_ARGS);
extern Datum lockredis_latch_delete(PG_FUNCTION_ARGS);

#define WRONG(...) sim_fail("wrong answer", __VA_ARGS__)

/* ----------
 * Tickets
 * ----------
 */

#define MAX_LATER	64

/* What is to be counted when the transaction commits. */
typedef struct Later
{
	LrIndex		hold;
	uint64		owner;
	int64		amount;
} Later;

static Later later[MAX_LATER];
static int	nlater = 0;

static uint64 last_answered;	/* owner of the last request that was answered */

static void
note(uint64 owner, TicketState state, int64 amount)
{
	char		ticket[LR_OWNER_MAX];

	lr_owner_text(owner, ticket);
	redis_note_ticket(ticket, state, amount);
}

static Later *
find_later(LrIndex hold)
{
	for (int i = 0; i < nlater; i++)
		if (later[i].hold == hold)
			return &later[i];
	return NULL;
}

extern bool __real_lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount,
						  LrIndex *hold);
extern bool __wrap_lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount,
						  LrIndex *hold);

/* Of a call from here on, of a transaction when it commits. */
bool
__wrap_lt_owe(const LrName *name, KindId kind, LockScope scope, int64 amount, LrIndex *hold)
{
	bool		done = __real_lt_owe(name, kind, scope, amount, hold);
	uint64		owner;

	if (!done)
		return false;
	owner = lt_holds[*hold].claim.owner;
	note(owner, scope == SCOPE_XACT ? TICKET_LATER : TICKET_OWED, amount);
	if (scope == SCOPE_XACT)
	{
		if (nlater == MAX_LATER)
			sim_fail("simulator", "too much is counted in a transaction");
		later[nlater].hold = *hold;
		later[nlater].owner = owner;
		later[nlater++].amount = amount;
	}
	return true;
}

extern void __real_lt_owe_more(LrIndex hold, int64 amount);
extern void __wrap_lt_owe_more(LrIndex hold, int64 amount);

void
__wrap_lt_owe_more(LrIndex hold, int64 amount)
{
	Later	   *l = find_later(hold);

	if (l == NULL)
		WRONG("what is counted later was not asked for in this transaction");
	l->amount += amount;
	note(l->owner, l->amount == 0 ? TICKET_NOT : TICKET_LATER, l->amount);
	if (l->amount == 0)
		*l = later[--nlater];
	__real_lt_owe_more(hold, amount);
}

extern void __real_lt_owed_done(LrIndex hold);
extern void __wrap_lt_owed_done(LrIndex hold);

/* It was counted, or surely will not be. */
void
__wrap_lt_owed_done(LrIndex hold)
{
	char		ticket[LR_OWNER_MAX];

	lr_owner_text(lt_holds[hold].claim.owner, ticket);
	if (redis_times_counted(ticket) == 0)
		redis_note_ticket(ticket, TICKET_NOT, 0);
	__real_lt_owed_done(hold);
}

/* Is it a count, and how many requests for it may have run, before an answer? */
int
counts_sent(const DueItem *item)
{
	const LrHold *h = &lt_holds[item->op.hold];

	return item->action == DUE_COUNT && h->claim.owner == item->op.owner ? h->as.count.sent : 0;
}

/*
 * What was surely not sent was not counted.  If it was sent once, its ticket is forgotten; only
 * the watchdog sends more.
 */
void
counts_answered(const DueItem *item, int sent, const DueResult *result)
{
	char		ticket[LR_OWNER_MAX];

	lr_owner_text(item->op.owner, ticket);
	if (sent > 0 && lt_holds[item->op.hold].claim.owner == item->op.owner &&
		counts_sent(item) == 0 && redis_times_counted(ticket) > 0)
		sim_fail("count", "%s counts as never asked for, and is counted", ticket);
	if (result->forget && sent > 1)
		sim_fail("count", "%s is forgotten, and of %d requests to count it one was answered",
				 ticket, sent);
}

extern void __real_ask_forget(const StoreOp *op);
extern void __wrap_ask_forget(const StoreOp *op);

void
__wrap_ask_forget(const StoreOp *op)
{
	last_answered = op->owner;
	__real_ask_forget(op);
}

/* The changes of the transaction are visible, or never will be. */
void
counts_transaction_ends(bool commit)
{
	for (int i = 0; i < nlater && commit; i++)
		note(later[i].owner, TICKET_OWED, later[i].amount);
	if (commit)
		nlater = 0;
}

/* ----------
 * Semaphores
 * ----------
 */

static const char *
draw_number(char of)
{
	static char key[8];

	snprintf(key, sizeof(key), "%c%d", of, (int) sim_draw(COUNTS_NAMES));
	sim_trace("  %s", key);
	return key;
}

static NullableDatum
draw_amount(int *amount)
{
	NullableDatum value = {.isnull = false};

	*amount = (int) SIM_PICK(1, 1, 2, 3);
	value.value = Int32GetDatum(*amount);
	return value;
}

/* Bounded: it may be that nobody gives any. */
static void
semaphore_acquire(void)
{
	const char *key = draw_number('s');
	int			amount;
	NullableDatum n = draw_amount(&amount);
	bool		taken;

	if (lr_mode != MODE_REDIS)
		return;
	taken = DatumGetBool(SQL_CALL(lockredis_try_semaphore_acquire, NULL, sql_text(key), n,
								  sql_interval(SIM_PICK(0, 100 * SIM_MS, 2 * SIM_S, 20 * SIM_S))));
	sim_trace("-> %s", taken ? "taken" : "too few");
	sim_reached(taken ? "semaphore taken" : "semaphore busy");
	if (taken)
		note(last_answered, TICKET_HAD, amount);
}

static void
semaphore_release(void)
{
	const char *key = draw_number('s');
	int			amount;
	NullableDatum n = draw_amount(&amount);

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_semaphore_release, NULL, sql_text(key), n);
}

static void
semaphore_xact_release(void)
{
	const char *key = draw_number('s');
	int			amount;
	NullableDatum n = draw_amount(&amount);

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_semaphore_xact_release, NULL, sql_text(key), n);
}

static void
semaphore_available(void)
{
	if (lr_mode == MODE_REDIS)
		sim_trace("-> %d", (int) DatumGetInt32(SQL_CALL(lockredis_semaphore_available, NULL,
														sql_text(draw_number('s')))));
}

/* ----------
 * Latches
 * ----------
 */

static void
latch_init(void)
{
	const char *key = draw_number('l');

	if (lr_mode == MODE_REDIS)
		sim_trace("-> %d", (int) DatumGetBool(SQL_CALL(lockredis_latch_init, NULL, sql_text(key),
													   sql_int64(SIM_PICK(2, 1, 3, 5)))));
}

/* Counts that were promised before count as they did. */
static void
latch_set(void)
{
	const char *key = draw_number('l');

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_latch_set, NULL, sql_text(key), sql_int64(SIM_PICK(2, 1, 4)));
}

static void
latch_count_down(void)
{
	const char *key = draw_number('l');
	bool		isnull = false;
	Datum		left;

	if (lr_mode != MODE_REDIS)
		return;
	left = SQL_CALL(lockredis_latch_count_down, &isnull, sql_text(key));
	if (isnull)
		sim_trace("-> not answered");
	else
		sim_trace("-> %lld", (long long) DatumGetInt64(left));
}

static void
latch_xact_count_down(void)
{
	const char *key = draw_number('l');

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_latch_xact_count_down, NULL, sql_text(key));
}

static void
latch_wait(void)
{
	const char *key = draw_number('l');
	int64		began = sim_now();
	bool		opened;

	if (lr_mode != MODE_REDIS)
		return;
	opened = DatumGetBool(SQL_CALL(lockredis_latch_wait, NULL, sql_text(key),
								   sql_interval(SIM_PICK(2 * SIM_S, 0, 100 * SIM_MS, 20 * SIM_S))));
	sim_trace("-> %s", opened ? "open" : "not yet");
	sim_reached(opened ? "latch open" : "latch closed");
	if (opened && redis_latch_open_at(key) < began)
		WRONG("redis_latch_wait says that %s was open, and it was not for %.3f ms", key,
			  (sim_now() - redis_latch_open_at(key)) / 1000.0);
}

static void
latch_delete(void)
{
	const char *key = draw_number('l');

	if (lr_mode == MODE_REDIS)
		(void) SQL_CALL(lockredis_latch_delete, NULL, sql_text(key));
}

const Statement count_statements[] = {
	{"redis_semaphore_release", 10, ANYWHERE, semaphore_release},
	{"redis_try_semaphore_acquire", 14, ANYWHERE, semaphore_acquire},
	{"redis_semaphore_xact_release", 10, ANYWHERE, semaphore_xact_release},
	{"redis_semaphore_available", 2, ANYWHERE, semaphore_available},
	{"redis_latch_init", 8, ANYWHERE, latch_init},
	{"redis_latch_set", 2, ANYWHERE, latch_set},
	{"redis_latch_count_down", 12, ANYWHERE, latch_count_down},
	{"redis_latch_xact_count_down", 8, ANYWHERE, latch_xact_count_down},
	{"redis_latch_wait", 10, ANYWHERE, latch_wait},
	{"redis_latch_delete", 2, ANYWHERE, latch_delete},
	{NULL}
};
