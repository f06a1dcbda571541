/*-------------------------------------------------------------------------
 *
 * node_errors.h
 *	  What a node's error replies mean, and why a connection has ended.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/node_errors.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_NODE_ERRORS_H
#define LR_REDIS_NODE_ERRORS_H

#include "lockredis.h"

#include "store/redis/resp.h"
#include "store/store.h"

/* The words of an error reply, for StoreError.detail. */
#define REDIS_WORDS_MAX		192

/* Why there is no connection. */
typedef struct RedisFailure
{
	StoreOutcome outcome;		/* of an operation that was not sent: DOWN,
								 * REFUSED or DENIED */
	StoreError	error;			/* its address is that of the target */
} RedisFailure;

/* Sets all but the address.  "hint" is static text or NULL. */
extern void redis_failure_set(RedisFailure *f, StoreOutcome outcome,
							  int sqlstate, const char *hint,
							  const char *format,...) pg_attribute_printf(5, 6);

/* It has ended the connection without an answer; "known": it has answered before. */
extern void redis_failure_no_answer(RedisFailure *f, bool tls, bool known);

/* It does not speak as Redis does; the first byte that it has sent, or 0. */
extern void redis_failure_not_redis(RedisFailure *f, unsigned char first);

/*
 * An error reply: what it means, and its words fit to be shown.  "user" is the
 * name that we are connected under, which the words must not tell.
 */
extern StoreOutcome redis_error_words(const RedisValue *value, const char *user,
									  char *out, size_t size);

/* Text of the node: only what can be shown, byte by byte. */
extern void redis_words_clean(char *words);

/* Do they begin with this code? */
extern bool redis_words_begin(const char *words, const char *code);

/* Is there somebody else than a single Redis, by these words?  A hint, or NULL. */
extern const char *redis_words_hint(const char *words);

/* Would everybody get this answer, whatever he asks for? */
extern bool redis_words_concern_all(const char *words);

/* What to do about a right that is missing, a port that expects TLS; hints. */
extern const char *const redis_rights_hint;
extern const char *const redis_tls_port_hint;

#endif							/* LR_REDIS_NODE_ERRORS_H */
