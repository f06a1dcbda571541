/*-------------------------------------------------------------------------
 *
 * names.c
 *	  Names in the stores: of keys, and of this instance of the server and its owners.
 *
 * Names in stores are UTF-8 whatever the database's encoding is, so that a key means the
 * same to every client.  The only setting used here is key_prefix.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/names.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <ctype.h>
#include <openssl/sha.h>

#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "common/string.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"

#include "names.h"
#include "settings.h"

const char *const lr_channels[TOPIC_COUNT] = {
	[TOPIC_LOCK] = NAME_LOCK_CHANNEL,
	[TOPIC_READ_WRITE] = NAME_READ_WRITE_CHANNEL,
	[TOPIC_PLACE] = NAME_LOCK_CHANNEL ":@",
	[TOPIC_PERMITS] = NAME_PERMITS_CHANNEL,
	[TOPIC_CONDITION] = NAME_CONDITION_CHANNEL ":@",
	[TOPIC_LATCH] = NAME_LATCH_CHANNEL
};

/*
 * lr_to_utf8 --- server encoding to UTF-8; raises an error for invalid bytes
 *
 * pg_server_to_any() only verifies the text of a SQL_ASCII database, and returns its
 * argument if there is nothing to convert.
 */
const char *
lr_to_utf8(const char *s, int len, int *out_len)
{
	char	   *converted = pg_server_to_any(s, len, PG_UTF8);

	*out_len = (converted == s) ? len : (int) strlen(converted);
	return converted;
}

static char *
put(char *out, const char *bytes, int len)
{
	memcpy(out, bytes, len);
	return out + len;
}

uint32
lr_name_hash(const char *name, int len)
{
	return hash_bytes((const unsigned char *) name, len);
}

/* ----------
 * Names that no key may have
 * ----------
 */

/*
 * is_bookkeeping --- is this a name under which clients keep data about locks?
 */
static bool
is_bookkeeping(const char *name)
{
	return strncmp(name, "redisson_", 9) == 0 || strncmp(name, "lockredis_", 10) == 0;
}

/*
 * is_of_another_key --- does the name end like one that is derived from a key with a
 * brace, or put into braces?
 *
 * ":rwlock_timeout:" is followed by a number: a reader can hold the lock several times.
 */
static bool
is_of_another_key(const char *name)
{
	int			end;

	if (strchr(name, '{') == NULL)
		return false;
	end = strlen(name);
	while (end > 0 && isdigit((unsigned char) name[end - 1]))
		end--;
	return pg_str_endswith(name, ":timeout") ||
		(name[end] != '\0' && pg_str_endswith(pnstrdup(name, end), ":rwlock_timeout:"));
}

/*
 * refuse_reserved --- raise an error for a key that is a name derived from another one
 *
 * Whoever took the lock of such a key could change what clients keep there.  The part
 * behind the prefix is checked, too: a client that has the same characters at the start
 * of its keys need not regard them as a prefix.
 */
static void
refuse_reserved(const LrName *name, const char *key)
{
	bool		bookkeeping = is_bookkeeping(name->data) || is_bookkeeping(key);

	if (!bookkeeping && !is_of_another_key(name->data))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("lock key \"%s\" is reserved", lr_name_to_show(name->data, name->len)),
			 bookkeeping ?
			 errdetail("Names that begin with \"redisson_\" or \"lockredis_\" are those of keys in which clients keep what belongs to locks.") :
			 errdetail("Names with a brace that end with \":timeout\" or \":rwlock_timeout:\" and a number are those of keys in which clients keep what belongs to locks.")));
}

/*
 * lr_name_from_text --- validate a caller's key and make the full name
 */
void
lr_name_from_text(const text *key, LrName *out)
{
	const char *part;
	char	   *end = out->data;
	int			len;

	end = put(end, lr_key_prefix, strlen(lr_key_prefix));
	part = lr_to_utf8(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), &len);
	if (len == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lock key must not be empty")));
	if (len > LR_KEY_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("lock key is too long"),
				 errdetail("The key has %d bytes in UTF-8, at most %d are allowed.",
						   len, LR_KEY_MAX)));
	end = put(end, part, len);
	*end = '\0';
	out->len = end - out->data;
	refuse_reserved(out, end - len);
	out->hash = lr_name_hash(out->data, out->len);
}

