/*-------------------------------------------------------------------------
 *
 * questions.c
 *	  Statements that ask; what they are told has to agree with the book.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/workload/questions.c
 *
 *-------------------------------------------------------------------------
 */
#include "statements.h"

#include "utils/builtins.h"

#include "../kernel/history.h"

extern Datum lockredis_is_held(PG_FUNCTION_ARGS);
extern Datum lockredis_hold_count(PG_FUNCTION_ARGS);
extern Datum lockredis_assert_held(PG_FUNCTION_ARGS);
extern Datum lockredis_is_locked(PG_FUNCTION_ARGS);
extern Datum lockredis_lock_ttl(PG_FUNCTION_ARGS);
extern Datum lockredis_lock_owner(PG_FUNCTION_ARGS);
extern Datum lockredis_locks(PG_FUNCTION_ARGS);
extern Datum lockredis_stats(PG_FUNCTION_ARGS);
extern Datum lockredis_waits(PG_FUNCTION_ARGS);
extern Datum lockredis_blocked_by_owner(PG_FUNCTION_ARGS);
extern Datum lockredis_status(PG_FUNCTION_ARGS);

#define WRONG(...) sim_fail("wrong answer", __VA_ARGS__)

static int
count_of(const BookItem *item)
{
	return item->session + (item->xact != InvalidSubTransactionId);
}

/*
 * judge --- it was said to be held, or not
 *
 * What is lost stays lost, so what was before and what is after the question
 * tells what could be said.
 */
static void
judge(const char *function, const BookItem *item, bool was_lost, bool said)
{
	if (said && (count_of(item) == 0 || was_lost))
		WRONG("%s says that %s is held, and it is %s", function, item->key,
			  was_lost ? "lost" : "not");
	if (!said && count_of(item) > 0 && !book_is_lost(item, true))
		WRONG("%s says that %s is not held, and it is", function, item->key);
}

/* Of read-write locks the functions are asked by kind, else of what there is. */
static KindId
draw_asked_kind(void)
{
	return sim_config.read_write ? (KindId) SIM_PICK(KIND_READ, KIND_WRITE, KIND_REENTRANT) :
		KIND_REENTRANT;
}

#define ASK(function, key, kind) \
	(sim_config.read_write ? \
	 SQL_CALL(function, NULL, sql_text(key), sql_text(lr_kind(kind)->name)) : \
	 SQL_CALL(function, NULL, sql_text(key)))

static void
is_held(void)
{
	const char *key = draw_key();
	KindId		kind = draw_asked_kind();
	BookItem   *item = book_find(key, kind);
	bool		was_lost = book_is_lost(item, false);
	int			n = history_call(HISTORY_IS_HELD, MyProcPid, key, kind, 0);
	bool		said = DatumGetBool(ASK(lockredis_is_held, key, kind));

	history_return(n, said ? HISTORY_YES : HISTORY_NO);
	judge("redis_is_held", item, was_lost, said);
}

static void
hold_count(void)
{
	const char *key = draw_key();
	KindId		kind = draw_asked_kind();
	BookItem   *item = book_find(key, kind);
	bool		was_lost = book_is_lost(item, false);
	int			n = history_call(HISTORY_HOLD_COUNT, MyProcPid, key, kind, 0);
	int			said = DatumGetInt32(ASK(lockredis_hold_count, key, kind));

	history_at(n)->count = said;
	history_return(n, said > 0 ? HISTORY_YES : HISTORY_NO);
	judge("redis_hold_count", item, was_lost, said > 0);
	if (said > 0 && said != count_of(item))
		WRONG("redis_hold_count says %d for %s, and it is %d", said, key, count_of(item));
}

