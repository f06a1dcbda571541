/*-------------------------------------------------------------------------
 *
 * fallback.h
 *	  Which store new locks go to: Redis, or the table while Redis is away.
 *
 * In the modes redis and table there is but one.  In mode fallback the watchdog
 * decides, by whether Redis answers it, and tells all others through shared
 * memory; they read it without a lock before each create.
 *
 * What is decided here concerns new locks only.  A lock that is held stays in
 * the store where it is until the watchdog has moved it (locktable_due.c,
 * renewals.c), and that no two sessions of this server have a key at once is
 * the lock table's business, whatever the stores say.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/fallback.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_FALLBACK_H
#define LR_FALLBACK_H

#include "lockredis.h"

#include "datatype/timestamp.h"

typedef struct FallbackStatus
{
	StoreId		current;
	TimestampTz since;
	char		why[256];		/* empty: since the start */
} FallbackStatus;

extern Size fallback_shmem_size(void);
extern void fallback_shmem_init(void);

/* Warns of settings that do not fit each other; at the start of the server. */
extern void fallback_check_settings(void);

/* ---- for all processes, lock-free ---- */

/* The store that new locks go to. */
extern StoreId fallback_current(void);

/*
 * For how long (us) a key that nobody here has must not be taken in the table:
 * somebody may have taken it in Redis as long as that answered, and its lease
 * may still run.
 */
extern int64 fallback_hold_off(uint32 hash);

/* The key is locked in Redis for that long (ms, or STORE_NO_TTL). */
extern void fallback_saw_ttl(uint32 hash, int64 ttl_ms);

/* lr_now() when Redis last answered; LR_NEVER if nobody watches. */
extern int64 fallback_answered_at(void);

/* It has been silent for longer than a slow answer takes. */
extern bool fallback_is_silent(void);

/* Changes when those whose create failed should ask again. */
extern uint32 fallback_epoch(void);

extern void fallback_get_status(FallbackStatus *out);

/* ---- for the watchdog ---- */

extern void fallback_start(void);
extern void fallback_reload(void);

/* Redis is at another place: what was known of it is of the old one. */
extern void fallback_new_place(void);

/* Redis was asked something; it answered; it did not, or with a refusal. */
extern void fallback_asked(int64 now);
extern void fallback_answered(int64 now);
extern void fallback_failed(void);

/* How often Redis has to be asked. */
extern int64 fallback_probe_interval(void);

/* Decide; when to be called next at the latest. */
extern void fallback_step(void);
extern int64 fallback_next(void);

#endif							/* LR_FALLBACK_H */
