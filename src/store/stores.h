/*-------------------------------------------------------------------------
 *
 * stores.h
 *	  The stores of this server.
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

#include "store/store.h"

/* ----------
 * The table of the stores.
 *
 * The mode of the server decides which of them it uses (settings.h).
 * ----------
 */

/* requests.c, if the mode uses the table */
extern Size requests_shmem_size(void);
extern void requests_shmem_init(void);

extern const StoreRoutine *lr_store(StoreId id);

/* Does the store have this feature (STORE_HAS_FENCE and the like)? */
extern bool lr_store_can(StoreId id, int feature);

/* The store in use that has this feature; STORE_COUNT if there is none. */
extern StoreId lr_store_with(int feature);

/* Its usual round trip in microseconds, 0 = not known.  Takes no lock. */
extern int64 lr_usual_round_trip(StoreId id);

/* Did it serve the watchdog when it was last asked? */
extern bool lr_store_is_up(StoreId id);

#endif							/* LR_STORES_H */