static void
assert_held(void)
{
	const char *key = draw_key();
	KindId		kind = draw_asked_kind();
	BookItem   *item = book_find(key, kind);
	bool		was_lost = book_is_lost(item, false);
	MemoryContext context = CurrentMemoryContext;
	volatile bool raised = false;

	PG_TRY();
	{
		(void) ASK(lockredis_assert_held, key, kind);
	}
	PG_CATCH();
	{
		raised = true;
		MemoryContextSwitchTo(context);
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		judge("redis_assert_held", item, was_lost, false);
		if (count_of(item) > 0 && geterrcode() !=
			(item->session > item->job ? ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE :
			 ERRCODE_T_R_SERIALIZATION_FAILURE))
			WRONG("redis_assert_held raises %s for %s, which is held %d times in the session and %s in the transaction",
				  unpack_sql_state(geterrcode()), key, item->session - item->job,
				  item->xact != InvalidSubTransactionId ? "once" : "not");
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (!raised)
		judge("redis_assert_held", item, was_lost, true);
}

/* ----------
 * The store
 * ----------
 */

static void
is_locked(void)
{
	sim_trace("-> %s", DatumGetBool(SQL_CALL(lockredis_is_locked, NULL,
											 sql_text(draw_key()))) ? "true" : "false");
}

static void
lock_ttl(void)
{
	bool		isnull;

	(void) SQL_CALL(lockredis_lock_ttl, &isnull, sql_text(draw_key()));
}

static void
lock_owner(void)
{
	bool		isnull;

	(void) SQL_CALL(lockredis_lock_owner, &isnull, sql_text(draw_key()));
}

/* ----------
 * Views
 * ----------
 */

/* Columns of redis_locks, as the function returns them. */
#define COLUMN_PID			0
#define COLUMN_KEY			3
#define COLUMN_SCOPE		5
#define COLUMN_HOLD_COUNT	7
#define COLUMN_WAITING		12

/*
 * see_blocker --- of a session that waits, by whatever it waits for by now
 *
 * The view asks for it so, row by row.
 */
static void
see_blocker(const Datum *values)
{
	bool		isnull;

	(void) SQL_CALL(lockredis_blocked_by_owner, &isnull,
					sql_int64(DatumGetInt32(values[COLUMN_PID])));
}

/* What this session has by the view; an item each key, of all kinds together. */
typedef struct Seen
{
	int			n;
	int			session[SIM_MAX_KEYS];
	int			xact[SIM_MAX_KEYS];
} Seen;

static int
number_of(const char *key)
{
	return atoi(key + 1);
}

static void
see_lock(void *arg, const Datum *values, const bool *isnull)
{
	Seen	   *seen = arg;
	int			key;
	int			count;

	if (!isnull[COLUMN_WAITING])
		see_blocker(values);
	if (isnull[COLUMN_PID] || DatumGetInt32(values[COLUMN_PID]) != MyProcPid ||
		!isnull[COLUMN_WAITING])
		return;
	/* Of permits and counts others have a book. */
	if (TextDatumGetCString(values[COLUMN_KEY])[0] != 'k')
		return;
	key = number_of(TextDatumGetCString(values[COLUMN_KEY]));
	count = DatumGetInt32(values[COLUMN_HOLD_COUNT]);
	if (strcmp(TextDatumGetCString(values[COLUMN_SCOPE]), "transaction") == 0)
		seen->xact[key] += count;
	else
		seen->session[key] += count;
}

static void
count_item(BookItem *item, void *arg)
{
	Seen	   *seen = arg;

	seen->session[number_of(item->key)] -= item->session;
	seen->xact[number_of(item->key)] -= item->xact != InvalidSubTransactionId;
}

static void
select_locks(void)
{
	Seen		seen = {0};

	sql_call_set(lockredis_locks, see_lock, &seen);
	book_walk(count_item, &seen);
	for (int i = 0; i < SIM_MAX_KEYS; i++)
		if (seen.session[i] != 0 || seen.xact[i] != 0)
			WRONG("redis_locks shows %+d holds of k%d at session level, %+d in the transaction",
				  seen.session[i], i, seen.xact[i]);
}

static void
see_node(void *arg, const Datum *values, const bool *isnull)
{
}

static void
select_others(void)
{
	sql_call_set(lockredis_status, see_node, NULL);
	(void) sql_call(lockredis_stats, 0, NULL, NULL);
	(void) sql_call(lockredis_waits, 0, NULL, NULL);
}

const Statement question_statements[] = {
	{"redis_is_held", 3, ANYWHERE, is_held},
	{"redis_hold_count", 3, ANYWHERE, hold_count},
	{"redis_assert_held", 3, ANYWHERE, assert_held},
	{"redis_is_locked", 2, ANYWHERE, is_locked},
	{"redis_lock_ttl", 1, ANYWHERE, lock_ttl},
	{"redis_lock_owner", 1, ANYWHERE, lock_owner},
	{"SELECT FROM redis_locks", 2, ANYWHERE, select_locks},
	{"SELECT FROM redis_lock_status", 1, ANYWHERE, select_others},
	{NULL}
};
