/*-------------------------------------------------------------------------
 *
 * arguments.c
 *	  The arguments of SQL functions, and whether they may be called here.
 *
 * Tokens and ids of permits are credentials: no message shows one.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/sql/arguments.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/sha.h>

#include "catalog/pg_type.h"
#include "common/int.h"
#include "datatype/timestamp.h"
#include "lib/qunique.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "names.h"
#include "session/session.h"
#include "settings.h"
#include "sql/arguments.h"
#include "store/stores.h"

/* Most bytes of a token in UTF-8; token/set.lua and release.lua have the same limit. */
#define TOKEN_MAX			1024

/* Length as text of a permit's id, or of a token that we make. */
#define ID_DIGITS			(2 * LR_SECRET_ID_LEN)

/* The longest name of a condition, in bytes of UTF-8. */
#define CONDITION_MAX		255

StaticAssertDecl(UUID_LEN == LR_SECRET_ID_LEN, "a token that we make has the bits of a UUID");
StaticAssertDecl(SHA_DIGEST_LENGTH == STORE_ID_LEN, "the id of a condition is a SHA-1 digest");

#define LEASE_MIN_MS		10

void
arg_require(FunctionCallInfo fcinfo, int argno, const char *what)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", what)));
}

void
arg_key(FunctionCallInfo fcinfo, LrName *name)
{
	arg_require(fcinfo, 0, "lock key");
	lr_require_preload();
	lr_name_from_text(PG_GETARG_TEXT_PP(0), name);
}

/*
 * arg_kind --- see arguments.h
 */
KindId
arg_kind(FunctionCallInfo fcinfo, int argno, const LrName *name, KindId usual)
{
	char	   *wanted;
	StringInfoData names;

	if (argno >= PG_NARGS())
		return held_kind_of(name, usual);
	arg_require(fcinfo, argno, "kind of lock");
	wanted = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	initStringInfo(&names);
	for (KindId k = 0; lr_kind(k) != NULL; k++)
	{
		/* An argument can name what sessions hold. */
		if (lr_kind(k)->ownerless || lr_kind(k)->passing)
			continue;
		if (strcmp(lr_kind(k)->name, wanted) == 0)
			return k;
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", lr_kind(k)->name);
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("kind of lock must be one of %s", names.data)));
	return usual;				/* keep compiler quiet */
}

/*
 * arg_interval_us --- microseconds of an interval
 *
 * If it is infinite or out of range, these are the most or the least that there are: the
 * parts of an infinite one are beyond any range.  Days have 24 hours and months 30 days, as
 * in EXTRACT(EPOCH ...).
 */
static int64
arg_interval_us(FunctionCallInfo fcinfo, int argno)
{
	const Interval *i = PG_GETARG_INTERVAL_P(argno);
	int64		days = (int64) i->month * DAYS_PER_MONTH + i->day;
	int64		us;

	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &us) ||
		pg_add_s64_overflow(us, i->time, &us))
		return days < 0 ? PG_INT64_MIN : PG_INT64_MAX;
	return us;
}

/*
 * require_max_lease --- refuse a lease, or the like, above lockredis.max_lease
 *
 * With several masters: a restarted master has no vote for that long, and must not have
 * forgotten a lock that lives longer.
 */
static void
require_max_lease(const char *what, int64 ms)
{
	if (!lr_has_masters() || ms <= lr_max_lease)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s must not be longer than \"%s\"", what, "lockredis.max_lease"),
			 errdetail("With several masters no lock has a longer lease than %d ms.", lr_max_lease),
			 errhint("Take the lock without a lease, so that it is renewed for as long as it is held; or raise \"%s\" on all servers.",
					 "lockredis.max_lease")));
}

/*
 * arg_span_ms --- milliseconds of an interval that is not null; "what" names it in
 * errors
 */
static int64
arg_span_ms(FunctionCallInfo fcinfo, int argno, const char *what)
{
	int64		ms = lr_ms_up(lr_earlier(arg_interval_us(fcinfo, argno), LR_NEVER));

	if (ms < LEASE_MIN_MS || ms > LR_LEASE_MAX_MS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be between 10 milliseconds and 24 days", what)));
	return ms;
}

/*
 * arg_lease_ms --- see arguments.h
 */
int64
arg_lease_ms(FunctionCallInfo fcinfo, int argno, bool *renewed)
{
	int64		ms;

	if (renewed != NULL)
		*renewed = PG_ARGISNULL(argno);
	else if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("lease must not be null"),
				 errdetail("No session holds what this function takes, so nobody renews it.")));
	if (PG_ARGISNULL(argno))
	{
		lr_require_fit_lease();
		return lr_lease;
	}
	ms = arg_span_ms(fcinfo, argno, "lease");
	require_max_lease("lease", ms);
	return ms;
}

