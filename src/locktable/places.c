/*-------------------------------------------------------------------------
 *
 * places.c
 *	  The lock table: sessions that wait in the order of the store.
 *
 * Kinds with "placed" (kind.h) are granted in the order in which all that wait for
 * them, on whatever server, came to the store.  So these sessions are in no queue of
 * this server: each asks by itself, from its first moment, has a place of its own in
 * the store (LrWait.asked), and is notified of its turn over a channel of its own.  Here
 * they are in a list of the key, so that a message finds its session, and no lock is
 * handed over past them.
 *
 * In line are those that have to come to the store one after the other; see queue.c.
 *
 * While a session here has the lock, and nobody elsewhere waits for it, one that comes
 * gets no place: it has asked, and those that come elsewhere from then on are behind
 * it, and behind all that had come here when it asked (LrKey.clear_at).  That stays
 * true whoever has the lock later.  The lock is handed to them in the order of the list
 * (handover.c).  If it is not, those without a place are in line: each asks after the
 * one before it was answered, or was handed the lock while it asked.  The first asks when
 * the release begins, not when it has run.  So it is notified of the end of the release,
 * whoever sends that, and is before those that come meanwhile.
 *
 *	 A has the lock.  B, C ask: nobody elsewhere waits.  X comes elsewhere, and has a place
 *	 D asks: X waits; D has a place behind it
 *	 A releases: B has it, then C, then X, then D
 *
 * A session is granted the lock that the store gives it even while another session of
 * this server still reads the answer to its release: that one does not use the lock any
 * more.
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

/* ----------
 * Can a lock be handed to a session that waits, as it is?
 * ----------
 */

/*
 * lt_has_enough_left --- is more of the lease left than a commit needs?
 */
bool
lt_has_enough_left(int64 lease_ms, int64 left)
{
	return left > lr_commit_margin(lease_ms * LR_US_PER_MS);
}

/*
 * lt_fits --- can this lock serve the next session as it is?
 *
 * The session must want the kind, the renewed lease and the number of replicas with
 * which the store has the lock.  Neither side may leave the key locked after its
 * release.
 */
bool
lt_fits(LrIndex hold, int64 now, const LrWait *w)
{
	const LrHold *h = &lt_holds[hold];
	int64		lease_ms = lt_handed_lease_ms(h);

	return w->terms.kind == h->kind &&
		w->terms.renewed && w->terms.lease_ms == lease_ms &&
		w->terms.min_replicas == lt_min_replicas(h) &&
		w->terms.keep_until == 0 && h->keep_until <= now &&
		lt_has_enough_left(lease_ms, lt_deadline(hold) - now);
}

/*
 * lt_fitting_hold --- a lock that a session here has of the key, and that can serve one
 * that waits as it is; else LR_NONE
 */
LrIndex
lt_fitting_hold(const LrKey *key, const LrWait *w, int64 now)
{
	for (LrIndex i = key->first_hold; i != LR_NONE; i = lt_holds[i].next)
		if ((lt_holds[i].state == HOLD_HELD || lt_holds[i].state == HOLD_HANDED) &&
			lt_fits(i, now, w))
			return i;
	return LR_NONE;
}

/* ----------
 * The list of a key
 * ----------
 */

/*
 * place_note --- note where a session stands, and count those without a place
 *
 * In line it is not in front yet; see line_begin.
 */
static void
place_note(LrPlaces *places, LrWait *w, LrStanding standing)
{
	places->nplaceless += (standing == STANDING_PLACELESS) -
		(w->place.standing == STANDING_PLACELESS);
	places->nlined += (standing == STANDING_LINED) - (w->place.standing == STANDING_LINED);
	w->place.standing = standing;
	w->in_front = standing != STANDING_LINED;
}

/*
 * line_begin --- the first session in line may ask, if nobody in line asks
 */
static void
line_begin(const LrPlaces *places)
{
	LrIndex		first = places->list.head;

	if (places->nlined == 0)
		return;
	while (lt_wait_of(first)->place.standing != STANDING_LINED)
		first = lt_wait_of(first)->next;
	if (lt_wait_of(first)->in_front)
		return;
	lt_wait_of(first)->in_front = true;
	lt_wait_of(first)->woken_at = lr_now();
	lt_add_to_wake(first);
}

/*
 * lt_stand --- note what the store has answered a session, or that it need not ask
 *
 * If it was in line, the next one may ask now.
 */
void
lt_stand(LrPlaces *places, LrIndex session, LrStanding standing)
{
	LrWait	   *w = lt_wait_of(session);
	bool		next = w->place.standing == STANDING_LINED && w->in_front;

	place_note(places, w, standing);
	if (next)
		line_begin(places);
}

/*
 * lt_place_insert --- insert a session behind "prev", or as the first (LR_NONE)
 *
 * If there is a line, it joins that, unless it waits for a notification, or asks already.
 */
