/*-------------------------------------------------------------------------
 *
 * confirmed.h
 *	  The watchdog's renewals that replicas have to confirm.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/watchdog/confirmed.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_CONFIRMED_H
#define LR_CONFIRMED_H

#include "lockredis.h"

#include "watchdog/due_batch.h"

/*
 * Take over what replicas have to confirm of a batch that is not sent yet.  What
 * there is no room for now is due again soon.
 */
extern void confirmed_take(DueBatch *b);

extern void confirmed_step(void);

/* As renewals_interests, at most so many; and renewals_reconnect. */
#define CONFIRMED_MAX_INTERESTS	(LR_REPLICAS_MAX * STORE_MAX_INTERESTS)

extern int	confirmed_interests(StoreInterest *out, int64 *until, uint32 *epoch);
extern void confirmed_reconnect(StoreId store);

#endif							/* LR_CONFIRMED_H */
