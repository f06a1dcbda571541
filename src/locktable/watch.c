/*-------------------------------------------------------------------------
 *
 * watch.c
 *	  The lock table for the watchdog: its sleep, the sessions that it wakes, and the
 *	  channels to which it subscribes.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/watch.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"

/* A session that does not act on a wake-up for this long is passed over. */
#define IGNORED_AFTER		LR_US_PER_S

/* The watchdog ticks once a second while sessions wait, and for this long afterwards. */
#define TICK_ON				(3 * LR_US_PER_S)

/* ----------
 * The watchdog's presence
 * ----------
 */

/*
 * lt_watchdog_enter --- this process becomes the watchdog
 */
void
lt_watchdog_enter(void)
{
	lt_make_wake_room();
	lt_watchdog_is_awake();
	lr_watchdog_enter();
}

/*
 * lt_watchdog_leave --- the watchdog ends
 */
void
lt_watchdog_leave(void)
{
	lr_watchdog_leave();
	lt_wake_all_waiters();		/* they ask by themselves from now on */
}

/*
 * lt_has_old_place --- look at all holds, without locks
 *
 * A lock that is overlooked stays there until its time to live ends.
 */
bool
lt_has_old_place(void)
{
	for (LrIndex i = 0, n = lt_used_slots(); i < n; i++)
		if (lt_holds[i].claim.owner != 0 && lt_is_at_any_old_place(&lt_holds[i]))
			return true;
	return false;
}

int
lt_row_count(void)
{
	return (int) pg_atomic_read_u32(&lt_table->nrows);
}

/* ----------
 * Waiters
 * ----------
 */

bool
lt_has_waiters(void)
{
	return pg_atomic_read_u32(&lt_table->nwaiters) > 0 ||
		lr_now() - (int64) pg_atomic_read_u64(&lt_table->last_wait) < TICK_ON;
}

void
lt_wake_waiter(uint64 owner, const char *name, int name_len)
{
	uint32		hash = lr_name_hash(name, name_len);
	LrIndex		key;

	lt_lock(hash);
	key = lt_find_key(name, name_len, hash);
	if (key != LR_NONE && owner != 0)
		lt_nudge_place(&lt_keys[key], owner, true);
	else if (key != LR_NONE)
		lt_nudge_front(&lt_keys[key].queue);
	lt_unlock();
}

/*
 * watch_pass_line --- let the next session in line ask before one that does not move
 *
 * Partition lock held.  That one asks when it runs.  It is woken, since the process that had
 * to do that may have been stopped.
 */
static void
watch_pass_line(LrKey *key, LrIndex session)
{
	lt_stand(&key->places, session, STANDING_ANSWERED);
	lt_wait_of(session)->woken_at = lr_now();
	lt_add_to_wake(session);
}

/*
 * watch_pass_over --- let the next session go before one in front that does not move
 *
 * Partition lock held.  That one comes behind the first that is not in front.  It may
 * be stopped, or in the middle of a request, and goes on from there.  The others in
 * front are woken only if some have come there by that.  If all others wait for it, or
 * nobody is behind the front, it keeps its place and is woken again.
 */
static void
watch_pass_over(LrKey *key, LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);
	LrIndex		next = w->next;
	bool		others;

	w->looks_at = 0;
	while (next != LR_NONE && lt_wait_of(next)->in_front)
		next = lt_wait_of(next)->next;
	if (next == LR_NONE || lt_find_own(key, session, w->terms.kind, lr_now()) != LR_NONE)
	{
		w->woken_at = lr_now();
		lt_add_to_wake(session);
		return;
	}
	w->woken_at = 0;
	others = lt_queue_remove(&key->queue, session);
	lt_queue_insert(&key->queue, session, next);
	if (others)
		lt_nudge_front(&key->queue);
}

/*
 * watch_is_ignoring --- does the session not do what it was woken for, or planned?
 *
 * In the order of the store, others wait for it only if it was notified of its turn, or is
 * the first in line.
 */
static bool
watch_is_ignoring(const LrWait *w, int64 now)
{
	bool		placed = w->state == WAIT_PLACED && w->place.standing != STANDING_LINED;
	int64		since = placed ? w->place.notified_at :
		w->woken_at != 0 ? w->woken_at : w->looks_at;

	return (lt_is_waiting(w) || w->state == WAIT_HANDED) &&
		since != 0 && now - since >= IGNORED_AFTER;
}

/*
 * watch_has_left --- does the session have something in the store, without running?
 *
 * A request that is under way may take until asked.until.
 */
