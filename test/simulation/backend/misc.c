/*-------------------------------------------------------------------------
 *
 * misc.c
 *	  The rest of what the product takes from PostgreSQL: texts, lists, clocks,
 *	  and what is never asked here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/misc.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#undef snprintf
#undef vsnprintf
#undef strerror

#define OPENSSL_SUPPRESS_DEPRECATED
#include <ctype.h>
#include <openssl/sha.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/cryptohash.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "nodes/pg_list.h"
#include "pgstat.h"
#include "storage/procarray.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "../../../src/compat.h"

/* ----------
 * Texts
 * ----------
 */

size_t
strlcpy(char *dst, const char *src, size_t size)
{
	size_t		n = strlen(src);

	if (size > 0)
	{
		size_t		m = Min(n, size - 1);

		memcpy(dst, src, m);
		dst[m] = '\0';
	}
	return n;
}

int
pg_vsnprintf(char *str, size_t count, const char *fmt, va_list args)
{
	return vsnprintf(str, count, fmt, args);
}

int
pg_snprintf(char *str, size_t count, const char *fmt,...)
{
	va_list		args;
	int			n;

	va_start(args, fmt);
	n = vsnprintf(str, count, fmt, args);
	va_end(args);
	return n;
}

int
pg_strncasecmp(const char *a, const char *b, size_t n)
{
	return strncasecmp(a, b, n);
}

int
pg_ulltoa_n(uint64 value, char *a)
{
	char		text[24];
	int			n = snprintf(text, sizeof(text), "%llu", (unsigned long long) value);

	memcpy(a, text, n);
	return n;
}

int
pg_lltoa(int64 value, char *a)
{
	return pg_snprintf(a, MAXINT8LEN + 1, INT64_FORMAT, value);
}

char *
pg_strerror(int error)
{
	return (strerror) (error);
}

char *
pnstrdup(const char *in, Size len)
{
	char	   *out = palloc(len + 1);

	memcpy(out, in, len);
	out[len] = '\0';
	return out;
}

char *
pstrdup(const char *in)
{
	return pnstrdup(in, strlen(in));
}

char *
psprintf(const char *fmt,...)
{
	char		text[1024];
	va_list		args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return pstrdup(text);
}

void
initStringInfo(StringInfo str)
{
	str->maxlen = 8192;
	str->data = palloc(str->maxlen);
	str->data[0] = '\0';
	str->len = 0;
}

void
appendStringInfo(StringInfo str, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	str->len += vsnprintf(str->data + str->len, str->maxlen - str->len, fmt, args);
	va_end(args);
	str->len = Min(str->len, str->maxlen - 1);
}

void
appendStringInfoChar(StringInfo str, char ch)
{
	appendStringInfo(str, "%c", ch);
}

/* All names here are ASCII. */
char *
pg_server_to_any(const char *s, int len, int encoding)
{
	return unconstify(char *, s);
}

bool
pg_verify_mbstr(int encoding, const char *mbstr, int len, bool noError)
{
	return true;
}

int
GetDatabaseEncoding(void)
{
	return PG_UTF8;
}

int
pg_get_client_encoding(void)
{
	return PG_UTF8;
}

Oid
FindDefaultConversionProc(int32 for_encoding, int32 to_encoding)
{
	return InvalidOid;
}

int
pg_do_encoding_conversion_buf(Oid proc, int src_encoding, int dest_encoding,
							  unsigned char *src, int srclen,
							  unsigned char *dest, int destlen, bool noError)
{
	return 0;
}

/* ----------
 * Lists
 * ----------
 */

static List *
make_list(NodeTag tag, int n)
{
	List	   *list = palloc(offsetof(List, initial_elements) + 64 * sizeof(ListCell));

	Assert(n <= 64);
	list->type = tag;
	list->length = n;
	list->max_length = 64;
	list->elements = list->initial_elements;
	return list;
}

List *
list_make1_impl(NodeTag t, ListCell datum1)
{
	List	   *list = make_list(t, 1);

	list->elements[0] = datum1;
	return list;
}

List *
lappend(List *list, void *datum)
{
	ListCell	cell = {.ptr_value = datum};

	if (list == NIL)
		return list_make1_impl(T_List, cell);
	Assert(list->length < list->max_length);
	list->elements[list->length++] = cell;
	return list;
}

void
list_free(List *list)
{
}

List *
lcons(void *datum, List *list)
{
	ListCell	cell = {.ptr_value = datum};

	if (list == NIL)
		return list_make1_impl(T_List, cell);
	Assert(list->length < list->max_length);
	memmove(&list->elements[1], &list->elements[0], sizeof(ListCell) * list->length);
	list->elements[0] = cell;
	list->length++;
	return list;
}

