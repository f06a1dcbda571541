/*-------------------------------------------------------------------------
 *
 * fmgr.c
 *	  SQL functions are called as PostgreSQL calls them; and the types of what they
 *	  are passed and return.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/fmgr.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/parsenodes.h"
#include "sql.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/uuid.h"

/* ----------
 * Arguments and results
 * ----------
 */

const NullableDatum sql_null = {.isnull = true};

NullableDatum
sql_text(const char *s)
{
	return (NullableDatum) {
		.value = PointerGetDatum(cstring_to_text(s))
	};
}

NullableDatum
sql_int64(int64 n)
{
	return (NullableDatum) {
		.value = Int64GetDatum(n)
	};
}

NullableDatum
sql_interval(int64 us)
{
	Interval   *i = palloc0(sizeof(Interval));

	i->time = us;
	return (NullableDatum) {
		.value = IntervalPGetDatum(i)
	};
}

static Datum
call(PGFunction function, int nargs, const NullableDatum *args, Node *context,
	 Node *result, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, SQL_ARGS_MAX);
	FmgrInfo	flinfo;
	Datum		value;

	Assert(nargs <= SQL_ARGS_MAX);
	memset(&flinfo, 0, sizeof(flinfo));
	flinfo.fn_addr = function;
	flinfo.fn_oid = SQL_FUNCTION_OID;
	InitFunctionCallInfoData(*fcinfo, &flinfo, nargs, InvalidOid, context, result);
	for (int i = 0; i < nargs; i++)
		fcinfo->args[i] = args[i];
	value = function(fcinfo);
	if (isnull != NULL)
		*isnull = fcinfo->isnull;
	else if (fcinfo->isnull)
		sim_fail("SQL", "a function that is never null returned null");
	return value;
}

Datum
sql_call(PGFunction function, int nargs, const NullableDatum *args, bool *isnull)
{
	return call(function, nargs, args, NULL, NULL, isnull);
}

Datum
sql_call_procedure(PGFunction function, int nargs, const NullableDatum *args, bool atomic)
{
	CallContext *context = palloc0(sizeof(CallContext));

	context->type = T_CallContext;
	context->atomic = atomic;
	return call(function, nargs, args, (Node *) context, NULL, NULL);
}

struct varlena *
pg_detoast_datum(struct varlena *datum)
{
	return datum;
}

struct varlena *
pg_detoast_datum_packed(struct varlena *datum)
{
	return datum;
}

text *
cstring_to_text(const char *s)
{
	return cstring_to_text_with_len(s, strlen(s));
}

text *
cstring_to_text_with_len(const char *s, int len)
{
	text	   *t = palloc(len + VARHDRSZ);

	SET_VARSIZE(t, len + VARHDRSZ);
	memcpy(VARDATA(t), s, len);
	return t;
}

uint64
hex_encode(const char *src, size_t len, char *dst)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++)
	{
		dst[2 * i] = digits[(uint8) src[i] >> 4];
		dst[2 * i + 1] = digits[(uint8) src[i] & 0x0f];
	}
	return 2 * len;
}

uint64
hex_decode(const char *src, size_t len, char *dst)
{
	for (size_t i = 0; i < len / 2; i++)
	{
		char		digits[3] = {src[2 * i], src[2 * i + 1]};

		dst[i] = (char) strtol(digits, NULL, 16);
	}
	return len / 2;
}

char *
text_to_cstring(const text *t)
{
	return pnstrdup(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

void
text_to_cstring_buffer(const text *src, char *dst, size_t dst_len)
{
	size_t		len = Min(VARSIZE_ANY_EXHDR(src), dst_len - 1);

	memcpy(dst, VARDATA_ANY(src), len);
	dst[len] = '\0';
}

Size
toast_raw_datum_size(Datum value)
{
	return VARSIZE_ANY_EXHDR(DatumGetPointer(value)) + VARHDRSZ;
}

/* Of what has a fixed size. */
Datum
datumCopy(Datum value, bool typByVal, int typLen)
{
	return PointerGetDatum(memcpy(palloc(typLen), DatumGetPointer(value), typLen));
}

Datum
DirectFunctionCall1Coll(PGFunction func, Oid collation, Datum arg1)
{
	const NullableDatum arg = {.value = arg1};

	return call(func, 1, &arg, NULL, NULL, NULL);
}

Datum
uuid_in(PG_FUNCTION_ARGS)
{
	const char *text = PG_GETARG_CSTRING(0);
	pg_uuid_t  *uuid = palloc0(sizeof(pg_uuid_t));

	for (int n = 0; *text != '\0'; text++)
	{
		if (*text == '-')
			continue;
		uuid->data[n / 2] = uuid->data[n / 2] << 4 |
			(*text <= '9' ? *text - '0' : *text - 'a' + 10);
		n++;
	}
	return UUIDPGetDatum(uuid);
}

Datum
gen_random_uuid(PG_FUNCTION_ARGS)
{
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));

	(void) pg_strong_random(uuid, sizeof(pg_uuid_t));
	return UUIDPGetDatum(uuid);
}

