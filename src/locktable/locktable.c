/*-------------------------------------------------------------------------
 *
 * locktable.c
 *	  The lock table: shared memory, pools, keys and locks.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/locktable.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/pg_bitutils.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "locktable/locktable_int.h"
#include "settings.h"

LrTable    *lt_table = NULL;
LrIndex    *lt_buckets = NULL;
LrKey	   *lt_keys = NULL;
LrHold	   *lt_holds = NULL;
pg_atomic_uint64 *lt_due[STORE_COUNT];
LrSession  *lt_sessions = NULL;

static LWLockPadded *lt_tranche = NULL;

/* At most two keys a bucket: the table is seldom full. */
static int
lt_bucket_count(void)
{
	return Max(LT_PARTITIONS, (int) pg_nextpower2_32(lr_max_locks) / 2);
}

/* Where MAXALIGN is 4 (i386), 64-bit atomics want more. */
#define LT_ALIGN(size)			TYPEALIGN(Max(MAXIMUM_ALIGNOF, sizeof(pg_atomic_uint64)), (size))

/*
 * lt_carve --- the next part of the area, of n elements; *used: how much of it is taken
 */
static void *
lt_carve(char *area, Size *used, Size n, Size element)
{
	char	   *part = area != NULL ? area + *used : NULL;

	*used = add_size(*used, LT_ALIGN(mul_size(n, element)));
	return part;
}

/*
 * lt_lay_out --- lay out the shared memory, or only compute its size (area NULL)
 */
static Size
lt_lay_out(char *area)
{
	Size		used = 0;

	lt_table = (LrTable *) lt_carve(area, &used, 1, sizeof(LrTable));
	lt_buckets = (LrIndex *) lt_carve(area, &used, lt_bucket_count(), sizeof(LrIndex));
	lt_keys = (LrKey *) lt_carve(area, &used, lr_max_locks, sizeof(LrKey));
	lt_holds = (LrHold *) lt_carve(area, &used, lr_max_locks, sizeof(LrHold));
	for (int s = 0; s < STORE_COUNT; s++)
		if (lr_has_store(s))
			lt_due[s] = (pg_atomic_uint64 *) lt_carve(area, &used, lr_max_locks, sizeof(pg_atomic_uint64));
	lt_sessions = (LrSession *) lt_carve(area, &used, MaxBackends, sizeof(LrSession));
	return used;
}

/*
 * locktable_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
locktable_shmem_size(void)
{
	return lt_lay_out(NULL);
}

/*
 * locktable_lwlocks --- the light-weight locks that the lock table uses
 */
int
locktable_lwlocks(void)
{
	return LT_LWLOCKS;
}

static void
lt_init_pool(LrPool *pool)
{
	SpinLockInit(&pool->mutex);
	pool->first_free = LR_NONE;
	pg_atomic_init_u32(&pool->nused, 0);
}

/*
 * lt_init_table --- initialize all but the slots of keys and holds
 *
 * There may be a million of them, of 600 bytes each: each is initialized at its first
 * use.
 */
static void
lt_init_table(void)
{
	lt_table->max_locks = lr_max_locks;
	lt_table->nbuckets = lt_bucket_count();
	lt_table->nsessions = MaxBackends;
	pg_atomic_init_u32(&lt_table->nrows, 0);
	pg_atomic_init_u32(&lt_table->nwaiters, 0);
	pg_atomic_init_u64(&lt_table->last_wait, 0);
	pg_atomic_init_u32(&lt_table->norphans, 0);
	for (int s = 0; s < STORE_COUNT; s++)
		pg_atomic_init_u64(&lt_table->sleeps_until[s], 0);
	pg_atomic_init_u32(&lt_table->subscription_work, 0);

	for (int i = 0; i < lt_table->nbuckets; i++)
		lt_buckets[i] = LR_NONE;
	memset(lt_sessions, 0, sizeof(LrSession) * MaxBackends);
	for (int i = 0; i < MaxBackends; i++)
		pg_atomic_init_u32(&lt_sessions[i].nlost, 0);
	lt_init_pool(&lt_table->key_pool);
	lt_init_pool(&lt_table->hold_pool);
	memset(lt_table->forced, 0, sizeof(lt_table->forced));
	pg_atomic_init_u32(&lt_table->losses.added, 0);
	pg_atomic_init_u32(&lt_table->losses.taken, 0);
	pg_atomic_init_u64(&lt_table->losses.left_out, 0);
}

