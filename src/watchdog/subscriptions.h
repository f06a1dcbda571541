/*-------------------------------------------------------------------------
 *
 * subscriptions.h
 *	  The watchdog's ear: releases of awaited keys, told by the store.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/subscriptions.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SUBSCRIPTIONS_H
#define LR_SUBSCRIPTIONS_H

#include "lockredis.h"

#include "store/store.h"

extern void subscriptions_start(void);
extern void subscriptions_step(void);

/* The settings have changed: listen where they point now. */
extern void subscriptions_reconnect(void);

extern int	subscriptions_interests(StoreInterest *out, int64 *until,
									uint32 *epoch);

#endif							/* LR_SUBSCRIPTIONS_H */
