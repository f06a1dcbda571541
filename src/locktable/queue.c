/*-------------------------------------------------------------------------
 *
 * queue.c
 *	  The lock table: the queue of a key, or the order of the store in its place.
 *
 * Sessions of this server that want the same key form a queue, first in first out.  Its
 * front is the first of them and those right behind it that can have the key together
 * with all before them: they ask the store, and are woken, together.  No session goes
 * before one that came earlier and that its lock would keep from the key.  For a kind
 * that excludes itself, the front is the first one, the head.  So it is for kinds with
 * one_asks, once a session was refused and until the queue is empty: the others sleep,
 * as there may not be enough for all.
 *
 * turn.c has what sessions do in the queue.
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

static KindId
queue_kind(LrIndex session)
{
	return lt_wait_of(session)->terms.kind;
}

/*
 * queue_excludes --- kinds that cannot come to the front behind a session of that kind, nor
 * before one
 */
static KindSet
queue_excludes(const LrQueue *queue, KindId kind)
{
	KindSet		excluded = lr_kind(kind)->excludes;

	if (queue->scarce && lr_kind(kind)->one_asks)
		kindset_add(&excluded, kind);
	return excluded;
}

/*
 * queue_front_has --- is a session in front that wants one of these kinds?
 *
 * Mostly, all that queue or the first in front say so.
 */
static bool
queue_front_has(const LrQueue *queue, KindSet kinds)
{
	if ((queue->kinds & kinds) == 0)
		return false;
	for (LrIndex i = queue->list.head; i != LR_NONE && lt_wait_of(i)->in_front;
		 i = lt_wait_of(i)->next)
		if (kindset_has(kinds, queue_kind(i)))
			return true;
	return false;
}

/*
 * lt_would_be_in_front --- would a session that queued for that kind now be in front?
 */
bool
lt_would_be_in_front(const LrQueue *queue, KindId kind)
{
	return (queue->list.tail == LR_NONE || lt_wait_of(queue->list.tail)->in_front) &&
		!queue_front_has(queue, queue_excludes(queue, kind));
}

/*
 * queue_mark_front --- note which sessions are in front; true: others have come there
 *
 * Behind the first that is not in front, and was not, nothing changes.
 */
static bool
queue_mark_front(const LrQueue *queue)
{
	KindSet		excluded = 0;
	bool		in_front = true;
	bool		others = false;

	for (LrIndex i = queue->list.head; i != LR_NONE; i = lt_wait_of(i)->next)
	{
		LrWait	   *w = lt_wait_of(i);

		in_front = in_front && !kindset_has(excluded, queue_kind(i));
		if (!in_front && !w->in_front)
			break;
		others = others || !w->in_front;
		w->in_front = in_front;
		excluded |= queue_excludes(queue, queue_kind(i));
	}
	return others;
}

/*
 * lt_queue_insert --- insert a session behind "prev", or as the first (LR_NONE)
 *
 * Unless it is the last one, it may separate those in front.  If all before it are in
 * front, it counts as one of them until queue_mark_front() has judged it.
 */
void
lt_queue_insert(LrQueue *queue, LrIndex session, LrIndex prev)
{
	if (queue->list.head == LR_NONE)
	{
		queue->kinds = 0;
		queue->scarce = false;
	}
	kindset_add(&queue->kinds, queue_kind(session));
	lt_wait_of(session)->in_front = prev == LR_NONE || lt_wait_of(prev)->in_front;
	lt_list_insert(&queue->list, session, prev);
	(void) queue_mark_front(queue);
}

/*
 * lt_queue_scarce --- a session was refused a kind of which only one asks from then on
 *
 * Sessions that have asked by then are answered.
 */
void
lt_queue_scarce(LrQueue *queue)
{
	queue->scarce = true;
	(void) queue_mark_front(queue);
}

/*
 * lt_queue_remove --- remove a session; true: others have come to the front
 *
 * Not only one in front may have kept others from there, but also the first one behind
 * it.
 */
bool
lt_queue_remove(LrQueue *queue, LrIndex session)
{
	lt_wait_of(session)->in_front = false;
	lt_list_remove(&queue->list, session);
	return queue_mark_front(queue);
}

/*
 * lt_nudge_front --- those in front may look again
 */
void
lt_nudge_front(const LrQueue *queue)
{
	for (LrIndex i = queue->list.head; i != LR_NONE && lt_wait_of(i)->in_front;
		 i = lt_wait_of(i)->next)
		lt_nudge(i);
}

/*
 * lt_nudge_after --- a lock of that kind is no longer held
 *
 * Sessions that could have had the key beside it have not waited for that.
 */
