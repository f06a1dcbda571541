/*-------------------------------------------------------------------------
 *
 * resp.c
 *	  Redis's protocol: encodes requests, parses replies.
 *
 * Nothing in here raises or allocates in a memory context, so it may run at the end of a
 * transaction and of the process.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/resp.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/builtins.h"

#include "store/redis/resp.h"

#define OUT_INITIAL			4096

/* Room for a type byte, a 64-bit number and the end of the line. */
#define HEADER_MAX			24

/* ----------
 * Requests
 * ----------
 */

bool
resp_out_make(RespOut *out)
{
	memset(out, 0, sizeof(RespOut));
	out->data = malloc(OUT_INITIAL);
	out->size = out->data != NULL ? OUT_INITIAL : 0;
	return out->data != NULL;
}

void
resp_out_free(RespOut *out)
{
	free(out->data);
	out->data = NULL;
}

void
resp_out_wipe(RespOut *out)
{
	explicit_bzero(out->data, out->len);
	out->pos = out->len = 0;
	out->failed = false;
}

void
resp_out_reset(RespOut *out)
{
	out->put = out->sent = 0;
}

/*
 * resp_out_room --- make room for "size" more bytes, which do not fit; false without
 * memory
 */
static bool
resp_out_room(RespOut *out, size_t size)
{
	size_t		wanted;
	char	   *larger;

	if (out->pos > 0)
	{
		memmove(out->data, out->data + out->pos, out->len - out->pos);
		out->len -= out->pos;
		out->pos = 0;
		if (out->size - out->len >= size)
			return true;
	}

	wanted = out->size;
	while (wanted - out->len < size)
		wanted *= 2;
	larger = realloc(out->data, wanted);
	if (larger == NULL)
		return false;
	out->data = larger;
	out->size = wanted;
	return true;
}

/*
 * resp_begin --- where to put a piece of up to "size" bytes; NULL when out of memory
 */
static inline char *
resp_begin(RespOut *out, size_t size)
{
	if (out->failed ||
		(out->size - out->len < size && !resp_out_room(out, size)))
	{
		out->failed = true;
		return NULL;
	}
	return out->data + out->len;
}

/* The piece ends here. */
static void
resp_end(RespOut *out, const char *end)
{
	size_t		n = end - (out->data + out->len);

	out->len += n;
	out->put += n;
}

/*
 * resp_put_header --- put the header of an array or a string at p; returns its end
 *
 * Most numbers have one or two digits, for which a function for all costs as much as the rest.
 */
static char *
resp_put_header(char *p, char type, uint64 value)
{
	*p++ = type;
	if (value >= 100)
		p += pg_ulltoa_n(value, p);
	else
	{
		if (value >= 10)
			*p++ = '0' + value / 10;
		*p++ = '0' + value % 10;
	}
	*p++ = '\r';
	*p++ = '\n';
	return p;
}

void
resp_put_array(RespOut *out, int n)
{
	char	   *p = resp_begin(out, HEADER_MAX);

	if (p != NULL)
		resp_end(out, resp_put_header(p, '*', n));
}

void
resp_put_bulk(RespOut *out, const char *data, size_t len)
{
	char	   *p = resp_begin(out, len + HEADER_MAX + 2);

	if (p == NULL)
		return;
	p = resp_put_header(p, '$', len);
	memcpy(p, data, len);
	p += len;
	*p++ = '\r';
	*p++ = '\n';
	resp_end(out, p);
}

void
resp_put_text(RespOut *out, const char *text)
{
	resp_put_bulk(out, text, strlen(text));
}

void
resp_put_int(RespOut *out, int64 value)
{
	char		buf[MAXINT8LEN + 1];

	resp_put_bulk(out, buf, pg_lltoa(value, buf));
}

void
resp_put_words(RespOut *out, int n, va_list words)
{
	resp_put_array(out, n);
	while (n-- > 0)
		resp_put_text(out, va_arg(words, const char *));
}

void
resp_put_request(RespOut *out, int n,...)
{
	va_list		words;

	va_start(words, n);
	resp_put_words(out, n, words);
	va_end(words);
}

void
resp_put_raw(RespOut *out, const char *data, size_t len)
{
	char	   *p = resp_begin(out, len);

	if (p == NULL)
		return;
	memcpy(p, data, len);
	resp_end(out, p + len);
}

