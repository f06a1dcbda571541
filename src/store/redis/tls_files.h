/*-------------------------------------------------------------------------
 *
 * tls_files.h
 *	  The files that the settings of TLS name: read, checked, given to OpenSSL.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/tls_files.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_REDIS_TLS_FILES_H
#define LR_REDIS_TLS_FILES_H

#include "lockredis.h"

#include <openssl/ssl.h>

#include "store/redis/node_errors.h"

/*
 * Which files there are now, and which content they have: compare the bytes.
 * What a system trusts are directories, known by their names and times, and a file.
 */
typedef struct TlsFileStamp
{
	uint64		path;			/* hash of its name */
	uint64		device;
	uint64		inode;
	int64		size;
	int64		modified;		/* ns */
	int64		changed;
} TlsFileStamp;

typedef struct TlsStamp
{
	TlsFileStamp ca;
	TlsFileStamp system;		/* directories, if there is no CA file */
	TlsFileStamp cert;
	TlsFileStamp key;
} TlsStamp;

extern void tls_stamp_take(TlsStamp *stamp);

/* Put their content into the context; false: it has failed. */
extern bool tls_files_load(SSL_CTX *ctx, RedisFailure *f);

#endif							/* LR_REDIS_TLS_FILES_H */
