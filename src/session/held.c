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

static inline bool
held_key_equal(HeldKey a, HeldKey b)
{
	return a.len == b.len && a.kind == b.kind && a.number == b.number &&
		memcmp(a.data, b.data, a.len) == 0;
}

/* With each_own, one name may have thousands of entries. */
static inline uint32
held_key_hash(HeldKey key)
{
	return key.hash ^ (uint32) (key.number * UINT64CONST(0x9e3779b97f4a7c15) >> 32);
}

#define SH_PREFIX held_index
#define SH_ELEMENT_TYPE HeldEntry
#define SH_KEY_TYPE HeldKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) held_key_hash(k)
#define SH_EQUAL(tb, a, b) held_key_equal(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static held_index_hash *held_index = NULL;

/* For kinds with each_own: the newest entry of a key. */
typedef struct HeldChain
{
	HeldKey		key;			/* with the number 0 */
	uint64		newest;			/* 0: an entry was reserved, and there is no other */
	uint32		hash;			/* used by simplehash */
	char		status;			/* used by simplehash */
} HeldChain;

#define SH_PREFIX held_chains
#define SH_ELEMENT_TYPE HeldChain
#define SH_KEY_TYPE HeldKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) held_key_hash(k)
#define SH_EQUAL(tb, a, b) held_key_equal(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, entry) (entry)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static held_chains_hash *held_chains = NULL;

/* The last number that such an entry has got. */
static uint64 last_number = 0;

/*
 * Reserved entries have no hold.  Those whose acquires fail stay until the next call
 * removes them.  The names are those of the caller, or a copy of the only one.
 */
static const LrName *const *reserved_names;
static int	nreserved = 0;
static KindId reserved_kind;
static uint64 reserved_number;
static LrName reserved_name;

int64		held_commit_floor = LR_NEVER;
int			held_nverified = 0;

#define INDEX_SIZE_FIRST	16

/* An index up to this size is not made smaller. */
#define INDEX_SIZE_KEPT		256

void
held_copy_name(const HeldKey *key, LrName *name)
{
	name->len = key->len;
	name->hash = key->hash;
	memcpy(name->data, key->data, key->len);
}

void
held_open(void)
{
	if (held_index == NULL)
		held_index = held_index_create(TopMemoryContext, INDEX_SIZE_FIRST, NULL);
	if (held_chains == NULL)
		held_chains = held_chains_create(TopMemoryContext, INDEX_SIZE_FIRST, NULL);
}

int
held_count(void)
{
	return held_index == NULL ? 0 : (int) held_index->members;
}

/*
 * held_trim --- if nothing is held, replace a large index by a small one
 */
static void
held_trim(void)
{
	held_index_hash *small;

	if (held_index->members > 0 || held_index->size <= INDEX_SIZE_KEPT)
		return;
	small = held_index_create(TopMemoryContext, INDEX_SIZE_FIRST, NULL);
	held_index_destroy(held_index);
	held_index = small;
}

static HeldChain *
held_chain_of(HeldKey key)
{
	key.number = 0;
	return held_chains_lookup(held_chains, key);
}

static HeldEntry *
held_find_number(HeldKey key, uint64 number)
{
	if (number == 0)
		return NULL;
	key.number = number;
	return held_index_lookup(held_index, key);
}

/*
 * held_reserved_key --- the key of an entry that was reserved
 */
static HeldKey
held_reserved_key(const LrName *name)
{
	HeldKey		key = held_key(name, reserved_kind);

	key.number = reserved_number;
	return key;
}

void
held_forget_reserved(void)
{
	for (int i = 0; i < nreserved; i++)
	{
		HeldKey		key = held_reserved_key(reserved_names[i]);
		HeldEntry  *entry = held_index_lookup(held_index, key);
		HeldChain  *chain = key.number != 0 ? held_chain_of(key) : NULL;

		if (entry != NULL && entry->hold == LR_NONE)
			held_index_delete_item(held_index, entry);
		if (chain != NULL && chain->newest == 0)
			held_chains_delete_item(held_chains, chain);
	}
	nreserved = 0;
}

HeldEntry *
held_find(const LrName *name, KindId kind)
{
	HeldKey		key = held_key(name, lr_kind(kind)->held_as);

	if (held_index == NULL)
		return NULL;
	held_forget_reserved();
	if (lr_kind(kind)->each_own)
	{
		HeldChain  *chain = held_chain_of(key);

		return chain == NULL ? NULL : held_find_number(key, chain->newest);
	}
	return held_index_lookup(held_index, key);
}