void
resp_out_undo(RespOut *out, uint64 put)
{
	Assert(put >= out->sent);
	out->len -= out->put - put;
	out->put = put;
	out->failed = false;
}

/* ----------
 * Replies
 * ----------
 */

static redisReplyObjectFunctions *hiredis_functions;

/*
 * resp_array --- an array, as hiredis makes it, if the reply does not get too large
 *
 * If NULL is returned, the reader gives up with the error "out of memory".
 */
#if HIREDIS_MAJOR >= 1
static void *
resp_array(const redisReadTask *task, size_t elements)
#else
static void *
resp_array(const redisReadTask *task, int elements)
#endif
{
	RespIn	   *in = task->privdata;
	int			depth = 1;

	for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent)
		depth++;
	if (depth == 1)
		in->nelements = 0;
	in->too_large = depth > RESP_DEPTH || elements > RESP_MAX_ELEMENTS - in->nelements;
	if (in->too_large)
		return NULL;
	in->nelements += (int) elements;
	return hiredis_functions->createArray(task, elements);
}

bool
resp_in_open(RespIn *in)
{
	static redisReplyObjectFunctions functions;

	in->understood = false;
	in->first_byte = 0;
	in->unfinished = 0;
	in->too_large = false;
	in->reader = redisReaderCreate();
	if (in->reader == NULL)
		return false;
	hiredis_functions = in->reader->fn;
	functions = *hiredis_functions;
	functions.createArray = resp_array;
	in->reader->fn = &functions;
	in->reader->privdata = in;
	return true;
}

/*
 * resp_in_close --- nothing more is read; the last reply stays
 */
void
resp_in_close(RespIn *in)
{
	if (in->reader != NULL)
		redisReaderFree(in->reader);
	in->reader = NULL;
}

void
resp_in_free(RespIn *in)
{
	freeReplyObject(in->reply);
	in->reply = NULL;
}

/*
 * resp_in_feed --- data has been received; false if it cannot be stored
 */
bool
resp_in_feed(RespIn *in, const char *data, size_t len)
{
	if (!in->understood && in->first_byte == 0)
		in->first_byte = (unsigned char) data[0];
	in->unfinished += len;
	return redisReaderFeed(in->reader, data, len) == REDIS_OK;
}

bool
resp_in_has_more(const RespIn *in)
{
	return in->unfinished > 0;
}

/*
 * resp_in_parse --- parse the next reply
 *
 * hiredis drops what it has parsed of a reply, so its length so far is counted here.  Types of
 * RESP3 are never requested; nobody takes one that is an element.
 */
RespResult
resp_in_parse(RespIn *in)
{
	void	   *reply;

	resp_in_free(in);
	if (redisReaderGetReply(in->reader, &reply) != REDIS_OK)
		return in->reader->err == REDIS_ERR_OOM && !in->too_large ? RESP_NO_MEMORY : RESP_GARBLED;
	if (reply == NULL)
		return in->unfinished > RESP_REPLY_MAX ? RESP_GARBLED : RESP_NONE;
	in->reply = reply;
	in->unfinished = in->reader->len - in->reader->pos;
	if (in->reply->type > REDIS_REPLY_ERROR)
		return RESP_GARBLED;
	in->understood = true;
	return RESP_REPLY;
}

/*
 * resp_value_time --- parse the reply to TIME (us)
 */
bool
resp_value_time(const redisReply *v, int64 *us)
{
	int64		parts[2];

	if (v->type != REDIS_REPLY_ARRAY || v->elements != 2)
		return false;
	for (int i = 0; i < 2; i++)
	{
		const redisReply *part = v->element[i];
		char	   *end;

		if (part->type != REDIS_REPLY_STRING || part->len == 0)
			return false;
		errno = 0;
		parts[i] = strtoi64(part->str, &end, 10);
		if (*end != '\0' || errno != 0)
			return false;
	}
	/* Limit it to the year 9999, so that sums cannot overflow. */
	if (parts[0] < 0 || parts[0] > INT64CONST(253402300799) ||
		parts[1] < 0 || parts[1] >= LR_US_PER_S)
		return false;
	*us = parts[0] * LR_US_PER_S + parts[1];
	return true;
}
