/*-------------------------------------------------------------------------
 *
 * probe.c
 *	  A backend as a client of the benchmark.
 *
 * SQL functions around the loop of client.h, so that loops in PL/pgSQL time
 * and check themselves at a cost that is small beside that of any lock:
 *
 *	  SELECT bench_begin(BOARD, PREFIX, MODE, NUMBER, START, UNTIL, HOLD, PAUSE)
 *	  DO $$ BEGIN WHILE bench_next() LOOP
 *		PERFORM redis_lock(bench_key()), bench_locked();
 *		PERFORM bench_unlocking(), redis_unlock(bench_key());
 *	  END LOOP; END $$
 *	  SELECT bench_result()		-- as the answer in client.h, without "ok"
 *
 * or in one query, with a row for each turn:
 *
 *	  SELECT count(redis_lock(bench_key())), count(bench_locked()),
 *		count(bench_unlocking()), count(redis_unlock(bench_key()))
 *	  FROM (SELECT bench_turns() OFFSET 0) AS turn
 *
 * Statements without a loop, which are timed by their sender, count and check
 * with
 *
 *	  SELECT redis_lock('hot'), bench_attach(BOARD), bench_locked()
 *	  SELECT bench_unlocking(), redis_unlock('hot')
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/bench/probe.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#include "client.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(bench_begin);
PG_FUNCTION_INFO_V1(bench_next);
PG_FUNCTION_INFO_V1(bench_turns);
PG_FUNCTION_INFO_V1(bench_key);
PG_FUNCTION_INFO_V1(bench_number);
PG_FUNCTION_INFO_V1(bench_locked);
PG_FUNCTION_INFO_V1(bench_unlocking);
PG_FUNCTION_INFO_V1(bench_result);
PG_FUNCTION_INFO_V1(bench_attach);

static Client client;
static char prefix[128];

/* The key's text, without a copy for each call. */
static union
{
	char		data[VARHDRSZ + 160];
	int32		align;
}			key_text;

static Board *
board_of(text *path)
{
	char	   *name = text_to_cstring(path);
	static Board *board = NULL;

	if (board == NULL)
		board = bench_map_board(name);
	if (board == NULL)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not map \"%s\": %m", name)));
	pfree(name);
	return board;
}

Datum
bench_begin(PG_FUNCTION_ARGS)
{
	char	   *mode = text_to_cstring(PG_GETARG_TEXT_PP(2));

	memset(&client, 0, sizeof(client));
	client.board = board_of(PG_GETARG_TEXT_PP(0));
	strlcpy(prefix, text_to_cstring(PG_GETARG_TEXT_PP(1)), sizeof(prefix));
	if (!client_set_mode(&client, mode))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown mode \"%s\"", mode)));
	client.number = PG_GETARG_INT32(3);
	client.start = PG_GETARG_INT64(4);
	client.until = PG_GETARG_INT64(5);
	client.hold_ns = PG_GETARG_INT64(6) * 1000;
	client.pause_ns = PG_GETARG_INT64(7) * 1000;
	PG_RETURN_VOID();
}

Datum
bench_attach(PG_FUNCTION_ARGS)
{
	if (client.board == NULL)
		client.board = board_of(PG_GETARG_TEXT_PP(0));
	client.key = 0;
	client.begin = bench_now();
	PG_RETURN_VOID();
}

/*
 * next_turn --- is there one more turn?  Its key is in key_text then.
 */
static bool
next_turn(void)
{
	bool		more = client_next(&client);

	if (client.mode == KEY_HOT)
		strlcpy(VARDATA(key_text.data), prefix,
				sizeof(key_text.data) - VARHDRSZ);
	else
		snprintf(VARDATA(key_text.data), sizeof(key_text.data) - VARHDRSZ,
				 "%s:%d", prefix, client.key);
	SET_VARSIZE(key_text.data, VARHDRSZ + strlen(VARDATA(key_text.data)));
	return more;
}

Datum
bench_next(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(next_turn());
}

/* In a target list: the executor asks for a row when it has done with the last. */
Datum
bench_turns(PG_FUNCTION_ARGS)
{
	FuncCallContext *context;

	if (SRF_IS_FIRSTCALL())
		(void) SRF_FIRSTCALL_INIT();
	context = SRF_PERCALL_SETUP();
	if (next_turn())
		SRF_RETURN_NEXT(context, BoolGetDatum(true));
	SRF_RETURN_DONE(context);
}

Datum
bench_key(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P((text *) key_text.data);
}

Datum
bench_number(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(client.key);
}

Datum
bench_locked(PG_FUNCTION_ARGS)
{
	client_locked(&client);
	PG_RETURN_VOID();
}

Datum
bench_unlocking(PG_FUNCTION_ARGS)
{
	client_unlocking(&client);
	PG_RETURN_VOID();
}

Datum
bench_result(PG_FUNCTION_ARGS)
{
	char	   *out = palloc(64 + 3 * HISTOGRAM_TEXT);
	int			len;

	len = sprintf(out, "%lld %lld %lld", (long long) client.pairs,
				  (long long) client.steps, (long long) client.errors);
	len += strlen(histogram_text(&client.lock, out + len));
	len += strlen(histogram_text(&client.pair, out + len));
	histogram_text(&client.wake, out + len);
	PG_RETURN_TEXT_P(cstring_to_text(out));
}
