/*-------------------------------------------------------------------------
 *
 * fallback.h
 *	  The decision which store new locks go to: Redis, or the table while Redis
 *	  is away.
 *
 * Runs in the watchdog, which tells here what the stores do, and sees to it that
 * what was decided (store/current.h) reaches those who wait and what is held.
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

/* Warns of settings that do not fit each other; at the start of the server. */
extern void fallback_check_settings(void);

extern void fallback_start(void);
extern void fallback_reload(void);

/* The store is at another place: what was known of it is of the old one. */
extern void fallback_new_place(StoreId store);

/* A store was asked something; it answered; it did not, or with a refusal. */
extern void fallback_asked(StoreId store, int64 now);
extern void fallback_answered(StoreId store, int64 now);
extern void fallback_failed(StoreId store);

/* How often a store has to be asked. */
extern int64 fallback_probe_interval(StoreId store);

/* Decide; when to be called next at the latest. */
extern void fallback_step(void);
extern int64 fallback_next(void);

#endif							/* LR_FALLBACK_H */
