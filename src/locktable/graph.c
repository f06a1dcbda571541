/*-------------------------------------------------------------------------
 *
 * graph.c
 *	  The lock table as a part of the wait-for graph, and as views see it.
 *
 * A session in a key's queue waits for each session of this server whose hold of the
 * key conflicts with it, since all of them have to release the key.  If it is not in
 * front (queue.c), it also waits for the sessions ahead of it that keep it from there.
 * Those do not become nodes of the graph: they wait for holders of the same key and
 * for nothing else, so their edges are added to the session's own edges instead, and
 * each cycle through one of them is also a cycle without it.  (A parallel worker of
 * such a session may wait for somebody else, but that keeps nobody from the key until
 * the session has it.)  If all sessions in a queue want the same kind, all have the
 * same edges.  A session that waits in the order of the store (places.c) waits for the
 * holders; so do the sessions ahead of it, which therefore add no edges.
 *
 * Each function copies the state of a single moment.  deadlock.c finds the cycles.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/graph.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "utils/memutils.h"

#include "locktable/locktable_int.h"

/*
 * graph_kinds_ahead --- kinds of holds that conflict with sessions which have to get the
 * key, or give up, before this session can ask the store
 *
 * Those are the sessions ahead of it that conflict with it, or with one between them and
 * it, as that one has to come to the front before it.
 */
static KindSet
graph_kinds_ahead(const LrKey *key, LrIndex session)
{
	const LrWait *w = lt_wait_of(session);
	KindSet		behind = 0;
	KindSet		kept_by = 0;

	if (w->in_front || w->state == WAIT_PLACED)
		return 0;
	kindset_add(&behind, w->terms.kind);
	if (key->queue.kinds == behind)
		return lr_kind(w->terms.kind)->excludes;
	for (LrIndex i = w->prev; i != LR_NONE; i = lt_wait_of(i)->prev)
	{
		const LockKind *kind = lr_kind(lt_wait_of(i)->terms.kind);

		if ((kind->excludes & behind) != 0)
			kept_by |= kind->excludes;
		kindset_add(&behind, lt_wait_of(i)->terms.kind);
	}
	return kept_by;
}

static void
graph_copy_wait(LrIndex session, KeyWait *wait)
{
	const LrSession *s = &lt_sessions[session];
	const LrKey *key = &lt_keys[s->wait.key];

	wait->pid = s->pid;
	wait->userid = s->userid;
	wait->generation = s->wait.generation;
	wait->scope = s->wait.terms.scope;
	wait->name_len = key->name_len;
	memcpy(wait->name, key->name, key->name_len);
}

static void
graph_copy_holder(LrIndex hold, bool awaited, KeyHolder *holder)
{
	const LrHold *h = &lt_holds[hold];

	holder->hold = hold;
	holder->owner = h->claim.owner;
	holder->session = h->session;
	holder->pid = lt_sessions[h->session].pid;
	holder->awaited = awaited;
}

/*
 * graph_lock_awaited --- acquire the partition lock of the key that the session waits
 * for, in shared mode
 *
 * False, and nothing is acquired, if the session does not wait.  While we hold the lock,
 * the wait cannot end.
 */
static bool
graph_lock_awaited(LrIndex session)
{
	const LrWait *w = &lt_sessions[session].wait;
	uint32		hash = lt_keys[w->key].hash;

	if (!lt_is_waiting(w))
		return false;
	lt_lock_shared(hash);
	if (lt_waits_for(w, hash))
		return true;
	lt_unlock();
	return false;
}

/*
 * lt_key_wait --- see locktable.h
 *
 * Expired holds are only skipped; lt_conflicting_hold() marks them as lost.  A session
 * that holds the key waits for itself if a session ahead of it waits for that hold.
 */
int
lt_key_wait(LrIndex session, KeyWait *wait, KeyHolder *holders, int room)
{
	int64		now = lr_now();
	const LrKey *key;
	KindId		kind;
	KindSet		ahead;
	int			n = 0;

	if (!graph_lock_awaited(session))
		return 0;
	key = &lt_keys[lt_wait_of(session)->key];
	kind = lt_wait_of(session)->terms.kind;
	ahead = graph_kinds_ahead(key, session);
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		bool		is_awaited = kindset_has(ahead, lt_holds[i].kind) ||
			lt_keeps_from(i, session, kind);

		if (!lt_is_live(i, now) || (lt_holds[i].session == session && !is_awaited))
			continue;
		if (n < room)
			graph_copy_holder(i, is_awaited, &holders[n]);
		n++;
	}
	graph_copy_wait(session, wait);
	lt_unlock();
	return n;
}

uint64
lt_wait_generation(LrIndex session)
{
	const LrWait *w = &lt_sessions[session].wait;

	return lt_is_waiting(w) ? w->generation : 0;
}

/*
 * lt_begin_search --- see locktable.h
 *
 * A session that does not wait for a key has nothing to search from.
 */