/* Called with AddinShmemInitLock held. */
void
locktable_shmem_init(void)
{
	bool		found;

	(void) lt_lay_out(ShmemInitStruct("lockredis lock table", locktable_shmem_size(), &found));
	lt_tranche = GetNamedLWLockTranche("lockredis");
	if (!found)
		lt_init_table();
}

/* ----------
 * Pools
 * ----------
 */

/*
 * lt_reserve_row --- reserve one more row of redis_locks, if max_locks allows it
 */
bool
lt_reserve_row(void)
{
	uint32		n = pg_atomic_read_u32(&lt_table->nrows);

	do
	{
		if (n >= (uint32) lt_table->max_locks)
			return false;
	} while (!pg_atomic_compare_exchange_u32(&lt_table->nrows, &n, n + 1));
	return true;
}

void
lt_free_rows(int n)
{
	if (n > 0)
		pg_atomic_fetch_sub_u32(&lt_table->nrows, n);
}

/*
 * A session that takes several locks reserves the rows for all of them before it asks
 * for the first, so that they cannot run out halfway.
 */
static int *
lt_stock(void)
{
	return &lt_sessions[LrMyProcNumber].stocked_rows;
}

/*
 * lt_take_row --- take a row of the stock, or reserve one
 */
bool
lt_take_row(void)
{
	if (*lt_stock() == 0)
		return lt_reserve_row();
	(*lt_stock())--;
	return true;
}

bool
lt_stock_rows(int n)
{
	while (*lt_stock() < n)
	{
		if (!lt_reserve_row())
			return false;
		(*lt_stock())++;
	}
	return true;
}

bool
lt_any_left(void)
{
	return pg_atomic_read_u32(&lt_table->norphans) > 0;
}

void
lt_return_rows(void)
{
	lt_free_rows(*lt_stock());
	*lt_stock() = 0;
}

/*
 * lt_use_new_slot --- take a slot that was never used; the pool's mutex held
 */
static LrIndex
lt_use_new_slot(LrPool *pool)
{
	uint32		slot = pg_atomic_read_u32(&pool->nused);

	Assert(slot < (uint32) lt_table->max_locks);
	pg_atomic_write_u32(&pool->nused, slot + 1);
	return (LrIndex) slot;
}

/* ----------
 * Keys
 * ----------
 */

/* nbuckets is a multiple of LT_PARTITIONS, so each bucket is in one partition. */
static LrIndex *
lt_bucket_of(uint32 hash)
{
	return &lt_buckets[hash & (lt_table->nbuckets - 1)];
}

LrIndex
lt_find_key(const char *name, int len, uint32 hash)
{
	LrIndex		i;

	for (i = *lt_bucket_of(hash); i != LR_NONE; i = lt_keys[i].next)
	{
		LrKey	   *key = &lt_keys[i];

		if (key->hash == hash && key->name_len == len &&
			memcmp(key->name, name, len) == 0)
			return i;
	}
	return LR_NONE;
}

/*
 * lt_make_key --- find the key's entry or make one
 *
 * There are as many entries as holds, and the caller has a hold for it.
 */
LrIndex
lt_make_key(const char *name, int len, uint32 hash)
{
	LrPool	   *pool = &lt_table->key_pool;
	LrIndex		i = lt_find_key(name, len, hash);
	LrKey	   *key;

	if (i != LR_NONE)
		return i;

	SpinLockAcquire(&pool->mutex);
	i = pool->first_free;
	if (i == LR_NONE)
		i = lt_use_new_slot(pool);
	else
		pool->first_free = lt_keys[i].next;
	SpinLockRelease(&pool->mutex);

	key = &lt_keys[i];
	memset(key, 0, offsetof(LrKey, name));
	key->hash = hash;
	key->first_hold = LR_NONE;
	key->queue.list.head = LR_NONE;
	key->queue.list.tail = LR_NONE;
	key->places.list.head = LR_NONE;
	key->places.list.tail = LR_NONE;
	key->name_len = len;
	memcpy(key->name, name, len);
	key->next = *lt_bucket_of(hash);
	*lt_bucket_of(hash) = i;
	return i;
}

