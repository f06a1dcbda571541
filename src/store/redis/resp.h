/*-------------------------------------------------------------------------
 *
 * resp.h
 *	  Redis's protocol: requests, replies, operations, and the scripts.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/resp.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_RESP_H
#define LR_RESP_H

#include "lockredis.h"

#include <hiredis/hiredis.h>

#include "lib/ilist.h"

#include "kinds/lua_ids.h"
#include "store/store.h"

/* ----------
 * resp.c: Redis's protocol: encodes requests, parses replies.
 *
 * It works in memory only.  A request is appended to one buffer, which is grown by
 * realloc() so that running out of memory does not raise. hiredis parses the replies; the
 * last one is kept until the next is parsed.
 *
 * Replies are bounded whatever the server sends: in bytes, in the elements of all arrays,
 * which take more memory than bytes, and in how deep arrays are nested, which not every
 * version of hiredis limits.
 * ----------
 */

#define RESP_MAX_ELEMENTS	512 /* elements of all arrays of a reply */
#define RESP_REPLY_MAX		(1024 * 1024)	/* bytes of a reply, and of what
											 * follows it */

/*
 * Levels of nested arrays.  Only HELLO is answered by nested ones: it has modules, and those
 * have arguments.
 */
#define RESP_DEPTH			4

/* For replies of usual size: not those for many locks, or about the node itself. */
#define RESP_ROOM			768

/* Encode no more requests while so many bytes wait to be sent. */
#define RESP_HIGH_WATER		65536

/* Requests: data[pos .. len) has still to be sent. */
typedef struct RespOut
{
	char	   *data;
	size_t		size;
	size_t		pos;
	size_t		len;
	bool		failed;			/* out of memory; the last request is incomplete */
	uint64		put;			/* bytes encoded since the last reset */
	uint64		sent;			/* bytes given to the kernel; after the node
								 * has closed the connection, those that it may
								 * have read */
} RespOut;

typedef struct RespIn
{
	redisReader *reader;
	bool		understood;		/* a reply has been parsed */
	unsigned char first_byte;	/* first byte received before that; 0 = none yet */
	size_t		unfinished;		/* bytes since the end of the last reply, even if parsed */
	redisReply *reply;			/* the last one, until the next is parsed */

	/* Of that reply, or of the one that is being parsed. */
	int			nelements;		/* of all arrays */
	bool		too_large;		/* they are too many, or too deep */
	int			nparts;			/* itself, and the elements that were made */
	size_t		used;			/* bytes of room[] */
	slist_head	blocks;			/* what does not fit there */
	char		room[RESP_ROOM] pg_attribute_aligned(MAXIMUM_ALIGNOF);
} RespIn;

typedef enum RespResult
{
	RESP_NONE,					/* no complete reply yet */
	RESP_REPLY,					/* there is one */
	RESP_GARBLED,				/* not a valid reply; nothing more can be read */
	RESP_NO_MEMORY				/* out of memory; likewise */
} RespResult;

/* False when out of memory. */
extern bool resp_out_make(RespOut *out);
extern void resp_out_free(RespOut *out);

/* Empty it and overwrite the content, since that may be a password. */
extern void resp_out_wipe(RespOut *out);

/* Count bytes from 0 again, for a new connection. */
extern void resp_out_reset(RespOut *out);

/*
 * Append a piece of a request.  When out of memory it sets "failed" and does nothing; so
 * do all later calls, until resp_out_fits() or resp_out_wipe().
 */
extern void resp_put_array(RespOut *out, int n);
extern void resp_put_bulk(RespOut *out, const char *data, size_t len);
extern void resp_put_text(RespOut *out, const char *text);
extern void resp_put_int(RespOut *out, int64 value);

/* Append a request of n words. */
extern void resp_put_words(RespOut *out, int n, va_list words);
extern void resp_put_request(RespOut *out, int n,...);

/* Likewise, for bytes that are already encoded. */
extern void resp_put_raw(RespOut *out, const char *data, size_t len);