bool
lt_begin_search(int64 interval, int64 *ask_again)
{
	LrWait	   *w = &lt_sessions[LrMyProcNumber].wait;
	LrKey	   *key = &lt_keys[w->key];
	LrOfList   *list;
	int64		now = lr_now();
	bool		begin = false;

	*ask_again = now + interval;
	if (!lt_is_waiting(w))
		return false;
	lt_lock(key->hash);
	if (lt_is_waiting(w))
	{
		list = &lt_wait_of(key->queue.list.head != LR_NONE ?
						   key->queue.list.head : key->places.list.head)->of_list;
		begin = list->searched_at + interval <= now || w->cycle.suspected == w->generation;
		w->cycle.suspected = 0;
		if (begin)
			list->searched_at = now;
		else
			*ask_again = list->searched_at + interval;
	}
	lt_unlock();
	return begin;
}

/*
 * lt_suspect_waiter --- see locktable.h
 *
 * No lock is needed: only that session acts on the number, and only while the number
 * is that of its present wait.  If it begins a search at this moment, the suspicion may
 * be lost; the next search from the key has it again.
 */
bool
lt_suspect_waiter(LrIndex session, uint64 generation)
{
	LrWait	   *w = &lt_sessions[session].wait;

	if (w->key != lt_wait_of(LrMyProcNumber)->key)
		return false;
	w->cycle.suspected = generation;
	return true;
}

/*
 * lt_claim_deadlock --- see locktable.h
 *
 * Sessions that have found a cycle get here one at a time.  The first one is marked as
 * leaving.  For the others the cycle is broken then: the wait of the first one is
 * marked, or has ended, or the first one is in its next wait already.
 */
bool
lt_claim_deadlock(const LrIndex *sessions, const uint64 *generations, int n)
{
	LrWait	   *self = &lt_sessions[LrMyProcNumber].wait;
	bool		unbroken = true;

	LWLockAcquire(lt_lwlock(LT_DEADLOCK_LOCK), LW_EXCLUSIVE);
	for (int i = 0; unbroken && i < n; i++)
		unbroken = lt_wait_generation(sessions[i]) == generations[i] &&
			(generations[i] == 0 ||
			 lt_sessions[sessions[i]].wait.cycle.leaving != generations[i]);
	if (unbroken)
		self->cycle.leaving = self->generation;
	LWLockRelease(lt_lwlock(LT_DEADLOCK_LOCK));
	return unbroken;
}

/*
 * lt_own_queue --- the sessions that hold or await the key that this session awaits
 */
bool
lt_own_queue(int *pids, int room, int *npids, int *holder_pids, int *nholders)
{
	int64		now = lr_now();
	const LrKey *key;

	if (!graph_lock_awaited(LrMyProcNumber))
		return false;
	key = &lt_keys[lt_wait_of(LrMyProcNumber)->key];
	*npids = *nholders = 0;
	for (LrIndex i = key->first_hold; i != LR_NONE && *nholders < room;
		 i = lt_holds[i].next)
		if (lt_is_live(i, now))
			holder_pids[(*nholders)++] = lt_sessions[lt_holds[i].session].pid;
	for (LrIndex s = key->queue.list.head; s != LR_NONE && *npids < room;
		 s = lt_wait_of(s)->next)
		pids[(*npids)++] = lt_sessions[s].pid;
	for (LrIndex s = key->places.list.head; s != LR_NONE && *npids < room;
		 s = lt_wait_of(s)->next)
		pids[(*npids)++] = lt_sessions[s].pid;
	lt_unlock();
	return true;
}

/*
 * graph_owner_elsewhere --- the owner that the store has named last
 *
 * A session that is not in front has not asked the store, or not lately, so the owner is
 * the one named to the first session of the queue that the store named one to.
 */
static const char *
graph_owner_elsewhere(const LrKey *key, const LrWait *w)
{
	if (w->in_front || w->state == WAIT_PLACED)
		return w->blocker;
	for (LrIndex s = key->queue.list.head; s != LR_NONE; s = lt_wait_of(s)->next)
		if (lt_wait_of(s)->blocker[0] != '\0')
			return lt_wait_of(s)->blocker;
	return "";
}

/*
 * lt_find_blocker --- see locktable.h
 */
bool
lt_find_blocker(LrIndex session, WaitBlocker *blocker)
{
	const LrWait *w = lt_wait_of(session);
	int64		now = lr_now();
	const LrKey *key;
	KindSet		ahead;

	blocker->pid = 0;
	blocker->owner[0] = '\0';
	if (!graph_lock_awaited(session))
		return false;
	blocker->waiter = lt_sessions[session].pid;
	blocker->userid = lt_sessions[session].userid;
	key = &lt_keys[w->key];
	ahead = graph_kinds_ahead(key, session);
	for (LrIndex i = key->first_hold; i != LR_NONE && blocker->pid == 0;
		 i = lt_holds[i].next)
		if (lt_is_live(i, now) && lt_holds[i].session != session &&
			(kindset_has(ahead, lt_holds[i].kind) ||
			 lt_keeps_from(i, session, w->terms.kind)))
			blocker->pid = lt_sessions[lt_holds[i].session].pid;
	if (blocker->pid == 0)
		strlcpy(blocker->owner, graph_owner_elsewhere(key, w), LR_OWNER_MAX);
	lt_unlock();
	return true;
}

