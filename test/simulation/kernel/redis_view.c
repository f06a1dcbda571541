/*-------------------------------------------------------------------------
 *
 * redis_view.c
 *	  What the keys of a Redis say.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_view.c
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_view.h"

#define NAME_SIZE		256
#define NEVER			(INT64_MAX / 2000)

#define PLACES			"lockredis_places:"
#define QUEUE			"redisson_lock_queue:"
#define PATIENCE		"redisson_lock_timeout:"
#define WRITERS			"lockredis_writers:"
#define TICKETS			"lockredis_tickets:"
#define WAITING			"lockredis_condition_waiting:"
#define ALIVE			"lockredis_condition_alive:"
#define TOLD			"lockredis_condition_told:"
#define COUNTER			"redisson_lock_token:"

/* An announced writer is known by its arrival (13 digits), a colon, and its owner. */
#define ARRIVAL_LEN		14

/* ----------
 * Words
 * ----------
 */

Word
word_of(const char *text)
{
	return (Word) {text, strlen(text)};
}

bool
word_begins(Word word, const char *text)
{
	size_t		len = strlen(text);

	return word.len >= len && memcmp(word.text, text, len) == 0;
}

static bool
word_ends(Word word, const char *text)
{
	size_t		len = strlen(text);

	return word.len >= len && memcmp(word.text + word.len - len, text, len) == 0;
}

Word
view_base(Word name)
{
	const char *open = memchr(name.text, '{', name.len);
	const char *end = name.text + name.len;
	const char *close;

	if (open == NULL)
		return name;
	close = memchr(open, '}', end - open);
	return (Word) {open + 1, (close != NULL ? close : end) - open - 1};
}

bool
view_is_counter(Word name)
{
	return word_begins(name, COUNTER);
}

static int64_t
ends_of(const DbKey *key)
{
	return key->ends_ms != 0 ? key->ends_ms : NEVER;
}

static int64_t
sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Of the same lock, by another prefix. */
static const DbKey *
beside(const Db *db, int64_t now_ms, Word name, const char *prefix, const char *other)
{
	char		text[NAME_SIZE];
	size_t		len = strlen(prefix);

	snprintf(text, sizeof(text), "%s%.*s", other, (int) (name.len - len), name.text + len);
	return db_look(db, word_of(text), now_ms);
}

/* ----------
 * Locks
 * ----------
 */

bool
view_is_read_write(const DbKey *key)
{
	return key->type == DB_HASH && db_item(key, word_of("mode")) != NULL;
}

static bool
is_shared(const DbKey *key)
{
	return key->type == DB_HASH && db_item(key, word_of("shared")) != NULL;
}

/* A reader has it no more when his time-out has ended, though his field is there. */
static int64_t
reader_ends(const Db *db, int64_t now_ms, const DbKey *hash, Word owner)
{
	char		text[NAME_SIZE];
	const DbKey *timeout;

	snprintf(text, sizeof(text), "{%.*s}:%.*s:rwlock_timeout:1", (int) hash->name.len,
			 hash->name.text, (int) owner.len, owner.text);
	timeout = db_look(db, word_of(text), now_ms);
	return timeout == NULL ? 0 : sooner(ends_of(timeout), ends_of(hash));
}

static Word
without(Word field, const char *suffix)
{
	field.len -= strlen(suffix);
	return field;
}

static void
see_hash(const Db *db, int64_t now_ms, const DbKey *key, ViewSeen seen, void *arg)
{
	bool		read_write = view_is_read_write(key);

	if (is_shared(key))
		return;					/* of them there are others */
	for (int i = 0; i < key->n; i++)
	{
		View		v = {VIEW_LOCK, key->name, key->name, key->item[i].name, ends_of(key)};

		if (read_write && word_ends(v.owner, ":write"))
			v.owner = without(v.owner, ":write");
		else if (read_write)
		{
			v.kind = VIEW_READER;
			v.ends_ms = word_is(v.owner, "mode") ? 0 : reader_ends(db, now_ms, key, v.owner);
		}
		if (v.ends_ms != 0)
			seen(&v, arg);
	}
}

/* Of mode shared: see models/lua. */
static void
see_sharers(const Db *db, int64_t now_ms, const DbKey *key, ViewKind kind, ViewSeen seen,
			void *arg)
{
	const DbKey *hash = db_look(db, view_base(key->name), now_ms);

	if (kind == VIEW_SHARED && (hash == NULL || !is_shared(hash)))
		return;
	for (int i = 0; i < key->n; i++)
	{
		View		v = {kind, view_base(key->name), key->name, key->item[i].name,
		(int64_t) key->item[i].score};

		if (v.ends_ms >= now_ms)
			seen(&v, arg);
	}
}

static void
see_string(const DbKey *key, ViewSeen seen, void *arg)
{
	View		v = {VIEW_TOKEN, key->name, key->name, key->item[0].name, ends_of(key)};

	/* Without an end it is a number. */
	if (key->ends_ms != 0)
		seen(&v, arg);
}

