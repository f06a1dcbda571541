/*-------------------------------------------------------------------------
 *
 * rows.c
 *	  The lock table as views see it: a copy, one partition at a time.
 *
 * Rows of different partitions may be of slightly different moments, as in
 * pg_locks without its lock on all partitions; rows of one key agree.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/rows.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "locktable/locktable_int.h"
#include "locktable/rows.h"
#include "locktable/watch.h"

typedef struct RowBuffer
{
	LockTableRow *rows;
	int			used;
	int			size;
} RowBuffer;

/* The partition lock is held, so this cannot allocate: false if there is no room. */
static bool
rows_add(RowBuffer *buf, LrIndex hold, LockScope scope, TimestampTz waiting_since)
{
	const LrHold *h = &lt_holds[hold];
	const LrKey *key = &lt_keys[h->key];
	LockTableRow *row;

	if (buf->used == buf->size)
		return false;
	row = &buf->rows[buf->used++];
	row->pid = 0;
	row->datid = InvalidOid;
	row->userid = InvalidOid;
	if (h->session != LR_NONE)
	{
		row->pid = lt_sessions[h->session].pid;
		row->datid = lt_sessions[h->session].datid;
		row->userid = lt_sessions[h->session].userid;
	}
	row->kind = h->kind;
	row->state = h->state;
	row->lost_reason = h->lost_reason;
	row->scope = scope;
	row->part = h->scope[scope];
	row->amount = h->amount;
	row->placed = h->state == HOLD_WAITING &&
		lt_sessions[h->session].wait.state == WAIT_PLACED;
	row->owner = h->owner;
	row->fence = h->fence;
	row->renewals = h->renewals;
	row->deadline = lt_deadline(hold);
	row->waiting_since = waiting_since;
	row->lost_at = h->lost_at;
	strlcpy(row->taken_by, h->taken_by, LR_OWNER_MAX);
	row->name_len = key->name_len;
	memcpy(row->name, key->name, key->name_len);
	return true;
}

/*
 * rows_add_key --- add the rows of one key: each scope of each hold, a lock that
 * was handed over, and each waiting session.  Returns false if the buffer is full.
 */
static bool
rows_add_key(RowBuffer *buf, const LrKey *key)
{
	bool		ok = true;

	for (LrIndex i = key->first_hold; ok && i != LR_NONE; i = lt_holds[i].next)
	{
		const LrHold *h = &lt_holds[i];

		if (lr_kind(h->kind)->passing)
			continue;
		if (h->state == HOLD_HANDED)
		{
			const LrWait *w = &lt_sessions[h->session].wait;

			ok = rows_add(buf, i, w->terms.scope, w->since);
			continue;
		}
		if (h->scope[SCOPE_XACT].count > 0)
			ok = rows_add(buf, i, SCOPE_XACT, 0);
		if (ok && (h->scope[SCOPE_SESSION].count > 0 ||
				   h->scope[SCOPE_XACT].count == 0))
			ok = rows_add(buf, i, SCOPE_SESSION, 0);
	}
	for (LrIndex s = key->queue_head; ok && s != LR_NONE; s = lt_sessions[s].wait.next)
		ok = rows_add(buf, lt_sessions[s].wait.hold, lt_sessions[s].wait.terms.scope,
					  lt_sessions[s].wait.since);
	for (LrIndex s = key->place_head; ok && s != LR_NONE; s = lt_sessions[s].wait.next)
		ok = rows_add(buf, lt_sessions[s].wait.hold, lt_sessions[s].wait.terms.scope,
					  lt_sessions[s].wait.since);
	return ok;
}

static void
rows_count_queue(LrIndex head, int64 *waiting, int64 *at_conditions)
{
	for (LrIndex s = head; s != LR_NONE; s = lt_sessions[s].wait.next)
	{
		if (lr_kind(lt_sessions[s].wait.terms.kind)->passing)
			(*at_conditions)++;
		else
			(*waiting)++;
	}
}

/*
 * rows_count_key --- count the rows of one key, of those that rows_add_key would add,
 * that hold a lock and that wait
 */
static void
rows_count_key(const LrKey *key, int64 *granted, int64 *waiting, int64 *at_conditions)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		const LrHold *h = &lt_holds[i];

		if (lr_kind(h->kind)->passing)
			continue;
		if (h->state == HOLD_HANDED)
			(*waiting)++;
		else if (lt_is_granted(h->state))
			*granted += h->scope[SCOPE_XACT].count > 0 &&
				h->scope[SCOPE_SESSION].count > 0 ? 2 : 1;
	}
	rows_count_queue(key->queue_head, waiting, at_conditions);
	rows_count_queue(key->place_head, waiting, at_conditions);
}

void
lt_count_rows(int64 *granted, int64 *waiting, int64 *at_conditions)
{
	*granted = *waiting = *at_conditions = 0;
	for (int p = 0; p < LT_PARTITIONS; p++)
	{
		LWLock	   *lock = lt_partition(p);

		LWLockAcquire(lock, LW_SHARED);
		for (int b = p; b < lt_table->nbuckets; b += LT_PARTITIONS)
			for (LrIndex i = lt_buckets[b]; i != LR_NONE; i = lt_keys[i].next)
				rows_count_key(&lt_keys[i], granted, waiting, at_conditions);
		LWLockRelease(lock);
	}
}

static bool
rows_add_partition(RowBuffer *buf, int partition)
{
	LWLock	   *lock = lt_partition(partition);
	bool		ok = true;

	LWLockAcquire(lock, LW_SHARED);
	for (int b = partition; ok && b < lt_table->nbuckets; b += LT_PARTITIONS)
		for (LrIndex i = lt_buckets[b]; ok && i != LR_NONE; i = lt_keys[i].next)
			ok = rows_add_key(buf, &lt_keys[i]);
	LWLockRelease(lock);
	return ok;
}

LockTableRow *
lt_rows(int *nrows)
{
	RowBuffer	buf;

	buf.used = 0;
	buf.size = lt_row_count() + 64;
	buf.rows = MemoryContextAllocHuge(CurrentMemoryContext,
									  sizeof(LockTableRow) * (Size) buf.size);

	for (int p = 0; p < LT_PARTITIONS; p++)
	{
		int			before = buf.used;

		while (!rows_add_partition(&buf, p))
		{
			buf.used = before;
			buf.size *= 2;
			buf.rows = repalloc_huge(buf.rows,
									 sizeof(LockTableRow) * (Size) buf.size);
		}
	}
	*nrows = buf.used;
	return buf.rows;
}