/* ----------
 * Copies for views, one partition at a time
 *
 * Rows of different partitions may be of slightly different moments, as in
 * pg_locks without its lock on all partitions; rows of one key agree.
 * ----------
 */

typedef struct RowBuffer
{
	LockTableRow *rows;
	int			used;			/* more than size: they did not fit */
	int			size;
} RowBuffer;

/*
 * rows_add --- add the row of one scope of a hold, or of a wait
 *
 * The partition lock is held, so this cannot allocate: without room, it only counts.
 */
static void
rows_add(RowBuffer *buf, LrIndex hold, LockScope scope)
{
	const LrHold *h = &lt_holds[hold];
	const LrKey *key = &lt_keys[h->key];
	const LrSession *s = h->session != LR_NONE ? &lt_sessions[h->session] : NULL;
	bool		waits = h->state == HOLD_WAITING || h->state == HOLD_HANDED;
	LockTableRow *row;

	if (buf->used++ >= buf->size)
		return;
	row = &buf->rows[buf->used - 1];
	row->pid = s != NULL ? s->pid : 0;
	row->datid = s != NULL ? s->datid : InvalidOid;
	row->userid = s != NULL ? s->userid : InvalidOid;
	row->kind = h->kind;
	row->state = h->state;
	lt_copy_loss(h, &row->lost);
	row->scope = waits ? s->wait.terms.scope : scope;
	row->part = h->scope[row->scope];
	row->amount = h->given.amount;
	row->placed = h->state == HOLD_WAITING && s->wait.state == WAIT_PLACED;
	row->owner = h->claim.owner;
	row->fence = h->given.fenced ? h->given.fence : 0;
	row->renewals = h->renewal.n;
	row->deadline = lt_deadline(hold);
	row->waiting_since = waits ? s->wait.since : 0;
	row->name_len = key->name_len;
	memcpy(row->name, key->name, key->name_len);
}

/*
 * rows_add_list --- add the rows of sessions that wait for a key
 */
static void
rows_add_list(RowBuffer *buf, const LrList *list)
{
	for (LrIndex s = list->head; s != LR_NONE; s = lt_wait_of(s)->next)
		rows_add(buf, lt_wait_of(s)->hold, SCOPE_SESSION);
}

/*
 * rows_add_key --- add the rows of one key: each scope of each hold, a lock that
 * was handed over, and each waiting session
 */
static void
rows_add_key(RowBuffer *buf, const LrKey *key)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
	{
		const LrHold *h = &lt_holds[i];

		if (lr_kind(h->kind)->passing)
			continue;
		if (h->scope[SCOPE_XACT].count > 0)
			rows_add(buf, i, SCOPE_XACT);
		if (h->scope[SCOPE_SESSION].count > 0 || h->scope[SCOPE_XACT].count == 0)
			rows_add(buf, i, SCOPE_SESSION);
	}
	rows_add_list(buf, &key->queue.list);
	rows_add_list(buf, &key->places.list);
}

static void
rows_add_partition(RowBuffer *buf, int partition)
{
	lt_lock_shared(partition);
	for (int b = partition; b < lt_table->nbuckets; b += LT_PARTITIONS)
		for (LrIndex i = lt_buckets[b]; i != LR_NONE; i = lt_keys[i].next)
			rows_add_key(buf, &lt_keys[i]);
	lt_unlock();
}

/*
 * lt_count_rows --- see locktable.h
 *
 * No lock: each number may be of a slightly different moment.
 */
void
lt_count_rows(int64 *granted, int64 *waiting, int64 *at_conditions)
{
	*granted = *waiting = *at_conditions = 0;
	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (lt_is_granted(lt_holds[i].state) && !lr_kind(lt_holds[i].kind)->passing)
			*granted += lt_hold_rows(&lt_holds[i]);
	for (LrIndex s = 0; s < lt_table->nsessions; s++)
	{
		const LrWait *w = lt_wait_of(s);

		if (!lt_is_waiting(w) && w->state != WAIT_HANDED)
			continue;
		if (lr_kind(w->terms.kind)->passing)
			(*at_conditions)++;
		else
			(*waiting)++;
	}
}

/*
 * lt_rows --- see locktable.h
 *
 * If there have come to be more than an eighth more rows meanwhile, all are copied again.
 */
LockTableRow *
lt_rows(int *nrows)
{
	RowBuffer	buf = {.used = lt_row_count()};

	do
	{
		if (buf.rows != NULL)
			pfree(buf.rows);
		buf.size = buf.used + buf.used / 8 + 64;
		buf.used = 0;
		buf.rows = MemoryContextAllocHuge(CurrentMemoryContext,
										  sizeof(LockTableRow) * (Size) buf.size);
		for (int p = 0; p < LT_PARTITIONS; p++)
			rows_add_partition(&buf, p);
	} while (buf.used > buf.size);
	*nrows = buf.used;
	return buf.rows;
}
