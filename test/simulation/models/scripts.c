/*-------------------------------------------------------------------------
 *
 * scripts.c
 *	  Tells the nodes of Redis which scripts there are.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/models/scripts.c
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/lockredis.h"

#include "store/redis/resp.h"

typedef void (*AddScript) (const char *name, const char *sha1, const char *text);

extern void sim_tell_scripts(AddScript add);

void
sim_tell_scripts(AddScript add)
{
	for (LuaId i = 0; i < LUA_COUNT; i++)
	{
		const RedisScript *script = redis_script(i);

		add(script->name, script->sha1, script->text);
	}
}

/*
 * With the object, so that a process that begins has the digests already: they
 * are the same for all, and take longer than all else that it does first.
 */
static void __attribute__((constructor))
make_digests(void)
{
	(void) redis_script(0);
}
