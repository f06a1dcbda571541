/*-------------------------------------------------------------------------
 *
 * db.h
 *	  Keys of a Redis with their values: strings, hashes, lists, sorted sets, each
 *	  with the time at which it ends.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/redis/db.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_DB_H
#define SIM_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Some bytes of somebody else. */
typedef struct Word
{
	const char *text;
	size_t		len;
} Word;

typedef enum DbType
{
	DB_NONE,
	DB_STRING,
	DB_HASH,
	DB_LIST,
	DB_ZSET
} DbType;

/* A field with its value, an element, a member with its score.  Ends with a NUL, too. */
typedef struct DbItem
{
	Word		name;
	Word		value;
	double		score;
} DbItem;

/* A string is the name of its only item. */
typedef struct DbKey
{
	Word		name;
	DbType		type;
	int64_t		ends_ms;		/* 0 = never */
	DbItem	   *item;
	int			n;
	int			size;
} DbKey;

/* In the order in which they were made. */
typedef struct Db
{
	DbKey	  **key;
	int			n;
	int			size;
} Db;

extern bool word_equals(Word a, Word b);
extern bool word_is(Word a, const char *text);
extern int	word_compare(Word a, Word b);

/* NULL: there is none, or not any more. */
extern DbKey *db_find(Db *db, Word name, int64_t now_ms);

/* The same, but leaves one that has ended where it is. */
extern const DbKey *db_look(const Db *db, Word name, int64_t now_ms);

extern bool db_has_ended(const DbKey *key, int64_t now_ms);
extern DbKey *db_make(Db *db, Word name, DbType type);
extern void db_delete(Db *db, DbKey *key);
extern void db_clear(Db *db);

extern void db_copy(Db *to, const Db *from);

/* Takes the place of what is there by that name. */
extern DbKey *db_copy_key(Db *to, const DbKey *key);

/* ---- items ---- */

extern DbItem *db_item(const DbKey *key, Word name);

/* A new one, at that place. */
extern DbItem *db_insert(DbKey *key, int at, Word name);
extern void db_set_value(DbItem *item, Word value);
extern void db_set_name(DbItem *item, Word name);
extern void db_remove(DbKey *key, DbItem *item);

/* Where a member belongs in the order of a sorted set. */
extern int	db_place(const DbKey *key, Word name, double score);

#endif							/* SIM_DB_H */
