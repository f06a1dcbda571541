/*-------------------------------------------------------------------------
 *
 * script.c
 *	  Lua scripts of a Redis: redis.call() and what else they find there.
 *
 * Errors and answers are turned to and fro as Redis 7.0 does it.  There is one
 * interpreter, and each script is compiled once: a script keeps nothing, so it does
 * not matter which node has run it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/script.c
 *
 *-------------------------------------------------------------------------
 */
#include <lauxlib.h>
#include <lualib.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"

#define MAX_WORDS		64

#define VERSION_NUM		0x00070000

static lua_State *lua;
static Redis *running;

/* What a command of the script answers. */
static Reply inner;

/* ----------
 * From Redis to Lua
 * ----------
 */

static const char *
line_of(const char *p, long long *number)
{
	const char *end = strchr(p, '\r');

	*number = strtoll(p + 1, NULL, 10);
	return end + 2;
}

static void
push_words(const char *field, const char *p, const char *end)
{
	lua_newtable(lua);
	lua_pushlstring(lua, p + 1, end - 2 - (p + 1));
	lua_setfield(lua, -2, field);
}

/* Behind it. */
static const char *
push_answer(const char *p)
{
	long long	number;
	const char *next = line_of(p, &number);

	switch (*p)
	{
		case ':':
			lua_pushnumber(lua, (lua_Number) number);
			break;
		case '+':
			push_words("ok", p, next);
			break;
		case '-':
			push_words("err", p, next);
			break;
		case '$':
			if (number < 0)
				lua_pushboolean(lua, 0);
			else
			{
				lua_pushlstring(lua, next, number);
				next += number + 2;
			}
			break;
		default:
			lua_newtable(lua);
			for (long long i = 1; i <= number; i++)
			{
				next = push_answer(next);
				lua_rawseti(lua, -2, (int) i);
			}
	}
	return next;
}

/* ----------
 * From Lua to Redis
 * ----------
 */

static const char *
field_of(int at, const char *name)
{
	const char *text;

	lua_getfield(lua, at, name);
	text = lua_isstring(lua, -1) ? lua_tostring(lua, -1) : NULL;
	lua_pop(lua, 1);
	return text;
}

static void put_value(Redis *r);

/* How many there are before the first that is nil. */
static int
count_elements(void)
{
	int			n = 0;
	bool		more = true;

	while (more)
	{
		lua_rawgeti(lua, -1, n + 1);
		more = !lua_isnil(lua, -1);
		lua_pop(lua, 1);
		n += more;
	}
	return n;
}

static void
put_elements(Redis *r)
{
	int			n = count_elements();

	reply_array(r->reply, n);
	for (int i = 1; i <= n; i++)
	{
		lua_rawgeti(lua, -1, i);
		put_value(r);
	}
}

/* What is on top of the stack, which is taken off. */
static void
put_value(Redis *r)
{
	Word		text;
	const char *words;

	luaL_checkstack(lua, 4, "answer");
	switch (lua_type(lua, -1))
	{
		case LUA_TSTRING:
			text.text = lua_tolstring(lua, -1, &text.len);
			reply_bulk(r->reply, text);
			break;
		case LUA_TBOOLEAN:
			if (lua_toboolean(lua, -1))
				reply_int(r->reply, 1);
			else
				reply_nil(r->reply);
			break;
		case LUA_TNUMBER:
			reply_int(r->reply, (long long) lua_tonumber(lua, -1));
			break;
		case LUA_TTABLE:
			if ((words = field_of(-1, "err")) != NULL)
				reply_error(r->reply, words);
			else if ((words = field_of(-1, "ok")) != NULL)
				reply_status(r->reply, words);
			else
				put_elements(r);
			break;
		default:
			reply_nil(r->reply);
	}
	lua_pop(lua, 1);
}

/* ----------
 * What a script finds in "redis"
 * ----------
 */

/* Numbers become text that has all of their digits.  False: one is neither. */
static bool
read_words(Word *word, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (lua_type(lua, i + 1) == LUA_TNUMBER)
		{
			char		text[64];

			lua_pushlstring(lua, text, snprintf(text, sizeof(text), "%.17g",
												(double) lua_tonumber(lua, i + 1)));
			lua_replace(lua, i + 1);
		}
		if (lua_type(lua, i + 1) != LUA_TSTRING)
			return false;
		word[i].text = lua_tolstring(lua, i + 1, &word[i].len);
	}
	return true;
}

static int
call(bool raise)
{
	Word		word[MAX_WORDS];
	int			n = lua_gettop(lua);

	inner.len = 0;
	if (n == 0)
		reply_error(&inner, "ERR Please specify at least one argument for this redis.call() call");
	else if (n > MAX_WORDS || !read_words(word, n))
		reply_error(&inner, "ERR Lua redis lib command arguments must be strings or integers");
	else
	{
		Reply	   *outer = running->reply;

		running->reply = &inner;
		redis_command(running, word, n);
		running->reply = outer;
	}
	reply_bytes(&inner, "", 1);
	(void) push_answer(inner.data);
	return raise && inner.data[0] == '-' ? lua_error(lua) : 1;
}

