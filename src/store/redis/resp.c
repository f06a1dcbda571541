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
static char *
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
 */
static inline char *
resp_put_header(char *p, char type, uint64 value)
{
	*p++ = type;

	/* Nearly all of them are this short. */
	if (value < 10)
		*p++ = '0' + value;
	else if (value < 100)
	{
		*p++ = '0' + value / 10;
		*p++ = '0' + value % 10;
	}
	else
		p += pg_ulltoa_n(value, p);
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

	if (value >= 0 && value < 10)
	{
		memcpy(buf, "$1\r\n0\r\n", 7);
		buf[4] += value;
		resp_put_raw(out, buf, 7);
	}
	else
		resp_put_bulk(out, buf, pg_lltoa(value, buf));
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
 * Replies: the callbacks of hiredis' reader
 *
 * Returning NULL makes the reader give up with an error, which is how limits are
 * enforced.
 * ----------
 */

/*
 * resp_new_value --- the next value of the reply; the top level begins a new reply
 */
static RedisValue *
resp_new_value(const redisReadTask *task)
{
	RespIn	   *in = task->privdata;
	RedisValue *v;

	if (task->parent == NULL)
	{
		in->nvalues = 0;
		in->text_used = 0;
	}
	else if (task->parent->parent != NULL)
		return &in->left_out;
	if (in->nvalues >= lengthof(in->values))
		return NULL;
	v = &in->values[in->nvalues++];
	memset(v, 0, sizeof(RedisValue));
	v->type = task->type;
	v->str = "";
	return v;
}

/*
 * resp_string --- a string, an error or a status; cut off where the buffer ends
 */
static void *
resp_string(const redisReadTask *task, char *str, size_t len)
{
	RespIn	   *in = task->privdata;
	RedisValue *v = resp_new_value(task);
	char	   *text;
	size_t		room;

	if (v == NULL || v == &in->left_out)
		return v;
	text = in->large != NULL ? in->large : in->text;
	room = (in->large != NULL ? in->large_size : RESP_TEXT_SIZE) - in->text_used;
	if (room > 0)
	{
		len = Min(len, room - 1);
		memcpy(text + in->text_used, str, len);
		v->str = text + in->text_used;
		v->len = (int) len;
		text[in->text_used + len] = '\0';
		in->text_used += (int) len + 1;
	}
	return v;
}

#if HIREDIS_MAJOR >= 1
static void *
resp_array(const redisReadTask *task, size_t elements)
#else
static void *
resp_array(const redisReadTask *task, int elements)
#endif
{
	RespIn	   *in = task->privdata;
	RedisValue *v;
	int			depth = 1;

	for (const redisReadTask *outer = task->parent; outer != NULL; outer = outer->parent)
		depth++;
	if (depth > in->depth || elements > RESP_MAX_ELEMENTS)
		return NULL;
	v = resp_new_value(task);
	if (v != NULL)
		v->elements = (int) elements;
	return v;
}

static void *
resp_integer(const redisReadTask *task, long long value)
{
	RedisValue *v = resp_new_value(task);

	if (v != NULL)
		v->integer = value;
	return v;
}

/* The task still has the announced type, which may be that of a string. */
static void *
resp_nil(const redisReadTask *task)
{
	RedisValue *v = resp_new_value(task);

	if (v != NULL)
		v->type = REDIS_REPLY_NIL;
	return v;
}

static void
resp_free_value(void *value)
{
	/* Values are part of the RespIn. */
}

/* RESP3 types are never requested; they have no callback, so the reader refuses them. */
static redisReplyObjectFunctions resp_callbacks = {
	.createString = resp_string,
	.createArray = resp_array,
	.createInteger = resp_integer,
	.createNil = resp_nil,
	.freeObject = resp_free_value
};

/* ----------
 * Replies
 * ----------
 */

bool
resp_in_enlarge(RespIn *in, int size)
{
	in->large = malloc(size);
	in->large_size = size;
	return in->large != NULL;
}

void
resp_in_free(RespIn *in)
{
	free(in->large);
	in->large = NULL;
}

bool
resp_in_open(RespIn *in)
{
	in->understood = false;
	in->first_byte = 0;
	in->depth = RESP_DEPTH;
	in->unfinished = 0;
	in->reader = redisReaderCreateWithFunctions(&resp_callbacks);
	if (in->reader == NULL)
		return false;
	in->reader->privdata = in;
	return true;
}

void
resp_in_close(RespIn *in)
{
	if (in->reader != NULL)
		redisReaderFree(in->reader);
	in->reader = NULL;
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
 * resp_in_parse --- parse the next reply into values
 *
 * An array with fewer values than announced contains a RESP3 type. hiredis drops what it
 * has parsed of a reply, so its length so far is counted here.
 */
RespResult
resp_in_parse(RespIn *in)
{
	void	   *reply = NULL;

	if (redisReaderGetReply(in->reader, &reply) != REDIS_OK)
		return RESP_GARBLED;
	if (reply == NULL)
	{
		size_t		large = in->large != NULL ? in->large_size : 0;

		return in->unfinished > RESP_REPLY_MAX + large ? RESP_GARBLED : RESP_NONE;
	}
	in->unfinished = in->reader->len - in->reader->pos;
	if (reply != &in->values[0] ||
		(in->values[0].type == REDIS_REPLY_ARRAY &&
		 in->nvalues != 1 + in->values[0].elements))
		return RESP_GARBLED;
	in->understood = true;
	return RESP_REPLY;
}

/*
 * resp_value_time --- parse the reply to TIME (us)
 */
bool
resp_value_time(const RedisValue *v, int64 *us)
{
	int64		parts[2];

	if (v->type != REDIS_REPLY_ARRAY || v->elements != 2)
		return false;
	for (int i = 0; i < 2; i++)
	{
		char	   *end;

		if (v[1 + i].type != REDIS_REPLY_STRING || v[1 + i].len == 0)
			return false;
		errno = 0;
		parts[i] = strtoi64(v[1 + i].str, &end, 10);
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
