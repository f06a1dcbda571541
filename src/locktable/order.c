/*-------------------------------------------------------------------------
 *
 * order.c
 *	  The lock table: do sessions wait in the queue of a key or in the store's order?
 *
 * Sessions that want a kind with "placed" (kind.h) wait in the order of the store
 * (places.c) if it keeps one; those that wait for a notification (passing) in any, but
 * they fail if fallback mode changes to the table.  The table keeps no order: it
 * excludes this server only, so there the queue of the key is the order of all.  When
 * another store comes into use, all that wait for the key move from the list to the
 * queue, or back, before any session queues or takes its turn there.  Back in the list
 * they are in line: each asks for its place after the one before it was answered, or
 * was waited for as long as one that ignores a wake-up.
 *
 *	 A, B, C queue for the key in the table; Redis is back: the list is A, B, C
 *	 B asks, and is first; C comes second, A third, though it had come before them
 *	 in line: A asks, and is answered; then B; C after a second, if B is stopped
 *
 * The watchdog, which changes the store, wakes all that wait.  Those in front are
 * nudged, so that one of them that does not run is passed over.
 *
 * Partition lock held.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/order.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "settings.h"
#include "store/stores.h"

bool
lt_is_placed_by(KindId kind, StoreId store)
{
	return lr_kind(kind)->placed &&
		(lr_kind(kind)->passing || lr_store_can(store, STORE_HAS_ORDER));
}

/*
 * order_to_queue --- the store in use keeps no order
 *
 * Each session is inserted behind those in the queue that came before it.
 */
static void
order_to_queue(LrKey *key)
{
	WakeList	nobody = WAKE_NOBODY;
	LrIndex		after = LR_NONE;

	while (key->place_head != LR_NONE)
	{
		LrIndex		session = key->place_head;
		LrWait	   *w = lt_wait_of(session);
		LrIndex		next = after == LR_NONE ? key->queue_head : lt_wait_of(after)->next;

		while (next != LR_NONE && lt_wait_of(next)->since <= w->since)
		{
			after = next;
			next = lt_wait_of(next)->next;
		}
		lt_place_remove(key, session, &nobody);
		w->state = WAIT_QUEUED;
		lt_queue_insert(key, session, after);
		after = session;
	}
}

/*
 * order_from_queue --- the store in use keeps an order again
 */
static void
order_from_queue(LrKey *key, StoreId store)
{
	LrIndex		next;
	uint32		kinds = 0;

	for (LrIndex session = key->queue_head; session != LR_NONE; session = next)
	{
		LrWait	   *w = lt_wait_of(session);

		next = w->next;
		if (!lt_is_placed_by(w->terms.kind, store))
		{
			kinds |= KIND_BIT(w->terms.kind);
			continue;
		}
		(void) lt_queue_remove(key, session);
		w->state = WAIT_PLACED;
		lt_place_insert(key, session, key->place_tail, STANDING_ANSWERED);
		if (lr_kind(w->terms.kind)->passing)
			continue;
		lt_join_line(key, session);
		if (key->nlined == 1)
			w->line_at = lr_now();
	}
	key->queue_kinds = kinds;
}

/*
 * order_lacks_places --- do sessions queue that are to wait in the order of the store?
 */
static bool
order_lacks_places(const LrKey *key, StoreId store)
{
	for (int k = 0; key->queue_head != LR_NONE && k < KIND_COUNT; k++)
		if ((key->queue_kinds & KIND_BIT(k)) != 0 && lt_is_placed_by(k, store))
			return true;
	return false;
}

/*
 * lt_keep_order --- move those that wait for the key to where the store in use wants
 * them; returns that store
 */
StoreId
lt_keep_order(LrKey *key, WakeList *wakes)
{
	StoreId		store = current_store();
	bool		ordered;

	if (!lr_has_fallback())
		return store;
	ordered = lr_store_can(store, STORE_HAS_ORDER);
	if (ordered ? !order_lacks_places(key, store) : key->place_head == LR_NONE)
		return store;
	if (ordered)
		order_from_queue(key, store);
	else
		order_to_queue(key);
	lt_nudge_front(key, wakes);
	return store;
}

/*
 * order_place_behind --- the last in the list that came no later; LR_NONE: there is none
 */
static LrIndex
order_place_behind(const LrKey *key, int64 came_at)
{
	LrIndex		prev = key->place_tail;

	while (prev != LR_NONE && lt_wait_of(prev)->came_at > came_at)
		prev = lt_wait_of(prev)->prev;
	return prev;
}

/*
 * lt_wait_on --- a session that was handed the lock waits again
 *
 * In the queue it is the first, or behind the first.  In the order of the store it is
 * the first, without a place there, or the last.  If it was handed the lock while it
 * asked, it may have a place, or get one: then it stands where it came, and looks again.
 */
void
lt_wait_on(LrIndex session, bool first, WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(session);
	LrKey	   *key = &lt_keys[w->key];

	w->woken_at = 0;
	if (!lt_is_placed_by(w->terms.kind, current_store()))
	{
		w->state = WAIT_QUEUED;
		lt_queue_insert(key, session, first ? LR_NONE : key->queue_head);
		return;
	}
	w->state = WAIT_PLACED;
	if (!first)
	{
		lt_place_insert(key, session, key->place_tail, STANDING_NEW);
		w->came_at = w->woken_at = lr_now();
	}
	else if (w->trying || w->kept.owner != 0)
	{
		lt_place_insert(key, session, order_place_behind(key, w->came_at), w->standing);
		lt_leave_line(session, wakes);
		w->woken_at = lr_now();
	}
	else
		lt_place_insert(key, session, LR_NONE, STANDING_PLACELESS);
}

void
lt_back_to_queue(LrIndex session, bool first, WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(session);

	Assert(w->state == WAIT_HANDED);
	w->handed = LR_NONE;
	w->early = false;
	lt_keys[w->key].nhanded--;
	lt_wait_on(session, first, wakes);
}
