/*-------------------------------------------------------------------------
 *
 * kinds.c
 *	  The table of the kinds of locks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/kinds/kinds.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "kinds/kind.h"

const LockKind *const lr_kinds[KIND_COUNT + 1] =
{
	[KIND_REENTRANT] = &reentrant_kind,
	[KIND_READ] = &read_kind,
	[KIND_WRITE] = &write_kind,
	[KIND_FAIR] = &fair_kind,
	[KIND_TOKEN] = &token_kind,
	[KIND_PERMIT] = &permit_kind,
	[KIND_CONDITION] = &condition_kind,
	[KIND_SEMAPHORE] = &semaphore_kind,
	[KIND_LATCH] = &latch_kind,
};
