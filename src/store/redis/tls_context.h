/*-------------------------------------------------------------------------
 *
 * tls_context.h
 *	  What all TLS connections of this process have in common.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_context.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_TLS_CONTEXT_H
#define LR_REDIS_TLS_CONTEXT_H

#include "lockredis.h"

#include <openssl/ssl.h>

#include "store/redis/node_errors.h"

/*
 * The context of the settings and the files as they are now, for connections to
 * be made; "number" changes with it.  NULL: it has failed.
 */
extern SSL_CTX *tls_context_get(uint32 *number, RedisFailure *f);

/*
 * Could the files be used when their settings were changed last?  Looked at once a
 * change.
 */
extern bool tls_context_is_usable(RedisFailure *f);

#endif							/* LR_REDIS_TLS_CONTEXT_H */
