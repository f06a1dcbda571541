/*-------------------------------------------------------------------------
 *
 * tls_errors.h
 *	  Why a TLS connection has failed, in words.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_errors.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_TLS_ERRORS_H
#define LR_REDIS_TLS_ERRORS_H

#include "lockredis.h"

#include "store/redis/node_errors.h"

/* What is known when OpenSSL gives up. */
typedef struct TlsTrouble
{
	unsigned long error;		/* OpenSSL's; 0: the socket has ended */
	int			socket_error;	/* then: its errno; 0: as one ends it */
	long		verdict;		/* on the node's certificate: X509_V_xxx */
	unsigned char first_byte;	/* that was received; 0 = none */
	bool		shaken;			/* our side's handshake was complete */
	bool		cert_wanted;	/* the node has asked for ours */
	bool		cert_set;		/* and there is one */
} TlsTrouble;

extern void tls_failure_set(RedisFailure *f, const TlsTrouble *trouble);

#endif							/* LR_REDIS_TLS_ERRORS_H */
