/*-------------------------------------------------------------------------
 *
 * subscriptions.c
 *	  The lock table: of which keys somebody wants to be told releases.
 *
 * A head that found its key busy wants the watchdog to subscribe to the key's
 * channel; the watchdog looks for such wishes, and says when it is so.
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

bool
lt_want_subscription(LrIndex hold)
{
	LWLock	   *lock = lt_partition(lt_holds[hold].hash);
	LrKey	   *key;
	LrTopic		topic;
	bool		confirmed;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = &lt_keys[lt_holds[hold].key];
	topic = lr_kind(lt_holds[hold].kind)->topic;
	confirmed = key->subscription[topic] == SUB_CONFIRMED;
	if (!confirmed)
		key->subscription[topic] = SUB_WANTED;
	LWLockRelease(lock);

	if (!confirmed)
	{
		pg_atomic_write_u32(&lt_table->subscription_work, 1);
		pg_memory_barrier();
		lr_wake_watchdog();
	}
	return confirmed;
}

bool
lt_take_subscription_work(void)
{
	return pg_atomic_exchange_u32(&lt_table->subscription_work, 0) != 0;
}

/*
 * lt_wanted_subscriptions --- names of the keys that somebody wants told
 */
void
lt_wanted_subscriptions(WantedCallback callback)
{
	for (LrIndex i = 0; i < lt_table->nsessions; i++)
	{
		LrWait	   *w = lt_wait_of(i);
		uint32		hash = w->hash;
		char		name[LR_NAME_MAX];
		int			len = 0;
		LrTopic		topic = TOPIC_LOCK;
		LWLock	   *lock;

		if (w->state != WAIT_QUEUED)
			continue;

		lock = lt_partition(hash);
		LWLockAcquire(lock, LW_SHARED);
		if (w->state == WAIT_QUEUED && w->hash == hash)
			topic = lr_kind(w->terms.kind)->topic;
		if (w->state == WAIT_QUEUED && w->hash == hash &&
			lt_keys[w->key].subscription[topic] == SUB_WANTED)
		{
			len = lt_keys[w->key].name_len;
			memcpy(name, lt_keys[w->key].name, len);
		}
		LWLockRelease(lock);
		if (len > 0)
			callback(topic, name, len);
	}
}

/*
 * lt_subscription_confirmed --- releases are told from now on
 *
 * The head tries once more: one may have happened before.
 */
void
lt_subscription_confirmed(LrTopic topic, const char *name, int name_len)
{
	uint32		hash = lr_name_hash(name, name_len);
	LWLock	   *lock = lt_partition(hash);
	WakeList	wakes = WAKE_NOBODY;
	LrIndex		key;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(name, name_len, hash);
	if (key != LR_NONE)
	{
		lt_keys[key].subscription[topic] = SUB_CONFIRMED;
		lt_nudge_front(&lt_keys[key], &wakes);
	}
	lt_unlock(lock, &wakes);
}

/*
 * lt_end_subscription --- nobody waits any more?
 */
bool
lt_end_subscription(LrTopic topic, const char *name, int name_len)
{
	uint32		hash = lr_name_hash(name, name_len);
	LWLock	   *lock = lt_partition(hash);
	LrIndex		key;
	bool		unused = true;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	key = lt_find_key(name, name_len, hash);
	if (key != LR_NONE)
	{
		unused = lt_keys[key].queue_head == LR_NONE;
		if (unused)
			lt_keys[key].subscription[topic] = SUB_NONE;
	}
	LWLockRelease(lock);
	return unused;
}

/*
 * lt_reset_subscriptions --- no subscription stands any more
 *
 * The connection was lost, or the watchdog is a new one.  What is awaited is
 * wanted again.
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
			for (int t = 0; t < TOPIC_COUNT; t++)
				if (lt_keys[i].subscription[t] != SUB_NONE)
					lt_keys[i].subscription[t] =
						lt_keys[i].queue_head != LR_NONE ? SUB_WANTED : SUB_NONE;
		LWLockRelease(lock);
	}
	pg_atomic_write_u32(&lt_table->subscription_work, 1);
}
