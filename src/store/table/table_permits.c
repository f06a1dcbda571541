/*-------------------------------------------------------------------------
 *
 * table_permits.c
 *	  Permits: how many there are, and who has one.
 *
 * How many there are of a key is in redis_lock_values, and each that is had is a row in
 * redis_lock_shares; there is none in redis_lock_rows, since nobody is kept from
 * anything but permits.
 *
 * A permit of a session belongs to this instance and ends with it.  One that is had by
 * its id outlives the server: it has no instance, and as its owner a digest of the id,
 * so that who may read the table cannot give it back.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_permits.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "common/hashfn.h"
#include "kinds/kind.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "instance.h"
#include "store/table/table_int.h"

/* ----------
 * Rows
 * ----------
 */

/*
 * owner_of_id --- PERMIT_OWNER and the SHA-256 of the id
 */
static Datum
owner_of_id(const uint8 *id)
{
	bytea	   *bytes = palloc(VARHDRSZ + LR_SECRET_ID_LEN);
	char		shown[LR_OWNER_MAX];
	bytea	   *digest;
	int			n;

	SET_VARSIZE(bytes, VARHDRSZ + LR_SECRET_ID_LEN);
	memcpy(VARDATA(bytes), id, LR_SECRET_ID_LEN);
	digest = DatumGetByteaPP(DirectFunctionCall1(sha256_bytea, PointerGetDatum(bytes)));
	n = strlcpy(shown, PERMIT_OWNER, sizeof(shown));
	n += hex_encode(VARDATA_ANY(digest), VARSIZE_ANY_EXHDR(digest), shown + n);
	return PointerGetDatum(cstring_to_text_with_len(shown, n));
}

static Datum
owner_by_id(const StoreOp *op)
{
	uint8		id[LR_SECRET_ID_LEN];

	if (op->owner == 0)
		memcpy(id, op->id, sizeof(id));
	else
		lr_secret_id(op->owner, id);
	return owner_of_id(id);
}

/*
 * find_permit --- that of a session, or the one that was to be had by its id
 */
static KeyedFound
find_permit(LockTables *tables, const StoreOp *op)
{
	KeyedFound	found = KEYED_NOTHING;

	if (op->owner != 0)
		found = share_find(tables, op, row_owner(op->owner, ""));
	if (found == KEYED_NOTHING)
		found = share_find(tables, op, owner_by_id(op));
	return found;
}

static void
insert_permit(LockTables *tables, const StoreOp *op)
{
	bool		by_id = op->keep_ms > 0;

	share_insert(tables, op, by_id ? owner_by_id(op) : row_owner(op->owner, ""), by_id);
	if (by_id)
		tables->must_flush = true;
	else
		lifetime_remember(op->owner, op->lease_ms);
}

/*
 * count_permits --- those of the key that count; the others go
 *
 * *first_ms: after which one of them comes back.  "sum" is another one when others have
 * them.
 */
static int64
count_permits(LockTables *tables, const StoreOp *op, int64 *first_ms, uint64 *sum)
{
	int64		n = 0;

	*first_ms = STORE_NO_TTL;
	*sum = 0;
	keyed_begin_group(&tables->shares, row_key(op));
	while (sound_next_share(tables))
	{
		int64		left;
		bool		isnull;
		text	   *owner;

		if (!share_is_permit(tables->shares.row))
			continue;
		left = lifetime_share_left_ms(tables->shares.row);
		if (left == 0)
		{
			(void) keyed_delete(&tables->shares);
			continue;
		}
		if (left != STORE_NO_TTL && (*first_ms == STORE_NO_TTL || left < *first_ms))
			*first_ms = left;
		owner = DatumGetTextPP(keyed_column(&tables->shares, COL_SHARE_OWNER, &isnull));
		*sum += hash_bytes_extended((const unsigned char *) VARDATA_ANY(owner),
									VARSIZE_ANY_EXHDR(owner), 0);
		n++;
	}
	return n;
}

/* ----------
 * Operations of permits
 * ----------
 */

void
permit_create(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	total;
	int64		had;
	int64		first_ms;
	uint64		sum;

	if (!value_find(tables, op, &total, trouble))
		return;
	if (!total.counts)
	{
		op->outcome = STORE_MISSING;
		return;
	}
	had = count_permits(tables, op, &first_ms, &sum);
	if (had >= total.value)
	{
		op->outcome = STORE_BUSY;
		op->value = STORE_VALUE_LOCK;
		op->ttl_ms = first_ms;
		return;
	}
	insert_permit(tables, op);
	op->outcome = STORE_OK;
}

