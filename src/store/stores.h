/*-------------------------------------------------------------------------
 *
 * stores.h
 *	  The stores of this server, and which one new locks go to.
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
 * The table of the stores.
 *
 * The mode of the server decides which of them it uses (settings.h).
 * ----------
 */

extern Size stores_shmem_size(void);
extern void stores_shmem_init(void);

extern const StoreRoutine *lr_store(StoreId id);

/* Does the store have this feature (STORE_HAS_FENCE and the like)? */
extern bool lr_store_can(StoreId id, int feature);

/* The store in use that has this feature; STORE_COUNT if there is none. */
extern StoreId lr_store_with(int feature);

/* Its usual round trip in microseconds, 0 = not known.  Takes no lock. */
extern int64 lr_usual_round_trip(StoreId id);

/* Did it serve the watchdog when it was last asked? */
extern bool lr_store_is_up(StoreId id);

/* ----------
 * Which store new locks go to.
 *
 * The modes redis and table have only one.  In fallback mode the watchdog decides
 * (watchdog/fallback.c) and writes it here; sessions read it without a lock before
 * each create.
 *
 * It concerns new locks only: a held lock stays in its store until the watchdog has
 * moved it.  The lock table ensures that no two sessions of this server hold a key at
 * once, whatever the stores answer.
 * ----------
 */

typedef struct CurrentStatus
{
	StoreId		store;
	TimestampTz since;
	char		why[256];		/* empty: no change since the start */
} CurrentStatus;

extern StoreId current_store(void);

/* For display: which store, since when and why. */
extern void current_get_status(CurrentStatus *out);

/* The watchdog: new locks go to this store from now on, and waiting sessions ask again. */
extern void current_change(StoreId to, const char *why);

#endif							/* LR_STORES_H */
