/*-------------------------------------------------------------------------
 *
 * kinds.h
 *	  The kinds of lock of the simulator: those of the product, and two more.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/kinds.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_KINDS_H
#define SIM_KINDS_H

#include "../../../src/kinds/kind.h"

/*
 * These two stand behind the NULL of lr_kinds: a function that looks for any kind, such as
 * redis_is_held, looks for those of the product.
 */

/* Several sessions have it together, but none beside the reentrant lock. */
#define KIND_SHARED		((KindId) (KIND_COUNT + 1))

/* It keeps nobody from the key. */
#define KIND_FREE		((KindId) (KIND_COUNT + 2))

#endif							/* SIM_KINDS_H */
