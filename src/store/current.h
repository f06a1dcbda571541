/*-------------------------------------------------------------------------
 *
 * current.h
 *	  Which store new locks go to.
 *
 * In the modes redis and table there is but one.  In mode fallback the watchdog
 * decides (watchdog/fallback.c) and writes it here; all others read it without
 * a lock before each create.
 *
 * It concerns new locks only.  A lock that is held stays in the store where it
 * is until the watchdog has moved it, and that no two sessions of this server
 * have a key at once is the lock table's business, whatever the stores say.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/current.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CURRENT_H
#define LR_CURRENT_H

#include "lockredis.h"

#include "datatype/timestamp.h"

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

#endif							/* LR_CURRENT_H */