HeldEntry *
held_older(const HeldEntry *entry)
{
	return held_find_number(entry->key, entry->older);
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

HeldEntry *
held_find_key(const HeldKey *key)
{
	return held_index_lookup(held_index, *key);
}

void
held_walk(HeldCallback callback, void *arg)
{
	held_index_iterator it;
	HeldEntry  *entry;

	held_forget_reserved();
	held_index_start_iterate(held_index, &it);
	while ((entry = held_index_iterate(held_index, &it)) != NULL)
		callback(entry, arg);
}

static void
held_insert_chain(HeldKey key)
{
	HeldChain  *chain;
	bool		found;

	key.number = 0;
	chain = held_chains_insert(held_chains, key, &found);
	if (!found)
		chain->newest = 0;
}

static void
held_insert(HeldKey key)
{
	bool		found;
	HeldEntry  *entry = held_index_insert(held_index, key, &found);

	entry->hold = LR_NONE;
	entry->job_count = 0;
	entry->failed_jobs = 0;
	entry->guard = GUARD_OFF;
	entry->recorded = 0;
	entry->recorded_here = false;
	entry->taken_by = 0;
	entry->older = entry->newer = 0;
}

/*
 * held_reserve_all --- see session.h
 *
 * What an acquire has left that failed for lack of memory is removed first.
 */
void
held_reserve_all(const LrName *const *names, int n, KindId kind)
{
	held_forget_reserved();
	held_trim();
	reserved_names = names;
	reserved_kind = lr_kind(kind)->held_as;
	reserved_number = lr_kind(kind)->each_own ? ++last_number : 0;
	nreserved = n;
	for (int i = 0; i < n; i++)
	{
		HeldKey		key = held_reserved_key(names[i]);

		if (key.number != 0)
			held_insert_chain(key);
		held_insert(key);
	}
}

void
held_reserve(const LrName *name, KindId kind)
{
	static const LrName *const only = &reserved_name;

	held_forget_reserved();
	reserved_name = *name;
	held_reserve_all(&only, 1, kind);
}

/*
 * held_join_chain --- make the entry the newest of its key
 *
 * Its name is in the lock table by now.
 */
static void
held_join_chain(HeldEntry *entry)
{
	HeldChain  *chain = held_chain_of(entry->key);
	HeldEntry  *before = held_find_number(entry->key, chain->newest);

	chain->key.data = entry->key.data;
	entry->older = chain->newest;
	if (before != NULL)
		before->newer = entry->key.number;
	chain->newest = entry->key.number;
}

static void
held_leave_chain(const HeldEntry *entry)
{
	HeldEntry  *newer = held_find_number(entry->key, entry->newer);
	HeldEntry  *older = held_find_number(entry->key, entry->older);
	HeldChain  *chain = held_chain_of(entry->key);

	if (older != NULL)
		older->newer = entry->newer;
	if (newer != NULL)
		newer->older = entry->older;
	else if (older != NULL)
		chain->newest = entry->older;
	else
		held_chains_delete_item(held_chains, chain);
}

void
held_note_lease(const HeldEntry *entry)
{
	held_commit_floor = lr_earlier(held_commit_floor, lt_commits_until(entry->hold));
}

/*
 * held_complete --- see session.h
 *
 * From now on the key refers to the name in the lock table, which stays there as long
 * as the hold.
 */
HeldEntry *
held_complete(const LrName *name, LrIndex hold, CommitGuard guard)
{
	HeldEntry  *entry = held_index_lookup(held_index, held_reserved_key(name));

	entry->hold = hold;
	entry->key.data = lt_hold_name(hold);
	held_note_lease(entry);
	held_tighten_guard(entry, guard);
	if (entry->key.number != 0)
		held_join_chain(entry);
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
	if (entry->guard == GUARD_VERIFY)
		held_nverified--;
	if (entry->key.number != 0)
		held_leave_chain(entry);
	held_index_delete_item(held_index, entry);
	if (held_index->members == 0)
		held_commit_floor = LR_NEVER;
}

void
held_tighten_guard(HeldEntry *entry, CommitGuard guard)
{
	if (guard <= entry->guard)
		return;
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