void
lt_nudge_after(LrKey *key, KindId kind)
{
	if (queue_front_has(&key->queue, queue_excludes(&key->queue, kind)))
		lt_nudge_front(&key->queue);
	if (lr_kind(kind)->placed)
		lt_nudge_placeless(key);
}

/*
 * lt_nudge_beside --- others have come to the front since the one before them has the
 * lock, which excludes these kinds
 *
 * Most of them wait for its release now.  A session that does not has nothing to wait
 * for, and nobody else would wake it.
 */
void
lt_nudge_beside(const LrQueue *queue, KindSet excluded)
{
	if (queue_front_has(queue, ~excluded))
		lt_nudge_front(queue);
}

/*
 * lt_leave_queue --- this session no longer waits; true: others have come to the front
 *
 * The caller nudges them: all of them if the lock was not obtained, else by
 * lt_nudge_beside().
 */
bool
lt_leave_queue(LrIndex self)
{
	LrWait	   *w = lt_wait_of(self);
	LrKey	   *key = &lt_keys[w->key];
	bool		others = false;

	if (w->state == WAIT_QUEUED)
		others = lt_queue_remove(&key->queue, self);
	else if (w->state == WAIT_PLACED)
		lt_place_remove(&key->places, self);
	if (w->asleep)
		pg_atomic_fetch_sub_u32(&lt_table->nwaiters, 1);
	w->asleep = false;
	w->state = WAIT_NONE;
	w->early = false;
	w->asked.claim.owner = 0;
	w->woken_at = 0;
	w->looks_at = 0;
	return others;
}

/*
 * lt_init_waiting_hold --- initialize a hold of this session, which is WAITING
 */
void
lt_init_waiting_hold(LrIndex hold, LrIndex key, const LockTerms *terms)
{
	LrHold	   *h = &lt_holds[hold];

	memset(h, 0, sizeof(LrHold));
	h->kind = terms->kind;
	memcpy(h->given.id, terms->id, STORE_ID_LEN);
	h->given.amount = terms->amount;
	h->lasts = terms->lease_ms * LR_US_PER_MS;
	h->key = key;
	h->session = LrMyProcNumber;
	h->next = LR_NONE;
	h->state = HOLD_WAITING;
	lt_keys[key].nwaiting++;
}

/*
 * lt_make_unqueued --- a hold for a lock that was requested without a place in the
 * queue of its key; its row was stocked; partition lock held
 */
LrIndex
lt_make_unqueued(const LrName *name, const LockTerms *terms)
{
	bool		stocked PG_USED_FOR_ASSERTS_ONLY = lt_take_row();
	LrIndex		hold = lt_alloc_hold();

	Assert(stocked);
	lt_init_waiting_hold(hold, lt_make_key(name->data, name->len, name->hash), terms);
	lt_wait_of(LrMyProcNumber)->terms = *terms;
	return hold;
}

/*
 * lt_fall_asleep --- the first sleeper of the server starts the watchdog's tick
 *
 * It ticks on for a while after the last one has woken, so that sessions that wait for
 * each other by turns do not wake it each time.
 */
void
lt_fall_asleep(LrWait *w, int64 now)
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
	lt_add_watchdog();
}

/* ----------
 * The pause: after a release in the store, the head of a queue holds back, so that
 * clients elsewhere get their turn
 * ----------
 */

/*
 * How long the head holds back.  A client elsewhere is notified by a message and then
 * asks: it needs a round trip after the message, and time to run.
 */
#define PAUSE_MIN			(5 * LR_US_PER_MS)
#define PAUSE_ROUND_TRIPS	2
#define PAUSE_MAX			(500 * LR_US_PER_MS)

/*
 * After a pause in which nobody came, there is none for so many times its length.  That ends
 * early when a session here finds the key busy, or gets it in the order of the store.
 */
#define VAIN_REST			20

/*
 * lt_begin_pause --- let a client elsewhere go first, if the release notified one
 *
 * One of those that were notified may be this server's watchdog.  Others may only listen, so
 * if nobody came in the last pause (lt_found_busy), there is none for a time.  We go by the
 * usual round trip, since the last one may include a time for which the watchdog was stopped.
 */
void
lt_begin_pause(LrIndex hold, const StoreOp *release)
{
	LrKey	   *key = lt_key_of(hold);
	LrTopic		topic = lr_kind(lt_holds[hold].kind)->topic;
	int			receivers = release->outcome == STORE_OK ? release->answer.count : 0;
	int64		pause = PAUSE_ROUND_TRIPS * lr_usual_round_trip(release->store);
	int64		now;
	LrOfList   *queue;

	key->notified_elsewhere =
		receivers > (key->subscription[topic] == SUB_CONFIRMED ? 1 : 0);
	if (!key->notified_elsewhere || key->queue.list.head == LR_NONE)
		return;
	queue = &lt_wait_of(key->queue.list.head)->of_list;
	now = lr_now();
	if (now < queue->no_pause_until)
		return;
	pause = Min(Max(PAUSE_MIN, pause), PAUSE_MAX);
	queue->pause_until = now + pause;
	queue->no_pause_until = queue->pause_until + pause * VAIN_REST;
}

