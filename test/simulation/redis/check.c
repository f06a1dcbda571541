/*-------------------------------------------------------------------------
 *
 * check.c
 *	  The simulator's Redis by itself: reads requests in Redis's protocol and writes
 *	  answers, so that a test can ask a real one the same.
 *
 * Beside the commands: EVAL; CLOCK MICROSECONDS sets the clock, which stands still;
 * MEMORY 0 or 1, is any left; KEYS, all that there are; TOLD, what was published since
 * that was asked last.  Each PUBLISH is heard by one, each SPUBLISH by nobody.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/check.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "script.h"

#define MAX_WORDS	512

static Reply answer;
static Reply told;
static int	ntold;
static bool is_full;

static int
publish(Redis *r, Word channel, Word message, bool sharded)
{
	if (sharded)
		return 0;
	reply_bulk(&told, channel);
	reply_bulk(&told, message);
	ntold += 2;
	return 1;
}

static const char *
refuses(Redis *r, bool needs_memory)
{
	return is_full && needs_memory ?
		"OOM command not allowed when used memory > 'maxmemory'." : NULL;
}

/* False: there is no more. */
static bool
read_number(char type, long *value)
{
	char		line[64];

	if (fgets(line, sizeof(line), stdin) == NULL)
		return false;
	if (line[0] != type)
		abort();
	*value = strtol(line + 1, NULL, 10);
	return true;
}

static Word
read_word(void)
{
	Word		word;
	long		len;
	char	   *text;

	if (!read_number('$', &len))
		abort();
	text = malloc(len + 2);
	if (fread(text, 1, len + 2, stdin) != (size_t) len + 2)
		abort();
	word.text = text;
	word.len = len;
	return word;
}

static void
eval(Redis *r, const Word *word, int n)
{
	long long	nkeys = 0;
	char		sha1[41];

	if (n < 3 || !word_integer(word[2], &nkeys) || nkeys < 0 || nkeys > n - 3)
		abort();
	script_digest(word[1], sha1);
	script_run(r, sha1, word[1], word + 3, (int) nkeys, word + 3 + nkeys, n - 3 - (int) nkeys);
}

static void
put_keys(Redis *r)
{
	int			n = 0;

	for (int i = 0; i < r->db->n; i++)
		n += !db_has_ended(r->db->key[i], redis_ms(r));
	reply_array(r->reply, n);
	for (int i = 0; i < r->db->n; i++)
		if (!db_has_ended(r->db->key[i], redis_ms(r)))
			reply_bulk(r->reply, r->db->key[i]->name);
}

static void
serve(Redis *r, const Word *word, int n)
{
	long long	value = 0;

	if (n == 2)
		(void) word_integer(word[1], &value);
	if (word_is(word[0], "EVAL"))
		eval(r, word, n);
	else if (word_is(word[0], "CLOCK"))
	{
		r->now_us = value;
		reply_status(r->reply, "OK");
	}
	else if (word_is(word[0], "MEMORY"))
	{
		is_full = value == 0;
		reply_status(r->reply, "OK");
	}
	else if (word_is(word[0], "KEYS"))
		put_keys(r);
	else if (word_is(word[0], "TOLD"))
	{
		reply_array(r->reply, ntold);
		reply_bytes(r->reply, told.data, told.len);
		told.len = 0;
		ntold = 0;
	}
	else
		redis_command(r, word, n);
}

int
main(void)
{
	Db			db = {0};
	Redis		redis = {.db = &db, .reply = &answer, .publish = publish, .refuses = refuses};
	long		n;

	while (read_number('*', &n))
	{
		Word		word[MAX_WORDS];

		if (n > MAX_WORDS)
			abort();
		for (long i = 0; i < n; i++)
			word[i] = read_word();
		serve(&redis, word, (int) n);
		for (long i = 0; i < n; i++)
			free((char *) word[i].text);
		fwrite(answer.data, 1, answer.len, stdout);
		fflush(stdout);
		answer.len = 0;
	}
	return 0;
}