/*
 * find_counting --- a permit that still counts; else the outcome is set
 */
static bool
find_counting(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	switch (find_permit(tables, op))
	{
		case KEYED_BLOCKED:
			return rows_blocked(op, trouble);
		case KEYED_ROW:
			if (lifetime_share_left_ms(tables->shares.row) != 0)
				return true;
			(void) keyed_delete(&tables->shares);
			break;
		case KEYED_NOTHING:
			break;
	}
	op->outcome = STORE_GONE;
	return false;
}

/*
 * permit_renew --- lengthen its lease; 0: leave it
 */
void
permit_renew(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	bool		isnull;

	if (!find_counting(tables, op, trouble))
		return;
	op->outcome = STORE_OK;
	if (op->lease_ms == 0)
		return;
	(void) keyed_column(&tables->shares, COL_SHARE_INSTANCE, &isnull);
	if (isnull)
		tables->must_flush = true;
	else
		lifetime_remember(op->owner, op->lease_ms);
	if (!share_lengthen(tables, op))
		rows_blocked(op, trouble);
}

void
permit_release(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	if (find_counting(tables, op, trouble))
	{
		if (keyed_delete(&tables->shares))
			op->outcome = STORE_OK;
		else
			rows_blocked(op, trouble);
	}
	if (op->owner != 0 && (op->outcome == STORE_OK || op->outcome == STORE_GONE))
		lifetime_forget(op->owner);
}

void
permit_define(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	total;
	int64		first_ms;
	uint64		sum;
	int64		value;

	if (value_find(tables, op, &total, trouble) &&
		value_change(op, &total, count_permits(tables, op, &first_ms, &sum), &value))
		(void) value_write(tables, op, &total, value, trouble);
}

void
permit_value(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	FoundValue	total;
	int64		first_ms;
	uint64		sum;

	if (!value_find(tables, op, &total, trouble))
		return;
	op->total = total.value;
	op->available = total.value - count_permits(tables, op, &first_ms, &sum);
	op->outcome = total.counts ? STORE_OK : STORE_MISSING;
}

/* ----------
 * Whoever has them
 * ----------
 */

/*
 * tell_permits --- how many are had, if any; they are told as those in Redis are
 *
 * If somebody has locked what says so it is not known, and the outcome is set.
 */
static bool
tell_permits(LockTables *tables, StoreOp *op, char *holder, char *digest, Size size,
			 int64 *first_ms, TableTrouble *trouble)
{
	StoreOp		look = *op;
	TableTrouble found;
	FoundValue	total;
	int64		had;
	uint64		sum;

	look.lock_kind = KIND_PERMIT;
	if (!tables_open_shares(tables, &found) ||
		!tables_open_values(tables, &found))
	{
		if (found.fault == TABLE_BLOCKED)
		{
			*trouble = found;
			rows_refuse(op, trouble);
		}
		return false;
	}
	had = count_permits(tables, &look, first_ms, &sum);
	if (had == 0)
		return false;
	if (!value_find(tables, &look, &total, trouble))
	{
		rows_refuse(op, trouble);
		return false;
	}
	op->hold_count = (int) had;
	op->available = total.value - had;
	snprintf(holder, LR_OWNER_MAX, "%lld %s", (long long) had,
			 had == 1 ? "permit" : "permits");
	snprintf(digest, size, "permits %016llx", (unsigned long long) sum);
	return true;
}

void
permits_inspect(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	int64		first_ms;

	if (!tell_permits(tables, op, op->holder, op->digest, sizeof(op->digest), &first_ms,
					  trouble))
		return;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = op->available > 0 ? STORE_NO_TTL : first_ms;
}

void
permits_force(LockTables *tables, StoreOp *op, TableTrouble *trouble)
{
	char		holder[LR_OWNER_MAX];
	char		digest[sizeof(op->digest)];
	int64		first_ms;

	if (!tell_permits(tables, op, holder, digest, sizeof(digest), &first_ms, trouble) ||
		strlen(digest) != op->owner_text_len ||
		memcmp(digest, op->owner_text, op->owner_text_len) != 0)
		return;
	keyed_begin_group(&tables->shares, row_key(op));
	while (sound_next_share(tables))
		if (share_is_permit(tables->shares.row) && !keyed_delete(&tables->shares))
			rows_undo_blocked();
	op->outcome = STORE_OK;
}
