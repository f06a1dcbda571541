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
redis_tls_start(RedisTls *t, const RedisTarget *target, RedisFailure *f)
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
redis_wire_recv(RedisTls *t, char *buf, size_t len, bool briefly)
{
	return redis_socket_recv(t->socket, buf, len, briefly);
}

ssize_t
redis_wire_send(RedisTls *t, const char *buf, size_t len)
{
	return redis_socket_send(t->socket, buf, len);
}

size_t
redis_wire_unread(const RedisTls *t)
{
	return redis_socket_unread(t->socket);
}

TimestampTz
redis_tls_expires(const RedisTls *t)
{
	return 0;
}

uint32
redis_wire_events(const RedisTls *t, bool writing)
{
	return WL_SOCKET_READABLE | (writing ? WL_SOCKET_WRITEABLE : 0);
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
