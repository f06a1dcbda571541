/*-------------------------------------------------------------------------
 *
 * current.c
 *	  Which store new locks go to.
 *
 * Written by the watchdog only.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/current.c
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
	pg_atomic_uint32 epoch;
	slock_t		mutex;			/* protects status */
	CurrentStatus status;
} CurrentShared;

/* Only in fallback mode; NULL otherwise. */
static CurrentShared *shared = NULL;

/*
 * current_shmem_size --- the shared memory that this file uses, in bytes
 */
Size
current_shmem_size(void)
{
	return lr_has_fallback() ? MAXALIGN(sizeof(CurrentShared)) : 0;
}

/* Called with AddinShmemInitLock held. */
void
current_shmem_init(void)
{
	bool		found;

	if (!lr_has_fallback())
		return;
	shared = ShmemInitStruct("lockredis current store", current_shmem_size(), &found);
	if (found)
		return;

	memset(shared, 0, sizeof(CurrentShared));
	pg_atomic_init_u32(&shared->store, lr_first_store());
	pg_atomic_init_u32(&shared->epoch, 0);
	SpinLockInit(&shared->mutex);
	shared->status.store = lr_first_store();
	shared->status.since = GetCurrentTimestamp();
}

/*
 * current_store --- the store that new locks go to
 */
StoreId
current_store(void)
{
	return lr_has_fallback() ? (StoreId) pg_atomic_read_u32(&shared->store) :
		lr_first_store();
}

uint32
current_epoch(void)
{
	return lr_has_fallback() ? pg_atomic_read_u32(&shared->epoch) : 0;
}

/*
 * current_get_status --- see stores.h; in fallback mode only
 */
void
current_get_status(CurrentStatus *out)
{
	SpinLockAcquire(&shared->mutex);
	*out = shared->status;
	SpinLockRelease(&shared->mutex);
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

	SpinLockAcquire(&shared->mutex);
	shared->status.store = to;
	shared->status.since = now;
	strlcpy(shared->status.why, why, sizeof(shared->status.why));
	SpinLockRelease(&shared->mutex);

	pg_atomic_write_u32(&shared->store, to);
	pg_memory_barrier();
	current_new_epoch();
}

void
current_new_epoch(void)
{
	pg_atomic_fetch_add_u32(&shared->epoch, 1);
}