/*
 * locktable_free_unused --- free the key's entry if nobody holds or awaits it
 */
static void
locktable_free_unused(LrIndex key)
{
	LrKey	   *k = &lt_keys[key];
	LrIndex    *link;

	if (k->first_hold != LR_NONE || k->nwaiting > 0)
		return;

	link = lt_bucket_of(k->hash);
	while (*link != key)
		link = &lt_keys[*link].next;
	*link = k->next;

	SpinLockAcquire(&lt_table->key_pool.mutex);
	k->next = lt_table->key_pool.first_free;
	lt_table->key_pool.first_free = key;
	SpinLockRelease(&lt_table->key_pool.mutex);
}

/* ----------
 * Holds
 * ----------
 */

/*
 * lt_alloc_hold --- a hold for a row that was reserved
 *
 * Each hold has a row of its own and there are as many holds as rows, so this cannot
 * fail.  A new slot is zeroed, so nothing is due for it.
 */
LrIndex
lt_alloc_hold(void)
{
	LrPool	   *pool = &lt_table->hold_pool;
	LrIndex		hold;

	SpinLockAcquire(&pool->mutex);
	hold = pool->first_free;
	if (hold == LR_NONE)
		hold = lt_use_new_slot(pool);
	else
		pool->first_free = lt_holds[hold].next;
	SpinLockRelease(&pool->mutex);
	return hold;
}

/* A hold takes a row, and another one if both scopes hold the lock. */
int
lt_hold_rows(const LrHold *hold)
{
	return (hold->scope[SCOPE_SESSION].count > 0 &&
			hold->scope[SCOPE_XACT].count > 0) ? 2 : 1;
}

/*
 * lt_link_hold --- add a hold to its key, which is no longer WAITING
 */
void
lt_link_hold(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];

	h->prev = LR_NONE;
	h->next = key->first_hold;
	if (h->next != LR_NONE)
		lt_holds[h->next].prev = hold;
	key->first_hold = hold;
	kindset_add(&key->hold_kinds, h->kind);
	key->nwaiting--;
}

/*
 * lt_nothing_due --- the watchdog has nothing to do for the hold any more
 */
void
lt_nothing_due(LrIndex hold)
{
	for (int s = 0; s < STORE_COUNT; s++)
		if (lr_has_store(s))
			pg_atomic_write_u64(&lt_due[s][hold], 0);
}

/*
 * lt_ask_longer --- from now on, a store may have the lock for a lease of that length
 */
void
lt_ask_longer(LrHold *h, int64 lease_ms)
{
	int64		from = lt_is_left(h) ? lr_now() + lr_call_budget() : 0;

	h->lasts = lr_later(h->lasts, from + lease_ms * LR_US_PER_MS);
}

/*
 * expire_with --- a store may have the lock for as long as one that is gone
 *
 * What was left to the watchdog was not renewed any more, and may have been given up only when
 * it had ended, as its release was refused.
 */
static void
expire_with(LrHold *h, const LrHold *gone)
{
	if (!lt_is_left(gone))
		lt_ask_longer(h, gone->lasts / LR_US_PER_MS);
	else
		h->lasts = lr_later(h->lasts, gone->lasts - (lt_is_left(h) ? 0 : lr_now()));
}

/*
 * note_beside --- a read lock is gone, or was given up while it was waited for: it may have
 * extended in the store the write lock beside which its session held it
 */
static void
note_beside(const LrKey *key, const LrHold *gone)
{
	KindSet		beside = lr_kind(gone->kind)->beside;

	if (!lt_has_kinds(key, beside))
		return;
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (kindset_has(beside, lt_holds[i].kind))
			expire_with(&lt_holds[i], gone);
}

/*
 * lt_unlink_hold --- remove a hold from its key; the watchdog has done with it
 */
