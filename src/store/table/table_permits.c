/*-------------------------------------------------------------------------
 *
 * table_permits.c
 *	  Permits: how many there are, and which sessions and ids have one.
 *
 * redis_lock_values says how many permits a key has, and redis_lock_shares has a row for each
 * one that is taken.  redis_lock_rows has none, since permits do not conflict with other locks
 * of the key.
 *
 * A session's permit belongs to this instance and ends with it.  A permit taken by id outlives
 * the server: it has no instance.  Its owner is a digest of the id, so that a user who can read
 * the table cannot release it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_permits.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/builtins.h"

#include "names.h"
#include "store/table/table_int.h"

/* The permits of a key that are taken. */
typedef struct PermitsHad
{
	int64		n;
	int64		first_ms;		/* after which the first of them expires */
	uint64		sum;			/* changes when their owners do */
} PermitsHad;

/* ----------
 * Shares
 * ----------
 */

/*
 * owner_of_id --- PERMIT_OWNER and the SHA-256 of the id
 */
static void
owner_of_id(const StoreOp *op, char *out)
{
	bytea	   *id = palloc(VARHDRSZ + LR_SECRET_ID_LEN);
	bytea	   *digest;
	int			n = strlcpy(out, PERMIT_OWNER, LR_OWNER_MAX);

	SET_VARSIZE(id, VARHDRSZ + LR_SECRET_ID_LEN);
	if (op->owner == 0)
		memcpy(VARDATA(id), op->id, LR_SECRET_ID_LEN);
	else
		lr_secret_id(op->owner, (uint8 *) VARDATA(id));
	digest = DatumGetByteaPP(DirectFunctionCall1(sha256_bytea, PointerGetDatum(id)));
	n += hex_encode(VARDATA_ANY(digest), VARSIZE_ANY_EXHDR(digest), out + n);
	out[n] = '\0';
}

/*
 * find_permit --- the permit that the operation's session or id has; NULL: the outcome is set
 *
 * A session that took a permit by id may release it until it has returned the id to its
 * caller.
 */
static Entry *
find_permit(LockTables *tables, StoreOp *op)
{
	char		owner[LR_OWNER_MAX];
	Entry	   *permit;

	if (op->owner != 0)
	{
		(void) lr_owner_text(op->owner, owner);
		permit = entry_find(tables, IN_SHARES, op, KIND_PERMIT, owner);
		if (permit == NULL || permit->there)
			return permit;
	}
	owner_of_id(op, owner);
	return entry_find(tables, IN_SHARES, op, KIND_PERMIT, owner);
}

static void
insert_permit(LockTables *tables, StoreOp *op)
{
	bool		by_id = op->keep_ms > 0;
	char		owner[LR_OWNER_MAX];

	if (by_id)
		owner_of_id(op, owner);
	else
		(void) lr_owner_text(op->owner, owner);
	share_insert(tables, op, KIND_PERMIT, owner, by_id);
	if (!by_id)
		lifetime_remember(op->owner, op->lease_ms);
}

/*
 * count_permits --- count the permits of the key that are taken, and delete expired ones
 */
static PermitsHad
count_permits(LockTables *tables, const StoreOp *op)
{
	PermitsHad	had = {0, STORE_NO_TTL, 0};
	const Entry *permit;

	shares_begin(tables, op);
	while ((permit = shares_next(tables, KIND_PERMIT)) != NULL)
	{
		if (permit->left_ms == 0)
		{
			(void) keyed_delete(&tables->table[IN_SHARES]);
			continue;
		}
		if (had.n++ == 0 || permit->left_ms < had.first_ms)
			had.first_ms = permit->left_ms;
		had.sum += shares_hash(permit->owner);
	}
	return had;
}

/* ----------
 * Operations of permits
 * ----------
 */

void
permit_create(LockTables *tables, StoreOp *op)
{
	const Entry *total = value_find(tables, op, KIND_PERMIT);
	PermitsHad	had;

	if (total == NULL)
		return;
	op->outcome = STORE_MISSING;
	if (total->left_ms == 0)
		return;
	had = count_permits(tables, op);
	if (had.n >= total->number)
		entry_busy(op, had.first_ms);
	else
		insert_permit(tables, op);
}

/*
 * find_counting --- the operation's permit, if it still counts; NULL: the outcome is set
 */
