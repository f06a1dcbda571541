/*-------------------------------------------------------------------------
 *
 * resp.h
 *	  Redis's protocol: requests put together, replies taken apart.
 *
 * No socket: bytes in memory only.  A request is put into one buffer, which is
 * grown with realloc() so that running out of memory raises nothing.  hiredis
 * is only the parser of replies, of all but the simplest.  A reply is copied into
 * buffers of fixed size: nothing has to be freed on any path.
 *
 * Whatever a server sends, a reply is bounded: in bytes, and so in what is allocated
 * and in how long it takes to read it; in the elements of an array; and in how deep
 * arrays are in each other, which not every hiredis bounds.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/resp.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_RESP_H
#define LR_REDIS_RESP_H

#include "lockredis.h"

#include <hiredis/hiredis.h>

#define RESP_MAX_ELEMENTS	256 /* of an array in a reply */
#define RESP_TEXT_SIZE		32768	/* of all strings of a reply; more is cut */
#define RESP_REPLY_MAX		(1024 * 1024)	/* bytes of a reply, and of what is behind it */

/* Arrays in each other: none; that of HELLO has modules and their arguments. */
#define RESP_DEPTH			1
#define RESP_HELLO_DEPTH	4
#define RESP_SIMPLE_MAX		64	/* bytes of a reply that is read without hiredis */

/* Bytes not yet taken by the kernel, beyond which requests wait. */
#define RESP_HIGH_WATER		65536

/* Requests: data[pos .. len) waits to be sent. */
typedef struct RespOut
{
	char	   *data;
	size_t		size;
	size_t		pos;
	size_t		len;
	bool		failed;			/* no memory; what was put is not complete */
	uint64		put;			/* bytes in all, since the last reset */
	uint64		sent;			/* to the kernel; once the node has ended the
								 * connection, those that it may have read */
} RespOut;

/* A reply is values[0]; the elements of an array are values[1], [2], ... */
typedef struct RedisValue
{
	int			type;			/* REDIS_REPLY_xxx */
	int			elements;		/* of an array */
	int64		integer;
	const char *str;			/* NUL-terminated too */
	int			len;
} RedisValue;

typedef struct RespIn
{
	redisReader *reader;
	bool		understood;		/* a reply has been parsed */
	unsigned char first_byte;	/* that was received before; 0 = none yet */
	int			simple_len;		/* of a reply that is in values, and that hiredis has
								 * not seen: */
	char		simple[RESP_SIMPLE_MAX];
	int			depth;			/* that is expected; of an array in an array only
								 * that it is there is kept */
	size_t		unfinished;		/* bytes since the last reply ended */
	RedisValue	left_out;
	RedisValue	values[1 + RESP_MAX_ELEMENTS];
	int			nvalues;
	char	   *large;			/* if not NULL, the strings are here, */
	int			large_size;
	char		text[RESP_TEXT_SIZE];	/* else here */
	int			text_used;
} RespIn;

typedef enum RespResult
{
	RESP_NONE,					/* no complete reply yet */
	RESP_REPLY,					/* in values */
	RESP_GARBLED				/* what came is no reply; no more can be read */
} RespResult;

/* False without memory. */
extern bool resp_out_make(RespOut *out);
extern void resp_out_free(RespOut *out);

/* Empty it; what was in it is wiped: there may be a password. */
extern void resp_out_wipe(RespOut *out);

/* Count bytes from 0 again: a new connection. */
extern void resp_out_reset(RespOut *out);
extern bool resp_out_room(RespOut *out, size_t size);

/*
 * Put a piece of a request.  Without memory it sets "failed" and does nothing,
 * as do those behind it until resp_out_undo() or resp_out_wipe().
 */
extern void resp_put_array(RespOut *out, int n);
extern void resp_put_bulk(RespOut *out, const char *data, size_t len);
extern void resp_put_text(RespOut *out, const char *text);
extern void resp_put_int(RespOut *out, int64 value);

/* Likewise, bytes that are pieces already. */
extern void resp_put_raw(RespOut *out, const char *data, size_t len);

/* Take back what was put since "put" was that; it cannot have been sent yet. */
extern void resp_out_undo(RespOut *out, uint64 put);

static inline bool
resp_out_is_empty(const RespOut *out)
{
	return out->pos == out->len;
}

/* Should further requests wait until the kernel has taken some? */
static inline bool
resp_out_is_high(const RespOut *out)
{
	return out->len - out->pos >= RESP_HIGH_WATER;
}

/*
 * Replies with strings of so many bytes are expected; RESP_REPLY_MAX is for what they
 * have besides.  Until resp_in_free().  False without memory.
 */
extern bool resp_in_enlarge(RespIn *in, int size);
extern void resp_in_free(RespIn *in);

/* False without memory. */
extern bool resp_in_open(RespIn *in);
extern void resp_in_close(RespIn *in);
extern bool resp_in_feed(RespIn *in, const char *data, size_t len);

/* Has anything been received that is not parsed yet? */
extern bool resp_in_has_more(const RespIn *in);
extern RespResult resp_in_parse(RespIn *in);

/* The reply of TIME, microseconds; false when it is none. */
extern bool resp_value_time(const RedisValue *value, int64 *us);

#endif							/* LR_REDIS_RESP_H */
