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
static inline char *
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
	char		buf[MAXINT8LEN + 1] = {'0' + value % 10};

	resp_put_bulk(out, buf, value >= 0 && value < 10 ? 1 : pg_lltoa(value, buf));
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

bool
resp_out_fits(RespOut *out, uint64 put)
{
	if (!out->failed)
		return true;
	Assert(put >= out->sent);
	out->len -= out->put - put;
	out->put = put;
	out->failed = false;
	return false;
}

/* ----------
 * Replies
 * ----------
 */

/*
 * resp_new --- a new part of the reply, with so many bytes behind it; in its array, if it has one
 *
 * Usually there is room in the RespIn, as an allocation costs more than the rest.  If NULL is
 * returned here or below, the reader gives up with the error "out of memory".
 */
static redisReply *
resp_new(const redisReadTask *task, int type, size_t more)
{
	RespIn	   *in = task->privdata;
	size_t		size = MAXALIGN(sizeof(redisReply) + more);
	redisReply *reply = (redisReply *) (in->room + in->used);

	if (size <= sizeof(in->room) - in->used)
		in->used += size;
	else
	{
		slist_node *block = malloc(MAXALIGN(sizeof(slist_node)) + size);

		if (block == NULL)
			return NULL;
		slist_push_head(&in->blocks, block);
		reply = (redisReply *) ((char *) block + MAXALIGN(sizeof(slist_node)));
	}
	memset(reply, 0, sizeof(redisReply));
	reply->type = type;
	in->nparts++;
	if (task->parent != NULL)
		((redisReply *) task->parent->obj)->element[task->idx] = reply;
	return reply;
}

static void *
resp_string(const redisReadTask *task, char *str, size_t len)
{
	redisReply *reply = resp_new(task, task->type, len + 1);

	if (reply != NULL)
	{
		reply->len = len;
		reply->str = memcpy(reply + 1, str, len);
		reply->str[len] = '\0';
	}
	return reply;
}

/*
 * resp_array --- an array, if the reply does not get too large
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
	redisReply *reply;
	int			depth = 1;

	for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent)
		depth++;
	in->too_large = depth > RESP_DEPTH || elements > RESP_MAX_ELEMENTS - in->nelements;
	if (in->too_large)
		return NULL;
	reply = resp_new(task, task->type, elements * sizeof(redisReply *));
	if (reply != NULL)
	{
		in->nelements += (int) elements;
		reply->elements = elements;
		reply->element = (redisReply **) (reply + 1);
	}
	return reply;
}

static void *
resp_integer(const redisReadTask *task, long long value)
{
	redisReply *reply = resp_new(task, REDIS_REPLY_INTEGER, 0);

	if (reply != NULL)
		reply->integer = value;
	return reply;
}

static void *
resp_nil(const redisReadTask *task)
{
	return resp_new(task, REDIS_REPLY_NIL, 0);
}

/* Without freeObject, as resp_in_free() frees all parts. */
static redisReplyObjectFunctions resp_functions = {
	.createString = resp_string,
	.createArray = resp_array,
	.createInteger = resp_integer,
	.createNil = resp_nil,
};

/*
 * resp_in_free --- free the last reply, or what there is of one
 */
void
resp_in_free(RespIn *in)
{
	while (!slist_is_empty(&in->blocks))
		free(slist_pop_head_node(&in->blocks));
	in->used = 0;
	in->nparts = in->nelements = 0;
	in->reply = NULL;
}

bool
resp_in_open(RespIn *in)
{
	in->understood = false;
	in->first_byte = 0;
	in->unfinished = 0;
	in->too_large = false;
	in->reader = redisReaderCreateWithFunctions(&resp_functions);
	if (in->reader != NULL)
		in->reader->privdata = in;
	return in->reader != NULL;
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
	if (in->reply == NULL)
		resp_in_free(in);
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

/*
 * resp_in_parse --- parse the next reply
 *
 * hiredis drops what it has parsed of a reply, so its length so far is counted here.  Types of
 * RESP3 are never requested: some have no function, so that a part is missing, and the others
 * nobody takes.
 */
RespResult
resp_in_parse(RespIn *in)
{
	void	   *reply;

	if (in->unfinished == 0)
		return RESP_NONE;
	if (in->reply != NULL)
		resp_in_free(in);
	if (redisReaderGetReply(in->reader, &reply) != REDIS_OK)
		return in->reader->err == REDIS_ERR_OOM && !in->too_large ? RESP_NO_MEMORY : RESP_GARBLED;
	if (reply == NULL)
		return in->unfinished > RESP_REPLY_MAX ? RESP_GARBLED : RESP_NONE;
	if (in->nparts != 1 + in->nelements || ((redisReply *) reply)->type > REDIS_REPLY_ERROR)
		return RESP_GARBLED;
	in->reply = reply;
	in->unfinished = in->reader->len - in->reader->pos;
	in->understood = true;
	return RESP_REPLY;
}

/*
 * resp_value_number --- a number, or its digits; false: Redis could not use it as a number
 */
bool
resp_value_number(const redisReply *v, int64 *number)
{
	char	   *end;

	if (v->type == REDIS_REPLY_INTEGER)
	{
		*number = v->integer;
		return true;
	}
	if (v->type != REDIS_REPLY_STRING)
		return false;
	errno = 0;
	*number = strtoi64(v->str, &end, 10);
	return errno == 0 && end != v->str && *end == '\0';
}

/*
 * resp_value_time --- parse the reply to TIME (us)
 *
 * It is limited to the year 9999, so that sums cannot overflow.
 */
bool
resp_value_time(const redisReply *v, int64 *us)
{
	int64		rest;

	if (v->type != REDIS_REPLY_ARRAY || v->elements != 2 ||
		!resp_value_number(v->element[0], us) || *us < 0 || *us > INT64CONST(253402300799) ||
		!resp_value_number(v->element[1], &rest) || rest < 0 || rest >= LR_US_PER_S)
		return false;
	*us = *us * LR_US_PER_S + rest;
	return true;
}
