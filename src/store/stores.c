/*-------------------------------------------------------------------------
 *
 * stores.c
 *	  The stores that there are, and which of them this server uses.
 *
 * This is where a store becomes known by its id; whoever has to treat one
 * unlike another asks what it can do.  The mode is fixed when the server starts,
 * so nothing here changes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/stores.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "storage/shmem.h"

#include "settings.h"
#include "store/stores.h"

static const StoreRoutine *const stores[STORE_COUNT] = {
	[STORE_REDIS] = &redis_store,
	[STORE_TABLE] = &table_store
};

/*
 * stores_shmem_size --- of the stores that are used, for what is their own
 */
Size
stores_shmem_size(void)
{
	Size		size = 0;

	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && stores[i]->shmem_size != NULL)
			size = add_size(size, stores[i]->shmem_size());
	return size;
}

/* Called with AddinShmemInitLock held. */
void
stores_shmem_init(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
		if (lr_has_store(i) && stores[i]->shmem_init != NULL)
			stores[i]->shmem_init();
}

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

bool
lr_has_store(StoreId id)
{
	return lr_has_fallback() || id == lr_first_store();
}

StoreId
lr_first_store(void)
{
	return lr_mode == MODE_TABLE ? STORE_TABLE : STORE_REDIS;
}

bool
lr_has_fallback(void)
{
	return lr_mode == MODE_FALLBACK;
}
