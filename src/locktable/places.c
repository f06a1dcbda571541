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
 * In line are those who have to come to the store one after the other; see order.c.
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
#include "locktable/wait.h"

/* The first of a line is waited for so long. */
#define LINE_PATIENCE		LR_US_PER_S

/* ----------
 * Who is told as which owner
 *
 * One of thousands is to be found without a look at all of them, and they may wait for
 * one key.  Owners are numbers in a row, so few share a bucket.
 * ----------
 */

static LrIndex *
place_bucket(uint64 owner)
{
	return &lt_told[owner & (uint64) (lt_table->ntold - 1)];
}

/*
 * lt_tell_as --- its turn is told to that owner from now on; 0: to nobody
 */
void
lt_tell_as(LrIndex session, uint64 owner)
{
	LrWait	   *w = lt_wait_of(session);

	if (w->told_as == owner)
		return;
	SpinLockAcquire(&lt_table->told_mutex);
	if (w->told_as != 0)
	{
		LrIndex    *link = place_bucket(w->told_as);

		while (*link != session)
			link = &lt_wait_of(*link)->told_next;
		*link = w->told_next;
	}
	w->told_as = owner;
	if (owner != 0)
	{
		w->told_next = *place_bucket(owner);
		*place_bucket(owner) = session;
	}
	SpinLockRelease(&lt_table->told_mutex);
	w->told = SUB_NONE;
}

/*
 * lt_find_place --- the session that is told as that owner; LR_NONE: none is any more
 *
 * One that waits for another key, for which somebody has told it here, does not change
 * to this one meanwhile.
 */
LrIndex
lt_find_place(const LrKey *key, uint64 owner)
{
	LrIndex		session;

	SpinLockAcquire(&lt_table->told_mutex);
	session = *place_bucket(owner);
	while (session != LR_NONE && lt_wait_of(session)->told_as != owner)
		session = lt_wait_of(session)->told_next;
	SpinLockRelease(&lt_table->told_mutex);
	return session != LR_NONE && &lt_keys[lt_wait_of(session)->key] == key ?
		session : LR_NONE;
}

/* ----------
 * The list of a key
 * ----------
 */

/*
 * lt_place_insert --- as the last; who comes behind a line is its end, if he comes for
 * a lock
 */
void
lt_place_insert(LrKey *key, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	w->in_line = key->place_tail != LR_NONE && lt_wait_of(key->place_tail)->in_line &&
		!lr_kind(w->terms.kind)->passing;
	w->first_at = 0;
	w->in_front = false;
	w->prev = key->place_tail;
	w->next = LR_NONE;
	if (key->place_tail != LR_NONE)
		lt_wait_of(key->place_tail)->next = session;
	else
		key->place_head = session;
	key->place_tail = session;
	if (!lr_kind(w->terms.kind)->passing)
		key->nordered++;
}

void
lt_place_remove(LrKey *key, LrIndex session, WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(session);

	lt_leave_line(session, wakes);
	if (w->prev != LR_NONE)
		lt_wait_of(w->prev)->next = w->next;
	else
		key->place_head = w->next;
	if (w->next != LR_NONE)
		lt_wait_of(w->next)->prev = w->prev;
	else
		key->place_tail = w->prev;
	if (!lr_kind(w->terms.kind)->passing)
		key->nordered--;
	w->prev = w->next = LR_NONE;
	lt_tell_as(session, 0);
	w->told_at = 0;
}

/* ----------
 * The line
 * ----------
 */

/*
 * lt_leave_line --- it has its place in the store, or gives up: now the next one
 */
void
lt_leave_line(LrIndex session, WakeList *wakes)
{
	LrWait	   *w = lt_wait_of(session);
	LrWait	   *next;

	if (!w->in_line)
		return;
	w->in_line = false;
	if (w->first_at == 0 || w->next == LR_NONE)
		return;
	next = lt_wait_of(w->next);
	if (!next->in_line)
		return;
	next->first_at = lr_now();
	wakes->next_in_line = w->next;
}

/*
 * lt_line_lets_ask --- may it take its place now?  If not, when to look again
 */
bool
lt_line_lets_ask(LrIndex session, int64 now, int64 *look_again)
{
	LrWait	   *w = lt_wait_of(session);
	const LrWait *before;

	if (!w->in_line)
		return true;
	before = w->prev == LR_NONE ? NULL : lt_wait_of(w->prev);
	if (before != NULL && before->in_line &&
		(before->first_at == 0 || now < before->first_at + LINE_PATIENCE))
	{
		*look_again = before->first_at == 0 ? now + LINE_PATIENCE :
			before->first_at + LINE_PATIENCE;
		return false;
	}
	if (w->first_at == 0)
		w->first_at = now;
	return true;
}

/* ----------
 * Being told
 * ----------
 */

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

void
lt_wake_passing(const LrName *name)
{
	LWLock	   *lock = lt_partition(name->hash);
	WakeList	wakes = WAKE_NOBODY;
	LrIndex		key;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(name->data, name->len, name->hash);
	for (LrIndex i = key == LR_NONE ? LR_NONE : lt_keys[key].place_head; i != LR_NONE;
		 i = lt_wait_of(i)->next)
	{
		LrWait	   *w = lt_wait_of(i);

		if (!lr_kind(w->terms.kind)->passing)
			continue;
		if (w->woken_at == 0)
			w->woken_at = lr_now();
		lt_add_to_wake(&wakes, i);
	}
	lt_unlock(lock, &wakes);
}
