/*-------------------------------------------------------------------------
 *
 * held.c
 *	  The index of the holds of this backend.
 *
 * The lock table has what the session holds; this is a private index of that, by name
 * and kind.  The session can hold a name as locks of two kinds, which the stores keep
 * apart.  Kinds that are the same lock share one entry (LockKind.held_as); the HoldView
 * has the kind that was acquired.  This file calls neither a store nor another file of
 * this folder.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/session/held.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "session/session.h"

/* A session with 100,000 locks has some six in each bucket. */
#define BUCKETS				16384

static dlist_head buckets[BUCKETS];

/*
 * All entries.  Here and in its bucket, those of one key are next to each other, the newest
 * first; they may be thousands, with each_own.
 */
static dlist_head all = DLIST_STATIC_INIT(all);
static int	nheld = 0;

/* Entries that are not used. */
static dlist_head spare = DLIST_STATIC_INIT(spare);
static int	nspare = 0;

/* Memory of the entries */
static MemoryContext held_context = NULL;

int64		held_commit_floor = LR_NEVER;
int			held_nverified = 0;

/* So many entries that are not used are kept. */
#define SPARE_KEPT			256

void
held_copy_name(const HeldKey *key, LrName *name)
{
	name->len = key->len;
	name->hash = key->hash;
	memcpy(name->data, key->data, key->len);
}

int
held_count(void)
{
	return nheld;
}

/* ----------
 * Finding
 * ----------
 */

static dlist_head *
held_bucket(const HeldKey *key)
{
	return &buckets[key->hash % BUCKETS];
}

/*
 * held_from --- the first entry of the key in its bucket, from that node on
 */
static HeldEntry *
held_from(const HeldKey *key, dlist_node *node)
{
	for (; node != NULL && node != &held_bucket(key)->head; node = node->next)
	{
		HeldEntry  *entry = dlist_container(HeldEntry, link, node);

		if (entry->key.len == key->len && entry->key.kind == key->kind &&
			memcmp(entry->key.data, key->data, key->len) == 0)
			return entry;
	}
	return NULL;
}

HeldEntry *
held_find(const LrName *name, KindId kind)
{
	HeldKey		key = held_key(name, lr_kind(kind)->held_as);

	return held_from(&key, held_bucket(&key)->head.next);
}

HeldEntry *
held_older(const HeldEntry *entry)
{
	return held_from(&entry->key, entry->link.next);
}

HeldEntry *
held_find_owner(const LrName *name, KindId kind, uint64 owner)
{
	HeldEntry  *entry = held_find(name, kind);

	while (entry != NULL && lr_kind(kind)->each_own && lt_owner(entry->hold) != owner)
		entry = held_older(entry);
	return entry;
}

KindId
held_kind_of(const LrName *name, KindId first)
{
	KindId		kind = first;

	if (held_find(name, first) != NULL)
		return first;
	for (KindId k = 0; lr_kind(k) != NULL; k++)
		if (lr_kind(k)->held_as == k && held_find(name, k) != NULL)
			kind = k;
	return kind;
}

void
held_walk(HeldCallback callback, void *arg)
{
	dlist_mutable_iter at;

	dlist_foreach_modify(at, &all)
	{
		callback(dlist_container(HeldEntry, in_all, at.cur), arg);
	}
}

/* ----------
 * Changes
 * ----------
 */

/*
 * held_trim --- if nothing is held, free the memory of many entries
 */
static void
held_trim(void)
{
	if (nheld > 0 || nspare <= SPARE_KEPT)
		return;
	MemoryContextReset(held_context);
	nspare = 0;
	dlist_init(&spare);
}

void
held_reserve(int n)
{
	if (held_context == NULL)
		held_context = AllocSetContextCreate(TopMemoryContext, "lockredis held locks",
											 ALLOCSET_SMALL_SIZES);
	held_trim();
	for (; nspare < n; nspare++)
	{
		HeldEntry  *entry = MemoryContextAlloc(held_context, sizeof(HeldEntry));

		dlist_push_head(&spare, &entry->link);
	}
}

void
held_note_lease(const HeldEntry *entry)
{
	held_commit_floor = lr_earlier(held_commit_floor, lt_commits_until(entry->hold));
}

/* The key refers to the name in the lock table, which stays there as long as the hold. */
HeldEntry *
held_add(const LrName *name, KindId kind, LrIndex hold, CommitGuard guard)
{
	HeldEntry  *entry = dlist_container(HeldEntry, link, dlist_pop_head_node(&spare));
	HeldEntry  *older = held_find(name, kind);

	nspare--;
	memset(entry, 0, sizeof(HeldEntry));
	entry->key = held_key(name, lr_kind(kind)->held_as);
	entry->key.data = lt_hold_name(hold);
	entry->hold = hold;
	if (older != NULL)
	{
		dlist_insert_before(&older->link, &entry->link);
		dlist_insert_before(&older->in_all, &entry->in_all);
	}
	else
	{
		dlist_push_head(held_bucket(&entry->key), &entry->link);
		dlist_push_head(&all, &entry->in_all);
	}
	nheld++;
	held_note_lease(entry);
	held_tighten_guard(entry, guard);
	return entry;
}

void
held_replace(HeldEntry *entry, LrIndex hold)
{
	entry->hold = hold;
	entry->key.data = lt_hold_name(hold);
	entry->recorded = 0;
	held_note_lease(entry);
}

void
held_delete(HeldEntry *entry)
{
	held_set_guard(entry, GUARD_OFF);
	dlist_delete(&entry->link);
	dlist_delete(&entry->in_all);
	dlist_push_head(&spare, &entry->link);
	nspare++;
	nheld--;
	if (nheld == 0)
		held_commit_floor = LR_NEVER;
}

void
held_tighten_guard(HeldEntry *entry, CommitGuard guard)
{
	if (guard > entry->guard)
		held_set_guard(entry, guard);
}

void
held_set_guard(HeldEntry *entry, CommitGuard guard)
{
	held_nverified += (guard == GUARD_VERIFY) - (entry->guard == GUARD_VERIFY);
	entry->guard = guard;
}

/* redis_unlock cannot release holds of the job runner. */
LossLevel
held_loss_level(const HeldEntry *entry, const HoldView *view)
{
	return view->scope[SCOPE_SESSION].count > entry->job_count ?
		LOSS_OF_SESSION : LOSS_OF_XACT;
}
