/*-------------------------------------------------------------------------
 *
 * db.c
 *	  Keys of a Redis with their values, and when they end.
 *
 * All stands in the order in which it was made, or that Redis has, so that the
 * same commands give the same again.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/db.c
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "db.h"

/* ----------
 * Bytes
 * ----------
 */

bool
word_equals(Word a, Word b)
{
	return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

bool
word_is(Word a, const char *text)
{
	return a.len == strlen(text) && memcmp(a.text, text, a.len) == 0;
}

int
word_compare(Word a, Word b)
{
	int			order = memcmp(a.text, b.text, a.len < b.len ? a.len : b.len);

	return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

static Word
word_copied(Word from)
{
	char	   *text = malloc(from.len + 1);

	memcpy(text, from.text, from.len);
	text[from.len] = '\0';
	return (Word) {text, from.len};
}

static void
word_free(Word word)
{
	free((char *) word.text);
}

/* ----------
 * Keys
 * ----------
 */

bool
db_has_ended(const DbKey *key, int64_t now_ms)
{
	return key->ends_ms != 0 && now_ms > key->ends_ms;
}

DbKey *
db_find(Db *db, Word name, int64_t now_ms)
{
	for (int i = 0; i < db->n; i++)
		if (word_equals(db->key[i]->name, name))
		{
			if (!db_has_ended(db->key[i], now_ms))
				return db->key[i];
			db_delete(db, db->key[i]);
			return NULL;
		}
	return NULL;
}

const DbKey *
db_look(const Db *db, Word name, int64_t now_ms)
{
	for (int i = 0; i < db->n; i++)
		if (word_equals(db->key[i]->name, name))
			return db_has_ended(db->key[i], now_ms) ? NULL : db->key[i];
	return NULL;
}

DbKey *
db_make(Db *db, Word name, DbType type)
{
	DbKey	   *key = calloc(1, sizeof(DbKey));

	if (db->n == db->size)
	{
		db->size = db->size == 0 ? 16 : 2 * db->size;
		db->key = realloc(db->key, sizeof(DbKey *) * db->size);
	}
	db->key[db->n++] = key;
	key->name = word_copied(name);
	key->type = type;
	return key;
}

static void
free_key(DbKey *key)
{
	for (int i = 0; i < key->n; i++)
	{
		word_free(key->item[i].name);
		word_free(key->item[i].value);
	}
	free(key->item);
	word_free(key->name);
	free(key);
}

void
db_delete(Db *db, DbKey *key)
{
	int			i = 0;

	while (db->key[i] != key)
		i++;
	memmove(&db->key[i], &db->key[i + 1], sizeof(DbKey *) * (--db->n - i));
	free_key(key);
}

void
db_clear(Db *db)
{
	while (db->n > 0)
		free_key(db->key[--db->n]);
}

DbKey *
db_copy_key(Db *to, const DbKey *key)
{
	DbKey	   *old = db_find(to, key->name, 0);
	DbKey	   *made;

	if (old != NULL)
		db_delete(to, old);
	made = db_make(to, key->name, key->type);
	made->ends_ms = key->ends_ms;
	for (int i = 0; i < key->n; i++)
	{
		DbItem	   *item = db_insert(made, i, key->item[i].name);

		item->score = key->item[i].score;
		if (key->item[i].value.text != NULL)
			db_set_value(item, key->item[i].value);
	}
	return made;
}

void
db_copy(Db *to, const Db *from)
{
	db_clear(to);
	for (int i = 0; i < from->n; i++)
		(void) db_copy_key(to, from->key[i]);
}

/* ----------
 * Items
 * ----------
 */

DbItem *
db_item(const DbKey *key, Word name)
{
	for (int i = 0; i < key->n; i++)
		if (word_equals(key->item[i].name, name))
			return &key->item[i];
	return NULL;
}

DbItem *
db_insert(DbKey *key, int at, Word name)
{
	DbItem	   *item;

	if (key->n == key->size)
	{
		key->size = key->size == 0 ? 4 : 2 * key->size;
		key->item = realloc(key->item, sizeof(DbItem) * key->size);
	}
	item = &key->item[at];
	memmove(item + 1, item, sizeof(DbItem) * (key->n++ - at));
	memset(item, 0, sizeof(DbItem));
	item->name = word_copied(name);
	return item;
}

void
db_set_value(DbItem *item, Word value)
{
	Word		old = item->value;

	item->value = word_copied(value);
	word_free(old);
}

void
db_set_name(DbItem *item, Word name)
{
	Word		old = item->name;

	item->name = word_copied(name);
	word_free(old);
}

void
db_remove(DbKey *key, DbItem *item)
{
	word_free(item->name);
	word_free(item->value);
	memmove(item, item + 1, sizeof(DbItem) * (&key->item[--key->n] - item));
}

int
db_place(const DbKey *key, Word name, double score)
{
	int			at = 0;

	while (at < key->n &&
		   (key->item[at].score < score ||
			(key->item[at].score == score && word_compare(key->item[at].name, name) < 0)))
		at++;
	return at;
}
