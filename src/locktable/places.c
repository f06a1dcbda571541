/*-------------------------------------------------------------------------
 *
 * places.c
 *	  The lock table: sessions that wait in the order of the store.
 *
 * Kinds that are placed (kind.h) are had in the order in which all who wait for them,
 * on whatever server, came to the store.  So sessions that wait for them stand in no
 * queue of this server: each asks by itself, from its first moment, has a place of its
 * own in the store (LrWait.kept) and is told over a channel of its own that it is its
 * turn.  Here they are in a list of the key, so that somebody who is told of one finds
 * it, and nobody passes the key on past them.
 *
 * One is granted the lock that the store gives it even while another session of this
 * server is still reading the answer to its release: what the store said counts, and
 * that one has done with it.
 *
 * Partition lock held.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/places.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"

void
lt_place_insert(LrKey *key, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	w->in_front = false;
	w->prev = key->place_tail;
	w->next = LR_NONE;
	if (key->place_tail != LR_NONE)
		lt_wait_of(key->place_tail)->next = session;
	else
		key->place_head = session;
	key->place_tail = session;
}

void
lt_place_remove(LrKey *key, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	if (w->prev != LR_NONE)
		lt_wait_of(w->prev)->next = w->next;
	else
		key->place_head = w->next;
	if (w->next != LR_NONE)
		lt_wait_of(w->next)->prev = w->prev;
	else
		key->place_tail = w->prev;
	w->prev = w->next = LR_NONE;
	w->told_as = 0;
	w->told = SUB_NONE;
	w->told_at = 0;
}

/*
 * lt_find_place --- the session that is told as that owner; LR_NONE: none is any more
 */
LrIndex
lt_find_place(const LrKey *key, uint64 owner)
{
	for (LrIndex i = key->place_head; i != LR_NONE; i = lt_wait_of(i)->next)
		if (lt_wait_of(i)->told_as == owner)
			return i;
	return LR_NONE;
}

/*
 * lt_nudge_place --- it may look again; perhaps because it was told that it is its turn
 *
 * Then the others wait for it, until it asks.
 */
void
lt_nudge_place(LrKey *key, uint64 owner, bool its_turn, WakeList *wakes)
{
	LrIndex		session = lt_find_place(key, owner);
	LrWait	   *w;

	if (session == LR_NONE)
		return;
	w = lt_wait_of(session);
	if (w->woken_at == 0)
		w->woken_at = lr_now();
	if (its_turn && w->told_at == 0)
		w->told_at = lr_now();
	lt_add_to_wake(wakes, session);
}
