/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  In which slot of a Redis Cluster a key is.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/slot.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef LR_SLOT_H
#define LR_SLOT_H

#include "lockredis.h"

#define SLOT_COUNT			16384

/* By Redis's rule: that of what is in the first pair of braces, if anything is. */
extern int	slot_of(const char *key, int len);

/*
 * Do keys that are derived from this name of a lock fall into another slot than the lock?
 * Then no script can have both.
 */
extern bool slot_is_split(const char *name, int len);

#endif							/* LR_SLOT_H */
