/*-------------------------------------------------------------------------
 *
 * table_counts.c
 *	  Numbers that are set from SQL: semaphores, latches, and how many permits there are; and
 *	  which sessions and ids have a permit.
 *
 * redis_lock_values has one row for each key and kind, which belongs to no instance.  Each
 * operation of semaphores and latches does what the script of its kind does in Redis.
 *
 * If a session does not read the answer to a request, the watchdog soon asks the worker to undo
 * it.  Whether the request was carried out is then the status of its transaction.  So
 * the last requests are kept in shared memory, each with its transaction: the worker may end
 * between its commit and that question.
 *
 *	 session: takes two permits, is cancelled
 *									worker: commits that, and ends
 *	 watchdog: asks to undo it
 *									next worker: it was committed; returns two permits
 *
 * Of the requests whose answer was not read, the last TABLE_TICKETS are kept.  An older one
 * is treated as if it had not run.
 *
 * A permit that is taken has a row in redis_lock_shares, and none in redis_lock_rows, since
 * permits do not conflict with other locks of the key.  A session's permit belongs to this
 * instance and ends with it.  A permit taken by id outlives the server: it has no instance.
 * Its owner is a digest of the id, so that a user who can read the table cannot release it.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/store/table/table_counts.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include <openssl/sha.h>

#include "access/transam.h"
#include "access/xact.h"
#include "common/int.h"
#include "utils/builtins.h"

#include "names.h"
#include "store/table/table_int.h"

/* ----------
 * Tickets: which requests have changed a count, in case nobody reads the answer
 * ----------
 */

/*
 * ticket_add --- note that the current transaction carries out the request of this owner
 *
 * If no ticket is free, it takes the place of the oldest one.
 */
static void
ticket_add(uint64 owner)
{
	TableTickets *tickets = requests_tickets();
	TableTicket *t;
	int			looked = 0;

	while (looked++ < TABLE_TICKETS &&
		   pg_atomic_read_u64(&tickets->ticket[tickets->next].owner) != 0)
		tickets->next = (tickets->next + 1) % TABLE_TICKETS;
	t = &tickets->ticket[tickets->next];
	tickets->next = (tickets->next + 1) % TABLE_TICKETS;
	pg_atomic_write_u64(&t->owner, owner);
	t->done_by = GetTopTransactionId();
	t->undone_by = InvalidTransactionId;
}

static bool
ticket_is_done(TransactionId xid)
{
	return TransactionIdIsValid(xid) &&
		(TransactionIdIsCurrentTransactionId(xid) || TransactionIdDidCommit(xid));
}

/*
 * ticket_find --- the ticket of a request that was carried out and not undone, or NULL
 *
 * An owner has several tickets if the request was tried again after its transaction failed.
 * At most one of these transactions has been committed.
 */
static TableTicket *
ticket_find(uint64 owner)
{
	TableTickets *tickets = requests_tickets();

	for (int i = 0; i < TABLE_TICKETS; i++)
	{
		TableTicket *t = &tickets->ticket[i];

		if (pg_atomic_read_u64(&t->owner) == owner && ticket_is_done(t->done_by) &&
			!ticket_is_done(t->undone_by))
			return t;
	}
	return NULL;
}

/* ----------
 * Numbers
 * ----------
 */

/*
 * value_find --- the number of the key and this kind: 0 if there is none
 */
static Entry *
value_find(LockTables *tables, const StoreOp *op, KindId kind)
{
	Entry	   *value = entry_find(tables, IN_VALUES, op, kind, "");

	if (value->left_ms == 0)
		value->number = 0;
	return value;
}

/*
 * value_write --- write the number that was found last
 *
 * A new one expires after op->lease_ms, or never if that is 0; one that counts keeps its end.
 */
static void
value_write(LockTables *tables, StoreOp *op, int64 number)
{
	Entry	   *value = &tables->entry[IN_VALUES];

	if (value->left_ms == 0)
		value->until = op->lease_ms > 0 ? entry_time_after(value, op->lease_ms) : DT_NOEND;
	value->number = number;
	entry_put(tables, IN_VALUES, op);
}

/*
 * value_delete --- delete the number that was found last; it must be there
 */
static void
value_delete(LockTables *tables, StoreOp *op)
{
	tables->must_flush = true;
	entry_delete(tables, IN_VALUES, op);
}

/*
 * count_find --- find the number of the operation's kind, and answer with it
 */
static Entry *
count_find(LockTables *tables, StoreOp *op)
{
	Entry	   *value = value_find(tables, op, op->lock_kind);

	op->outcome = STORE_OK;
	op->answer.available = op->answer.total = value->number;
	return value;
}

