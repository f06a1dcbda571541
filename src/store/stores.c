/*-------------------------------------------------------------------------
 *
 * stores.c
 *	  The stores of this server, and which one new locks go to.
 *
 * Only this file maps an id to its store.  Code that has to treat one store unlike
 * another asks what it can do.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/stores.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "settings.h"
#include "store/stores.h"

typedef struct CurrentShared
{
	pg_atomic_uint32 store;		/* StoreId */
	slock_t		mutex;			/* protects status */
	CurrentStatus status;
} CurrentShared;

/* Only in fallback mode; NULL otherwise. */
static CurrentShared *current = NULL;

static const StoreRoutine *const stores[STORE_COUNT] = {
	[STORE_REDIS] = &redis_store,
	[STORE_TABLE] = &table_store
};

/*
 * stores_shmem_size --- the shared memory of the stores in use, in bytes
 */
Size
stores_shmem_size(void)
{
	Size		size = lr_has_fallback() ? MAXALIGN(sizeof(CurrentShared)) : 0;

	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && stores[i]->shmem_size != NULL)
			size = add_size(size, stores[i]->shmem_size());
	return size;
}

static void
current_shmem_init(void)
{
	bool		found;

	current = ShmemInitStruct("lockredis current store", sizeof(CurrentShared), &found);
	if (found)
		return;

	memset(current, 0, sizeof(CurrentShared));
	pg_atomic_init_u32(&current->store, lr_first_store());
	SpinLockInit(&current->mutex);
	current->status.store = lr_first_store();
	current->status.since = GetCurrentTimestamp();
}

/*
 * stores_shmem_init --- initialize the stores in use
 *
 * Called with AddinShmemInitLock held.
 */
void
stores_shmem_init(void)
{
	if (lr_has_fallback())
		current_shmem_init();
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && stores[i]->shmem_init != NULL)
			stores[i]->shmem_init();
}

/*
 * lr_store --- the interface of a store
 */
const StoreRoutine *
lr_store(StoreId id)
{
	return stores[id];
}

bool
lr_store_can(StoreId id, int feature)
{
	return (stores[id]->features & feature) != 0;
}

StoreId
lr_store_with(int feature)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && lr_store_can(i, feature))
			return i;
	return STORE_COUNT;
}

int64
lr_usual_round_trip(StoreId id)
{
	return node_usual_round_trip(stores[id]->node);
}

bool
lr_store_is_up(StoreId id)
{
	NodeStatus	status;

	(void) node_get_status(stores[id]->node, &status);
	return status.state == NODE_UP;
}

/* ----------
 * Which store new locks go to; only the watchdog writes
 * ----------
 */

/*
 * current_store --- the store that new locks go to
 */
StoreId
current_store(void)
{
	return lr_has_fallback() ? (StoreId) pg_atomic_read_u32(&current->store) :
		lr_first_store();
}

/*
 * current_get_status --- see stores.h; in fallback mode only
 */
void
current_get_status(CurrentStatus *out)
{
	SpinLockAcquire(&current->mutex);
	*out = current->status;
	SpinLockRelease(&current->mutex);
}

/*
 * A process that grants a lock makes the hold visible and then looks at the store
 * (lt_grant); the watchdog sets the store and then looks at the holds.  So one of the
 * two sees that the lock has to move.
 */
void
current_change(StoreId to, const char *why)
{
	TimestampTz now = GetCurrentTimestamp();

	SpinLockAcquire(&current->mutex);
	current->status.store = to;
	current->status.since = now;
	strlcpy(current->status.why, why, sizeof(current->status.why));
	SpinLockRelease(&current->mutex);

	pg_atomic_write_u32(&current->store, to);
	pg_memory_barrier();
	topology_tell();
}