/* ----------
 * Do sessions wait in the queue of a key or in the store's order?
 *
 * Sessions that want a kind with "placed" (kind.h) wait in the order of the store
 * (places.c) if it keeps one; those that wait for a notification (passing) in any, but
 * they fail if fallback mode changes to the table.  The table keeps no order: it
 * excludes this server only, so there the queue of the key is the order of all.  When
 * another store comes into use, all that wait for the key move from the list to the
 * queue, or back, before any session queues or takes its turn there.  Back in the list
 * they are in line (places.c), in which one that ignores a wake-up is passed over.
 *
 *	 A, B, C queue for the key in the table; Redis is back: the list is A, B, C
 *	 B asks, and is first; C comes second, A third, though it had come before them
 *	 in line: A asks, and is answered; then B; C after a second, if B is stopped
 *
 * The watchdog, which changes the store, wakes all that wait.  Those in front are
 * nudged, so that one of them that does not run is passed over.
 * ----------
 */

bool
lt_is_placed_by(KindId kind, StoreId store)
{
	return lr_kind(kind)->placed &&
		(lr_kind(kind)->passing || lr_store_can(store, STORE_HAS_ORDER));
}

/*
 * order_behind --- the last in the list that came no later; LR_NONE: there is none
 */
static LrIndex
order_behind(const LrList *list, const LrWait *w)
{
	LrIndex		prev = list->tail;

	while (prev != LR_NONE && lt_wait_of(prev)->place.came_at > w->place.came_at)
		prev = lt_wait_of(prev)->prev;
	return prev;
}

/*
 * order_move --- the session waits in the order of the store from now on, in line, or no longer
 */
static void
order_move(LrKey *key, LrIndex session, bool to_places)
{
	LrWait	   *w = lt_wait_of(session);

	if (to_places)
	{
		(void) lt_queue_remove(&key->queue, session);
		w->state = WAIT_PLACED;
		lt_place_insert(&key->places, session, order_behind(&key->places.list, w),
						STANDING_LINED);
	}
	else
	{
		lt_place_remove(&key->places, session);
		w->state = WAIT_QUEUED;
		lt_queue_insert(&key->queue, session, order_behind(&key->queue.list, w));
	}
}

/*
 * lt_keep_order --- move those that wait for the key to where the store in use wants
 * them; returns that store
 */
StoreId
lt_keep_order(LrKey *key)
{
	StoreId		store = current_store();
	bool		ordered = lr_store_can(store, STORE_HAS_ORDER);
	LrIndex		next;

	if (key->ordered == ordered)
		return store;
	key->ordered = ordered;
	for (LrIndex session = ordered ? key->queue.list.head : key->places.list.head;
		 session != LR_NONE; session = next)
	{
		next = lt_wait_of(session)->next;
		if (lt_is_placed_by(queue_kind(session), store) == ordered)
			order_move(key, session, ordered);
	}
	lt_line_up(&key->places);
	lt_nudge_front(&key->queue);
	return store;
}

/*
 * lt_wait_on --- a session that was handed the lock waits again
 *
 * In the queue it is the first, or behind the first.  In the order of the store it stands
 * where it came, or it is the last.  If it was handed the lock while it asked, it may have a
 * place, or get one: then it looks again.
 */
void
lt_wait_on(LrIndex session, bool first)
{
	LrWait	   *w = lt_wait_of(session);
	LrKey	   *key = &lt_keys[w->key];
	LrStanding	standing = w->place.standing;

	w->early = false;
	w->woken_at = 0;
	if (!lr_kind(w->terms.kind)->placed || !(lr_kind(w->terms.kind)->passing || key->ordered))
	{
		w->state = WAIT_QUEUED;
		lt_queue_insert(&key->queue, session, first ? LR_NONE : key->queue.list.head);
		return;
	}
	w->state = WAIT_PLACED;
	if (!first)
	{
		standing = STANDING_NEW;
		w->place.came_at = lr_now();
	}
	else if (!w->asked.trying && w->asked.claim.owner == 0)
		standing = STANDING_PLACELESS;
	if (standing != STANDING_PLACELESS)
		w->woken_at = lr_now();
	lt_place_insert(&key->places, session, order_behind(&key->places.list, w), standing);
}
