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

#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "instance.h"
#include "store/op.h"
#include "store/table/lifetime.h"
#include "store/table/tables.h"

/* More are made room for as they come. */
#define EXPECTED_ROWS		1024

/* Digits of the largest owner number. */
#define OWNER_DIGITS		20

/* Until when an own row counts. */
typedef struct Lifetime
{
	uint64		owner;
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

/*
 * lifetime_remember --- see lifetime.h
 *
 * Never shortened, as no operation lowers a time to live.
 */
void
lifetime_remember(uint64 owner, int64 lease_ms)
{
	bool		found;
	Lifetime   *entry = hash_search(lifetimes, &owner, HASH_ENTER, &found);
	int64		until = lr_now() + lease_ms * LR_US_PER_MS;

	entry->until = found ? Max(entry->until, until) : until;
}

void
lifetime_forget(uint64 owner)
{
	hash_search(lifetimes, &owner, HASH_REMOVE, NULL);
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
			hash_search(lifetimes, &entry->owner, HASH_REMOVE, NULL);
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

static int64
interval_ms(const Interval *lease)
{
	int64		days = lease->day + (int64) lease->month * DAYS_PER_MONTH;

	return (lease->time + days * USECS_PER_DAY) / LR_US_PER_MS;
}

/*
 * own_left_ms --- how long a row of this instance still counts
 */
static int64
own_left_ms(const text *owner, int64 lease_ms)
{
	uint64		number = owner_number(VARDATA_ANY(owner), VARSIZE_ANY_EXHDR(owner));
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
 * wall_left_ms --- how long a row of no instance still counts
 */
static int64
wall_left_ms(TimestampTz expires_at)
{
	TimestampTz now = GetCurrentTimestamp();

	if (TIMESTAMP_IS_NOEND(expires_at))
		return STORE_NO_TTL;
	if (expires_at <= now)
		return 0;
	return Min(lr_ms_up(expires_at - now), STORE_TTL_MAX);
}

/*
 * lifetime_left_ms --- see lifetime.h
 *
 * Programs write rows too, with anything in them: a row of this instance
 * without an owner or a lease is none of ours.
 */
int64
lifetime_left_ms(TupleTableSlot *slot)
{
	bool		isnull;
	bool		lease_isnull;
	Datum		value = slot_getattr(slot, COL_INSTANCE, &isnull);
	Datum		lease = slot_getattr(slot, COL_LEASE, &lease_isnull);

	if (isnull)
	{
		value = slot_getattr(slot, COL_EXPIRES_AT, &isnull);
		return isnull ? STORE_NO_TTL : wall_left_ms(DatumGetTimestampTz(value));
	}
	if (memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) != 0)
		return 0;
	value = slot_getattr(slot, COL_OWNER, &isnull);
	if (isnull || lease_isnull)
		return 0;
	return own_left_ms(DatumGetTextPP(value), interval_ms(DatumGetIntervalP(lease)));
}