int64
arg_ttl_ms(FunctionCallInfo fcinfo, int argno)
{
	return PG_ARGISNULL(argno) ? 0 : arg_span_ms(fcinfo, argno, "ttl");
}

/*
 * arg_wait_us --- see arguments.h
 *
 * A limit that is null by mistake must not become a wait without a limit.
 */
int64
arg_wait_us(FunctionCallInfo fcinfo, WaitRule rule, int argno)
{
	int64		us;

	if (rule == WAITS || (rule == TRIES_OR_WAITS && PG_ARGISNULL(argno)))
		return WAIT_FOREVER;
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("wait must not be null"),
				 errhint("To wait without a limit, call the function without \"try\" in its name.")));
	us = arg_interval_us(fcinfo, argno);
	if (us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("wait must not be negative")));
	return us >= LR_NEVER / 2 ? WAIT_FOREVER : us;
}

Datum
int_result(int64 number)
{
	return DirectFunctionCall1(int84, Int64GetDatum(number));
}

Datum
interval_from_us(int64 us)
{
	Interval   *result = palloc0(sizeof(Interval));

	result->time = us;
	return IntervalPGetDatum(result);
}

/*
 * arg_min_replicas --- lockredis.min_replicas, which must be 0 with several masters
 *
 * No majority can speak for their replicas.
 */
static int
arg_min_replicas(void)
{
	if (lr_min_replicas > 0 && lr_nmasters > 0 &&
		lr_store_can(current_store(), STORE_HAS_REPLICAS))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("replicas are not asked to confirm a lock of several masters"),
				 errhint("Set \"%s\" to 0.", "lockredis.min_replicas")));
	return lr_min_replicas;
}

/*
 * arg_request --- see arguments.h
 */
void
arg_request(FunctionCallInfo fcinfo, const Verb *verb, int first, AcquireRequest *request)
{
	int			lease_arg = verb->wait == WAITS ? first : first + 1;

	memset(request, 0, sizeof(AcquireRequest));
	request->wait_us = arg_wait_us(fcinfo, verb->wait, first);
	request->terms.kind = verb->kind;
	request->terms.scope = verb->scope;
	if (lease_arg >= PG_NARGS())
		return;
	request->terms.lease_ms = arg_lease_ms(fcinfo, lease_arg,
										   verb->unowned ? NULL : &request->terms.renewed);
	request->terms.guard = lr_commit_guard;
	request->terms.min_replicas = arg_min_replicas();
	request->terms.on_lost = InSecurityRestrictedOperation() ? ON_LOST_MARK :
		lr_on_lost;
}

/*
 * arg_take --- see arguments.h
 */
void
arg_take(FunctionCallInfo fcinfo, const Verb *verb, AcquireRequest *request)
{
	arg_request(fcinfo, verb, 1, request);
	if (verb->scope == SCOPE_SESSION)
		require_session_locks();
	track_warn_snapshot(verb->scope);
}

int64
arg_permits(FunctionCallInfo fcinfo, int argno, int32 least)
{
	int32		permits;

	arg_require(fcinfo, argno, "number of permits");
	permits = PG_GETARG_INT32(argno);
	if (permits < least)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of permits must be at least %d", least)));
	return permits;
}

int64
arg_latch_count(FunctionCallInfo fcinfo, int argno)
{
	arg_require(fcinfo, argno, "count");
	if (PG_GETARG_INT64(argno) < 1 || PG_GETARG_INT64(argno) > STORE_TOKEN_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must be between 1 and 2^53 - 1")));
	return PG_GETARG_INT64(argno);
}

/*
 * arg_keep_us --- see arguments.h
 */
int64
arg_keep_us(FunctionCallInfo fcinfo, int argno)
{
	int64		us;

	if (PG_ARGISNULL(argno))
		return 0;
	us = arg_interval_us(fcinfo, argno);
	if (us < 0 || us > LR_LEASE_MAX_MS * LR_US_PER_MS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("hold_at_least must be between 0 and 24 days")));
	require_max_lease("hold_at_least", lr_ms_up(us));
	return us;
}

