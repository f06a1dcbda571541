/*-------------------------------------------------------------------------
 *
 * command.c
 *	  Commands of a Redis: which there are, what they are refused with, and those
 *	  that are about keys of any type.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/command.c
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "command.h"

/* ----------
 * Which command it is
 * ----------
 */

static const Command *
find_command(Word name)
{
	static const Command *const all[] = {
		key_commands, string_commands, hash_commands, list_commands, zset_commands
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		for (const Command *c = all[i]; c->name != NULL; c++)
			if (word_option(name, c->name))
				return c;
	return NULL;
}

static void
say_unknown(Redis *r, Word name)
{
	if (r->is_script)
		reply_error(r->reply, "ERR Unknown Redis command called from script");
	else
		reply_put(r->reply, "-ERR unknown command '%.*s'\r\n", (int) name.len, name.text);
}

static void
say_number(Redis *r, const Command *c)
{
	char		name[32];
	size_t		i;

	if (r->is_script)
	{
		reply_error(r->reply, "ERR Wrong number of args calling Redis command from script");
		return;
	}
	for (i = 0; c->name[i] != '\0'; i++)
		name[i] = (char) tolower((unsigned char) c->name[i]);
	reply_put(r->reply, "-ERR wrong number of arguments for '%.*s' command\r\n", (int) i, name);
}

/* A script that has written goes on though there is no memory left. */
static const char *
refusal_of(Redis *r, const Command *c)
{
	if ((c->flags & CMD_WRITE) == 0 || r->refuses == NULL)
		return NULL;
	return r->refuses(r, (c->flags & CMD_MEMORY) != 0 && !r->wrote);
}

void
redis_command(Redis *r, const Word *word, int n)
{
	const Command *c = find_command(word[0]);
	const char *refusal;

	if (c == NULL)
		say_unknown(r, word[0]);
	else if (c->words > 0 ? n != c->words : n < -c->words)
		say_number(r, c);
	else if ((refusal = refusal_of(r, c)) != NULL)
		reply_error(r->reply, refusal);
	else
	{
		r->wrote = r->wrote || (r->is_script && (c->flags & CMD_WRITE) != 0);
		c->run(r, word, n);
	}
}

/* ----------
 * What commands share
 * ----------
 */

bool
command_key(Redis *r, Word name, DbType type, DbKey **key)
{
	*key = db_find(r->db, name, redis_ms(r));
	if (*key == NULL || (*key)->type == type)
		return true;
	reply_error(r->reply, "WRONGTYPE Operation against a key holding the wrong kind of value");
	return false;
}

bool
command_made(Redis *r, Word name, DbType type, DbKey **key)
{
	if (!command_key(r, name, type, key))
		return false;
	if (*key == NULL)
		*key = db_make(r->db, name, type);
	return true;
}

void
command_emptied(Redis *r, DbKey *key)
{
	if (key->n == 0)
		db_delete(r->db, key);
}

int64_t
redis_ms(const Redis *r)
{
	return r->now_us / 1000;
}

/* No sign but a minus, no zero before others, no space, not beyond 64 bits. */
bool
word_integer(Word word, long long *value)
{
	bool		negative = word.len > 0 && word.text[0] == '-';
	size_t		i = negative;
	unsigned long long sum = 0;
	unsigned long long most = negative ? 9223372036854775808ULL : 9223372036854775807ULL;

	if (word.len == i || (word.text[i] == '0' && word.len > 1))
		return false;
	for (; i < word.len; i++)
	{
		unsigned	digit = (unsigned char) word.text[i] - '0';

		if (digit > 9 || sum > (most - digit) / 10)
			return false;
		sum = 10 * sum + digit;
	}
	*value = negative ? (long long) -sum : (long long) sum;
	return true;
}

bool
command_integer(Redis *r, Word word, long long *value)
{
	if (word_integer(word, value))
		return true;
	reply_error(r->reply, "ERR value is not an integer or out of range");
	return false;
}

bool
word_option(Word word, const char *name)
{
	return word.len == strlen(name) && strncasecmp(word.text, name, word.len) == 0;
}

int
command_range(int n, long long *first, long long *last)
{
	if (*first < 0)
		*first = *first + n < 0 ? 0 : *first + n;
	if (*last < 0)
		*last += n;
	if (*last >= n)
		*last = n - 1;
	return *first > *last ? 0 : (int) (*last - *first + 1);
}

/* ----------
 * Keys
 * ----------
 */

static void
run_type(Redis *r, const Word *word, int n)
{
	static const char *const names[] = {"none", "string", "hash", "list", "zset"};
	const DbKey *key = db_find(r->db, word[1], redis_ms(r));

	reply_status(r->reply, names[key == NULL ? DB_NONE : key->type]);
}

static void
run_exists(Redis *r, const Word *word, int n)
{
	int			found = 0;

	for (int i = 1; i < n; i++)
		found += db_find(r->db, word[i], redis_ms(r)) != NULL;
	reply_int(r->reply, found);
}

static void
run_del(Redis *r, const Word *word, int n)
{
	int			found = 0;

	for (int i = 1; i < n; i++)
	{
		DbKey	   *key = db_find(r->db, word[i], redis_ms(r));

		if (key == NULL)
			continue;
		db_delete(r->db, key);
		found++;
	}
	r->changes += found;
	reply_int(r->reply, found);
}

static void
run_pttl(Redis *r, const Word *word, int n)
{
	const DbKey *key = db_find(r->db, word[1], redis_ms(r));

	reply_int(r->reply, key == NULL ? -2 : key->ends_ms == 0 ? -1 : key->ends_ms - redis_ms(r));
}

/* "GT": only if that is longer; without an end a key is there for longest. */
static void
run_pexpire(Redis *r, const Word *word, int n)
{
	DbKey	   *key;
	long long	ms;
	long long	ends;
	bool		longer = n == 4;

	if (n > 4 || (longer && !word_option(word[3], "GT")))
		reply_put(r->reply, "-ERR Unsupported option %.*s\r\n", (int) word[3].len, word[3].text);
	else if (!command_integer(r, word[2], &ms))
		return;
	else if (__builtin_add_overflow(ms, (long long) redis_ms(r), &ends))
		reply_error(r->reply, "ERR invalid expire time in 'pexpire' command");
	else if ((key = db_find(r->db, word[1], redis_ms(r))) == NULL ||
			 (longer && (key->ends_ms == 0 || ends <= key->ends_ms)))
		reply_int(r->reply, 0);
	else
	{
		if (ms <= 0)
			db_delete(r->db, key);
		else
			key->ends_ms = ends;
		r->changes++;
		reply_int(r->reply, 1);
	}
}

static void
run_time(Redis *r, const Word *word, int n)
{
	char		text[24];

	reply_array(r->reply, 2);
	snprintf(text, sizeof(text), "%lld", (long long) (r->now_us / 1000000));
	reply_text(r->reply, text);
	snprintf(text, sizeof(text), "%lld", (long long) (r->now_us % 1000000));
	reply_text(r->reply, text);
}

static void
run_publish(Redis *r, const Word *word, int n)
{
	reply_int(r->reply, r->publish(r, word[1], word[2], word[0].text[0] == 'S'));
}

const Command key_commands[] = {
	{"TYPE", 2, 0, run_type},
	{"EXISTS", -2, 0, run_exists},
	{"DEL", -2, CMD_WRITE, run_del},
	{"PTTL", 2, 0, run_pttl},
	{"PEXPIRE", -3, CMD_WRITE, run_pexpire},
	{"TIME", 1, 0, run_time},
	{"PUBLISH", 3, 0, run_publish},
	{"SPUBLISH", 3, 0, run_publish},
	{NULL, 0, 0, NULL}
};
