/*-------------------------------------------------------------------------
 *
 * stores.h
 *	  The stores of this server, and which one is asked now.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/stores.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_STORES_H
#define LR_STORES_H

#include "lockredis.h"

#include "datatype/timestamp.h"

#include "store/store.h"

/* ----------
 * stores.c: The stores that there are.
 *
 * Which of them this server uses says its mode (settings.h).
 * ----------
 */

extern Size stores_shmem_size(void);
extern void stores_shmem_init(void);

extern const StoreRoutine *lr_store(StoreId id);

/* Can it do that (STORE_HAS_FENCE and the like)? */
extern bool lr_store_can(StoreId id, int feature);

/* The one that is used here and can do that; STORE_COUNT: there is none. */
extern StoreId lr_store_with(int feature);

/* What can be expected of it: microseconds, 0 = not known.  Takes no lock. */
extern int64 lr_usual_round_trip(StoreId id);

/* Did it serve the watchdog when that asked last? */
extern bool lr_store_is_up(StoreId id);

/* ----------
 * current.c: Which store new locks go to.
 *
 * In the modes redis and table there is but one.  In mode fallback the watchdog
 * decides (watchdog/fallback.c) and writes it here; all others read it without
 * a lock before each create.
 *
 * It concerns new locks only.  A lock that is held stays in the store where it
 * is until the watchdog has moved it, and that no two sessions of this server
 * have a key at once is the lock table's business, whatever the stores say.
 * ----------
 */

typedef struct CurrentStatus
{
	StoreId		store;
	TimestampTz since;
	char		why[256];		/* empty: since the start */
} CurrentStatus;

extern Size current_shmem_size(void);
extern void current_shmem_init(void);

extern StoreId current_store(void);

/* Changes when those whose create failed should ask again. */
extern uint32 current_epoch(void);

/* For showing: which one, since when and why. */
extern void current_get_status(CurrentStatus *out);

/*
 * The watchdog: new locks go to this store from now on.  Whoever waits is still
 * to be woken.
 */
extern void current_change(StoreId to, const char *why);

/* The watchdog: those whose create failed should ask again. */
extern void current_new_epoch(void);

#endif							/* LR_STORES_H */
