/*-------------------------------------------------------------------------
 *
 * stores.c
 *	  The stores of this server.
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

#include "settings.h"
#include "store/stores.h"

static const StoreRoutine *const stores[STORE_COUNT] = {
	[STORE_REDIS] = &redis_store,
	[STORE_TABLE] = &table_store
};

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
