/*-------------------------------------------------------------------------
 *
 * keyname.c
 *	  From the key that a caller passes to the names used in a store.
 *
 * Stores speak UTF-8 whatever the database's encoding is, so that a key means
 * the same to every client.  Touches settings (key_prefix) only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/keyname.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "keyname.h"
#include "settings.h"

#define TOKEN_PREFIX	"redisson_lock_token"
#define TIMEOUTS_INFIX	":rwlock_timeout:"
#define TIMEOUT_SUFFIX	TIMEOUTS_INFIX "1"
#define PERMITS_SUFFIX	":timeout"
#define WRITERS_PREFIX	"lockredis_writers:"
#define QUEUE_PREFIX	"redisson_lock_queue"
#define PATIENCE_PREFIX	"redisson_lock_timeout"
#define PLACES_PREFIX	"lockredis_places:"
#define WAITING_PREFIX	"lockredis_condition_waiting:"
#define ALIVE_PREFIX	"lockredis_condition_alive:"
#define TOLD_PREFIX		"lockredis_condition_told:"
#define CONDITION_CHANNEL_PREFIX	"lockredis_condition__channel:"
#define TICKETS_PREFIX	"lockredis_tickets:"
#define LATCH_CHANNEL	"redisson_countdownlatch__channel__{"

static const char *const channel_prefixes[TOPIC_COUNT] = {
	[TOPIC_LOCK] = "redisson_lock__channel",
	[TOPIC_READ_WRITE] = "redisson_rwlock",
	[TOPIC_PLACE] = "redisson_lock__channel",	/* and the owner */
	[TOPIC_PERMITS] = "redisson_sc",
	[TOPIC_CONDITION] = CONDITION_CHANNEL_PREFIX,	/* likewise */
	[TOPIC_LATCH] = LATCH_CHANNEL
};

/*
 * lr_to_utf8 --- server encoding to UTF-8; raises for bytes that have no meaning
 *
 * pg_server_to_any() passes the text of a SQL_ASCII database through after
 * verifying it, and returns its argument where there is nothing to convert.
 */
const char *
lr_to_utf8(const char *s, int len, int *out_len)
{
	char	   *converted = pg_server_to_any(s, len, PG_UTF8);

	*out_len = (converted == s) ? len : (int) strlen(converted);
	return converted;
}

static void
append_part(LrName *name, const char *part, int len)
{
	memcpy(name->data + name->len, part, len);
	name->len += len;
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

static bool
begins_with(const char *name, int len, const char *prefix)
{
	return len >= (int) strlen(prefix) && memcmp(name, prefix, strlen(prefix)) == 0;
}

static bool
ends_with(const char *name, int len, const char *suffix)
{
	int			n = strlen(suffix);

	return len >= n && memcmp(name + len - n, suffix, n) == 0;
}

/*
 * is_bookkeeping --- is it a key where clients keep what belongs to locks?
 */
static bool
is_bookkeeping(const char *name, int len)
{
	return begins_with(name, len, "redisson_") || begins_with(name, len, "lockredis_");
}

/*
 * is_of_another_key --- does it end as what is derived from a key with a brace, or put
 * into braces?
 *
 * ":rwlock_timeout:" is followed by a number, of the hold of a reader that has several.
 */
static bool
is_of_another_key(const char *name, int len)
{
	int			end = len;

	if (memchr(name, '{', len) == NULL)
		return false;
	while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
		end--;
	return ends_with(name, len, PERMITS_SUFFIX) ||
		(end < len && ends_with(name, end, TIMEOUTS_INFIX));
}

/*
 * refuse_reserved --- a key must be no name that is derived from another one
 *
 * Whoever may take the lock of a key could change what others keep there.  What follows
 * the prefix is looked at, too: who has the same prefix need not see it as one.
 */
static void
refuse_reserved(const LrName *name, const char *key, int len)
{
	bool		bookkeeping = is_bookkeeping(name->data, name->len) ||
		is_bookkeeping(key, len);

	if (!bookkeeping && !is_of_another_key(name->data, name->len))
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
	int			len;

	out->len = 0;

	if (lr_key_prefix[0] != '\0')
	{
		part = lr_to_utf8(lr_key_prefix, strlen(lr_key_prefix), &len);
		if (len > LR_PREFIX_MAX)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" is longer than %d bytes in UTF-8",
							"lockredis.key_prefix", LR_PREFIX_MAX)));
		append_part(out, part, len);
	}

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
	append_part(out, part, len);

	refuse_reserved(out, part, len);

	out->data[out->len] = '\0';
	out->hash = lr_name_hash(out->data, out->len);
}

/*
 * escape_non_ascii --- last resort of lr_name_to_show
 */
static char *
escape_non_ascii(const char *data, int len)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < len; i++)
	{
		unsigned char c = data[i];

		if (c >= 0x20 && c < 0x7f)
			appendStringInfoChar(&buf, c);
		else
			appendStringInfo(&buf, "\\x%02x", c);
	}
	return buf.data;
}

/*
 * from_utf8 --- UTF-8 to server encoding; NULL if there is no such conversion,
 * or not of all characters
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

static bool
is_ascii_only(const char *data, int len)
{
	for (int i = 0; i < len; i++)
		if (IS_HIGHBIT_SET(data[i]))
			return false;
	return true;
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
	char	   *converted;

	if (!pg_verify_mbstr(PG_UTF8, data, len, true))
		return escape_non_ascii(data, len);
	if (GetDatabaseEncoding() == PG_UTF8 ||
		GetDatabaseEncoding() == PG_SQL_ASCII || is_ascii_only(data, len))
		return pnstrdup(data, len);
	converted = from_utf8(data, len);
	return converted != NULL ? converted : escape_non_ascii(data, len);
}

/*
 * lr_name_to_show_plainly --- the same where no catalog may be read
 *
 * So in an encoding other than UTF-8 all but ASCII is escaped.
 */
