/*-------------------------------------------------------------------------
 *
 * lists.c
 *	  Commands of a Redis about lists.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/lists.c
 *
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdlib.h>

#include "command.h"

static void
run_rpush(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (!command_made(r, word[1], DB_LIST, &key))
		return;
	for (int i = 2; i < n; i++)
		(void) db_insert(key, key->n, word[i]);
	r->changes += n - 2;
	reply_int(r->reply, key->n);
}

static void
run_lpop(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (!command_key(r, word[1], DB_LIST, &key))
		return;
	if (key == NULL)
	{
		reply_nil(r->reply);
		return;
	}
	reply_bulk(r->reply, key->item[0].name);
	db_remove(key, &key->item[0]);
	command_emptied(r, key);
	r->changes++;
}

static void
run_lindex(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	long long	i;

	/* Redis looks at the key first. */
	if (!command_key(r, word[1], DB_LIST, &key))
		return;
	if (key == NULL)
	{
		reply_nil(r->reply);
		return;
	}
	if (!command_integer(r, word[2], &i))
		return;
	if (i < 0)
		i += key->n;
	if (i < 0 || i >= key->n)
		reply_nil(r->reply);
	else
		reply_bulk(r->reply, key->item[i].name);
}

static void
run_lpos(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	const DbItem *item;

	if (!command_key(r, word[1], DB_LIST, &key))
		return;
	item = key == NULL ? NULL : db_item(key, word[2]);
	if (item == NULL)
		reply_nil(r->reply);
	else
		reply_int(r->reply, item - key->item);
}

static void
run_lrange(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	long long	first;
	long long	last;
	int			found;

	if (!command_integer(r, word[2], &first) || !command_integer(r, word[3], &last) ||
		!command_key(r, word[1], DB_LIST, &key))
		return;
	found = key == NULL ? 0 : command_range(key->n, &first, &last);
	reply_array(r->reply, found);
	for (int i = 0; i < found; i++)
		reply_bulk(r->reply, key->item[first + i].name);
}

/* So many, from the end if that is negative; all, if it is 0. */
static void
run_lrem(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	long long	most;
	int			found = 0;
	int			step;

	if (!command_integer(r, word[2], &most) || !command_key(r, word[1], DB_LIST, &key))
		return;
	step = most < 0 ? -1 : 1;
	most = most == LLONG_MIN ? LLONG_MAX : llabs(most);
	for (int i = key == NULL || step > 0 ? 0 : key->n - 1;
		 key != NULL && i >= 0 && i < key->n && (most == 0 || found < most);)
	{
		if (!word_equals(key->item[i].name, word[3]))
		{
			i += step;
			continue;
		}
		db_remove(key, &key->item[i]);
		found++;
		if (step < 0)
			i--;
	}
	if (key != NULL)
		command_emptied(r, key);
	r->changes += found;
	reply_int(r->reply, found);
}

const Command list_commands[] = {
	{"RPUSH", -3, CMD_WRITE | CMD_MEMORY, run_rpush},
	{"LPOP", 2, CMD_WRITE, run_lpop},
	{"LINDEX", 3, 0, run_lindex},
	{"LPOS", 3, 0, run_lpos},
	{"LRANGE", 4, 0, run_lrange},
	{"LREM", 4, CMD_WRITE, run_lrem},
	{NULL, 0, 0, NULL}
};
