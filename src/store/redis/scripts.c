/*-------------------------------------------------------------------------
 *
 * redis_scripts.c
 *	  The Lua scripts of src/kinds with their SHA1 digests.
 *
 * The digests name the scripts towards Redis (EVALSHA).  They are computed
 * with PostgreSQL's own SHA1 when the first store handle of a process is
 * opened, never where nothing may be raised.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/scripts.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha1.h"

#include "store/redis/redis_lua.h"
#include "store/redis/scripts.h"

static RedisScript scripts[SCRIPT_COUNT] =
{
	[SCRIPT_CREATE] = {"create", lua_create, sizeof(lua_create) - 1},
	[SCRIPT_SET] = {"set", lua_set, sizeof(lua_set) - 1},
	[SCRIPT_RELEASE] = {"release", lua_release, sizeof(lua_release) - 1},
	[SCRIPT_RENEW] = {"renew", lua_renew, sizeof(lua_renew) - 1},
	[SCRIPT_MINT] = {"mint", lua_mint, sizeof(lua_mint) - 1},
	[SCRIPT_FORCE] = {"force", lua_force, sizeof(lua_force) - 1},
	[SCRIPT_INSPECT] = {"inspect", lua_inspect, sizeof(lua_inspect) - 1},
};

static bool scripts_ready = false;

/*
 * make_digests --- fill in sha1 of every script; raises when SHA1 is refused
 */
static void
make_digests(void)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < SCRIPT_COUNT; i++)
	{
		RedisScript *script = &scripts[i];
		uint8		digest[SHA1_DIGEST_LENGTH];
		pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA1);

		if (ctx == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("out of memory")));

		if (pg_cryptohash_init(ctx) < 0 ||
			pg_cryptohash_update(ctx, (const uint8 *) script->text,
								 script->text_len) < 0 ||
			pg_cryptohash_final(ctx, digest, sizeof(digest)) < 0)
		{
			const char *reason = pg_cryptohash_error(ctx);

			pg_cryptohash_free(ctx);
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not compute SHA1 digest of script \"%s\": %s",
							script->name, reason)));
		}
		pg_cryptohash_free(ctx);

		for (int b = 0; b < SHA1_DIGEST_LENGTH; b++)
		{
			script->sha1[2 * b] = digits[digest[b] >> 4];
			script->sha1[2 * b + 1] = digits[digest[b] & 0x0f];
		}
		script->sha1[2 * SHA1_DIGEST_LENGTH] = '\0';
	}
	scripts_ready = true;
}

const RedisScript *
redis_script(RedisScriptId id)
{
	if (!scripts_ready)
		make_digests();
	return &scripts[id];
}