/*
 * count_add --- add to the number that was found last
 */
static void
count_add(LockTables *tables, StoreOp *op, int64 amount)
{
	int64		value;

	if (pg_add_s64_overflow(tables->entry[IN_VALUES].number, amount, &value))
	{
		table_trouble_set(&tables->trouble, ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "",
						  "The number would be out of range.");
		tables_fail(tables);
	}
	op->answer.available = op->answer.total = value;
	value_write(tables, op, value);
}

/*
 * count_value --- read the number
 */
static void
count_value(LockTables *tables, StoreOp *op)
{
	(void) count_find(tables, op);
}

/*
 * count_define --- set, create, add to, drain or delete the number
 *
 * A number that is set gets a new end, whatever the old one's was.
 */
static void
count_define(LockTables *tables, StoreOp *op)
{
	Entry	   *value = count_find(tables, op);
	bool		counts = value->left_ms != 0;

	op->answer.changed = (op->args.change != CHANGE_INIT || !counts) &&
		(op->args.change != CHANGE_DELETE || counts);
	if (!op->answer.changed)
		return;
	switch (op->args.change)
	{
		case CHANGE_SET:
		case CHANGE_INIT:
			value->left_ms = 0;
			op->answer.available = op->answer.total = op->amount;
			value_write(tables, op, op->amount);
			break;
		case CHANGE_ADD:
			count_add(tables, op, op->amount);
			break;
		case CHANGE_DRAIN:
			if (value->number != 0 && value->number >= PG_INT32_MIN &&
				value->number <= PG_INT32_MAX)
				value_write(tables, op, 0);
			break;
		case CHANGE_DELETE:
			value_delete(tables, op);
			break;
	}
}

/* ----------
 * Semaphores
 * ----------
 */

/*
 * semaphore_create --- take permits from a semaphore, or find it busy
 */
static void
semaphore_create(LockTables *tables, StoreOp *op)
{
	if (count_find(tables, op)->number < op->amount)
	{
		entry_busy(op, STORE_NO_TTL);
		return;
	}
	count_add(tables, op, -op->amount);
	ticket_add(op->owner);
}

/*
 * semaphore_release --- undo a create whose answer nobody has read
 *
 * If the semaphore has been deleted or has expired meanwhile, it is not created again.
 */
static void
semaphore_release(LockTables *tables, StoreOp *op)
{
	const Entry *value = count_find(tables, op);
	TableTicket *ticket = ticket_find(op->owner);

	if (ticket == NULL)
	{
		op->outcome = STORE_GONE;
		return;
	}
	if (value->left_ms != 0)
		count_add(tables, op, op->amount);
	ticket->undone_by = GetTopTransactionId();
}

/*
 * semaphore_count --- return permits, once for each request
 */
static void
semaphore_count(LockTables *tables, StoreOp *op)
{
	(void) count_find(tables, op);
	if (ticket_find(op->owner) != NULL)
		return;
	count_add(tables, op, op->amount);
	ticket_add(op->owner);
}

const RowOperation semaphore_operations[STORE_CALLS] = {
	[STORE_CREATE] = semaphore_create,
	[STORE_RELEASE] = semaphore_release,
	[STORE_TALLY] = semaphore_count,
	[STORE_DEFINE] = count_define,
	[STORE_VALUE] = count_value
};

/* ----------
 * Latches
 * ----------
 */

/*
 * latch_create --- wait for a latch: busy while its number is above 0
 */
static void
latch_create(LockTables *tables, StoreOp *op)
{
	if (count_find(tables, op)->number > 0)
		entry_busy(op, STORE_NO_TTL);
}

/*
 * latch_count --- count a latch down, once for each request, and delete it at 0
 *
 * The request gets a ticket even if there is no latch.  Otherwise, sent again, it would count
 * down a new latch that was set meanwhile.
 */
static void
latch_count(LockTables *tables, StoreOp *op)
{
	const Entry *value = count_find(tables, op);

	if (ticket_find(op->owner) != NULL)
		return;
	if (value->number > op->amount)
		count_add(tables, op, -op->amount);
	else
	{
		op->answer.available = op->answer.total = 0;
		if (value->left_ms != 0)
			value_delete(tables, op);
	}
	ticket_add(op->owner);
}

const RowOperation latch_operations[STORE_CALLS] = {
	[STORE_CREATE] = latch_create,
	[STORE_TALLY] = latch_count,
	[STORE_DEFINE] = count_define,
	[STORE_VALUE] = count_value
};

