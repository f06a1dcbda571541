/*-------------------------------------------------------------------------
 *
 * hashes.c
 *	  Commands of a Redis about hashes.
 *
 * Fields stand in the order in which they were set, as they do in Redis while a hash
 * is small.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/hashes.c
 *
 *-------------------------------------------------------------------------
 */
#include "command.h"

static void
run_hset(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	int			added = 0;

	if (n % 2 != 0)
	{
		reply_error(r->reply, "ERR wrong number of arguments for 'hset' command");
		return;
	}
	if (!command_made(r, word[1], DB_HASH, &key))
		return;
	for (int i = 2; i < n; i += 2)
	{
		DbItem	   *item = db_item(key, word[i]);

		added += item == NULL;
		if (item == NULL)
			item = db_insert(key, key->n, word[i]);
		db_set_value(item, word[i + 1]);
	}
	r->changes++;
	reply_int(r->reply, added);
}

static void
run_hdel(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	int			found = 0;

	if (!command_key(r, word[1], DB_HASH, &key))
		return;
	for (int i = 2; key != NULL && i < n; i++)
	{
		DbItem	   *item = db_item(key, word[i]);

		if (item == NULL)
			continue;
		db_remove(key, item);
		found++;
	}
	if (key != NULL)
		command_emptied(r, key);
	r->changes += found;
	reply_int(r->reply, found);
}

/* False: there is an answer already. */
static bool
find_field(Redis *r, const Word *word, DbItem **item)
{
	DbKey	   *key;

	if (!command_key(r, word[1], DB_HASH, &key))
		return false;
	*item = key == NULL ? NULL : db_item(key, word[2]);
	return true;
}

static void
run_hget(Redis *r, const Word *word, int n)
{
	DbItem	   *item;

	if (!find_field(r, word, &item))
		return;
	if (item == NULL)
		reply_nil(r->reply);
	else
		reply_bulk(r->reply, item->value);
}

static void
run_hexists(Redis *r, const Word *word, int n)
{
	DbItem	   *item;

	if (find_field(r, word, &item))
		reply_int(r->reply, item != NULL);
}

static void
run_hstrlen(Redis *r, const Word *word, int n)
{
	DbItem	   *item;

	if (find_field(r, word, &item))
		reply_int(r->reply, item == NULL ? 0 : (long long) item->value.len);
}

static void
run_hlen(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (command_key(r, word[1], DB_HASH, &key))
		reply_int(r->reply, key == NULL ? 0 : key->n);
}

static void
run_hkeys(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (!command_key(r, word[1], DB_HASH, &key))
		return;
	reply_array(r->reply, key == NULL ? 0 : key->n);
	for (int i = 0; key != NULL && i < key->n; i++)
		reply_bulk(r->reply, key->item[i].name);
}

const Command hash_commands[] = {
	{"HSET", -4, CMD_WRITE | CMD_MEMORY, run_hset},
	{"HDEL", -3, CMD_WRITE, run_hdel},
	{"HGET", 3, 0, run_hget},
	{"HEXISTS", 3, 0, run_hexists},
	{"HSTRLEN", 3, 0, run_hstrlen},
	{"HLEN", 2, 0, run_hlen},
	{"HKEYS", 2, 0, run_hkeys},
	{NULL, 0, 0, NULL}
};
