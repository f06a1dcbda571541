/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What the targets of script/fuzz --guided share.
 *
 * A target takes any bytes and says what holds whatever they are.  Its text is the product's
 * own: what is static there is reached by including the file.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/fuzz/guided/fuzz.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FUZZ_H
#define LR_FUZZ_H

#include "lockredis.h"

#include "store/redis/resp.h"

/* ---- the targets: each is called with the bytes of one case ---- */

extern void fuzz_url(const uint8 *data, size_t size);
extern void fuzz_resp(const uint8 *data, size_t size);
extern void fuzz_ops(const uint8 *data, size_t size);
extern void fuzz_handshake(const uint8 *data, size_t size);
extern void fuzz_sentinel(const uint8 *data, size_t size);
extern void fuzz_cluster(const uint8 *data, size_t size);
extern void fuzz_errors(const uint8 *data, size_t size);
extern void fuzz_names(const uint8 *data, size_t size);

/* ---- for them ---- */

/* Ends the program, with the sentence, unless that holds. */
extern void fuzz_must(bool holds, const char *what);

/* Is it terminated within "size", and nothing in it but what can be shown? */
extern void fuzz_must_be_shown(const char *text, size_t size, const char *what);

/* Shared memory of nodes and masters, as after a start; that of the cluster, without a map. */
extern void fuzz_reset_shared(void);
extern void fuzz_reset_cluster(void);

/*
 * What is left of a case.  fuzz_byte() is 0 at its end.
 */
typedef struct FuzzInput
{
	const uint8 *data;
	size_t		size;
} FuzzInput;

extern uint8 fuzz_byte(FuzzInput *in);

/*
 * The next value, like those of hiredis's reader; valid until the next call.  NULL: there is no
 * more.
 *
 * Values end with 0xff, elements of an array with 0xfe; the first byte is its type as in
 * Redis's protocol ('_' for nil), without lengths, which no mutation would keep right.
 * Each text is in memory of its own, so that a read behind its end is seen.
 */
extern redisReply *fuzz_value(FuzzInput *in);

/* At the end of a case. */
extern void fuzz_free_value(void);

#endif							/* LR_FUZZ_H */
