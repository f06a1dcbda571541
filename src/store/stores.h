/*-------------------------------------------------------------------------
 *
 * stores.h
 *	  The stores that there are, and which of them this server uses.
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

/* Is it used in this server's mode? */
extern bool lr_has_store(StoreId id);

/* The one that new locks go to as long as it answers. */
extern StoreId lr_first_store(void);

/* Is there another one that takes its place when it does not? */
extern bool lr_has_fallback(void);

#endif							/* LR_STORES_H */
