/*-------------------------------------------------------------------------
 *
 * resolver.h
 *	  Has host names resolved, without waiting for it.
 *
 * Runs in the watchdog only.  It is asked through store/addresses.h, by any
 * process, for any number of names, and answers there, one after the other.
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
 * Does a connection of the watchdog to this node serve it, so that what is known
 * of its addresses is good enough?
 */
typedef bool (*NodeServes) (NodeId node);

/* Take an answer that has come, start what is wanted. */
extern void resolver_step(NodeServes serves);
extern int	resolver_interests(StoreInterest *out, int64 *until, uint32 *epoch);

/* The settings of this node have changed: resolve its name, and no other. */
extern void resolver_restart(NodeId node);

/* At the end of the watchdog: leave no process behind. */
extern void resolver_stop(void);

#endif							/* LR_RESOLVER_H */