static Entry *
find_counting(LockTables *tables, StoreOp *op)
{
	Entry	   *permit = find_permit(tables, op);

	if (permit == NULL || permit->left_ms != 0)
		return permit;
	if (permit->there)
		(void) keyed_delete(&tables->table[IN_SHARES]);
	op->outcome = STORE_GONE;
	return NULL;
}

/*
 * permit_renew --- lengthen its lease, or with a lease of 0 only look whether it counts
 */
void
permit_renew(LockTables *tables, StoreOp *op)
{
	if (find_counting(tables, op) != NULL)
		(void) entry_extend(tables, IN_SHARES, op);
}

void
permit_release(LockTables *tables, StoreOp *op)
{
	if (find_counting(tables, op) != NULL)
		(void) entry_delete(tables, IN_SHARES, op);
	if (op->owner != 0 && (op->outcome == STORE_OK || op->outcome == STORE_GONE))
		lifetime_forget(op->owner);
}

/*
 * permit_define --- change how many permits there are
 *
 * Draining leaves only those that are taken.
 */
void
permit_define(LockTables *tables, StoreOp *op)
{
	const Entry *total = value_find(tables, op, KIND_PERMIT);
	int64		value = op->amount;
	int64		was;
	bool		counts;
	int64		had;

	if (total == NULL)
		return;
	was = total->number;
	counts = total->left_ms != 0;
	had = count_permits(tables, op).n;
	op->outcome = STORE_OK;
	op->changed = counts;
	switch (op->change)
	{
		case CHANGE_SET:
			op->changed = !counts || was != op->amount;
			break;
		case CHANGE_INIT:
			op->changed = !counts;
			break;
		case CHANGE_ADD:
			value += was;
			if (!counts)
				op->outcome = STORE_MISSING;
			break;
		case CHANGE_DRAIN:
			value = had;
			op->changed = counts && was > had;
			break;
		case CHANGE_DELETE:
			break;
	}
	if (!op->changed)
		value = was;
	op->total = value;
	op->available = (op->change == CHANGE_DRAIN ? was : value) - had;
	if (op->changed)
		(void) value_write(tables, op, value);
}

void
permit_value(LockTables *tables, StoreOp *op)
{
	const Entry *total = value_find(tables, op, KIND_PERMIT);

	if (total == NULL)
		return;
	op->total = total->number;
	op->available = total->number - count_permits(tables, op).n;
	op->outcome = total->left_ms != 0 ? STORE_OK : STORE_MISSING;
}

/* ----------
 * The owners of a key's permits
 * ----------
 */

/*
 * tell_permits --- describe the permits that are taken, in the words of the Redis store
 *
 * False: there are none; or another session has locked the tables, and the outcome is set.
 */
static bool
tell_permits(LockTables *tables, StoreOp *op, char *holder, char *digest, Size size,
			 PermitsHad *had)
{
	const Entry *total;

	if (!entry_may_look(tables, IN_SHARES, op) || !entry_may_look(tables, IN_VALUES, op))
		return false;
	*had = count_permits(tables, op);
	if (had->n == 0)
		return false;
	total = value_find(tables, op, KIND_PERMIT);
	if (total == NULL)
		return false;
	op->hold_count = (int) had->n;
	op->available = total->number - had->n;
	snprintf(holder, LR_OWNER_MAX, "%lld %s", (long long) had->n,
			 had->n == 1 ? "permit" : "permits");
	snprintf(digest, size, "permits %016llx", (unsigned long long) had->sum);
	return true;
}

void
permits_inspect(LockTables *tables, StoreOp *op)
{
	PermitsHad	had;

	if (!tell_permits(tables, op, op->holder, op->digest, sizeof(op->digest), &had))
		return;
	op->value = STORE_VALUE_LOCK;
	op->ttl_ms = op->available > 0 ? STORE_NO_TTL : had.first_ms;
}

void
permits_force(LockTables *tables, StoreOp *op)
{
	char		holder[LR_OWNER_MAX];
	char		digest[sizeof(op->digest)];
	PermitsHad	had;

	if (tell_permits(tables, op, holder, digest, sizeof(digest), &had) &&
		store_names_owner(op, digest))
		shares_drop(tables, op, KIND_PERMIT);
}
