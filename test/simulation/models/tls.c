/*-------------------------------------------------------------------------
 *
 * tls.c
 *	  Stands for store/redis/tls.c: no URL here asks for TLS.
 *
 * What comes over it is what comes without it; how it is encrypted is OpenSSL's
 * business, and has tests of its own.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/tls.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "store/redis/conn.h"

#include "../kernel/sim.h"

#define NOT_ASKED() sim_fail("simulator", "%s is called", __func__)

bool
redis_tls_start(RedisTls *t, const RedisTarget *target, RedisSocket *s, RedisFailure *f)
{
	NOT_ASKED();
}

StepResult
redis_tls_shake_hands(RedisTls *t, RedisFailure *f)
{
	NOT_ASKED();
}

void
redis_tls_close(RedisTls *t)
{
}

void
redis_tls_free(RedisTls *t)
{
}

ssize_t
redis_tls_recv(RedisTls *t, char *buf, size_t len, bool briefly)
{
	NOT_ASKED();
}

ssize_t
redis_tls_send(RedisTls *t, const char *buf, size_t len)
{
	NOT_ASKED();
}

size_t
redis_tls_unread(const RedisTls *t)
{
	NOT_ASKED();
}

TimestampTz
redis_tls_expires(const RedisTls *t)
{
	return 0;
}

uint32
redis_tls_events(const RedisTls *t, bool writing)
{
	NOT_ASKED();
}

void
redis_tls_explain(const RedisTls *t, RedisFailure *f)
{
	NOT_ASKED();
}

bool
tls_context_is_usable(RedisFailure *f)
{
	NOT_ASKED();
}
