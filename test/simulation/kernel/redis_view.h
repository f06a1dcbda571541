/*-------------------------------------------------------------------------
 *
 * redis_view.h
 *	  What the keys of a Redis say: who has which lock, who waits, which permits are
 *	  taken, which tickets were counted.
 *
 * The names and types of keys are those that src/kinds has.  A view reads them, and
 * changes nothing.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/kernel/redis_view.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIM_REDIS_VIEW_H
#define SIM_REDIS_VIEW_H

#include "../redis/db.h"

typedef enum ViewKind
{
	VIEW_LOCK,					/* has the key alone: also the writer */
	VIEW_READER,
	VIEW_SHARED,				/* of mode shared: several can have it, */
	VIEW_FREE,					/* and one that keeps nobody from the key */
	VIEW_TOKEN,					/* the owner is the token */
	VIEW_PLACE,					/* waits for a fair lock, in the order of the queue; who
								 * counts no more may be there */
	VIEW_WRITER,				/* waits for a write lock */
	VIEW_PERMIT,				/* the owner is its id */
	VIEW_TICKET,
	VIEW_WAITING,				/* for a condition, likewise */
	VIEW_TOLD					/* of a condition */
} ViewKind;

/* The key is the name of the lock or number that it is about. */
typedef struct View
{
	ViewKind	kind;
	Word		key;
	Word		in;				/* the key of Redis that says so */
	Word		owner;
	int64_t		ends_ms;
} View;

typedef void (*ViewSeen) (const View *view, void *arg);

/* All that there is at that time. */
extern void view_all(const Db *db, int64_t now_ms, ViewSeen seen, void *arg);

/* Has the owner the lock of that name?  Until when (ms); 0: not at all. */
extern int64_t view_owned_until(const Db *db, int64_t now_ms, Word key, Word owner);

/* The lock or number that a key of Redis, or a channel, is about. */
extern Word view_base(Word name);

extern Word word_of(const char *text);
extern bool word_begins(Word word, const char *text);

/* Is it the key that counts fencing tokens? */
extern bool view_is_counter(Word name);

/* Is it a read-write lock? */
extern bool view_is_read_write(const DbKey *key);

/* The key has a number: how many permits are free, what is left of a latch. */
extern bool view_number(const Db *db, int64_t now_ms, Word key, long long *value);

#endif							/* SIM_REDIS_VIEW_H */
