/*-------------------------------------------------------------------------
 *
 * silence.h
 *	  Since when Redis has not answered, and what others may have there since.
 *
 * In mode fallback only; in the others Redis is never silent and nothing is to
 * be held off.  The watchdog writes what it sees, all others read it without a
 * lock.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/silence.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SILENCE_H
#define LR_SILENCE_H

#include "lockredis.h"

extern Size silence_shmem_size(void);
extern void silence_shmem_init(void);

/* ---- for all processes, lock-free ---- */

/*
 * For how long (us) a key that nobody here has must not be taken in a store that
 * excludes this server's sessions only: somebody may have taken it in Redis as
 * long as that answered, and its lease may still run.
 */
extern int64 silence_hold_off(uint32 hash);

/* The key is locked in Redis for that long (ms, or STORE_NO_TTL). */
extern void silence_saw_ttl(uint32 hash, int64 ttl_ms);

/* Was Redis silent at this moment, and is it since, so that it granted nothing? */
extern bool silence_lasts_since(int64 when);

/* Has it been silent for longer than a slow answer takes? */
extern bool silence_is_noticed(void);

/* ---- for the watchdog ---- */

/*
 * The settings of the server that are in effect: a watchdog that did not look
 * for longer than "stall" has not seen what happened meanwhile; leases last for
 * "lease" (both us).
 */
extern void silence_set_limits(int64 stall, int64 lease);

/* It looks; false: it had not for too long, so a silence begins anew. */
extern bool silence_look(int64 now);

/* What was seen so far does not count; a silence begins anew. */
extern void silence_begin_anew(int64 now);

/* Redis was asked something; it answered. */
extern void silence_asked(int64 now);
extern void silence_answered(int64 now);

/* When the first request went out that was not answered (0 = all were). */
extern int64 silence_since(void);

/* When it last answered, or what was seen began to count. */
extern int64 silence_last_answer(void);

#endif							/* LR_SILENCE_H */