static bool
watch_has_left(const LrWait *w, int64 now)
{
	if (w->asked.claim.owner == 0)
		return false;
	return w->asked.trying ? now - w->asked.until >= IGNORED_AFTER : watch_is_ignoring(w, now);
}

void
lt_pass_over_sleepers(void)
{
	int64		now = lr_now();

	for (LrIndex i = 0; i < lt_table->nsessions; i++)
	{
		LrWait	   *w = lt_wait_of(i);
		uint32		hash = lt_keys[w->key].hash;
		bool		same;
		bool		ignoring;

		/* Look without the lock first, as most sessions are not concerned. */
		if (!watch_is_ignoring(w, now) && !watch_has_left(w, now))
			continue;

		lt_lock(hash);
		/* Of a wait that begins under another lock nothing is a second old. */
		same = lt_keys[w->key].hash == hash;
		ignoring = same && watch_is_ignoring(w, now);
		/* Without a row for a record it stays in the way, but it keeps no lock. */
		if (same && watch_has_left(w, now) && !lt_disown(i))
			ignoring = ignoring && w->state == WAIT_HANDED;
		if (!ignoring)
			 /* it has run meanwhile, or is looked at again */ ;
		else if (w->state == WAIT_HANDED)
			lt_take_handed_back(i);
		else if (w->in_front && w->place.standing == STANDING_LINED)
			watch_pass_line(&lt_keys[w->key], i);
		else if (w->in_front && w->state == WAIT_QUEUED)
			watch_pass_over(&lt_keys[w->key], i);
		lt_unlock();
	}
}

/* ----------
 * The watchdog's sleep
 * ----------
 */

void
lt_watchdog_is_awake(void)
{
	for (int s = 0; s < STORE_COUNT; s++)
		pg_atomic_write_u64(&lt_table->sleeps_until[s], 0);
}

bool
lt_watchdog_sleeps_until(int64 until, uint32 stores)
{
	int64		next = LR_NEVER;

	for (int s = 0; s < STORE_COUNT; s++)
		if (stores & STORE_BIT(s))
			pg_atomic_write_u64(&lt_table->sleeps_until[s], (uint64) until);
	pg_memory_barrier();
	for (int s = 0; s < STORE_COUNT; s++)
		if (stores & STORE_BIT(s))
			next = lr_earlier(next, lt_next_due(s));
	if (next >= until &&
		(until <= lr_now() + TICK_SOON || !lt_has_waiters()))
		return true;
	lt_watchdog_is_awake();
	return false;
}

/* ----------
 * The keys of whose releases sessions want to be notified
 *
 * A session in front that found its key busy wants the watchdog to subscribe to the
 * key's channel; a session that has a place in the store wants it to subscribe to the
 * channel of that place.  The watchdog looks for such wishes, subscribes, and confirms
 * the subscriptions here.
 * ----------
 */

/*
 * subscription_of --- the subscription for a session's wait
 *
 * The place of a session is the one under the owner of its last request; NULL: it has
 * none any more, or was handed the lock while it asked, and looks before it sleeps.
 * Without the partition lock the result is a guess.
 */
static SubscriptionState *
subscription_of(LrWait *w, LrTopic *topic, uint64 *owner)
{
	const LockKind *kind = lr_kind(w->terms.kind);
	bool		queued = w->state == WAIT_QUEUED;

	*topic = queued ? kind->topic : kind->turn_topic;
	*owner = queued ? 0 : w->asked.claim.owner;
	if (queued)
		return &lt_keys[w->key].subscription[*topic];
	return w->state == WAIT_PLACED && *owner != 0 ? &w->place.subscription : NULL;
}

bool
lt_want_subscription(LrIndex hold)
{
	SubscriptionState *subscription;
	LrTopic		topic;
	uint64		owner;
	bool		confirmed;
	bool		wanted;

	lt_lock(lt_key_of(hold)->hash);
	subscription = subscription_of(lt_wait_of(LrMyProcNumber), &topic, &owner);
	confirmed = subscription != NULL && *subscription == SUB_CONFIRMED;
	wanted = subscription != NULL && !confirmed;
	if (wanted)
		*subscription = SUB_WANTED;
	lt_unlock();

	if (wanted)
	{
		pg_atomic_write_u32(&lt_table->subscription_work, 1);
		pg_memory_barrier();
		lr_wake_watchdog();
	}
	return confirmed;
}

/*
 * lt_take_subscription_work --- are there new wishes since this was last called?
 */
bool
lt_take_subscription_work(void)
{
	return pg_atomic_exchange_u32(&lt_table->subscription_work, 0) != 0;
}

