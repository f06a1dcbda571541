/*-------------------------------------------------------------------------
 *
 * resolver.h
 *	  Has host names resolved, without waiting for it.
 *
 * Runs in the watchdog only.  It is asked with node_want_addresses(), by any
 * process, and answers with node_publish_addresses().
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/resolver.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_RESOLVER_H
#define LR_RESOLVER_H

#include "lockredis.h"

#include "store/store.h"

/*
 * Take an answer that has come, start what is wanted.  "connected": the
 * watchdog's own connection serves it, so what is known is good enough.
 */
extern void resolver_step(bool connected);
extern int	resolver_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* lockredis.url has changed: resolve it at once, whatever is under way. */
extern void resolver_restart(void);

/* At the end of the watchdog: leave no process behind. */
extern void resolver_stop(void);

#endif							/* LR_RESOLVER_H */