void
lt_place_insert(LrPlaces *places, LrIndex session, LrIndex prev, LrStanding standing)
{
	LrWait	   *w = lt_wait_of(session);

	lt_list_insert(&places->list, session, prev);
	if (!lr_kind(w->terms.kind)->passing)
	{
		places->nordered++;
		if (places->nlined > 0 && !w->asked.trying && w->asked.claim.owner == 0)
			standing = STANDING_LINED;
	}
	w->place.standing = STANDING_NEW;
	place_note(places, w, standing);
}

void
lt_place_remove(LrPlaces *places, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	lt_list_remove(&places->list, session);
	if (!lr_kind(w->terms.kind)->passing)
		places->nordered--;
	lt_stand(places, session, STANDING_NEW);
	w->in_front = false;
	w->place.subscription = SUB_NONE;
	w->place.notified_at = 0;
}

/* ----------
 * The line
 * ----------
 */

/*
 * lt_line_up --- those without a place in the store have to ask for one, as the lock
 * that a session here has is about to go, or gone
 *
 * Those that came after them, and have not asked yet, ask after them.  One in front that has
 * not asked yet may stand behind others now.
 */
void
lt_line_up(LrPlaces *places)
{
	bool		behind = false;

	for (LrIndex i = places->list.head; i != LR_NONE; i = lt_wait_of(i)->next)
	{
		LrWait	   *w = lt_wait_of(i);
		LrStanding	standing = w->place.standing;

		behind |= standing >= STANDING_PLACELESS;
		if (standing == STANDING_LINED)
			w->in_front &= w->asked.trying;
		else if (standing == STANDING_PLACELESS ||
				 (behind && standing == STANDING_NEW && !w->asked.trying &&
				  !lr_kind(w->terms.kind)->passing))
			place_note(places, w, STANDING_LINED);
	}
	line_begin(places);
}

/*
 * lt_nudge_placeless --- a lock of the key is gone, or serves others than before
 *
 * A lock of this server could be handed to each session that got no place, so it
 * suffices to judge by the first of them.
 */
void
lt_nudge_placeless(LrKey *key)
{
	LrIndex		first = key->places.list.head;

	if (key->places.nplaceless == 0)
		return;
	while (lt_wait_of(first)->place.standing != STANDING_PLACELESS)
		first = lt_wait_of(first)->next;
	if (lt_fitting_hold(key, lt_wait_of(first), lr_now()) == LR_NONE)
		lt_line_up(&key->places);
}

/*
 * lt_note_clear --- when the store was asked, nobody elsewhere waited for the lock
 * (StoreAnswer.clear)
 *
 * If this session is "unplaced", a session here has the lock.
 */
void
lt_note_clear(LrIndex hold, const StoreOp *create)
{
	LrWait	   *w = lt_wait_of(LrMyProcNumber);
	LrKey	   *key = lt_key_of(hold);

	if (!lt_is_past(lt_holds[hold].key, create->sent.topology))
		key->clear_at = Max(key->clear_at, create->sent.at);
	if (!create->answer.unplaced)
		return;
	w->asked.claim.owner = 0;
	if (w->state == WAIT_PLACED)
		lt_stand(&key->places, LrMyProcNumber, STANDING_PLACELESS);
	w->asked.trying = false;
	lt_nudge_placeless(key);
}

/* ----------
 * Notifications
 * ----------
 */

/*
 * lt_find_place --- the session that is notified as that owner; LR_NONE: there is none
 *
 * Mostly it is among the first, as the list is in the order in which they came to the store.
 */
LrIndex
lt_find_place(const LrPlaces *places, uint64 owner)
{
	LrIndex		i = places->list.head;

	while (i != LR_NONE && lt_wait_of(i)->asked.claim.owner != owner)
		i = lt_wait_of(i)->next;
	return i;
}

/*
 * lt_nudge_place --- the session may look again; perhaps it was notified of its turn
 *
 * Then the others wait for it, until it asks.
 */
void
lt_nudge_place(LrKey *key, uint64 owner, bool its_turn)
{
	LrIndex		session = lt_find_place(&key->places, owner);

	if (session == LR_NONE)
		return;
	lt_nudge(session);
	if (its_turn && lt_wait_of(session)->place.notified_at == 0)
		lt_wait_of(session)->place.notified_at = lr_now();
}

void
lt_wake_passing(const LrName *name)
{
	LrIndex		key;

	lt_lock(name->hash);
	key = lt_find_key(name->data, name->len, name->hash);
	for (LrIndex i = key == LR_NONE ? LR_NONE : lt_keys[key].places.list.head; i != LR_NONE;
		 i = lt_wait_of(i)->next)
		if (lr_kind(lt_wait_of(i)->terms.kind)->passing)
			lt_nudge(i);
	lt_unlock();
}