static int
redis_call(lua_State *l)
{
	return call(true);
}

static int
redis_pcall(lua_State *l)
{
	return call(false);
}

static int
error_reply(lua_State *l)
{
	lua_newtable(l);
	lua_pushvalue(l, 1);
	lua_setfield(l, -2, "err");
	return 1;
}

static int
replicate_commands(lua_State *l)
{
	lua_pushboolean(l, 1);
	return 1;
}

void
script_digest(Word text, char *sha1)
{
	unsigned char digest[SHA_DIGEST_LENGTH];

	SHA1((const unsigned char *) text.text, text.len, digest);
	for (int i = 0; i < SHA_DIGEST_LENGTH; i++)
		snprintf(sha1 + 2 * i, 3, "%02x", digest[i]);
}

static int
sha1hex(lua_State *l)
{
	Word		text;
	char		sha1[2 * SHA_DIGEST_LENGTH + 1];

	text.text = luaL_checklstring(l, 1, &text.len);
	script_digest(text, sha1);
	lua_pushstring(l, sha1);
	return 1;
}

/* As in Redis: where an error came from is told with it. */
static const char error_handler[] =
"local dbg = debug\n"
"debug = nil\n"
"return function(err)\n"
"  local i = dbg.getinfo(2, 'nSl')\n"
"  if i and i.what == 'C' then\n"
"    i = dbg.getinfo(3, 'nSl')\n"
"  end\n"
"  if type(err) ~= 'table' then\n"
"    err = {err = 'ERR ' .. tostring(err)}\n"
"  end\n"
"  if i then\n"
"    err.source = i.source\n"
"    err.line = i.currentline\n"
"  end\n"
"  return err\n"
"end\n";

static void
begin(void)
{
	static const luaL_Reg functions[] = {
		{"call", redis_call},
		{"pcall", redis_pcall},
		{"error_reply", error_reply},
		{"replicate_commands", replicate_commands},
		{"sha1hex", sha1hex},
		{NULL, NULL}
	};

	lua = luaL_newstate();
	luaL_openlibs(lua);
	luaL_register(lua, "redis", functions);
	lua_pushnumber(lua, VERSION_NUM);
	lua_setfield(lua, -2, "REDIS_VERSION_NUM");
	lua_pop(lua, 1);
	if (luaL_loadstring(lua, error_handler) != 0 || lua_pcall(lua, 0, 1, 0) != 0)
		abort();
	lua_setfield(lua, LUA_REGISTRYINDEX, "error handler");
}

/* ----------
 * Running one
 * ----------
 */

/* Its function, on the stack; false: an answer says what is wrong with it. */
static bool
push_script(Redis *r, const char *sha1, Word text)
{
	lua_getfield(lua, LUA_REGISTRYINDEX, sha1);
	if (lua_isfunction(lua, -1))
		return true;
	lua_pop(lua, 1);
	if (luaL_loadbuffer(lua, text.text, text.len, "@user_script") != 0)
	{
		reply_put(r->reply, "-ERR Error compiling script (new function): %s\r\n",
				  lua_tostring(lua, -1));
		lua_pop(lua, 1);
		return false;
	}
	lua_pushvalue(lua, -1);
	lua_setfield(lua, LUA_REGISTRYINDEX, sha1);
	return true;
}

static void
set_words(const char *name, const Word *word, int n)
{
	lua_createtable(lua, n, 0);
	for (int i = 0; i < n; i++)
	{
		lua_pushlstring(lua, word[i].text, word[i].len);
		lua_rawseti(lua, -2, i + 1);
	}
	lua_setglobal(lua, name);
}

static void
put_failure(Redis *r, const char *sha1)
{
	const char *words = field_of(-1, "err");
	const char *source = field_of(-1, "source");
	const char *line = field_of(-1, "line");

	if (source != NULL && line != NULL)
		reply_put(r->reply, "-%s script: %s, on %s:%s.\r\n", words, sha1, source, line);
	else
		reply_error(r->reply, words);
	lua_pop(lua, 1);
}

void
script_run(Redis *r, const char *sha1, Word text, const Word *keys, int nkeys,
		   const Word *args, int nargs)
{
	if (lua == NULL)
		begin();
	lua_getfield(lua, LUA_REGISTRYINDEX, "error handler");
	if (push_script(r, sha1, text))
	{
		set_words("KEYS", keys, nkeys);
		set_words("ARGV", args, nargs);
		r->is_script = true;
		running = r;
		if (lua_pcall(lua, 0, 1, -2) != 0)
			put_failure(r, sha1);
		else
			put_value(r);
		running = NULL;
		r->is_script = r->wrote = false;
	}
	lua_pop(lua, 1);
}

/* Its stack is in the middle of something, so it is not closed in an orderly way. */
void
script_reset(void)
{
	if (running != NULL)
		lua = NULL;
	running = NULL;
}
