/*-------------------------------------------------------------------------
 *
 * strings.c
 *	  Commands of a Redis about strings, and the numbers that they may be.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/strings.c
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdio.h>

#include "command.h"

static void
run_get(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (!command_key(r, word[1], DB_STRING, &key))
		return;
	if (key == NULL)
		reply_nil(r->reply);
	else
		reply_bulk(r->reply, key->item[0].name);
}

static void
run_strlen(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (command_key(r, word[1], DB_STRING, &key))
		reply_int(r->reply, key == NULL ? 0 : (long long) key->item[0].name.len);
}

/* It takes the place of whatever is there by that name. */
static void
set_string(Redis *r, Word name, Word value, int64_t ends_ms)
{
	DbKey	   *key = db_find(r->db, name, redis_ms(r));

	if (key != NULL && key->type == DB_STRING)
		db_set_name(&key->item[0], value);
	else
	{
		if (key != NULL)
			db_delete(r->db, key);
		key = db_make(r->db, name, DB_STRING);
		(void) db_insert(key, 0, value);
	}
	key->ends_ms = ends_ms;
	r->changes++;
}

static void
run_set(Redis *r, const Word *word, int n)
{
	const DbKey *key = db_find(r->db, word[1], redis_ms(r));
	const Word *px = NULL;
	bool		only_new = false;
	bool		keeps = false;
	long long	ms = 0;

	for (int i = 3; i < n; i++)
	{
		if (word_option(word[i], "NX"))
			only_new = true;
		else if (word_option(word[i], "KEEPTTL") && px == NULL)
			keeps = true;
		else if (word_option(word[i], "PX") && !keeps && px == NULL && i + 1 < n)
			px = &word[++i];
		else
		{
			reply_error(r->reply, "ERR syntax error");
			return;
		}
	}
	if (px != NULL && !command_integer(r, *px, &ms))
		return;
	if (px != NULL && (ms <= 0 || ms > LLONG_MAX - redis_ms(r)))
	{
		reply_error(r->reply, "ERR invalid expire time in 'set' command");
		return;
	}
	if (only_new && key != NULL)
	{
		reply_nil(r->reply);
		return;
	}
	set_string(r, word[1], word[2],
			   px != NULL ? redis_ms(r) + ms : keeps && key != NULL ? key->ends_ms : 0);
	reply_status(r->reply, "OK");
}

static void
add(Redis *r, Word name, long long more)
{
	DbKey	   *key;
	long long	value = 0;
	char		text[24];
	Word		made = {text, 0};

	if (!command_key(r, name, DB_STRING, &key) ||
		(key != NULL && !command_integer(r, key->item[0].name, &value)))
		return;
	if (__builtin_add_overflow(value, more, &value))
	{
		reply_error(r->reply, "ERR increment or decrement would overflow");
		return;
	}
	made.len = snprintf(text, sizeof(text), "%lld", value);
	set_string(r, name, made, key == NULL ? 0 : key->ends_ms);
	reply_int(r->reply, value);
}

static void
run_incr(Redis *r, const Word *word, int n)
{
	add(r, word[1], 1);
}

static void
run_incrby(Redis *r, const Word *word, int n)
{
	long long	more;

	if (command_integer(r, word[2], &more))
		add(r, word[1], more);
}

static void
run_decrby(Redis *r, const Word *word, int n)
{
	long long	less;

	if (!command_integer(r, word[2], &less))
		return;
	if (less == LLONG_MIN)
		reply_error(r->reply, "ERR decrement would overflow");
	else
		add(r, word[1], -less);
}

const Command string_commands[] = {
	{"GET", 2, 0, run_get},
	{"STRLEN", 2, 0, run_strlen},
	{"SET", -3, CMD_WRITE | CMD_MEMORY, run_set},
	{"INCR", 2, CMD_WRITE | CMD_MEMORY, run_incr},
	{"INCRBY", 3, CMD_WRITE | CMD_MEMORY, run_incrby},
	{"DECRBY", 3, CMD_WRITE | CMD_MEMORY, run_decrby},
	{NULL, 0, 0, NULL}
};
