/*-------------------------------------------------------------------------
 *
 * condition.c
 *	  SQL functions: conditions of locks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/condition.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/cryptohash.h"
#include "common/sha1.h"
#include "fmgr.h"

#include "session/condition.h"
#include "sql/arguments.h"
#include "store/op.h"

PG_FUNCTION_INFO_V1(lockredis_condition_wait);
PG_FUNCTION_INFO_V1(lockredis_condition_notify);
PG_FUNCTION_INFO_V1(lockredis_condition_notify_all);

/* The longest name of a condition, in bytes of UTF-8. */
#define CONDITION_MAX		255

StaticAssertDecl(SHA1_DIGEST_LENGTH == STORE_ID_LEN, "the id of a condition is a SHA-1 digest");

/*
 * digest_of --- of a name, which the store knows it by
 */
static void
digest_of(const char *name, int len, uint8 *id)
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA1);
	bool		done;

	if (ctx == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	done = pg_cryptohash_init(ctx) >= 0 &&
		pg_cryptohash_update(ctx, (const uint8 *) name, len) >= 0 &&
		pg_cryptohash_final(ctx, id, STORE_ID_LEN) >= 0;
	pg_cryptohash_free(ctx);
	if (!done)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute the SHA1 digest of the name of a condition")));
}

/*
 * arg_condition --- the id of the condition that an argument names
 */
static void
arg_condition(FunctionCallInfo fcinfo, int argno, uint8 *id)
{
	text	   *t;
	const char *name;
	int			len;

	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("condition must not be null")));
	t = PG_GETARG_TEXT_PP(argno);
	name = lr_to_utf8(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), &len);
	if (len > CONDITION_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of the condition is too long"),
				 errdetail("It has %d bytes in UTF-8, at most %d are allowed.",
						   len, CONDITION_MAX)));
	digest_of(name, len, id);
}

Datum
lockredis_condition_wait(PG_FUNCTION_ARGS)
{
	LrName		name;
	uint8		id[STORE_ID_LEN];
	int64		wait_us;

	arg_key(fcinfo, &name);
	wait_us = arg_wait_us(fcinfo, TRIES_OR_WAITS, 1);
	arg_condition(fcinfo, 2, id);
	require_session_locks();
	PG_RETURN_BOOL(session_condition_wait(&name, id, wait_us));
}

/*
 * notify --- so many of those who wait for a condition
 */
static Datum
notify(FunctionCallInfo fcinfo, int most)
{
	LrName		name;
	uint8		id[STORE_ID_LEN];

	arg_key(fcinfo, &name);
	arg_condition(fcinfo, 1, id);
	require_unrestricted();
	PG_RETURN_INT64(session_condition_notify(&name, id, most));
}

Datum
lockredis_condition_notify(PG_FUNCTION_ARGS)
{
	return notify(fcinfo, 1);
}

Datum
lockredis_condition_notify_all(PG_FUNCTION_ARGS)
{
	return notify(fcinfo, CONDITION_ALL);
}
