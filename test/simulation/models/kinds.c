/*-------------------------------------------------------------------------
 *
 * kinds.c
 *	  Stands for src/kinds/kinds.c: the reentrant lock, which the product has, a
 *	  shared one and one that excludes nobody, which it has not, to see that the lock table, sessions, deadlock
 *	  search and watchdog know kinds by their descriptions only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/kinds.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "kinds.h"

/* The calls of a kind are those of scripts, which are not run here. */
static const LockKind reentrant = {
	.name = "reentrant",
	.excludes = KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_SHARED),
	.handed_over = true,
	.counted = true,
};

static const LockKind shared = {
	.name = "shared",
	.excludes = KIND_BIT(KIND_REENTRANT),
	.handed_over = false,
	.counted = true,
};

static const LockKind excludes_nobody = {
	.name = "free",
	.excludes = 0,
	.handed_over = false,
	.counted = true,
};

const LockKind *
lr_kind(KindId id)
{
	return id == KIND_SHARED ? &shared : id == KIND_FREE ? &excludes_nobody : &reentrant;
}

bool
lr_kinds_conflict(KindId one, KindId other)
{
	bool		conflict = (lr_kind(one)->excludes & KIND_BIT(other)) != 0;

	Assert(conflict == ((lr_kind(other)->excludes & KIND_BIT(one)) != 0));
	return conflict;
}
