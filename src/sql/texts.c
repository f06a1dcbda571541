/*-------------------------------------------------------------------------
 *
 * texts.c
 *	  Arguments of SQL functions that are texts: several keys, tokens, ids of permits,
 *	  names of conditions.
 *
 * Tokens and ids are credentials: no message shows one.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/texts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha1.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "names.h"
#include "session/session.h"
#include "sql/arguments.h"

/* Most bytes of a token in UTF-8; token/set.lua and release.lua have the same limit. */
#define TOKEN_MAX			1024

/* Random bytes of a token that we make. */
#define TOKEN_BYTES			16

/* Length of a permit's id as text. */
#define ID_DIGITS			(2 * LR_SECRET_ID_LEN)

/* The longest name of a condition, in bytes of UTF-8. */
#define CONDITION_MAX		255

StaticAssertDecl(SHA1_DIGEST_LENGTH == STORE_ID_LEN, "the id of a condition is a SHA-1 digest");

/* ----------
 * Several keys
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
 * keys_as_texts --- the distinct elements of the array
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
 * arg_keys --- see arguments.h
 *
 * The order of the bytes is the same in all databases, since names are in UTF-8.
 */
const LrName *const *
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
 * Tokens
 * ----------
 */

/*
 * new_token --- a random token
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

void
arg_token(FunctionCallInfo fcinfo, int argno, LockToken *token)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("token must not be null")));
	make_token(PG_GETARG_TEXT_PP(argno), token);
}

/*
 * arg_new_token --- see arguments.h
 */
text *
arg_new_token(FunctionCallInfo fcinfo, int argno, LockToken *token)
{
	text	   *value = PG_ARGISNULL(argno) ? new_token() : PG_GETARG_TEXT_PP(argno);

	make_token(value, token);
	return value;
}

/* ----------
 * Ids of permits
 * ----------
 */

text *
id_to_text(const uint8 *id)
{
	char		shown[ID_DIGITS];

	(void) hex_encode((const char *) id, LR_SECRET_ID_LEN, shown);
	return cstring_to_text_with_len(shown, ID_DIGITS);
}

/*
 * arg_id --- the id of a permit; error messages do not show it
 */
void
arg_id(FunctionCallInfo fcinfo, int argno, uint8 *id)
{
	char	   *digits;

	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("id of a permit must not be null")));
	digits = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strlen(digits) != ID_DIGITS ||
		strspn(digits, "0123456789abcdefABCDEF") != ID_DIGITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("id of a permit must have %d hexadecimal digits", ID_DIGITS)));
	(void) hex_decode(digits, ID_DIGITS, (char *) id);
}

/* ----------
 * Names of conditions
 * ----------
 */

/*
 * digest_of --- the SHA-1 of a condition's name, by which the store knows it
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
 * arg_condition --- see arguments.h
 */
void
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