/*
 * Was there memory for all that was appended since out->put had this value?  If not, it is
 * removed; none of it may have been sent.
 */
extern bool resp_out_fits(RespOut *out, uint64 put);

/* Has everything been sent? */
static inline bool
resp_out_is_empty(const RespOut *out)
{
	return out->pos == out->len;
}

/* Should further requests wait until the kernel has accepted some bytes? */
static inline bool
resp_out_is_high(const RespOut *out)
{
	return out->len - out->pos >= RESP_HIGH_WATER;
}

/* False when out of memory. */
extern bool resp_in_open(RespIn *in);
extern void resp_in_close(RespIn *in);
extern void resp_in_free(RespIn *in);
extern bool resp_in_feed(RespIn *in, const char *data, size_t len);

extern RespResult resp_in_parse(RespIn *in);

/* A number, or its digits; false: Redis could not use it as a number. */
extern bool resp_value_number(const redisReply *value, int64 *number);

/* Parse the reply to TIME (us); false if it is not valid. */
extern bool resp_value_time(const redisReply *value, int64 *us);

/* ----------
 * ops.c: Encodes operations of the store interface, and reads their replies.
 *
 * The description of a lock's kind (kinds/kind.h) says which script an operation on a
 * lock calls, with which keys and arguments, and how to read the reply.  The code here
 * is the same for all kinds.  Only what concerns no lock (probe, clock, facts) is
 * described here.
 * ----------
 */

/* A set of scripts. */
typedef uint64 ScriptSet;

#define SCRIPT_BIT(id)		((ScriptSet) 1 << (id))

StaticAssertDecl(LUA_COUNT <= 64, "more scripts than a set can have");

/*
 * A Lua script of src/kinds.  The texts are compiled in (the Makefile generates
 * lua_texts.h); the rest is computed on first use.
 */
typedef struct RedisScript
{
	const char *name;			/* kind and verb */
	const char *text;
	int			text_len;
	char		sha1[41];		/* lower-case hex */
	char		evalsha[64];	/* first part of an EVALSHA request */
	int			evalsha_len;
} RedisScript;

/* The script with its digest. */
extern const RedisScript *redis_script(LuaId id);

/* Do operations like this one call a script?  If so, *script is that script. */
extern bool redis_op_script(const StoreOp *op, LuaId *script);

/*
 * How many operations like this one, with the same script, fit into one command.  If it
 * is more than 1, the reply is an array with one element for each of them.
 */
extern int	redis_op_group(const StoreOp *op);
extern bool redis_ops_are_alike(const StoreOp *one, const StoreOp *other);

/*
 * Append ops[0 .. n), which are alike, as one command; scripts in "in_full" are sent as
 * text.  "sharded": messages are published to the shard only.
 */
extern void redis_put_ops(RespOut *out, const StoreOp *ops, int n,
						  ScriptSet in_full, bool sharded);

/*
 * Read a reply that is no error, or the part of it for one operation.  Returns the outcome
 * (the results, and the store's clock if the reply has it, are in the operation);
 * STORE_PENDING: it is not a valid reply.  "repeated": the same request may have run
 * before.
 */
extern StoreOutcome redis_take_op(StoreOp *op, const redisReply *v, bool repeated);

/*
 * The same for creates that are taken together. *which is the one that could not be
 * taken, -1 if there is none.
 */
extern StoreOutcome redis_take_together(StoreOp *ops, int n, const redisReply *v, int *which);

/*
 * Append a WAIT: the node answers how many replicas have everything that this connection
 * has written, as soon as "replicas" of them have, or after "ms".
 */
extern void redis_put_wait(RespOut *out, int replicas, int64 ms);

/*
 * Tell the store that it need not remember this request any more; the reply is a number,
 * or an error.
 */
extern void redis_put_forget(RespOut *out, const StoreOp *op);

#endif							/* LR_RESP_H */
