/*-------------------------------------------------------------------------
 *
 * subscriptions.c
 *	  The lock table: the keys of whose releases sessions want to be notified.
 *
 * A session in front that found its key busy wants the watchdog to subscribe to the
 * key's channel; a session that has a place in the store wants it to subscribe to the
 * channel of that place.  The watchdog looks for such wishes, subscribes, and confirms
 * the subscriptions here.
 *
 * Copyright (c) 2026, lockredis contributors
 *
 * IDENTIFICATION
 *	  src/locktable/subscriptions.c
 *
 *-------------------------------------------------------------------------
 */
#include "lockredis.h"

#include "locktable/locktable_int.h"
#include "locktable/wait.h"
#include "locktable/watch.h"

/*
 * subscription_of --- the state of the subscription for the session's wait; partition
 * lock held
 *
 * The place of a session is the one under the owner of its last request; NULL: it has
 * none any more, or was handed the lock while it asked, and looks before it sleeps.
 */
static SubscriptionState *
subscription_of(LrIndex session)
{
	LrWait	   *w = lt_wait_of(session);

	if (w->state == WAIT_HANDED)
		return NULL;
	if (w->state != WAIT_PLACED)
		return &lt_keys[w->key].subscription[lr_kind(w->terms.kind)->topic];
	lt_tell_as(session, w->kept.owner);
	return w->told_as != 0 ? &w->told : NULL;
}

bool
lt_want_subscription(LrIndex hold)
{
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	SubscriptionState *subscription;
	bool		confirmed;
	bool		wanted;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	subscription = subscription_of(LrMyProcNumber);
	confirmed = subscription != NULL && *subscription == SUB_CONFIRMED;
	wanted = subscription != NULL && !confirmed;
	if (wanted)
		*subscription = SUB_WANTED;
	LWLockRelease(lock);

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
 * subscription_is_wanted --- does a waiting session want a subscription, and which?
 *
 * Without the partition lock the result is a guess.
 */
static bool
subscription_is_wanted(const LrWait *w, LrTopic *topic, uint64 *owner)
{
	*owner = 0;
	*topic = lr_kind(w->terms.kind)->topic;
	if (w->state == WAIT_QUEUED)
		return lt_keys[w->key].subscription[*topic] == SUB_WANTED;
	*topic = lr_kind(w->terms.kind)->turn_topic;
	*owner = w->told_as;
	return w->told == SUB_WANTED && *owner != 0;
}

/*
 * lt_wanted_subscriptions --- call back for each subscription that a session wants
 *
 * Of thousands of waiting sessions nearly all have their subscription, and are skipped
 * without the lock.  A session notes its wish before it sets subscription_work, which
 * the caller has taken before this call, so no wish is missed.
 */
void
lt_wanted_subscriptions(WantedCallback callback)
{
	for (LrIndex i = 0; i < lt_table->nsessions; i++)
	{
		LrWait	   *w = lt_wait_of(i);
		uint32		hash = w->hash;
		TopicKey	key;
		LrTopic		topic;
		uint64		owner;
		LWLock	   *lock;

		if (!lt_is_waiting(w) || !subscription_is_wanted(w, &topic, &owner))
			continue;

		key.len = 0;
		lock = lt_partition(hash);
		LWLockAcquire(lock, LW_SHARED);
		if (lt_is_waiting(w) && w->hash == hash &&
			subscription_is_wanted(w, &topic, &owner))
			lr_topic_key(&key, topic, owner, lt_keys[w->key].name, lt_keys[w->key].name_len);
		LWLockRelease(lock);
		if (key.len > 0)
			callback(&key);
	}
}

/*
 * subscription_confirmed --- note the confirmation, and wake the sessions that it is for;
 * partition lock held
 */
static void
subscription_confirmed(LrKey *key, LrTopic topic, uint64 owner, WakeList *wakes)
{
	LrIndex		session;

	if (!lr_topic_of_owners(topic))
	{
		key->subscription[topic] = SUB_CONFIRMED;
		lt_nudge_front(key, wakes);
		return;
	}
	session = lt_find_place(key, owner);
	if (session == LR_NONE)
		return;
	lt_wait_of(session)->told = SUB_CONFIRMED;
	lt_nudge_place(key, owner, false, wakes);
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
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;
	LrIndex		key;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(topic->name, topic->len, hash);
	if (key != LR_NONE)
		subscription_confirmed(&lt_keys[key], topic->topic, topic->owner, &wakes);
	lt_unlock(lock, &wakes);
}

/*
 * lt_end_subscription --- may the subscription end, as no session waits any more?
 */
bool
lt_end_subscription(const TopicKey *topic)
{
	uint32		hash = lr_name_hash(topic->name, topic->len);
	LWLock	   *lock = lt_partition(hash);
	LrIndex		key;
	bool		unused = true;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(topic->name, topic->len, hash);
	if (key != LR_NONE && lr_topic_of_owners(topic->topic))
		unused = lt_find_place(&lt_keys[key], topic->owner) == LR_NONE;
	else if (key != LR_NONE)
	{
		unused = lt_keys[key].queue_head == LR_NONE;
		if (unused)
			lt_keys[key].subscription[topic->topic] = SUB_NONE;
	}
	LWLockRelease(lock);
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
			key->subscription[t] = key->queue_head != LR_NONE ? SUB_WANTED : SUB_NONE;
	for (LrIndex i = key->place_head; i != LR_NONE; i = lt_wait_of(i)->next)
		if (lt_wait_of(i)->told != SUB_NONE)
			lt_wait_of(i)->told = SUB_WANTED;
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
		LWLock	   *lock;

		if (lt_buckets[b] == LR_NONE)
			continue;
		lock = lt_partition(b);
		LWLockAcquire(lock, LW_EXCLUSIVE);
		for (LrIndex i = lt_buckets[b]; i != LR_NONE; i = lt_keys[i].next)
			subscription_reset(&lt_keys[i]);
		LWLockRelease(lock);
	}
	pg_atomic_write_u32(&lt_table->subscription_work, 1);
}
