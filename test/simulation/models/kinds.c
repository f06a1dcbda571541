/*-------------------------------------------------------------------------
 *
 * kinds.c
 *	  Stands for src/kinds/kinds.c: the kinds that the product has, and a shared one
 *	  and one that excludes nobody, which it has not, to see that the lock table,
 *	  sessions, deadlock search and watchdog know kinds by their descriptions only.
 *
 * The descriptions are those of the product, but for smaller groups, so that few
 * locks make several commands; of the other two that of the reentrant lock with other
 * scripts.  A session may have a key as any of these three.
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

#define GROUP_MAX	3

static LockKind kinds[KIND_ROOM];

#define KIND(id)	[id] = &kinds[id]

const LockKind *const lr_kinds[KIND_ROOM] =
{
	KIND(KIND_REENTRANT), KIND(KIND_READ), KIND(KIND_WRITE), KIND(KIND_FAIR),
	KIND(KIND_TOKEN), KIND(KIND_PERMIT), KIND(KIND_CONDITION), KIND(KIND_SEMAPHORE),
	KIND(KIND_LATCH), KIND(KIND_SHARED), KIND(KIND_FREE)
};

static void
describe(KindId id, const char *name, KindSet excludes, bool handed_over,
		 const LuaId *scripts)
{
	LockKind   *kind = &kinds[id];

	*kind = reentrant_kind;
	kind->name = name;
	kind->held_as = id;
	kind->excludes = excludes;
	kind->alike = (KindSet) UINT32_MAX;
	kind->handed_over = handed_over;
	for (int i = 0; i < STORE_CALLS; i++)
	{
		kind->calls[i].group = Min(kind->calls[i].group, GROUP_MAX);
		if (scripts != NULL)
			kind->calls[i].script = scripts[i];
	}
}

static void
copy(KindId id, const LockKind *kind)
{
	kinds[id] = *kind;
	for (int i = 0; i < STORE_CALLS; i++)
		kinds[id].calls[i].group = Min(kinds[id].calls[i].group, GROUP_MAX);
}

/* With the object: a process that begins has them. */
static void __attribute__((constructor))
describe_kinds(void)
{
	static const LuaId shared[STORE_CALLS] = {
		[STORE_CREATE] = LUA_SHARED_CREATE,
		[STORE_RELEASE] = LUA_SHARED_RELEASE,
		[STORE_RENEW] = LUA_SHARED_RENEW,
		[STORE_MINT] = LUA_SHARED_MINT,
		[STORE_FORCE] = LUA_REENTRANT_FORCE,
		[STORE_INSPECT] = LUA_REENTRANT_INSPECT,
	};
	static const LuaId excludes_nobody[STORE_CALLS] = {
		[STORE_CREATE] = LUA_FREE_CREATE,
		[STORE_RELEASE] = LUA_FREE_RELEASE,
		[STORE_RENEW] = LUA_FREE_RENEW,
		[STORE_MINT] = LUA_FREE_MINT,
		[STORE_FORCE] = LUA_REENTRANT_FORCE,
		[STORE_INSPECT] = LUA_REENTRANT_INSPECT,
	};

	describe(KIND_REENTRANT, "reentrant",
			 reentrant_kind.excludes | KIND_BIT(KIND_SHARED), true, NULL);
	copy(KIND_READ, &read_kind);
	copy(KIND_WRITE, &write_kind);
	copy(KIND_FAIR, &fair_kind);
	copy(KIND_TOKEN, &token_kind);
	copy(KIND_PERMIT, &permit_kind);
	copy(KIND_CONDITION, &condition_kind);
	copy(KIND_SEMAPHORE, &semaphore_kind);
	copy(KIND_LATCH, &latch_kind);
	describe(KIND_SHARED, "shared", KIND_BIT(KIND_REENTRANT), false, shared);
	describe(KIND_FREE, "free", 0, false, excludes_nobody);
	for (int i = 0; i < lengthof(kinds); i++)
		kinds[i].beside |= KIND_BIT(KIND_REENTRANT) | KIND_BIT(KIND_SHARED) |
			KIND_BIT(KIND_FREE);
}