int64_t
view_owned_until(const Db *db, int64_t now_ms, Word key, Word owner)
{
	const DbKey *hash = db_look(db, key, now_ms);
	char		text[NAME_SIZE];
	const DbKey *all;
	const DbItem *item;

	if (hash != NULL && hash->type == DB_STRING)
		return hash->ends_ms != 0 && word_equals(hash->item[0].name, owner) ? hash->ends_ms : 0;
	if (hash != NULL && hash->type == DB_HASH && view_is_read_write(hash))
	{
		snprintf(text, sizeof(text), "%.*s:write", (int) owner.len, owner.text);
		if (db_item(hash, word_of(text)) != NULL)
			return ends_of(hash);
		return db_item(hash, owner) != NULL ? reader_ends(db, now_ms, hash, owner) : 0;
	}
	if (hash != NULL && hash->type == DB_HASH && !is_shared(hash) && db_item(hash, owner) != NULL)
		return ends_of(hash);
	for (int i = 0; i < 2; i++)
	{
		if (i == 0 && (hash == NULL || !is_shared(hash)))
			continue;
		snprintf(text, sizeof(text), "{%.*s}:%s", (int) key.len, key.text,
				 i == 0 ? "shared" : "free");
		all = db_look(db, word_of(text), now_ms);
		item = all == NULL || all->type != DB_ZSET ? NULL : db_item(all, owner);
		if (item != NULL && item->score >= now_ms)
			return (int64_t) item->score;
	}
	return 0;
}

/* ----------
 * Numbers
 * ----------
 */

bool
view_number(const Db *db, int64_t now_ms, Word key, long long *value)
{
	const DbKey *number = db_look(db, key, now_ms);

	*value = 0;
	if (number == NULL || number->type != DB_STRING)
		return false;
	*value = strtoll(number->item[0].name.text, NULL, 10);
	return true;
}

static void
see_members(const DbKey *key, ViewKind kind, size_t skip, int64_t after_ms, ViewSeen seen,
			void *arg)
{
	for (int i = 0; i < key->n; i++)
	{
		View		v = {kind, view_base(key->name), key->name, key->item[i].name,
		(int64_t) key->item[i].score};

		if (v.ends_ms <= after_ms || v.owner.len < skip)
			continue;
		v.owner.text += skip;
		v.owner.len -= skip;
		seen(&v, arg);
	}
}

/* ----------
 * Those who wait
 * ----------
 */

static const DbItem *
item_of(const DbKey *set, Word member)
{
	return set == NULL || set->type != DB_ZSET ? NULL : db_item(set, member);
}

/*
 * In the order of a list; until when each of them counts is said by a sorted set, or by another
 * one, if that has lost it (its clock was ahead, and is back).
 */
static void
see_queue(const DbKey *list, const DbKey *ends, const DbKey *other, ViewKind kind,
		  ViewSeen seen, void *arg)
{
	for (int i = 0; i < list->n; i++)
	{
		const DbItem *item = item_of(ends, list->item[i].name);
		View		v = {kind, view_base(list->name), list->name, list->item[i].name, 0};

		if (item == NULL)
			item = item_of(other, list->item[i].name);
		v.ends_ms = item == NULL ? 0 : (int64_t) item->score;
		seen(&v, arg);
	}
}

/* ----------
 * All
 * ----------
 */

static void
see(const Db *db, int64_t now_ms, const DbKey *key, ViewSeen seen, void *arg)
{
	Word		name = key->name;

	if (memchr(name.text, '{', name.len) == NULL)
	{
		if (key->type == DB_HASH)
			see_hash(db, now_ms, key, seen, arg);
		else if (key->type == DB_STRING)
			see_string(key, seen, arg);
	}
	else if (key->type == DB_ZSET && name.text[0] == '{')
	{
		if (word_ends(name, ":shared"))
			see_sharers(db, now_ms, key, VIEW_SHARED, seen, arg);
		else if (word_ends(name, ":free"))
			see_sharers(db, now_ms, key, VIEW_FREE, seen, arg);
		else if (word_ends(name, ":timeout"))
			see_members(key, VIEW_PERMIT, 0, -1, seen, arg);
	}
	else if (key->type == DB_LIST && word_begins(name, QUEUE))
		see_queue(key, beside(db, now_ms, name, QUEUE, PLACES),
				  beside(db, now_ms, name, QUEUE, PATIENCE), VIEW_PLACE, seen, arg);
	else if (key->type == DB_LIST && word_begins(name, WAITING))
		see_queue(key, beside(db, now_ms, name, WAITING, ALIVE), NULL, VIEW_WAITING, seen, arg);
	else if (key->type == DB_ZSET && word_begins(name, WRITERS))
		see_members(key, VIEW_WRITER, ARRIVAL_LEN, now_ms, seen, arg);
	else if (key->type == DB_ZSET && word_begins(name, TOLD))
		see_members(key, VIEW_TOLD, 0, now_ms, seen, arg);
	else if (key->type == DB_ZSET && word_begins(name, TICKETS))
		see_members(key, VIEW_TICKET, 0, -1, seen, arg);
}

void
view_all(const Db *db, int64_t now_ms, ViewSeen seen, void *arg)
{
	for (int i = 0; i < db->n; i++)
		if (!db_has_ended(db->key[i], now_ms))
			see(db, now_ms, db->key[i], seen, arg);
}