/*
 * require_unrestricted --- see arguments.h
 *
 * ANALYZE, REINDEX, REFRESH and autovacuum run code of a table's owner in a session of
 * another role.  That code must neither release what the session holds nor leave a hold
 * behind in it.  PostgreSQL refuses DISCARD and LISTEN there for the same reason.
 */
void
require_unrestricted(void)
{
	if (InSecurityRestrictedOperation())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot take or release session-level Redis locks within security-restricted operation")));
}

/*
 * require_session_locks --- see arguments.h
 */
void
require_session_locks(void)
{
	require_unrestricted();
	if (!lr_session_locks)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("session-level Redis locks are not allowed"),
				 errdetail("\"%s\" is off.", "lockredis.session_locks"),
				 errhint("Use a transaction-level lock.")));
}

/* ----------
 * Several keys
 * ----------
 */

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const LrName *) a)->data, ((const LrName *) b)->data);
}

/*
 * distinct_names --- sort names, drop those that are there twice, and return how many are left
 */
static int
distinct_names(LrName *names, int n)
{
	qsort(names, n, sizeof(LrName), compare_names);
	n = qunique(names, n, sizeof(LrName), compare_names);
	if (n > MULTI_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there must not be more than %d different lock keys", MULTI_MAX)));
	return n;
}

/*
 * arg_keys --- see arguments.h
 *
 * The order of the bytes is the same in all databases, since names are in UTF-8.  An array
 * may have millions of elements, so no more than twice the most keys are kept at a time.
 */
const LrName *
arg_keys(FunctionCallInfo fcinfo, int *n)
{
	LrName	   *names;
	Datum	   *elements;
	bool	   *nulls;
	int			nelements;

	lr_require_preload();
	arg_require(fcinfo, 0, "lock keys");
	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT,
					  &elements, &nulls, &nelements);
	names = palloc(sizeof(LrName) * Min(nelements, 2 * MULTI_MAX));
	*n = 0;
	for (int i = 0; i < nelements; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("lock key must not be null")));
		if (*n == 2 * MULTI_MAX)
			*n = distinct_names(names, *n);
		lr_name_from_text(DatumGetTextPP(elements[i]), &names[(*n)++]);
	}
	*n = distinct_names(names, *n);
	if (*n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there must be at least one lock key")));
	return names;
}

/* ----------
 * Tokens, and ids of permits and of token locks
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
 * new_token --- a random token
 */
static text *
new_token(void)
{
	return id_to_text(DatumGetUUIDP(DirectFunctionCall1(gen_random_uuid, (Datum) 0))->data);
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

/*
 * arg_id --- see arguments.h; error messages do not show it
 */
void
arg_id(FunctionCallInfo fcinfo, int argno, KindId kind, uint8 *id)
{
	bool		by_token = lr_kind(kind)->ownerless;
	LockToken	token;
	char	   *digits;

	arg_require(fcinfo, argno, by_token ? "token" : "id of a permit");
	if (by_token)
	{
		make_token(PG_GETARG_TEXT_PP(argno), &token);
		memcpy(id, token.id, STORE_ID_LEN);
		return;
	}
	digits = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	if (strlen(digits) != ID_DIGITS ||
		strspn(digits, "0123456789abcdefABCDEF") != ID_DIGITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("id of a permit must have %d hexadecimal digits", ID_DIGITS)));
	memset(id, 0, STORE_ID_LEN);
	(void) hex_decode(digits, ID_DIGITS, (char *) id);
}

/* ----------
 * Names of conditions
 * ----------
 */

/*
 * arg_condition --- see arguments.h
 */
void
arg_condition(FunctionCallInfo fcinfo, int argno, uint8 *id)
{
	text	   *t;
	const char *name;
	int			len;

	arg_require(fcinfo, argno, "condition");
	t = PG_GETARG_TEXT_PP(argno);
	name = lr_to_utf8(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), &len);
	if (len > CONDITION_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("name of the condition is too long"),
				 errdetail("It has %d bytes in UTF-8, at most %d are allowed.",
						   len, CONDITION_MAX)));
	if (SHA1((const uint8 *) name, len, id) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not compute the SHA1 digest of the name of a condition")));
}