/* ----------
 * Clocks and numbers
 * ----------
 */

/* Each server has a wall clock of its own. */
#define WALL_CLOCKS_DIFFER	(INT64CONST(7331) * SIM_S)

TimestampTz
GetCurrentTimestamp(void)
{
	return sim_now() + INT64CONST(800000000) * SIM_S + sim_server() * WALL_CLOCKS_DIFFER;
}

TimestampTz
GetCurrentStatementStartTimestamp(void)
{
	return GetCurrentTimestamp();
}

const char *
timestamptz_to_str(TimestampTz t)
{
	static char text[32];

	snprintf(text, sizeof(text), "%.6f s",
			 (t - INT64CONST(800000000) * SIM_S - sim_server() * WALL_CLOCKS_DIFFER) /
			 (double) SIM_S);
	return text;
}

/* No two servers have the same, even where all that is drawn is 0. */
bool
pg_strong_random(void *buf, size_t len)
{
	for (size_t i = 0; i < len; i++)
		((unsigned char *) buf)[i] = (unsigned char) (sim_draw(256) ^ sim_server());
	return true;
}

/* ----------
 * Digests: scripts of Redis compute the same
 * ----------
 */

struct pg_cryptohash_ctx
{
	bool		is_sha1;
	union
	{
		SHA_CTX		sha1;
		SHA256_CTX	sha256;
	}			u;
};

pg_cryptohash_ctx *
pg_cryptohash_create(pg_cryptohash_type type)
{
	pg_cryptohash_ctx *ctx = sim_heap_alloc(sizeof(pg_cryptohash_ctx));

	ctx->is_sha1 = type == PG_SHA1;
	return ctx;
}

int
pg_cryptohash_init(pg_cryptohash_ctx *ctx)
{
	return (ctx->is_sha1 ? SHA1_Init(&ctx->u.sha1) : SHA256_Init(&ctx->u.sha256)) - 1;
}

int
pg_cryptohash_update(pg_cryptohash_ctx *ctx, const uint8 *data, size_t len)
{
	return (ctx->is_sha1 ? SHA1_Update(&ctx->u.sha1, data, len) :
			SHA256_Update(&ctx->u.sha256, data, len)) - 1;
}

int
pg_cryptohash_final(pg_cryptohash_ctx *ctx, uint8 *dest, size_t len)
{
	if (len < (ctx->is_sha1 ? SHA_DIGEST_LENGTH : SHA256_DIGEST_LENGTH))
		return -1;
	return (ctx->is_sha1 ? SHA1_Final(dest, &ctx->u.sha1) :
			SHA256_Final(dest, &ctx->u.sha256)) - 1;
}

void
pg_cryptohash_free(pg_cryptohash_ctx *ctx)
{
	sim_heap_free(ctx);
}

const char *
pg_cryptohash_error(pg_cryptohash_ctx *ctx)
{
	return "";
}

/* ----------
 * Who is who
 * ----------
 */

bool
has_privs_of_role(Oid member, Oid role)
{
	return true;
}

bool
RecoveryInProgress(void)
{
	return false;
}

PGPROC *
BackendPidGetProc(int pid)
{
	for (int i = 0; i < SIM_MAX_PROCS; i++)
		if (ProcGlobal->allProcs[i].pid == pid)
			return &ProcGlobal->allProcs[i];
	return NULL;
}

/* ----------
 * What is counted elsewhere
 * ----------
 */

static uint32 wait_event_info;
uint32	   *my_wait_event_info = &wait_event_info;

void
pgstat_report_activity(BackendState state, const char *cmd_str)
{
}

void
pgstat_report_appname(const char *appname)
{
}

void
pgstat_report_deadlock(void)
{
}

const char *
pgstat_get_backend_current_activity(int pid, bool checkUser)
{
	return "";
}

/* ----------
 * Never asked
 * ----------
 */

int
pgstat_fetch_stat_numbackends(void)
{
	return 0;
}

LocalPgBackendStatus *
LrLocalBackendStatus(int beid)
{
	sim_fail("simulator", "a copy of the backends' status is asked for");
}

#if PG_VERSION_NUM >= 170000
uint32
WaitEventExtensionNew(const char *wait_event_name)
{
	return PG_WAIT_EXTENSION;
}
#endif

#undef qsort
void
pg_qsort(void *base, size_t nel, size_t elsize, int (*cmp) (const void *, const void *))
{
	qsort(base, nel, elsize, cmp);
}
