/*-------------------------------------------------------------------------
 *
 * lifetime.c
 *	  Until when a row of redis_lock_rows counts; see table_int.h.
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
#include "store/table/table_int.h"

/* More are made room for as they come. */
#define EXPECTED_ROWS		1024

/* Digits of the largest owner number. */
#define OWNER_DIGITS		20

/* Of a row that readers share: no owner has this bit. */
#define SHARED_NUMBER		(UINT64CONST(1) << 63)

/* Until when an own row counts. */
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
lifetime_is_own_instance(Datum value, bool isnull)
{
	return !isnull && memcmp(DatumGetUUIDP(value)->data, instance.data, UUID_LEN) == 0;
}

/*
 * lifetime_remember --- never shortened, as no operation lowers a time to live
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
 * lifetime_shared_number --- see table_int.h
 *
 * Should two keys have the same, the row of one may count for as long as that of the
 * other.
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
 * number_of --- by which a row of this instance is remembered; 0: by none
 */
static uint64
number_of(TupleTableSlot *slot, int column, bool shared)
{
	bool		isnull;
	text	   *t = DatumGetTextPP(slot_getattr(slot, column, &isnull));

	return shared ? lifetime_shared_number(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t)) :
		owner_number(VARDATA_ANY(t), VARSIZE_ANY_EXHDR(t));
}

/*
 * own_left_ms --- how long a row of this instance still counts
 */
static int64
own_left_ms(uint64 number, int64 lease_ms)
{
	Lifetime   *entry = hash_search(lifetimes, &number, HASH_FIND, NULL);
	int64		left;

	if (number == 0)
		return 0;
	if (entry == NULL)
	{
		lifetime_remember(number, lease_ms);
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
 * lifetime_remember_row --- see table_int.h
 *
 * A worker that was started anew remembers nothing of the row.  So it looks at the row
 * first, or a shorter lease would replace the one that the row was written with.
 */
void
lifetime_remember_row(TupleTableSlot *slot, int64 lease_ms)
{
	bool		shared = lifetime_is_shared(slot);

	(void) lifetime_left_ms(slot);
	lifetime_remember(number_of(slot, shared ? COL_KEY : COL_OWNER, shared), lease_ms);
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
 * left_ms --- how long a row with these columns still counts; its number is that of a
 * column, too
 */
static int64
left_ms(TupleTableSlot *slot, int lease_column, int expires_column, int instance_column,
		int number_column, bool shared)
{
	int64		lease_ms = lease_ms_of(slot, lease_column);
	bool		isnull;
	Datum		instance_of = slot_getattr(slot, instance_column, &isnull);

	if (isnull)
		return wall_left_ms(slot_getattr(slot, expires_column, &isnull), lease_ms);
	return lifetime_is_own_instance(instance_of, isnull) ?
		own_left_ms(number_of(slot, number_column, shared), lease_ms) : 0;
}

/*
 * lifetime_left_ms --- see table_int.h
 */
int64
lifetime_left_ms(TupleTableSlot *slot)
{
	bool		shared = lifetime_is_shared(slot);

	return left_ms(slot, COL_LEASE, COL_EXPIRES_AT, COL_INSTANCE,
				   shared ? COL_KEY : COL_OWNER, shared);
}

int64
lifetime_share_left_ms(TupleTableSlot *slot)
{
	return left_ms(slot, COL_SHARE_LEASE, COL_SHARE_EXPIRES_AT, COL_SHARE_INSTANCE,
				   COL_SHARE_OWNER, false);
}