void
lt_unlink_hold(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LrKey	   *key = &lt_keys[h->key];

	if (h->prev != LR_NONE)
		lt_holds[h->prev].next = h->next;
	else
		key->first_hold = h->next;
	if (h->next != LR_NONE)
		lt_holds[h->next].prev = h->prev;
	if (key->first_hold == LR_NONE)
		key->hold_kinds = 0;
	lt_nothing_due(hold);
}

/*
 * lt_free_hold --- unlink a hold from its key and free its slot
 *
 * The key's entry goes with its last hold and waiting session.
 */
void
lt_free_hold(LrIndex hold)
{
	LrHold	   *h = &lt_holds[hold];
	LrIndex		key = h->key;
	int			rows = lt_hold_rows(h);

	note_beside(&lt_keys[key], h);
	if (h->state != HOLD_WAITING)
		lt_unlink_hold(hold);
	else
		lt_keys[key].nwaiting--;
	if (h->state == HOLD_ORPHAN)
		pg_atomic_fetch_sub_u32(&lt_table->norphans, 1);
	h->state = HOLD_FREE;
	h->session = LR_NONE;
	h->claim.owner = 0;

	/*
	 * Free the key's entry first and the row last: whoever gets a row must find a free
	 * hold, and whoever gets a hold must find a free key entry.
	 */
	locktable_free_unused(key);

	SpinLockAcquire(&lt_table->hold_pool.mutex);
	h->next = lt_table->hold_pool.first_free;
	lt_table->hold_pool.first_free = hold;
	SpinLockRelease(&lt_table->hold_pool.mutex);

	lt_free_rows(rows);
}

/*
 * lt_handed_lease_ms --- the lease of a hold if all its scopes are renewed, else 0
 */
int64
lt_handed_lease_ms(const LrHold *h)
{
	int64		lease_ms = 0;

	if (h->state == HOLD_HANDED)
		return lt_wait_of(h->session)->terms.lease_ms;
	for (int i = 0; i < SCOPE_COUNT; i++)
	{
		if (h->scope[i].count == 0)
			continue;
		if (!h->scope[i].renewed)
			return 0;
		lease_ms = Max(lease_ms, h->scope[i].lease_ms);
	}
	return lease_ms;
}

/*
 * lt_has_ordered_hold --- may a session here pass the lock on in the order of the store?
 */
bool
lt_has_ordered_hold(const LrKey *key)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if (lt_is_had(&lt_holds[i]) && lr_kind(lt_holds[i].kind)->placed &&
			!lr_kind(lt_holds[i].kind)->passing)
			return true;
	return false;
}

/* ----------
 * Lists of sessions
 * ----------
 */

/*
 * lt_list_insert --- insert a session behind "prev", or as the first (LR_NONE)
 */
void
lt_list_insert(LrList *list, LrIndex session, LrIndex prev)
{
	LrWait	   *w = lt_wait_of(session);
	LrIndex    *link = prev == LR_NONE ? &list->head : &lt_wait_of(prev)->next;

	w->prev = prev;
	w->next = *link;
	*link = session;
	if (prev == LR_NONE && w->next != LR_NONE)
		w->of_list = lt_wait_of(w->next)->of_list;
	else if (prev == LR_NONE)
		w->of_list = (LrOfList) {.asks_ahead = LR_NONE};
	if (w->next != LR_NONE)
		lt_wait_of(w->next)->prev = session;
	else
		list->tail = session;
}

/*
 * lt_list_remove --- remove a session that is in the list
 */
void
lt_list_remove(LrList *list, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	if (w->prev != LR_NONE)
		lt_wait_of(w->prev)->next = w->next;
	else
		list->head = w->next;
	if (w->prev == LR_NONE && w->next != LR_NONE)
		lt_wait_of(w->next)->of_list = w->of_list;
	if (w->next != LR_NONE)
		lt_wait_of(w->next)->prev = w->prev;
	else
		list->tail = w->prev;
	w->prev = w->next = LR_NONE;
}

/* ----------
 * Locks
 * ----------
 */

/*
 * lt_lwlock --- the lock of a partition, or LT_DEADLOCK_LOCK and so on
 */
LWLock *
lt_lwlock(uint32 n)
{
	return &lt_tranche[LT_FIRST_LWLOCK + n].lock;
}
