/*-------------------------------------------------------------------------
 *
 * token.c
 *	  The SQL functions of token locks: arguments in, results out.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/token.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "keyname.h"
#include "session/token.h"
#include "session/transaction.h"
#include "sql/arguments.h"

/* Bytes in UTF-8; token/set.lua and release.lua know it, too. */
#define TOKEN_MAX			1024

/* Random bytes of one that is made here. */
#define TOKEN_BYTES			16

PG_FUNCTION_INFO_V1(lockredis_token_lock);
PG_FUNCTION_INFO_V1(lockredis_try_token_lock);
PG_FUNCTION_INFO_V1(lockredis_token_unlock);
PG_FUNCTION_INFO_V1(lockredis_token_extend);
PG_FUNCTION_INFO_V1(lockredis_token_is_held);

/* ----------
 * Arguments
 * ----------
 */

/*
 * new_token --- one that nobody can guess
 */
static text *
new_token(void)
{
	uint8		bytes[TOKEN_BYTES];
	char		hex[2 * TOKEN_BYTES];

	if (!pg_strong_random(bytes, sizeof(bytes)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	(void) hex_encode((const char *) bytes, sizeof(bytes), hex);
	return cstring_to_text_with_len(hex, sizeof(hex));
}

static void
make_token(const text *value, LockToken *token)
{
	int			len;
	const char *bytes = lr_to_utf8(VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value), &len);

	if (len == 0 || len > TOKEN_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("token must have between 1 and %d bytes", TOKEN_MAX)));
	token_make(bytes, len, token);
}

static void
arg_token(FunctionCallInfo fcinfo, int argno, LockToken *token)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("token must not be null")));
	make_token(PG_GETARG_TEXT_PP(argno), token);
}

/* ----------
 * Functions
 * ----------
 */

/*
 * take_token --- the token; NULL: busy
 */
static text *
take_token(FunctionCallInfo fcinfo, WaitRule rule)
{
	int			lease_arg = rule == WAITS ? 1 : 2;
	LrName		name;
	AcquireRequest request;
	LockToken	token;
	text	   *value;

	arg_key(fcinfo, &name);
	arg_require_lease(fcinfo, lease_arg);
	arg_request(fcinfo, KIND_TOKEN, SCOPE_SESSION, rule, 1, &request);
	value = PG_ARGISNULL(lease_arg + 1) ? new_token() : PG_GETARG_TEXT_PP(lease_arg + 1);
	make_token(value, &token);
	xact_warn_snapshot(SCOPE_SESSION);
	return session_token_lock(&name, &request, &token) ? value : NULL;
}

Datum
lockredis_token_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(take_token(fcinfo, WAITS));
}

Datum
lockredis_try_token_lock(PG_FUNCTION_ARGS)
{
	text	   *token = take_token(fcinfo, TRIES);

	if (token == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(token);
}

Datum
lockredis_token_unlock(PG_FUNCTION_ARGS)
{
	LrName		name;
	LockToken	token;

	arg_key(fcinfo, &name);
	arg_token(fcinfo, 1, &token);
	PG_RETURN_BOOL(session_token_unlock(&name, &token));
}

Datum
lockredis_token_extend(PG_FUNCTION_ARGS)
{
	LrName		name;
	LockToken	token;
	bool		renewed;

	arg_key(fcinfo, &name);
	arg_token(fcinfo, 1, &token);
	arg_require_lease(fcinfo, 2);
	PG_RETURN_BOOL(session_token_extend(&name, &token, arg_lease_ms(fcinfo, 2, &renewed)));
}

Datum
lockredis_token_is_held(PG_FUNCTION_ARGS)
{
	LrName		name;
	LockToken	token;

	arg_key(fcinfo, &name);
	arg_token(fcinfo, 1, &token);
	PG_RETURN_BOOL(session_token_is_held(&name, &token));
}
