/*-------------------------------------------------------------------------
 *
 * scripts.c
 *	  The Lua scripts of src/kinds with their SHA1 digests.
 *
 * Redis identifies a script by its digest (EVALSHA).  The digests are computed with
 * PostgreSQL's own SHA1 when the first store handle of a process is opened, since that
 * may raise, and later calls must not.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/redis/scripts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/cryptohash.h"
#include "common/sha1.h"

#include "store/redis/resp.h"

static const struct
{
	const char *name;
	const char *text;
}			lua_scripts[LUA_COUNT] =
{
#include "store/redis/lua_texts.h"
};

static RedisScript scripts[LUA_COUNT];

static bool scripts_ready = false;

/*
 * scripts_make_digests --- compute the digest of every script; raises if SHA1 fails
 */
static void
scripts_make_digests(void)
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < LUA_COUNT; i++)
	{
		RedisScript *script = &scripts[i];
		uint8		digest[SHA1_DIGEST_LENGTH];
		pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA1);

		script->name = lua_scripts[i].name;
		script->text = lua_scripts[i].text;
		script->text_len = strlen(script->text);

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
		script->evalsha_len = snprintf(script->evalsha, sizeof(script->evalsha),
									   "$7\r\nEVALSHA\r\n$%d\r\n%s\r\n",
									   2 * SHA1_DIGEST_LENGTH, script->sha1);
	}
	scripts_ready = true;
}

const RedisScript *
redis_script(LuaId id)
{
	if (!scripts_ready)
		scripts_make_digests();
	return &scripts[id];
}