/* ----------
 * Permits
 * ----------
 */

/*
 * owner_of_id --- PERMIT_OWNER and the SHA-256 of the id
 */
static void
owner_of_id(const StoreOp *op, char *out)
{
	uint8		id[LR_SECRET_ID_LEN];
	uint8		digest[SHA256_DIGEST_LENGTH];
	int			n = strlcpy(out, PERMIT_OWNER, LR_OWNER_MAX);

	if (op->owner == 0)
		memcpy(id, op->id, sizeof(id));
	else
		lr_secret_id(op->owner, id);
	(void) SHA256(id, sizeof(id), digest);
	n += hex_encode((const char *) digest, sizeof(digest), out + n);
	out[n] = '\0';
}

/* Grant a permit, to the session or by id, if not all are taken. */
static void
permit_create(LockTables *tables, StoreOp *op)
{
	const Entry *total = value_find(tables, op, KIND_PERMIT);
	bool		by_id = op->keep_ms > 0;
	char		owner[LR_OWNER_MAX];
	Shares		had;

	op->outcome = STORE_MISSING;
	if (total->left_ms == 0)
		return;
	had = shares_look(tables, op, KIND_PERMIT);
	if (had.n >= total->number)
	{
		entry_busy(op, had.first_ms);
		return;
	}
	if (by_id)
		owner_of_id(op, owner);
	else
		(void) lr_owner_text(op->owner, owner);
	share_insert(tables, op, KIND_PERMIT, owner, by_id);
}

/*
 * permit_find --- find the permit that the operation's session or id has; false: it has none that
 * counts, and the outcome is set
 *
 * A session that took a permit by id may release it until it has returned the id to its caller.
 */
static bool
permit_find(LockTables *tables, StoreOp *op)
{
	const Entry *permit = &tables->entry[IN_SHARES];
	char		owner[LR_OWNER_MAX];

	(void) lr_owner_text(op->owner, owner);
	if (op->owner == 0 || !entry_find(tables, IN_SHARES, op, KIND_PERMIT, owner)->there)
	{
		owner_of_id(op, owner);
		(void) entry_find(tables, IN_SHARES, op, KIND_PERMIT, owner);
	}
	if (permit->left_ms != 0)
		return true;
	if (permit->there)
		(void) keyed_delete(&tables->table[IN_SHARES]);
	op->outcome = STORE_GONE;
	return false;
}

/*
 * permit_renew --- lengthen its lease, or with a lease of 0 only look whether it counts
 */
static void
permit_renew(LockTables *tables, StoreOp *op)
{
	if (permit_find(tables, op))
		entry_extend(tables, IN_SHARES, op);
}

/* By the session that has it, or by its id. */
static void
permit_release(LockTables *tables, StoreOp *op)
{
	if (permit_find(tables, op))
		entry_delete(tables, IN_SHARES, op);
}

/*
 * permit_number --- set how many permits there are, or read that, and how many of them nobody has
 */
static void
permit_number(LockTables *tables, StoreOp *op)
{
	if (op->kind == STORE_DEFINE)
		count_define(tables, op);
	else if (count_find(tables, op)->left_ms == 0)
		op->outcome = STORE_MISSING;
	op->answer.available -= shares_look(tables, op, KIND_PERMIT).n;
}

/*
 * permits_inspect --- see table_int.h; in the words of the Redis store
 */
void
permits_inspect(LockTables *tables, StoreOp *op)
{
	const Entry *total;
	Shares		had;

	if (!entry_may_look(tables, IN_SHARES) || !entry_may_look(tables, IN_VALUES))
		return;
	had = shares_look(tables, op, KIND_PERMIT);
	if (had.n == 0)
		return;
	total = value_find(tables, op, KIND_PERMIT);
	op->answer.value = STORE_VALUE_LOCK;
	op->answer.count = had.n;
	op->answer.available = total->number - had.n;
	op->answer.ttl_ms = op->answer.available > 0 ? STORE_NO_TTL : had.first_ms;
	snprintf(op->answer.holder, sizeof(op->answer.holder), "%d %s", had.n,
			 had.n == 1 ? "permit" : "permits");
	snprintf(op->answer.digest, sizeof(op->answer.digest), "permits %016llx",
			 (unsigned long long) had.sum);
}

const RowOperation permit_operations[STORE_CALLS] = {
	[STORE_CREATE] = permit_create,
	[STORE_RELEASE] = permit_release,
	[STORE_RENEW] = permit_renew,
	[STORE_DEFINE] = permit_number,
	[STORE_VALUE] = permit_number
};
