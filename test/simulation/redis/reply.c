/*-------------------------------------------------------------------------
 *
 * reply.c
 *	  Answers of a Redis in its protocol (RESP2).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/reply.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reply.h"

/* Room for another so many bytes; where they go. */
static char *
room(Reply *r, size_t len)
{
	while (r->len + len > r->size)
	{
		r->size = r->size == 0 ? 1024 : 2 * r->size;
		r->data = realloc(r->data, r->size);
	}
	return r->data + r->len;
}

void
reply_bytes(Reply *r, const char *data, size_t len)
{
	memcpy(room(r, len), data, len);
	r->len += len;
}

void
reply_put(Reply *r, const char *format,...)
{
	va_list		args;
	int			len;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	va_start(args, format);
	vsnprintf(room(r, len + 1), len + 1, format, args);
	va_end(args);
	r->len += len;
}

void
reply_int(Reply *r, long long value)
{
	reply_put(r, ":%lld\r\n", value);
}

void
reply_array(Reply *r, int n)
{
	reply_put(r, "*%d\r\n", n);
}

void
reply_bulk(Reply *r, Word word)
{
	reply_put(r, "$%zu\r\n", word.len);
	reply_bytes(r, word.text, word.len);
	reply_bytes(r, "\r\n", 2);
}

void
reply_text(Reply *r, const char *text)
{
	reply_bulk(r, (Word) {text, strlen(text)});
}

void
reply_score(Reply *r, double score)
{
	char		text[40];

	snprintf(text, sizeof(text), "%.17g", score);
	reply_text(r, text);
}

void
reply_nil(Reply *r)
{
	reply_bytes(r, "$-1\r\n", 5);
}

void
reply_status(Reply *r, const char *words)
{
	reply_put(r, "+%s\r\n", words);
}

void
reply_error(Reply *r, const char *words)
{
	reply_put(r, "-%s\r\n", words);
}
