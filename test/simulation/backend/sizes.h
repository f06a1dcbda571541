/*-------------------------------------------------------------------------
 *
 * sizes.h
 *	  Sizes of the product that are smaller in the simulation.
 *
 * Whoever looks into structures of the product that depend on them includes this
 * before their headers.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/sizes.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_SIZES_H
#define SIM_SIZES_H

#include "store/nodes.h"

#include "../kernel/config.h"

/* So few, or to look at all of them would be most of what is done. */
#undef SLOT_COUNT
#define SLOT_COUNT						SHARD_SLOTS
#undef NODE_MASTERS
#define NODE_MASTERS					SHARD_ROWS

#endif							/* SIM_SIZES_H */