Datum
int84(PG_FUNCTION_ARGS)
{
	if (PG_GETARG_INT64(0) != (int32) PG_GETARG_INT64(0))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("integer out of range")));
	return Int32GetDatum((int32) PG_GETARG_INT64(0));
}

/* Any that differ when what was digested does; see backend/misc.c. */
Datum
sha256_bytea(PG_FUNCTION_ARGS)
{
	bytea	   *of = PG_GETARG_BYTEA_PP(0);
	bytea	   *digest = palloc(VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

	SET_VARSIZE(digest, VARHDRSZ + PG_SHA256_DIGEST_LENGTH);
	(void) pg_cryptohash_init(ctx);
	(void) pg_cryptohash_update(ctx, (uint8 *) VARDATA_ANY(of), VARSIZE_ANY_EXHDR(of));
	(void) pg_cryptohash_final(ctx, (uint8 *) VARDATA(digest), PG_SHA256_DIGEST_LENGTH);
	pg_cryptohash_free(ctx);
	PG_RETURN_BYTEA_P(digest);
}

/* Slots are full here. */
void
slot_getsomeattrs_int(TupleTableSlot *slot, int attnum)
{
	sim_fail("simulator", "column %d of a slot is read that has none", attnum);
}

void
namestrcpy(Name name, const char *str)
{
	strlcpy(NameStr(*name), str, NAMEDATALEN);
}

/* ----------
 * Rows: an array of values, and nothing knows their types
 * ----------
 */

typedef struct Row
{
	HeapTupleHeaderData header;
	int			n;
	Datum		value[SQL_COLUMNS_MAX];
	bool		isnull[SQL_COLUMNS_MAX];
} Row;

static TupleDescData no_description = {.natts = SQL_COLUMNS_MAX};

TypeFuncClass
get_call_result_type(FunctionCallInfo fcinfo, Oid *resultTypeId, TupleDesc *resultTupleDesc)
{
	*resultTupleDesc = &no_description;
	return TYPEFUNC_COMPOSITE;
}

TupleDesc
BlessTupleDesc(TupleDesc tupdesc)
{
	return tupdesc;
}

HeapTuple
heap_form_tuple(TupleDesc tupleDescriptor, SIM_CONST_SINCE_17 Datum *values,
				SIM_CONST_SINCE_17 bool *isnull)
{
	HeapTuple	tuple = palloc0(sizeof(HeapTupleData));
	Row		   *row = palloc0(sizeof(Row));

	/* How many there are is known to nobody: the first is what is looked at. */
	row->n = 1;
	row->value[0] = values[0];
	row->isnull[0] = isnull[0];
	tuple->t_data = &row->header;
	return tuple;
}

Datum
HeapTupleHeaderGetDatum(HeapTupleHeader tuple)
{
	return PointerGetDatum(tuple);
}

Datum
sql_first_column(Datum row)
{
	return ((Row *) DatumGetPointer(row))->value[0];
}

ArrayType *
construct_array(Datum *elems, int nelems, Oid elmtype, int elmlen, bool elmbyval,
				char elmalign)
{
	return palloc0(sizeof(ArrayType));
}

/* Statements with several keys call what is behind their functions. */
void
deconstruct_array(SIM_CONST_SINCE_19 ArrayType *array, Oid elmtype, int elmlen, bool elmbyval,
				  char elmalign, Datum **elemsp, bool **nullsp, int *nelemsp)
{
	sim_fail("simulator", "a function is passed an array");
}

/* ----------
 * Functions that return rows
 * ----------
 */

static SqlPutRow put_row;
static void *put_arg;

void
sql_call_set(PGFunction function, SqlPutRow put, void *arg)
{
	ReturnSetInfo rsinfo;

	memset(&rsinfo, 0, sizeof(rsinfo));
	rsinfo.type = T_ReturnSetInfo;
	put_row = put;
	put_arg = arg;
	(void) call(function, 0, NULL, NULL, (Node *) &rsinfo, NULL);
}

void
InitMaterializedSRF(FunctionCallInfo fcinfo, uint32 flags)
{
}

void
tuplestore_putvalues(Tuplestorestate *state, TupleDesc tdesc, SIM_CONST_SINCE_17 Datum *values,
					 SIM_CONST_SINCE_17 bool *isnull)
{
	put_row(put_arg, values, isnull);
}
