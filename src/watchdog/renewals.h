/*-------------------------------------------------------------------------
 *
 * renewals.h
 *	  The watchdog's own requests: renewals, and giving back what was left.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/renewals.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_RENEWALS_H
#define LR_RENEWALS_H

#include "lockredis.h"

#include "store/store.h"

extern void renewals_start(void);
extern void renewals_step(void);

/*
 * The settings of this store have changed, perhaps its place: forget what was
 * known.  The caller makes everything due.
 */
extern void renewals_reconnect(StoreId store, bool place_changed);

/* Is there a connection to this store?  Try now, if there is none. */
extern bool renewals_is_connected(StoreId store);
extern void renewals_retry_now(StoreId store);

/* The sockets of all stores; "epoch" changes if that of one does. */
extern int	renewals_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* STORE_BITs of the stores where something could be sent. */
extern uint32 renewals_idle(void);

/* Is there a connection to this node that serves us? */
extern bool renewals_serves(NodeId node);

#endif							/* LR_RENEWALS_H */
