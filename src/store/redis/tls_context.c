/*-------------------------------------------------------------------------
 *
 * tls_context.c
 *	  What all TLS connections of this process have in common.
 *
 * Made for the first connection of a process, so never in the postmaster, and
 * anew for the next one when a setting or a file has been changed: those that
 * are there keep the one they were made with.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_context.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/err.h>

#include "settings.h"
#include "store/redis/tls_context.h"
#include "store/redis/tls_files.h"

static SSL_CTX *context = NULL;
static TlsStamp context_stamp;
static uint32 context_number = 0;

/*
 * no_passphrase --- OpenSSL would ask at the terminal
 */
static int
no_passphrase(char *buf, int size, int writing, void *userdata)
{
	return -1;
}

/*
 * context_configure --- whatever the files are; false without memory
 *
 * Sessions are kept by the connections (tls.c), since a session says to whom.
 */
static bool
context_configure(SSL_CTX *ctx)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					 SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
								   SSL_SESS_CACHE_NO_INTERNAL);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1;
}

static SSL_CTX *
context_make(RedisFailure *f)
{
	SSL_CTX    *ctx = SSL_CTX_new(TLS_client_method());

	if (ctx == NULL || !context_configure(ctx))
		redis_failure_set(f, STORE_DOWN, ERRCODE_OUT_OF_MEMORY, NULL,
						  "OpenSSL could not be set up.");
	else if (tls_files_load(ctx, f))
		return ctx;
	SSL_CTX_free(ctx);
	return NULL;
}

/*
 * tls_context_get --- see tls_context.h
 *
 * The stamp is taken first: what is changed while it is read is read again the
 * next time.  Nothing is kept of files that could not be used.
 */
SSL_CTX *
tls_context_get(uint32 *number, RedisFailure *f)
{
	TlsStamp	stamp;

	tls_stamp_take(&stamp);
	if (context == NULL || memcmp(&stamp, &context_stamp, sizeof(stamp)) != 0)
	{
		ERR_clear_error();
		SSL_CTX_free(context);
		context = context_make(f);
		context_stamp = stamp;
		context_number++;
		ERR_clear_error();
	}
	*number = context_number;
	return context;
}

/*
 * tls_context_is_usable --- see tls_context.h
 */
bool
tls_context_is_usable(RedisFailure *f)
{
	static uint32 judged = 0;
	static bool usable = true;
	static RedisFailure why;

	if (judged != lr_tls_epoch)
	{
		uint32		number;

		usable = tls_context_get(&number, &why) != NULL;
		judged = lr_tls_epoch;
	}
	*f = why;
	return usable;
}
