/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  PostgreSQL's hash tables, as lists: they are small here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  test/simulation/backend/hash.c
 *
 *-------------------------------------------------------------------------
 */
#include "backend.h"

#include "utils/hsearch.h"

typedef struct Element
{
	struct Element *next;
	bool		removed;
} Element;

struct HTAB
{
	Size		keysize;
	Size		entrysize;
	long		n;
	Element    *first;
};

static void *
entry_of(Element *element)
{
	return element + 1;
}

HTAB *
hash_create(const char *tabname, long nelem, const HASHCTL *info, int flags)
{
	HTAB	   *table = MemoryContextAllocZero(TopMemoryContext, sizeof(HTAB));

	table->keysize = info->keysize;
	table->entrysize = info->entrysize;
	return table;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	Element    *e = table->first;

	while (e != NULL && (e->removed || memcmp(entry_of(e), key, table->keysize) != 0))
		e = e->next;
	if (found != NULL)
		*found = e != NULL;
	if (action == HASH_REMOVE && e != NULL)
	{
		/* Removed elements stay: a walk may stand on one. */
		e->removed = true;
		table->n--;
	}
	if (e == NULL && action == HASH_ENTER)
	{
		e = MemoryContextAllocZero(TopMemoryContext, sizeof(Element) + table->entrysize);
		memcpy(entry_of(e), key, table->keysize);
		e->next = table->first;
		table->first = e;
		table->n++;
	}
	return e == NULL ? NULL : entry_of(e);
}

long
hash_get_num_entries(HTAB *table)
{
	return table->n;
}

void
hash_seq_init(HASH_SEQ_STATUS *status, HTAB *table)
{
	status->hashp = table;
	status->curEntry = (HASHELEMENT *) table->first;
}

void *
hash_seq_search(HASH_SEQ_STATUS *status)
{
	Element    *e = (Element *) status->curEntry;

	while (e != NULL && e->removed)
		e = e->next;
	status->curEntry = e == NULL ? NULL : (HASHELEMENT *) e->next;
	return e == NULL ? NULL : entry_of(e);
}

void
hash_seq_term(HASH_SEQ_STATUS *status)
{
}

void
hash_destroy(HTAB *table)
{
}