/*
 * control_len --- length of the control character at this place; 0 if there is none
 *
 * The two-byte ones of UTF-8 (U+0080 to U+009F) control terminals as well.
 */
static int
control_len(const char *s, int len)
{
	unsigned char c = s[0];
	unsigned char next = len > 1 ? s[1] : '\0';

	if (c < 0x20 || c == 0x7f)
		return 1;
	return c == 0xc2 && next >= 0x80 && next < 0xa0 ? 2 : 0;
}

/*
 * escape --- escape all control characters, and if "ascii" is set, all that is not ASCII
 */
static char *
escape(const char *data, int len, bool ascii)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < len;)
	{
		int			n = ascii && IS_HIGHBIT_SET(data[i]) ? 1 : control_len(data + i, len - i);

		if (n == 0)
			appendStringInfoChar(&buf, data[i++]);
		for (; n > 0; n--)
			appendStringInfo(&buf, "\\x%02x", (unsigned char) data[i++]);
	}
	return buf.data;
}

/*
 * from_utf8 --- UTF-8 to server encoding; NULL if there is no such conversion, or if it
 * lacks one of the characters
 */
static char *
from_utf8(const char *data, int len)
{
	Oid			proc = FindDefaultConversionProc(PG_UTF8, GetDatabaseEncoding());
	int			room = len * MAX_CONVERSION_GROWTH + 1;
	unsigned char *converted;

	if (!OidIsValid(proc))
		return NULL;
	converted = palloc0(room);
	if (pg_do_encoding_conversion_buf(proc, PG_UTF8, GetDatabaseEncoding(),
									  (unsigned char *) unconstify(char *, data),
									  len, converted, room, true) != len)
		return NULL;
	return (char *) converted;
}

/*
 * lr_name_to_show --- a name or owner from the store, in the database's
 * encoding
 *
 * What comes from the store may be any bytes, and a valid name may have
 * characters that this database's encoding lacks.  Both must not make a view
 * unreadable, so they are escaped instead of raised.
 */
char *
lr_name_to_show(const char *data, int len)
{
	char	   *copy = pnstrdup(data, len);
	char	   *converted;

	if (!pg_verify_mbstr(PG_UTF8, data, len, true))
		return escape(data, len, true);
	if (GetDatabaseEncoding() == PG_UTF8 ||
		GetDatabaseEncoding() == PG_SQL_ASCII || pg_is_ascii(copy))
		return copy;
	converted = from_utf8(data, len);
	return converted != NULL ? converted : escape(data, len, true);
}

/*
 * lr_name_to_show_plainly --- the same, without reading the catalogs
 *
 * It therefore escapes everything but ASCII if the server's encoding is not UTF-8.  The
 * same goes for the client's encoding: if that lacks a character, the error being
 * reported would be replaced by another one.
 */
char *
lr_name_to_show_plainly(const char *data, int len)
{
	char	   *copy = pnstrdup(data, len);

	if (!pg_is_ascii(copy) &&
		(GetDatabaseEncoding() != PG_UTF8 || pg_get_client_encoding() != PG_UTF8 ||
		 !pg_verify_mbstr(PG_UTF8, data, len, true)))
		return escape(data, len, true);
	return copy;
}

/*
 * lr_owner_to_show --- see names.h
 *
 * Control characters are escaped before the conversion: a process without a database, which
 * logs losses, has no encoding of its own.
 */
char *
lr_owner_to_show(const char *owner)
{
	char	   *escaped = escape(owner, strlen(owner), false);

	return lr_name_to_show(escaped, strlen(escaped));
}

char *
lr_owner_to_show_plainly(const char *owner)
{
	char	   *escaped = escape(owner, strlen(owner), false);

	return lr_name_to_show_plainly(escaped, strlen(escaped));
}

/*
 * lr_derived_name --- see names.h
 */
int
lr_derived_name(const char *pattern, const char *name, int len, const char *with, char *out)
{
	bool		tagged = memchr(name, '{', len) != NULL;
	char	   *end = out;

	for (char c; (c = *pattern) != '\0'; pattern++)
	{
		bool		braces = !tagged && c != '=';

		if (c > '@' || (c >= '0' && c <= ':'))
			*end++ = c;
		else if (c == '@' || c == '#')
			end = put(end, with, strlen(with));
		else
		{
			if (braces)
				*end++ = '{';
			else if (c == '+')
				*end++ = ':';
			end = put(end, name, len);
			if (braces)
				*end++ = '}';
		}
	}
	return end - out;
}

