/*-------------------------------------------------------------------------
 *
 * lifetime.c
 *	  Until when an entry counts; see table_int.h.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/lifetime.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "names.h"
#include "store/op.h"
#include "store/table/table_int.h"

/* The initial size of the hash table, which grows as needed. */
#define EXPECTED_ROWS		1024

/* Set in the number of a row that readers share: no owner has this bit. */
#define SHARED_NUMBER		(UINT64CONST(1) << 63)

/* Until when a row of this instance counts. */
typedef struct Lifetime
{
	uint64		number;			/* its owner or, if it is shared, a hash of the key */
	int64		until;			/* lr_now() time */
} Lifetime;

static HTAB *lifetimes = NULL;
static pg_uuid_t instance;

void
lifetime_start(void)
{
	HASHCTL		ctl;

	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(Lifetime);
	ctl.hcxt = TopMemoryContext;
	lifetimes = hash_create("lockredis rows", EXPECTED_ROWS, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	instance = *DatumGetUUIDP(DirectFunctionCall1(uuid_in,
												  CStringGetDatum(lr_instance_uuid())));
}

Datum
lifetime_instance(void)
{
	return UUIDPGetDatum(&instance);
}

bool
lifetime_is_own_instance(Datum value)
{
	return memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) == 0;
}

/*
 * lifetime_remember --- see table_int.h
 *
 * No operation shortens a lease, so the end is never moved to an earlier time.
 */
void
lifetime_remember(uint64 number, int64 lease_ms)
{
	bool		found;
	Lifetime   *entry = hash_search(lifetimes, &number, HASH_ENTER, &found);
	int64		until = lr_now() + lease_ms * LR_US_PER_MS;

	entry->until = found ? Max(entry->until, until) : until;
}

void
lifetime_forget(uint64 number)
{
	hash_search(lifetimes, &number, HASH_REMOVE, NULL);
}

/*
 * lifetime_owner_number --- see table_int.h
 */
uint64
lifetime_owner_number(const char *owner)
{
	if (strncmp(owner, lr_instance_uuid(), LR_UUID_LEN) != 0 || owner[LR_UUID_LEN] != ':')
		return 0;
	return strtou64(owner + LR_UUID_LEN + 1, NULL, 10);
}

/*
 * lifetime_shared_number --- see table_int.h
 *
 * If two keys have the same hash, the row of one may count for as long as the other's.
 */
uint64
lifetime_shared_number(const char *name, int len)
{
	return hash_bytes_extended((const unsigned char *) name, len, 0) | SHARED_NUMBER;
}

void
lifetime_forget_ended(void)
{
	HASH_SEQ_STATUS seq;
	Lifetime   *entry;
	int64		now = lr_now();

	hash_seq_init(&seq, lifetimes);
	while ((entry = hash_seq_search(&seq)) != NULL)
		if (entry->until <= now)
			lifetime_forget(entry->number);
}

/*
 * own_left_ms --- for how many more milliseconds a row of this instance counts
 */
static int64
own_left_ms(uint64 number, int64 lease_ms)
{
	Lifetime   *entry;
	int64		left;

	if (number == 0)
		return 0;
	entry = hash_search(lifetimes, &number, HASH_FIND, NULL);
	if (entry == NULL)
	{
		lifetime_remember(number, lease_ms);
		return lease_ms;
	}
	left = entry->until - lr_now();
	return left <= 0 ? 0 : lr_ms_up(left);
}

/*
 * wall_left_ms --- for how many more milliseconds a row without an instance counts
 */
static int64
wall_left_ms(TimestampTz until, int64 lease_ms)
{
	TimestampTz now = GetCurrentTimestamp();

	if (until <= now)
		return 0;
	return TIMESTAMP_IS_NOEND(until) ? lease_ms : Min(lr_ms_up(until - now), lease_ms);
}

int64
lifetime_left_ms(const Entry *e)
{
	if (e->of == OF_NOBODY)
		return wall_left_ms(e->until, e->lease_ms);
	return e->of == OF_US ? own_left_ms(e->remembered, e->lease_ms) : 0;
}
