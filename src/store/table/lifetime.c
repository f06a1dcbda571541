/*-------------------------------------------------------------------------
 *
 * lifetime.c
 *	  Until when a row of redis_lock_rows counts; see lifetime.h.
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

#include "instance.h"
#include "store/op.h"
#include "store/table/lifetime.h"
#include "store/table/sound_rows.h"
#include "store/table/tables.h"

/* More are made room for as they come. */
#define EXPECTED_ROWS		1024

/* Digits of the largest owner number. */
#define OWNER_DIGITS		20

/* Until when an own row counts. */
typedef struct Lifetime
{
	uint64		owner;			/* or, if it is shared, a hash of the key */
	int64		until;			/* lr_now() time */
} Lifetime;

static HTAB *lifetimes = NULL;
static HTAB *shared_lifetimes = NULL;
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
	shared_lifetimes = hash_create("lockredis shared rows", EXPECTED_ROWS, &ctl,
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
lifetime_is_own_instance(Datum value, bool isnull)
{
	return !isnull && memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) == 0;
}

/*
 * remember --- never shortened, as no operation lowers a time to live
 */
static void
remember(HTAB *memory, uint64 owner, int64 lease_ms)
{
	bool		found;
	Lifetime   *entry = hash_search(memory, &owner, HASH_ENTER, &found);
	int64		until = lr_now() + lease_ms * LR_US_PER_MS;

	entry->until = found ? Max(entry->until, until) : until;
}

void
lifetime_remember(uint64 owner, int64 lease_ms)
{
	remember(lifetimes, owner, lease_ms);
}

void
lifetime_forget(uint64 owner)
{
	hash_search(lifetimes, &owner, HASH_REMOVE, NULL);
}

/*
 * shared_number --- of a key
 *
 * Should two keys have the same, the row of one may count for as long as that of the
 * other.
 */
static uint64
shared_number(const char *name, int len)
{
	return hash_bytes_extended((const unsigned char *) name, len, 0);
}

void
lifetime_remember_shared(const char *name, int len, int64 lease_ms)
{
	remember(shared_lifetimes, shared_number(name, len), lease_ms);
}

void
lifetime_forget_shared(const char *name, int len)
{
	uint64		number = shared_number(name, len);

	hash_search(shared_lifetimes, &number, HASH_REMOVE, NULL);
}

static void
forget_ended(HTAB *memory)
{
	HASH_SEQ_STATUS seq;
	Lifetime   *entry;
	int64		now = lr_now();

	hash_seq_init(&seq, memory);
	while ((entry = hash_seq_search(&seq)) != NULL)
		if (entry->until <= now)
			hash_search(memory, &entry->owner, HASH_REMOVE, NULL);
}

void
lifetime_forget_ended(void)
{
	forget_ended(lifetimes);
	forget_ended(shared_lifetimes);
}

/*
 * owner_number --- the number in an owner of this instance; 0 if there is none
 */
static uint64
owner_number(const char *text, int len)
{
	const char *digits = text + LR_UUID_LEN + 1;
	int			ndigits = len - LR_UUID_LEN - 1;
	char		number[OWNER_DIGITS + 1];

	if (ndigits < 1 || ndigits > OWNER_DIGITS ||
		memcmp(text, lr_instance_uuid(), LR_UUID_LEN) != 0 ||
		text[LR_UUID_LEN] != ':')
		return 0;
	memcpy(number, digits, ndigits);
	number[ndigits] = '\0';
	return strtou64(number, NULL, 10);
}

/*
 * lease_ms_of --- the lease in a column
 */
static int64
lease_ms_of(TupleTableSlot *slot, int column)
{
	bool		isnull;
	Datum		lease = slot_getattr(slot, column, &isnull);

	return DatumGetIntervalP(lease)->time / LR_US_PER_MS;
}

/*
 * own_left_ms --- how long a row of this instance still counts
 */
static int64
own_left_ms(HTAB *memory, uint64 number, int64 lease_ms)
{
	Lifetime   *entry = hash_search(memory, &number, HASH_FIND, NULL);
	int64		left;

	if (entry == NULL)
	{
		remember(memory, number, lease_ms);
		return lease_ms;
	}
	left = entry->until - lr_now();
	return left <= 0 ? 0 : lr_ms_up(left);
}

bool
lifetime_is_shared(TupleTableSlot *slot)
{
	bool		isnull;
	Datum		value = slot_getattr(slot, COL_INSTANCE, &isnull);

	return lifetime_is_own_instance(value, isnull) &&
		keyed_is_text(slot, COL_OWNER, SHARED_OWNER);
}

/*
 * lifetime_remember_row --- see lifetime.h
 *
 * A worker that was started anew remembers nothing of the row.  So it looks at the row
 * first, or a shorter lease would replace the one that the row was written with.
 */
void
lifetime_remember_row(TupleTableSlot *slot, int64 lease_ms)
{
	bool		isnull;
	bool		shared = lifetime_is_shared(slot);
	text	   *t = DatumGetTextPP(slot_getattr(slot, shared ? COL_KEY : COL_OWNER, &isnull));

	(void) lifetime_left_ms(slot);
	if (shared)
		lifetime_remember_shared(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t), lease_ms);
	else
		lifetime_remember(owner_number(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)), lease_ms);
}

/*
 * wall_left_ms --- how long a row of no instance still counts
 */
static int64
wall_left_ms(Datum expires_at, int64 lease_ms)
{
	TimestampTz until = DatumGetTimestampTz(expires_at);
	TimestampTz now = GetCurrentTimestamp();

	if (until <= now)
		return 0;
	return TIMESTAMP_IS_NOEND(until) ? lease_ms : Min(lr_ms_up(until - now), lease_ms);
}

/*
 * number_left_ms --- how long that of a session of this server still counts, by its owner
 */
static int64
number_left_ms(const text *owner, int64 lease_ms)
{
	uint64		number = owner_number(VARDATA_ANY(owner), VARSIZE_ANY_EXHDR(owner));

	return number == 0 ? 0 : own_left_ms(lifetimes, number, lease_ms);
}

/*
 * lifetime_left_ms --- see lifetime.h
 */
int64
lifetime_left_ms(TupleTableSlot *slot)
{
	int64		lease_ms = lease_ms_of(slot, COL_LEASE);
	bool		isnull;
	Datum		instance_of = slot_getattr(slot, COL_INSTANCE, &isnull);
	text	   *key;

	if (isnull)
		return wall_left_ms(slot_getattr(slot, COL_EXPIRES_AT, &isnull), lease_ms);
	if (!lifetime_is_own_instance(instance_of, isnull))
		return 0;
	if (!lifetime_is_shared(slot))
		return number_left_ms(DatumGetTextPP(slot_getattr(slot, COL_OWNER, &isnull)),
							  lease_ms);
	key = DatumGetTextPP(slot_getattr(slot, COL_KEY, &isnull));
	return own_left_ms(shared_lifetimes,
					   shared_number(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)), lease_ms);
}

int64
lifetime_share_left_ms(TupleTableSlot *slot)
{
	int64		lease_ms = lease_ms_of(slot, COL_SHARE_LEASE);
	bool		isnull;
	Datum		instance_of = slot_getattr(slot, COL_SHARE_INSTANCE, &isnull);

	if (isnull)
		return wall_left_ms(slot_getattr(slot, COL_SHARE_EXPIRES_AT, &isnull), lease_ms);
	if (!lifetime_is_own_instance(instance_of, isnull))
		return 0;
	return number_left_ms(DatumGetTextPP(slot_getattr(slot, COL_SHARE_OWNER, &isnull)),
						  lease_ms);
}
