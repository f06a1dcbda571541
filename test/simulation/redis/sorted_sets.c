/*-------------------------------------------------------------------------
 *
 * sorted_sets.c
 *	  Commands of a Redis about sorted sets.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/sorted_sets.c
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* ----------
 * Scores
 * ----------
 */

/* Up to a NUL, as strtod() reads it. */
static bool
read_double(Word word, double *value)
{
	char		text[64];
	char	   *end;

	if (word.len >= sizeof(text))
		return false;
	memcpy(text, word.text, word.len);
	text[word.len] = '\0';
	*value = strtod(text, &end);
	return *end == '\0' && !isnan(*value);
}

static bool
read_score(Word word, double *score)
{
	return word.len > 0 && !isspace((unsigned char) word.text[0]) &&
		memchr(word.text, '\0', word.len) == NULL && read_double(word, score);
}

/* The bounds of a range; "(": without that score itself. */
typedef struct Bounds
{
	double		low;
	double		high;
	bool		above_low;
	bool		below_high;
} Bounds;

static bool
read_bound(Word word, double *score, bool *open)
{
	*open = word.len > 0 && word.text[0] == '(';
	if (*open)
	{
		word.text++;
		word.len--;
	}
	return read_double(word, score);
}

static bool
read_bounds(Redis *r, Word low, Word high, Bounds *b)
{
	if (read_bound(low, &b->low, &b->above_low) && read_bound(high, &b->high, &b->below_high))
		return true;
	reply_error(r->reply, "ERR min or max is not a float");
	return false;
}

static bool
is_between(const Bounds *b, double score)
{
	return (b->above_low ? score > b->low : score >= b->low) &&
		(b->below_high ? score < b->high : score <= b->high);
}

/* ----------
 * Members
 * ----------
 */

static void
run_zadd(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	DbItem	   *item;
	double		score;
	bool		is_new;

	if (n != 4)
		reply_error(r->reply, "ERR syntax error");
	else if (!read_score(word[2], &score))
		reply_error(r->reply, "ERR value is not a valid float");
	else if (command_made(r, word[1], DB_ZSET, &key))
	{
		score += 0.0;			/* no minus before a zero */
		item = db_item(key, word[3]);
		is_new = item == NULL;
		if (is_new || item->score != score)
		{
			if (!is_new)
				db_remove(key, item);
			db_insert(key, db_place(key, word[3], score), word[3])->score = score;
			r->changes++;
		}
		reply_int(r->reply, is_new);
	}
}

static void
run_zrem(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	int			found = 0;

	if (!command_key(r, word[1], DB_ZSET, &key))
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

static void
run_zscore(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	const DbItem *item;

	if (!command_key(r, word[1], DB_ZSET, &key))
		return;
	item = key == NULL ? NULL : db_item(key, word[2]);
	if (item == NULL)
		reply_nil(r->reply);
	else
		reply_score(r->reply, item->score);
}

static void
run_zcard(Redis *r, const Word *word, int n)
{
	DbKey	   *key;

	if (command_key(r, word[1], DB_ZSET, &key))
		reply_int(r->reply, key == NULL ? 0 : key->n);
}

/* ----------
 * Ranges
 * ----------
 */

static void
run_zcount(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	Bounds		b;
	int			found = 0;

	if (!read_bounds(r, word[2], word[3], &b) || !command_key(r, word[1], DB_ZSET, &key))
		return;
	for (int i = 0; key != NULL && i < key->n; i++)
		found += is_between(&b, key->item[i].score);
	reply_int(r->reply, found);
}

static void
run_zremrangebyscore(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	Bounds		b;
	int			found = 0;

	if (!read_bounds(r, word[2], word[3], &b) || !command_key(r, word[1], DB_ZSET, &key))
		return;
	for (int i = key == NULL ? -1 : key->n - 1; i >= 0; i--)
		if (is_between(&b, key->item[i].score))
		{
			db_remove(key, &key->item[i]);
			found++;
		}
	if (key != NULL)
		command_emptied(r, key);
	r->changes += found;
	reply_int(r->reply, found);
}

static void
put_members(Redis *r, const DbKey *key, int first, int n, bool scores)
{
	reply_array(r->reply, scores ? 2 * n : n);
	for (int i = first; i < first + n; i++)
	{
		reply_bulk(r->reply, key->item[i].name);
		if (scores)
			reply_score(r->reply, key->item[i].score);
	}
}

static void
run_zrange(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	long long	first;
	long long	last;

	if (n > 5 || (n == 5 && !word_option(word[4], "WITHSCORES")))
		reply_error(r->reply, "ERR syntax error");
	else if (command_integer(r, word[2], &first) && command_integer(r, word[3], &last) &&
			 command_key(r, word[1], DB_ZSET, &key))
	{
		int			found = key == NULL ? 0 : command_range(key->n, &first, &last);

		put_members(r, key, (int) first, found, n == 5);
	}
}

static void
run_zrangebyscore(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	Bounds		b;
	bool		scores = false;
	long long	skipped = 0;
	long long	most = -1;
	int			first = 0;
	int			found = 0;

	for (int i = 4; i < n; i++)
	{
		if (word_option(word[i], "WITHSCORES"))
			scores = true;
		else if (word_option(word[i], "LIMIT") && i + 2 < n)
		{
			if (!command_integer(r, word[i + 1], &skipped) ||
				!command_integer(r, word[i + 2], &most))
				return;
			i += 2;
		}
		else
		{
			reply_error(r->reply, "ERR syntax error");
			return;
		}
	}
	if (!read_bounds(r, word[2], word[3], &b) || !command_key(r, word[1], DB_ZSET, &key))
		return;
	while (key != NULL && first < key->n && !is_between(&b, key->item[first].score))
		first++;
	while (key != NULL && first + found < key->n && is_between(&b, key->item[first + found].score))
		found++;
	if (skipped < 0 || skipped > found)
		skipped = found;
	found -= (int) skipped;
	put_members(r, key, first + (int) skipped, most >= 0 && most < found ? (int) most : found, scores);
}

const Command zset_commands[] = {
	{"ZADD", -4, CMD_WRITE | CMD_MEMORY, run_zadd},
	{"ZREM", -3, CMD_WRITE, run_zrem},
	{"ZSCORE", 3, 0, run_zscore},
	{"ZCARD", 2, 0, run_zcard},
	{"ZCOUNT", 4, 0, run_zcount},
	{"ZRANGE", -4, 0, run_zrange},
	{"ZRANGEBYSCORE", -4, 0, run_zrangebyscore},
	{"ZREMRANGEBYSCORE", 4, CMD_WRITE, run_zremrangebyscore},
	{NULL, 0, 0, NULL}
};
