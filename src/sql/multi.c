/*-------------------------------------------------------------------------
 *
 * multi.c
 *	  The SQL functions for several keys at once: arguments in, results out.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/multi.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "instance.h"
#include "keyname.h"
#include "session/multi.h"
#include "session/unlock.h"
#include "sql/arguments.h"

PG_FUNCTION_INFO_V1(lockredis_multi_lock);
PG_FUNCTION_INFO_V1(lockredis_try_multi_lock);
PG_FUNCTION_INFO_V1(lockredis_multi_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_try_multi_xact_lock);
PG_FUNCTION_INFO_V1(lockredis_multi_unlock);

/* ----------
 * Arguments
 * ----------
 */

static int
compare_bytes(const char *a, int alen, const char *b, int blen)
{
	int			order = memcmp(a, b, Min(alen, blen));

	return order != 0 ? order : alen - blen;
}

static int
compare_texts(const void *a, const void *b)
{
	const text *one = *(text *const *) a;
	const text *other = *(text *const *) b;

	return compare_bytes(VARDATA_ANY(one), VARSIZE_ANY_EXHDR(one),
						 VARDATA_ANY(other), VARSIZE_ANY_EXHDR(other));
}

static int
compare_names(const void *a, const void *b)
{
	const LrName *one = *(const LrName *const *) a;
	const LrName *other = *(const LrName *const *) b;

	return compare_bytes(one->data, one->len, other->data, other->len);
}

static int
drop_doubles(void **sorted, int n, int (*compare) (const void *, const void *))
{
	int			kept = 0;

	for (int i = 0; i < n; i++)
		if (kept == 0 || compare(&sorted[kept - 1], &sorted[i]) != 0)
			sorted[kept++] = sorted[i];
	return kept;
}

/*
 * keys_as_texts --- the elements of the array, each once
 */
static text **
keys_as_texts(ArrayType *array, int *n)
{
	Datum	   *elements;
	bool	   *nulls;
	text	  **texts;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, n);
	texts = palloc_extended(sizeof(text *) * (Size) *n, MCXT_ALLOC_HUGE);
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("lock key must not be null")));
		texts[i] = DatumGetTextPP(elements[i]);
	}
	qsort(texts, *n, sizeof(text *), compare_texts);
	*n = drop_doubles((void **) texts, *n, compare_texts);
	return texts;
}

/*
 * arg_keys --- the names of the keys, each once, in the order of their bytes
 *
 * That order is the same for all databases: names are in UTF-8.
 */
static const LrName *const *
arg_keys(FunctionCallInfo fcinfo, int *n)
{
	text	  **texts;
	LrName	  **names;

	lr_require_preload();
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("lock keys must not be null")));
	texts = keys_as_texts(PG_GETARG_ARRAYTYPE_P(0), n);
	if (*n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there must be at least one lock key")));
	if (*n > MULTI_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there must not be more than %d different lock keys", MULTI_MAX)));

	names = palloc(sizeof(LrName *) * *n);
	for (int i = 0; i < *n; i++)
	{
		names[i] = palloc(sizeof(LrName));
		lr_name_from_text(texts[i], names[i]);
	}
	qsort(names, *n, sizeof(LrName *), compare_names);
	*n = drop_doubles((void **) names, *n, compare_names);
	return (const LrName *const *) names;
}

/* ----------
 * Functions
 * ----------
 */

static bool
take_multi(FunctionCallInfo fcinfo, LockScope scope, WaitRule rule)
{
	AcquireRequest request;
	int			n;
	const LrName *const *names = arg_keys(fcinfo, &n);

	arg_take(fcinfo, KIND_REENTRANT, scope, rule, 1, &request);
	return session_multi_lock(names, n, &request);
}

Datum
lockredis_multi_lock(PG_FUNCTION_ARGS)
{
	(void) take_multi(fcinfo, SCOPE_SESSION, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_multi_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_multi(fcinfo, SCOPE_SESSION, TRIES));
}

Datum
lockredis_multi_xact_lock(PG_FUNCTION_ARGS)
{
	(void) take_multi(fcinfo, SCOPE_XACT, WAITS);
	PG_RETURN_VOID();
}

Datum
lockredis_try_multi_xact_lock(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(take_multi(fcinfo, SCOPE_XACT, TRIES));
}

Datum
lockredis_multi_unlock(PG_FUNCTION_ARGS)
{
	int			n;
	const LrName *const *names = arg_keys(fcinfo, &n);

	require_unrestricted();
	PG_RETURN_BOOL(session_multi_unlock(names, n));
}
