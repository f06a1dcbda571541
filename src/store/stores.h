/*-------------------------------------------------------------------------
 *
 * stores.h
 *	  The stores that there are.
 *
 * Which of them this server uses says its mode (settings.h).
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

#endif							/* LR_STORES_H */
