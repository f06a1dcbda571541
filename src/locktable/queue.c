/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The lock table: the queue of a key.
 *
 * Sessions of this server that want the same key form a queue, first in first out.
 * What they do in it is in turn.c.
 *
 * Partition lock held.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/queue.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "settings.h"

/*
 * lt_queue_insert --- behind "prev", or as the first (LR_NONE)
 */
void
lt_queue_insert(LrKey *key, LrIndex session, LrIndex prev)
{
	LrWait	   *w = lt_wait_of(session);
	LrIndex    *link = prev == LR_NONE ? &key->queue_head : &lt_wait_of(prev)->next;

	w->prev = prev;
	w->next = *link;
	*link = session;
	if (w->next != LR_NONE)
		lt_wait_of(w->next)->prev = session;
	else
		key->queue_tail = session;
}

void
lt_queue_remove(LrKey *key, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	if (w->prev != LR_NONE)
		lt_wait_of(w->prev)->next = w->next;
	else
		key->queue_head = w->next;
	if (w->next != LR_NONE)
		lt_wait_of(w->next)->prev = w->prev;
	else
		key->queue_tail = w->prev;
	w->prev = w->next = LR_NONE;
}

/*
 * lt_nudge_head --- the first of the queue may look again
 */
void
lt_nudge_head(LrKey *key, WakeList *wakes)
{
	LrWait	   *w;

	if (key->queue_head == LR_NONE)
		return;
	w = lt_wait_of(key->queue_head);
	if (w->woken_at == 0)
		w->woken_at = lr_now();
	wakes->session = key->queue_head;
}

/*
 * lt_leave_queue --- this session no longer waits
 *
 * The next head is nudged only by the caller, and only if the lock was not
 * obtained.
 */
void
lt_leave_queue(LrIndex self)
{
	LrWait	   *w = lt_wait_of(self);

	if (w->state == WAIT_QUEUED)
		lt_queue_remove(&lt_keys[w->key], self);
	else if (w->state == WAIT_HANDED)
		lt_keys[w->key].nhanded--;
	else
		lt_keys[w->key].nfailed--;
	if (w->asleep)
		pg_atomic_fetch_sub_u32(&lt_table->nwaiters, 1);
	w->asleep = false;
	w->state = WAIT_NONE;
	w->handed = LR_NONE;
	w->woken_at = 0;
	w->looks_at = 0;
}

/*
 * lt_back_to_queue --- the session waits on, as the first or after the first
 */
void
lt_back_to_queue(LrIndex session, bool first)
{
	LrWait	   *w = lt_wait_of(session);
	LrKey	   *key = &lt_keys[w->key];

	Assert(w->state == WAIT_HANDED);
	w->state = WAIT_QUEUED;
	w->handed = LR_NONE;
	w->woken_at = 0;
	key->nhanded--;
	lt_queue_insert(key, session, first ? LR_NONE : key->queue_head);
}

/*
 * lt_init_waiting_hold --- of this session, which queues with it
 */
void
lt_init_waiting_hold(LrIndex hold, LrIndex key, uint32 hash, KindId kind)
{
	LrHold	   *h = &lt_holds[hold];

	memset(h, 0, sizeof(LrHold));
	h->kind = kind;
	h->hash = hash;
	h->key = key;
	h->session = LrMyProcNumber;
	h->next = LR_NONE;
	h->state = HOLD_WAITING;
}

/*
 * lt_fall_asleep --- the first sleeper of the server starts the watchdog's tick
 *
 * It ticks on for a while after the last one, so that sessions that wait for
 * each other by turns do not wake it each time.
 */
void
lt_fall_asleep(LrWait *w, int64 now, WakeList *wakes)
{
	if (w->asleep)
		return;
	w->asleep = true;
	if (pg_atomic_fetch_add_u32(&lt_table->nwaiters, 1) > 0)
		return;
	pg_atomic_write_u64(&lt_table->last_wait, (uint64) now);
	pg_memory_barrier();
	for (int s = 0; s < STORE_COUNT; s++)
		if (lr_has_store(s) &&
			(int64) pg_atomic_read_u64(&lt_table->sleeps_until[s]) <= now + TICK_SOON)
			return;
	wakes->watchdog = true;
}