char *
lr_name_to_show_plainly(const char *data, int len)
{
	if (!is_ascii_only(data, len) &&
		(GetDatabaseEncoding() != PG_UTF8 || !pg_verify_mbstr(PG_UTF8, data, len, true)))
		return escape_non_ascii(data, len);
	return pnstrdup(data, len);
}

/*
 * derived_name --- Redisson's prefixName(): "prefix:{name}", or "prefix:name"
 * when the name has a brace of its own
 */
static int
derived_name(const char *prefix, const char *name, int len, char *out)
{
	bool		tagged = memchr(name, '{', len) != NULL;
	int			n = strlen(prefix);

	memcpy(out, prefix, n);
	out[n++] = ':';
	if (!tagged)
		out[n++] = '{';
	memcpy(out + n, name, len);
	n += len;
	if (!tagged)
		out[n++] = '}';
	return n;
}

/*
 * own_name --- of a key that nobody else knows, so "x" and "{x}" must not have the same
 * one, as they have with Redisson's rule
 */
static int
own_name(const char *prefix, const char *name, int len, char *out)
{
	bool		tagged = memchr(name, '{', len) != NULL;
	int			n = strlen(prefix);

	memcpy(out, prefix, n);
	out[n++] = tagged ? ':' : '{';
	memcpy(out + n, name, len);
	n += len;
	if (!tagged)
		out[n++] = '}';
	return n;
}

/*
 * append_word --- one more part of a derived name
 */
static int
append_word(const char *word, int n, char *out)
{
	int			len = strlen(word);

	out[n++] = ':';
	memcpy(out + n, word, len);
	return n + len;
}

/*
 * latch_channel_name --- Redisson's, which knows no name with a brace of its own
 */
static int
latch_channel_name(const char *name, int len, char *out)
{
	int			n = strlen(LATCH_CHANNEL);

	memcpy(out, LATCH_CHANNEL, n);
	memcpy(out + n, name, len);
	out[n + len] = '}';
	return n + len + 1;
}

int
lr_channel_name(LrTopic topic, const char *name, int len, char *out)
{
	if (topic == TOPIC_LATCH)
		return latch_channel_name(name, len, out);
	return topic == TOPIC_CONDITION ? own_name(channel_prefixes[topic], name, len, out) :
		derived_name(channel_prefixes[topic], name, len, out);
}

int
lr_turn_channel_name(LrTopic topic, const char *name, int len, const char *owner,
					 char *out)
{
	return append_word(owner, lr_channel_name(topic, name, len, out), out);
}

int
lr_token_name(const char *name, int len, char *out)
{
	return derived_name(TOKEN_PREFIX, name, len, out);
}

/*
 * lr_timeouts_prefix --- as in Redisson's suffixName(): "{name}", or "name" when the
 * name has a brace of its own
 */
int
lr_timeouts_prefix(const char *name, int len, char *out)
{
	bool		tagged = memchr(name, '{', len) != NULL;
	int			n = 0;

	if (!tagged)
		out[n++] = '{';
	memcpy(out + n, name, len);
	n += len;
	if (!tagged)
		out[n++] = '}';
	return n;
}

int
lr_timeout_name(const char *name, int len, const char *owner, char *out)
{
	int			n = lr_timeouts_prefix(name, len, out);
	int			owner_len = strlen(owner);

	out[n++] = ':';
	memcpy(out + n, owner, owner_len);
	n += owner_len;
	memcpy(out + n, TIMEOUT_SUFFIX, strlen(TIMEOUT_SUFFIX));
	return n + strlen(TIMEOUT_SUFFIX);
}

int
lr_permits_name(const char *name, int len, char *out)
{
	int			n = lr_timeouts_prefix(name, len, out);

	memcpy(out + n, PERMITS_SUFFIX, strlen(PERMITS_SUFFIX));
	return n + strlen(PERMITS_SUFFIX);
}

int
lr_writers_name(const char *name, int len, char *out)
{
	return own_name(WRITERS_PREFIX, name, len, out);
}

int
lr_queue_name(const char *name, int len, char *out)
{
	return derived_name(QUEUE_PREFIX, name, len, out);
}

int
lr_patience_name(const char *name, int len, char *out)
{
	return derived_name(PATIENCE_PREFIX, name, len, out);
}

int
lr_places_name(const char *name, int len, char *out)
{
	return own_name(PLACES_PREFIX, name, len, out);
}

int
lr_condition_waiting_name(const char *name, int len, const char *digest, char *out)
{
	return append_word(digest, own_name(WAITING_PREFIX, name, len, out), out);
}

int
lr_condition_alive_name(const char *name, int len, const char *digest, char *out)
{
	return append_word(digest, own_name(ALIVE_PREFIX, name, len, out), out);
}

int
lr_condition_told_name(const char *name, int len, const char *digest, char *out)
{
	return append_word(digest, own_name(TOLD_PREFIX, name, len, out), out);
}

int
lr_tickets_name(const char *name, int len, char *out)
{
	return own_name(TICKETS_PREFIX, name, len, out);
}