/*
 * lt_wanted_subscriptions --- call back for each subscription that a session wants
 *
 * Of thousands of waiting sessions nearly all have their subscription, and are skipped
 * without the lock.  A session notes its wish before it sets subscription_work, which
 * the caller has taken before this call, so no wish is missed.
 */
void
lt_wanted_subscriptions(SubscriptionCallback callback)
{
	for (LrIndex i = 0; i < lt_table->nsessions; i++)
	{
		LrWait	   *w = lt_wait_of(i);
		uint32		hash = lt_keys[w->key].hash;
		SubscriptionState *subscription;
		TopicKey	key;
		LrTopic		topic;
		uint64		owner;

		subscription = subscription_of(w, &topic, &owner);
		if (subscription == NULL || *subscription != SUB_WANTED)
			continue;

		key.len = 0;
		lt_lock_shared(hash);
		subscription = lt_waits_for(w, hash) ? subscription_of(w, &topic, &owner) : NULL;
		if (subscription != NULL && *subscription == SUB_WANTED)
			lr_topic_key(&key, topic, owner, lt_keys[w->key].name, lt_keys[w->key].name_len);
		lt_unlock();
		if (key.len > 0)
			callback(&key);
	}
}

/*
 * subscription_confirmed --- note the confirmation, and wake the sessions that it is for;
 * partition lock held
 */
static void
subscription_confirmed(LrKey *key, LrTopic topic, uint64 owner)
{
	LrIndex		session;

	if (!lr_topic_of_owners(topic))
	{
		key->subscription[topic] = SUB_CONFIRMED;
		lt_nudge_front(&key->queue);
		return;
	}
	session = lt_find_place(&key->places, owner);
	if (session == LR_NONE)
		return;
	lt_wait_of(session)->place.subscription = SUB_CONFIRMED;
	lt_nudge_place(key, owner, false);
}

/*
 * lt_subscription_confirmed --- from now on this server is notified of releases
 *
 * The waiting sessions ask once more, as there may have been a release before.
 */
void
lt_subscription_confirmed(const TopicKey *topic)
{
	uint32		hash = lr_name_hash(topic->name, topic->len);
	LrIndex		key;

	lt_lock(hash);
	key = lt_find_key(topic->name, topic->len, hash);
	if (key != LR_NONE)
		subscription_confirmed(&lt_keys[key], topic->topic, topic->owner);
	lt_unlock();
}

/*
 * lt_end_subscription --- may the subscription end, as no session waits any more?
 */
bool
lt_end_subscription(const TopicKey *topic)
{
	uint32		hash = lr_name_hash(topic->name, topic->len);
	LrIndex		key;
	bool		unused = true;

	lt_lock(hash);
	key = lt_find_key(topic->name, topic->len, hash);
	if (key != LR_NONE && lr_topic_of_owners(topic->topic))
		unused = lt_find_place(&lt_keys[key].places, topic->owner) == LR_NONE;
	else if (key != LR_NONE)
	{
		unused = lt_keys[key].queue.list.head == LR_NONE;
		if (unused)
			lt_keys[key].subscription[topic->topic] = SUB_NONE;
	}
	lt_unlock();
	return unused;
}

/*
 * subscription_reset --- reset the subscriptions of one key; partition lock held
 */
static void
subscription_reset(LrKey *key)
{
	for (int t = 0; t < TOPIC_COUNT; t++)
		if (key->subscription[t] != SUB_NONE)
			key->subscription[t] = key->queue.list.head != LR_NONE ? SUB_WANTED : SUB_NONE;
	for (LrIndex i = key->places.list.head; i != LR_NONE; i = lt_wait_of(i)->next)
		if (lt_wait_of(i)->place.subscription != SUB_NONE)
			lt_wait_of(i)->place.subscription = SUB_WANTED;
}

/*
 * lt_reset_subscriptions --- all subscriptions have ended
 *
 * The connection was lost, or the watchdog is a new one.  Subscriptions for which
 * sessions still wait are wanted again.
 */
void
lt_reset_subscriptions(void)
{
	for (int b = 0; b < lt_table->nbuckets; b++)
	{
		if (lt_buckets[b] == LR_NONE)
			continue;
		lt_lock(b);
		for (LrIndex i = lt_buckets[b]; i != LR_NONE; i = lt_keys[i].next)
			subscription_reset(&lt_keys[i]);
		lt_unlock();
	}
	pg_atomic_write_u32(&lt_table->subscription_work, 1);
}