typedef struct Instance
{
	char		uuid[LR_UUID_LEN + 1];
	uint64		secret[2];		/* see lr_secret_id */
	pg_atomic_uint64 next_owner;
	pg_atomic_uint32 watchdog_proc; /* its process number + 1; 0 = none */
} Instance;

static Instance *instance = NULL;

/*
 * instance_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
instance_shmem_size(void)
{
	return MAXALIGN(sizeof(Instance));
}

static void
instance_random(void *out, Size size)
{
	if (!pg_strong_random(out, size))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
}

/*
 * Each new shared memory gets another one: owners of a server that crashed are foreign
 * to its successor, which therefore cannot mistake their locks for its own.
 */
static void
instance_make_uuid(char *out)
{
	struct
	{
		uint32		first;
		uint16		second[4];
		uint32		last;
	}			r;

	instance_random(&r, sizeof(r));
	snprintf(out, LR_UUID_LEN + 1, "%08x-%04x-%04x-%04x-%04x%08x", r.first, r.second[0],
			 (r.second[1] & 0x0fff) | 0x4000, (r.second[2] & 0x3fff) | 0x8000, r.second[3],
			 r.last);
}

/* Called with AddinShmemInitLock held. */
void
instance_shmem_init(void)
{
	bool		found;

	instance = ShmemInitStruct("lockredis instance", instance_shmem_size(), &found);
	if (found)
		return;
	instance_make_uuid(instance->uuid);
	instance_random(instance->secret, sizeof(instance->secret));
	pg_atomic_init_u64(&instance->next_owner, 1);
	pg_atomic_init_u32(&instance->watchdog_proc, 0);
}

void
lr_require_preload(void)
{
	if (instance == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("lockredis must be loaded via \"%s\"",
						"shared_preload_libraries"),
				 errhint("Add \"lockredis\" to \"%s\" and restart the server.",
						 "shared_preload_libraries")));
}

/* ----------
 * Names
 * ----------
 */

const char *
lr_instance_uuid(void)
{
	return instance->uuid;
}

int
lr_owner_text(uint64 owner, char *out)
{
	int			len = LR_UUID_LEN;

	memcpy(out, instance->uuid, len);
	out[len++] = ':';
	len += pg_ulltoa_n(owner, out + len);
	out[len] = '\0';
	return len;
}

uint64
lr_owner_number(const char *text)
{
	uint64		owner = 0;
	char		same[LR_OWNER_MAX];

	if (strlen(text) > LR_UUID_LEN)
		owner = strtoull(text + LR_UUID_LEN + 1, NULL, 10);
	lr_owner_text(owner, same);
	return strcmp(text, same) == 0 ? owner : 0;
}

/*
 * lr_secret_id --- the beginning of a SHA-256 of the secret and the number
 *
 * To anybody else the result is as good as a random id for each owner, but it need not
 * be stored: every process of this server can compute it from the number.  These functions
 * of OpenSSL allocate nothing, and cannot fail.
 */
void
lr_secret_id(uint64 owner, uint8 *out)
{
	uint8		digest[SHA256_DIGEST_LENGTH];
	SHA256_CTX	hash;

	(void) SHA256_Init(&hash);
	(void) SHA256_Update(&hash, instance->secret, sizeof(instance->secret));
	(void) SHA256_Update(&hash, &owner, sizeof(owner));
	(void) SHA256_Final(digest, &hash);
	memcpy(out, digest, LR_SECRET_ID_LEN);
}

uint64
lr_new_owner(void)
{
	return pg_atomic_fetch_add_u64(&instance->next_owner, 1);
}

/* ----------
 * The watchdog's presence
 * ----------
 */

void
lr_watchdog_enter(void)
{
	pg_atomic_write_u32(&instance->watchdog_proc, (uint32) LrMyProcNumber + 1);
}

void
lr_watchdog_leave(void)
{
	pg_atomic_write_u32(&instance->watchdog_proc, 0);
}

bool
lr_watchdog_running(void)
{
	return pg_atomic_read_u32(&instance->watchdog_proc) != 0;
}

void
lr_wake_watchdog(void)
{
	uint32		proc = pg_atomic_read_u32(&instance->watchdog_proc);

	if (proc != 0)
		SetLatch(&GetPGProcByNumber(proc - 1)->procLatch);
}
