/*-------------------------------------------------------------------------
 *
 * stores.c
 *	  The stores that there are.
 *
 * This is where a store becomes known by its id; whoever has to treat one
 * unlike another asks what it can do.
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

/*
 * stores_shmem_init --- their own, and their entries in the table of nodes
 *
 * Called with AddinShmemInitLock held, when there is that table.
 */
void
stores_shmem_init(void)
{
	for (int i = 0; i < STORE_COUNT; i++)
	{
		if (!lr_has_store(i))
			continue;
		node_enter(stores[i]->node, i, stores[i]->role);
		if (stores[i]->shmem_init != NULL)
			stores[i]->shmem_init();
	}
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
