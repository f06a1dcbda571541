/*-------------------------------------------------------------------------
 *
 * reply.h
 *	  Answers of a Redis in its protocol (RESP2).
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/reply.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REPLY_H
#define SIM_REPLY_H

#include "db.h"

typedef struct Reply
{
	char	   *data;
	size_t		len;
	size_t		size;
} Reply;

extern void reply_bytes(Reply *r, const char *data, size_t len);
extern void reply_put(Reply *r, const char *format,...) __attribute__((format(printf, 2, 3)));
extern void reply_int(Reply *r, long long value);
extern void reply_array(Reply *r, int n);
extern void reply_bulk(Reply *r, Word word);
extern void reply_text(Reply *r, const char *text);
extern void reply_score(Reply *r, double score);
extern void reply_nil(Reply *r);
extern void reply_status(Reply *r, const char *words);
extern void reply_error(Reply *r, const char *words);

#endif							/* SIM_REPLY_H */
